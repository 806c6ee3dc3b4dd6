"""`skillyard run`: a script in the real sandbox, shown to people and to programs."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
_TEXT = '{"text": "One fish. Two fish."}'


@pytest.mark.row("003-11")
def test_the_answer_for_programs_has_its_promised_shape(call: Call, examples: Path) -> None:
    answer = call("run", "text-statistics", "--root", examples, "--input", _TEXT, "--json")
    assert answer.code == 0
    assert set(answer.data) == {
        "run_id",
        "status",
        "output",
        "error",
        "steps",
        "memory_writes",
        "limits",
        "isolation",
        "warnings",
        "duration_ms",
        "format",
        "message",
        "token_usage",
        "interpreter",
        "contacts",
        "cache_hit",
        "files",
        "exit_code",
        "memory_usage",
        "ran_as",
    }
    assert answer.data["status"] == "ok"
    assert answer.data["output"]["words"] == 4
    assert answer.data["error"] is None
    assert answer.data["isolation"] != "none"
    assert {"timeout_ms", "memory_mb", "network"} <= {limit["name"] for limit in answer.data["limits"] if limit["enforced"]}


@pytest.mark.row("000-41", "000-45")
def test_people_see_output_steps_memories_and_limits(call: Call, examples: Path) -> None:
    given = '{"updates": {"city": "Oslo"}}'
    answer = call("run", "user-profile-updater", "--root", examples, "--input", given, "--context", '{"userId": "ada"}')
    assert answer.code == 0
    assert answer.out.startswith("user-profile-updater: ok after ")
    sections = ["Output", "Steps", "Suggested memories"]
    assert [line for line in answer.out.splitlines() if line and line[0] != " "][1:] == sections
    reported = call(
        "run", "user-profile-updater", "--root", examples, "--input", given, "--context", '{"userId": "ada"}', "--verbose"
    )
    assert [line for line in reported.out.splitlines() if line and line[0] != " "][1:] == [*sections, "Limits"]
    assert '"city": "Oslo"' in answer.out
    assert "验证更新" in answer.out
    assert "user ada" in answer.out
    assert "enforced by" in reported.out


@pytest.mark.parametrize("how", ["text", "file", "stdin"])
def test_parameters_come_from_the_text_a_file_or_standard_input(
    process: Call, examples: Path, tmp_path: Path, how: str
) -> None:
    (tmp_path / "input.json").write_text(_TEXT)
    given = {"text": _TEXT, "file": f"@{tmp_path}/input.json", "stdin": "-"}[how]
    done = process("run", "text-statistics", "--root", examples, "--input", given, "--json", input=_TEXT)
    assert json.loads(done.stdout)["output"]["words"] == 4


@pytest.mark.parametrize("given", ["{", "[1]", "@nowhere.json", "3"])
def test_parameters_that_are_no_object_are_wrong_usage(call: Call, examples: Path, given: str) -> None:
    answer = call("run", "text-statistics", "--root", examples, "--input", given)
    assert answer.code == 2
    assert answer.err.startswith("error: --input ")
    assert "hint: " in answer.err


@pytest.mark.row("000-17")
def test_parameters_that_do_not_fit_the_schema_start_nothing(call: Call, examples: Path) -> None:
    answer = call("run", "text-statistics", "--root", examples, "--input", '{"txt": 1}')
    assert answer.code == 1
    assert "nothing was started" in answer.out
    assert "VALIDATION_FAILED" in answer.out


@pytest.mark.row("000-40")
def test_a_script_that_fails_shows_its_error_output_and_no_traceback_of_ours(
    call: Call, skills_root: Path, make_skill: Call
) -> None:
    script = "import sys\nprint('half way')\nsys.exit('no such table')\n"
    make_skill(skills_root, "fails", files={"scripts/execute.py": script})
    answer = call("run", "fails", "--root", skills_root)
    assert answer.code == 1
    assert "fails: error after " in answer.out
    assert "no such table" in answer.out
    assert "half way" in answer.out


def test_another_script_can_be_named(call: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "two", files={"scripts/a.py": "print('a')", "scripts/b.sh": "echo b"})
    assert call("run", "two", "--root", skills_root, "--json").data["error"]["code"] == "not_executable"
    assert call("run", "two", "--root", skills_root, "--entry", "scripts/b.sh", "--json").data["output"] == "b"


@pytest.mark.parametrize(("given", "milliseconds"), [("300ms", 300), ("0.3", 300), ("0.3s", 300)])
def test_a_timeout_only_shortens(call: Call, skills_root: Path, make_skill: Call, given: str, milliseconds: int) -> None:
    make_skill(skills_root, "slow", files={"scripts/execute.py": "import time\ntime.sleep(60)\n"})
    data = call("run", "slow", "--root", skills_root, "--timeout", given, "--json").data
    assert data["status"] == "timeout"
    assert {limit["value"] for limit in data["limits"] if limit["name"] == "timeout_ms"} == {milliseconds}
    assert call("run", "slow", "--root", skills_root, "--timeout", "never").code == 2


def test_the_operators_limits_of_the_configuration_hold(call: Call, project: Path, examples: Path) -> None:
    (project / "skillyard.toml").write_text("[sandbox]\ntimeout-ms = 1234\n")
    data = call("run", "text-statistics", "--root", examples, "--input", _TEXT, "--json").data
    assert {limit["value"] for limit in data["limits"] if limit["name"] == "timeout_ms"} == {1234}


def test_a_skill_without_script_says_so(call: Call, examples: Path) -> None:
    answer = call("run", "changelog-writer", "--root", examples)
    assert answer.code == 1
    assert answer.err.startswith("error: ")
    assert "instructions" in answer.err


@pytest.mark.parametrize("state", ["broken", "disabled", "shadowed"])
def test_a_skill_that_is_not_ok_does_not_run(call: Call, home: Path, project: Path, make_skill: Call, state: str) -> None:
    files = {"scripts/execute.py": "print('ran')"}
    root = project / ".agents/skills"
    name = "mine"
    if state == "broken":
        make_skill(root, "mine", raw=b"---\nname: mine\n---\n", files=files)
    else:
        make_skill(root, "mine", files=files)
    if state == "shadowed":
        make_skill(home / ".agents/skills", "mine", files=files)
        name = "user:mine"
    if state == "disabled":
        assert call("disable", "mine").code == 0
    answer = call("run", name, "--json")
    assert answer.code == 1
    assert answer.data["error"]["code"] == "skill_unusable"
    assert state in answer.data["error"]["message"]


def test_output_is_spread_only_where_a_line_is_too_short(call: Call, skills_root: Path, make_skill: Call) -> None:
    script = "import json\nprint(json.dumps({'short': [1, 2, {'a': 'b'}], 'long': ['x' * 60, 'y' * 60]}))\n"
    make_skill(skills_root, "shapes", files={"scripts/execute.py": script})
    lines = call("run", "shapes", "--root", skills_root).out.splitlines()
    assert '    "short": [1, 2, {"a": "b"}],' in lines
    assert f'      "{"x" * 60}",' in lines


@pytest.mark.parametrize("given", ["never", "inf", "1e400", "nan", "", "5m", "0"])
def test_what_is_no_time_is_wrong_usage_and_the_right_way_is_shown(call: Call, examples: Path, given: str) -> None:
    answer = call("run", "text-statistics", "--root", examples, f"--timeout={given}")
    assert answer.code == 2
    assert f"error: argument --timeout: {given!r} is not a time from 1ms to 600s" in answer.err


def test_an_input_that_cannot_be_read_is_told_in_words(call: Call, examples: Path) -> None:
    missing = call("run", "text-statistics", "--root", examples, "--input", "@nowhere.json")
    assert missing.err.startswith("error: --input @nowhere.json cannot be read: No such file or directory\n")
    assert "not a list" in call("run", "text-statistics", "--root", examples, "--input", "[1]").err


@pytest.mark.parametrize("command", [("run", "x", "--input"), ("event", "x", "--data")])
def test_a_text_without_end_is_not_read_without_end(call: Call, project: Path, command: tuple[str, ...]) -> None:
    with (project / "long.json").open("wb") as file:
        file.truncate(64 * 1024 * 1024)  # as long as a device would be, and nothing on the disk
    answer = call(*command, "@long.json")
    assert answer.code == 1
    assert answer.err == "error: long.json is over 16 MB\nhint: make it shorter\n"


def test_standard_input_that_is_no_text_is_told_in_words(call: Call, examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), "utf-8"))
    answer = call("run", "text-statistics", "--root", examples, "--input", "-")
    assert answer.code == 2
    assert answer.err.startswith("error: --input - cannot be read: ")


def test_parameters_come_through_a_pipe(call: Call, examples: Path, project: Path) -> None:
    read, write = os.pipe()
    os.write(write, b'{"text": "Three short words."}')
    os.close(write)
    answer = call("run", "text-statistics", "--root", examples, "--input", f"@/dev/fd/{read}", "--json")
    os.close(read)
    assert answer.code == 0, answer.err


def test_a_kind_that_cannot_be_run_here_points_to_its_instructions(call: Call, examples: Path) -> None:
    answer = call("run", "weather-query", "--root", examples)
    assert answer.code == 1
    assert f"hint: `skillyard read config:weather-query --root {examples}`" in answer.err


def test_code_that_was_never_migrated_says_which_command_does_it(call: Call, skills_root: Path, make_skill: Call) -> None:
    body = "# Miner\n\n```python\ndef execute(params):\n    return {'dug': 1}\n```\n"
    folder = make_skill(skills_root, "pdf-miner", body=body)
    answer = call("run", "pdf-miner", "--root", skills_root)
    assert answer.code == 1
    command = f"skillyard migrate --skill-dir {folder}"
    assert f"hint: `{command}` moves code" in answer.err
    assert call(*command.split()[1:]).code == 0
    assert call("run", "pdf-miner", "--root", skills_root).code == 0


def test_a_hint_that_leads_to_help_repeats_no_root(call: Call, skills_root: Path) -> None:
    answer = call("run", "--root", skills_root, "--nonsense")
    assert answer.code == 2
    assert answer.err.splitlines()[1] == "hint: see `skillyard run --help`"
