"""`skillyard runs` and `skillyard db`: what happened, for people and for programs."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
_TEXT = '{"text": "One fish. Two fish."}'
_STEPS = """
import json
import re
print(json.dumps({"output": "done", "intermediateSteps": [
    {"stepId": "a", "stepName": "read", "duration": 300},
    {"stepId": "b", "stepName": "count", "duration": 800},
    {"stepId": "c", "stepName": "write", "duration": 100, "error": "disk full"}]}))
"""


def test_runs_are_listed_newest_first_with_what_went_wrong(call: Call, examples: Path) -> None:
    assert call("runs").err == "no runs\n"
    call("run", "text-statistics", "--root", examples, "--input", _TEXT)
    call("run", "text-statistics", "--root", examples, "--input", "{}")
    lines = call("runs").out.splitlines()
    assert lines[0].split() == ["RUN", "SKILL", "STATUS", "TOOK", "WHEN", "(UTC)", "REMARK"]
    assert "failed" in lines[1]
    assert "VALIDATION_FAILED" in lines[1]
    assert "succeeded" in lines[2]
    listed = call("runs", "--json").data["runs"]
    assert [run["state"] for run in listed] == ["failed", "succeeded"]
    assert set(listed[0]) == {
        "run_id", "skill", "state", "status", "error", "cache_hit", "duration_ms", "created_at", "finished_at", "schedule",
            "interface", "caller", "agent", "version",
    }  # fmt: skip


def test_runs_are_filtered(call: Call, examples: Path) -> None:
    for given in (_TEXT, "{}"):
        call("run", "text-statistics", "--root", examples, "--input", given)
    assert len(call("runs", "--json", "--status", "failed", "--status", "cancelled").data["runs"]) == 1
    assert len(call("runs", "--json", "--skill", "text-statistics").data["runs"]) == 2
    assert len(call("runs", "--json", "--limit", "1").data["runs"]) == 1
    assert call("runs", "--skill", "none").err == "no such runs\n"


@pytest.mark.row("000-45")
def test_a_run_is_drawn_as_a_waterfall_with_slow_and_failed_steps_marked(
    call: Call, skills_root: Path, make_skill: Call
) -> None:
    make_skill(skills_root, "slow", files={"scripts/execute.py": _STEPS})
    call("run", "slow", "--root", skills_root)
    run_id = call("runs", "--json").data["runs"][0]["run_id"]
    lines = call("runs", "show", run_id[-8:]).out.splitlines()
    assert lines[0].startswith("slow: succeeded after ")
    at = lines.index("Steps, 1,200 ms together (slow)")
    read, count, write = (line.split("ms", 1)[1] for line in lines[at + 1 : at + 4])
    assert read.strip() == "█" * 8 + "·" * 24
    assert count.strip() == "·" * 8 + "█" * 21 + "·" * 3 + "  SLOWEST"
    assert write.strip() == "·" * 29 + "█" * 3 + "  FAILED disk full"
    assert "Limits" in lines


def test_a_quick_run_has_no_slowest_step(call: Call, examples: Path) -> None:
    call("run", "data-processor", "--root", examples, "--input", '{"data": [{"n": 1}]}')
    shown = call("runs", "show", call("runs", "--json").data["runs"][0]["run_id"]).out
    assert re.search(r"Steps, [0-9] ms together", shown)
    assert "SLOWEST" not in shown


def test_programs_get_everything_of_a_run(call: Call, examples: Path) -> None:
    call(
        "run",
        "user-profile-updater",
        "--root",
        examples,
        "--input",
        '{"updates": {"city": "Oslo"}}',
        "--context",
        '{"userId": "ada"}',
    )
    shown = call("runs", "show", call("runs", "--json").data["runs"][0]["run_id"], "--json").data
    assert shown["context"] == {"userId": "ada"}
    assert shown["steps"][0]["stepName"] == "验证更新"
    assert shown["memory_writes"][0]["ownerId"] == "ada"
    assert {"output", "limits", "error", "stderr", "started_at", "cache_hit", "token_usage"} <= set(shown)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["show"], 2, "which run?"),
        (["list", "run_1"], 2, "which run?"),
        (["show", "run_0123456789"], 1, "there is no run"),
        (["--status", "odd"], 2, "invalid choice"),
    ],
)
def test_what_cannot_be_shown_is_said(call: Call, arguments: list[str], code: int, said: str) -> None:
    answer = call("runs", *arguments)
    assert (answer.code, said in answer.err) == (code, True)
    assert "hint: " in answer.err


def test_a_run_is_refused_when_it_cannot_be_recorded(
    call: Call, examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", f"sqlite:///{tmp_path}/file/records.db")
    answer = call("run", "text-statistics", "--root", examples, "--input", _TEXT, "--json")
    assert (answer.code, answer.data["error"]["code"]) == (1, "database_unavailable")


def _heed_interrupts() -> None:
    """A program that was started in the background ignores them, and so do those that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_the_run_as_cancelled(call: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "slow", files={"scripts/execute.py": "import time\ntime.sleep(600)\n"})
    command = [sys.executable, "-m", "skillyard", "run", "slow", "--root", str(skills_root)]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=_heed_interrupts)
    try:
        while not call("runs", "--status", "running", "--json").data["runs"]:
            assert started.poll() is None
            time.sleep(0.05)
        started.send_signal(signal.SIGINT)
        assert started.wait(timeout=60) == 130
    finally:
        started.kill()
        started.wait()
    (run,) = call("runs", "--json").data["runs"]
    assert (run["state"], run["error"]["code"]) == ("cancelled", "CANCELLED")


def test_doctor_looks_at_the_records_and_makes_none(
    call: Call, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def records() -> dict[str, str]:
        return next(check for check in call("doctor", "--json").data["checks"] if check["name"] == "records")

    assert (records()["status"], (home / "skillyard/skillyard.db").exists()) == ("ok", False)
    call("db", "upgrade")
    assert "skillyard.db" in records()["detail"]
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", "sqlite:////proc/none/skillyard.db")
    assert records()["status"] == "error"


def test_the_database_is_reported_and_upgraded(call: Call, home: Path) -> None:
    before = call("db", "status", "--json")
    assert (before.code, before.data["revision"], before.data["current"]) == (1, None, False)
    assert "no tables yet" in call("db", "status").out
    assert call("db", "upgrade").code == 0
    assert call("db", "upgrade", "--json").data["current"]
    assert str(home / "skillyard/skillyard.db") in call("db", "status").out


def test_the_users_file_names_the_database_and_a_project_may_not(call: Call, home: Path, project: Path, tmp_path: Path) -> None:
    mine = home / ".config/skillyard/skillyard.toml"
    mine.parent.mkdir(parents=True)
    mine.write_text(f'[database]\nurl = "sqlite:///{tmp_path}/mine.db"\n')
    assert f"{tmp_path}/mine.db" in call("db", "status").out
    (project / "skillyard.toml").write_text('[database]\nurl = "postgresql://elsewhere/theirs"\n')
    refused = call("run", "anything", "--json")
    assert (refused.code, refused.data["error"]["code"]) == (1, "invalid_configuration")
    assert str(mine) in refused.data["error"]["hint"]
