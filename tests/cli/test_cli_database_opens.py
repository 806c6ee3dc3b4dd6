"""No command opens a database file that may be in use: SQLite does, and nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skillyard.cli.program import COMMANDS

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"serve", "worker", "mcp", "adopt", "publish", "logout", "push"}
"""They go on until they are stopped: the soak of a shared home watches a server; a worker needs PostgreSQL. `adopt`
installs what somebody edited. `publish` and `logout` are about another server, `push` about a registry."""


def _lines(examples: Path, folder: Path) -> list[list[str]]:
    """At least one call of every command, on a home that has records of every kind."""
    mine, scheduled = str(folder / "mine"), "0 8 * * *"
    return [
        ["new", "mine", "--in", str(folder), "--description", "Does one thing. Use in a test."], ["check", mine],
        ["migrate", "--skill-dir", mine, "--dry-run"], ["convert", mine, "--to", "codex", "--out", str(folder / "codex")],
        ["scan", mine], ["pack", mine, "--output", str(folder / "mine.zip")], ["verify", str(folder / "mine.zip")],
        ["key", "new", "ada"], ["sign", mine, "--key", "ada"], ["install", mine, "-y", "--save"], ["versions"],
        ["update", "--check"], ["update", "-y"], ["sync", "--check"],
        ["diff", "mine"], ["deps", "mine"], ["pin", "mine"], ["pin", "mine", "--undo"],
        ["deprecate", "mine"], ["yank", "mine"], ["yank", "mine", "--undo"], ["deprecate", "mine", "--undo"],
        ["mirror", "export", str(folder / "mirror")], ["history"], ["login"], ["owners", "mine"], ["approve"],
        ["list"], ["show", "text-statistics"], ["search", "text"], ["prompt"], ["read", "text-statistics"],
        ["eval", "triggers", str(folder / "prompts.json")], ["disable", "text-statistics"], ["enable", "text-statistics"],
        ["state", "text-statistics", "pinned"], ["state"], ["use", "--none"], ["verify"], ["verify", "--upstream"],
        ["run", "preference-recorder", "--input", '{"preference": "tea", "category": "drink"}', "--context", '{"userId": "a"}'],
        ["run", "text-statistics", "--input", '{"text": "one"}'], ["test", "text-statistics"], ["runs"],
        ["schedule", "add", "daily", "text-statistics", "--cron", scheduled, "--input", '{"text": "one"}'],
        ["schedule", "due"], ["schedule", "remove", "daily"], ["event"],
        ["event", "nobody.waits"], ["webhooks", "create", "hook", "--event", "a.b"], ["webhooks"],
        ["agents", "create", "clerk"], ["agents"], ["agents", "detected"],
        ["link", "mine", "--to", "claude"], ["unlink", "mine"], ["connect", "claude", "-y"], ["disconnect", "claude", "-y"],
        ["permissions"], ["permissions", "check-command", "ls"], ["workspace", "list"],
        ["environment", "show", "text-statistics"],
        ["memories"], ["memories", "search", "tea"], ["approvals"], ["chat", "--list"], ["trail"], ["insights"], ["workers"],
        ["keys", "create", "mine", "--scope", "skills:read"], ["keys"], ["keys", "clients"],
        ["organisations", "create", "clinic"], ["audit"],
        ["db", "status"], ["db", "upgrade"], ["db", "check"], ["db", "backfill"], ["db", "repair"],
        ["db", "copy", "--to", f"sqlite:///{folder}/copied.db"],
        ["backup", str(folder / "all.tar.gz")], ["restore", str(folder / "all.tar.gz"), "--check"],
        ["restore", str(folder / "all.tar.gz"), "--force"], ["doctor"], ["uninstall", "mine", "-y"], ["rollback", "mine"],
        ["open"], ["completion", "bash"],
        ["new", "other", "--user", "--description", "Does one thing. Use in a test."], ["delete", "other", "-y"],
    ]  # fmt: skip


def test_no_command_opens_a_database_file_that_may_be_in_use(
    examples: Path, tmp_path: Path, project: Path, call: Callable[..., Any]
) -> None:
    """All in one process, which has the records open all the time, as a program that uses the library has."""
    assert call("runs").code == 0
    (tmp_path / "prompts.json").write_text('[{"query": "count words", "expected_skill": "text-statistics"}]')
    lines = _lines(examples, tmp_path)
    assert {line[0] for line in lines} | ELSEWHERE == set(COMMANDS)
    script = (
        "import json, sys\nfrom skillyard.cli import main\nfrom skillyard.database import Database\n"
        "from skillyard.library import Catalog\n"
        "kept = Database.open(Catalog.discover(roots=()).data_directory)\n"
        "codes = {}\n"
        "for line in json.loads(sys.argv[1]):\n"
        "    codes[' '.join(line)] = main(line)\n"
        "    kept.status()\n"
        "print('CODES' + json.dumps(codes))\n"
    )
    log = tmp_path / "opens.log"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "benchmarks/soak/open_hook"), "SKILLYARD_OPENS_LOG": str(log)}
    rooted = [[*line, "--root", str(examples)] if line[0] in _ROOTED else line for line in lines]
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(rooted)], capture_output=True, text=True, timeout=400, env=environment
    )
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout.rpartition("CODES")[2])
    assert len(codes) == len(lines)
    assert "Traceback" not in done.stderr
    assert sorted({line.split()[0] for line, code in codes.items() if code}) == ["workers"], done.stderr  # wants PostgreSQL
    assert log.read_text() == ""


_ROOTED = {
    "environment", "list", "show", "search", "prompt", "read", "disable", "enable", "run", "test", "eval", "schedule", "event",
    "chat", "state",
}  # fmt: skip
