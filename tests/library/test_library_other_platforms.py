"""Everything that runs no script works where Linux is not: played on this machine without what macOS and Windows lack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = [
    ["list"],
    ["list"],  # from the cache
    ["prompt"],
    ["search", "count the words of a text"],
    ["show", "text-statistics"],
    ["read", "text-statistics", "references/how-it-counts.md"],
    ["permissions", "check-command", "git log | head"],
    ["doctor"],
]


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_finding_checking_and_describing_need_nothing_that_only_linux_has(tmp_path, platform):
    root = str(Path("examples/skills").absolute())
    lines = [json.dumps([*command, "--root", root]) for command in COMMANDS] + [json.dumps(["check", root])]
    environment = {"SKILLYARD_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "PATH": os.environ["PATH"],
                   "APPDATA": str(tmp_path), "LOCALAPPDATA": str(tmp_path)}  # fmt: skip
    played = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("other_platform.py")), platform, root],
        input="\n".join(lines), capture_output=True, text=True, env=environment, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stderr
    answer = json.loads(played.stdout.splitlines()[-1])
    assert [(code, err) for code, _, err in answer["answers"][:7] if code or "error" in err] == []
    listed, cached, prompt, found, shown, read, permitted, reported, _ = (out for _, out, _ in answer["answers"])
    assert "text-statistics" in listed
    assert cached == listed
    assert all("text-statistics" in text for text in (prompt, found, shown))
    assert "words" in read
    assert permitted.startswith("allow")
    assert {"skill", "read_skill_file"} <= set(answer["tools"])
    assert "run skills on Linux" in reported
    assert answer["sandbox"] == []
