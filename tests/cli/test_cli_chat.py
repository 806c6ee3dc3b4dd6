"""`skillyard chat` and `skillyard trail`: a conversation in the terminal, and what became of skills in it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_models import Call, Fail, Say, Seen

COUNT = Call("run_skill", {"skill": "text-statistics", "input": {"text": "One fish. Two fish."}})


def _model(seen: Seen) -> Any:
    """Counts when it is asked to, and answers."""
    if "count" in seen.said.lower() and not seen.results:
        return [Say("Let me count. "), COUNT]
    return Say("There are 4 words." if seen.results else "Hello.")


@pytest.fixture
def talk(models: Any, call: Any, examples: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    models.answer_with(_model)
    monkeypatch.setenv("SKILLYARD_MODEL", "openai-chat:gpt-5")
    return lambda *arguments: call("chat", "--root", examples, *arguments)


@pytest.mark.row("003-11")
def test_one_question_gets_its_answer_on_standard_output_and_the_rest_beside_it(talk: Any, call: Any) -> None:
    answer = talk("Please count the words")
    assert (answer.code, answer.out) == (0, "Let me count.\nThere are 4 words.\n".replace("count.", "count. "))
    assert "· run_skill" in answer.err
    assert "✓ Ran skill: text-statistics" in answer.err
    listed = call("chat", "--list", "--json").data["conversations"]
    assert [item["title"] for item in listed] == ["Please count the words"]
    assert listed[0]["id"][-10:] in call("chat", "--list").out


def test_a_conversation_goes_on_by_the_end_of_its_id_or_as_the_last_one(talk: Any, call: Any, models: Any) -> None:
    first = talk("--json", "Hello").data
    assert first["turn"]["state"] == "done"
    talk("--resume", first["conversation"]["id"][-6:], "And again")
    assert models.seen[-1].user == ("Hello", "And again")
    talk("--last", "Once more")
    assert models.seen[-1].user == ("Hello", "And again", "Once more")
    missing = talk("--resume", "nosuch1", "Hello")
    assert missing.code == 1
    assert "skillyard chat --list" in missing.err


def test_a_turn_that_failed_says_why_now_and_when_the_conversation_is_opened_again(
    talk: Any, models: Any, process: Any, examples: Path, project: Path
) -> None:
    models.answer_with(lambda seen: Fail(401, "Incorrect API key provided: sk-test-0123456789."))
    failed = talk("Hello")
    assert failed.code == 1
    why = "the service of the model 'gpt-5' refuses the key (401)"
    assert f"error: {why}\n" in failed.err
    assert "the provider answered: Incorrect API key provided: ***" in failed.err
    assert "hint: check OPENAI_API_KEY in the environment of this program" in failed.err
    opened = process("chat", "--root", examples, "--last", input=":quit\n", cwd=project)
    assert f"(failed: {why})" in opened.stderr
    assert "hint: check OPENAI_API_KEY" in opened.stderr
    turn = talk("--last", "--json", "Again").data["turn"]
    assert turn["error"]["code"] == "model_key_refused"
    assert turn["error"]["said"] == "Incorrect API key provided: ***"


def test_files_go_in_and_come_out(talk: Any, models: Any, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "a.csv").write_text("a,b\n1,2\n")
    talk("--file", "a.csv", "Look at my file")
    assert '"a.csv" (text/csv, 8 bytes)' in models.seen[-1].system
    assert talk("--file", "none.csv", "Look").code == 1


def test_line_by_line_with_its_own_commands_and_skills_by_name(
    process: Any, models: Any, examples: Path, project: Path, tmp_path: Path
) -> None:
    models.answer_with(_model)
    (project / "notes.txt").write_text("notes")
    lines = [
        "Hello",
        "",
        ":files",
        ":put notes.txt",
        ":files",
        ":get notes.txt copy.txt",
        ":what",
        "/nosuch skill",
        "/text-statistics abc",
    ]
    done = process(
        "chat",
        "--root",
        examples,
        "--model",
        "openai-chat:gpt-5",
        input="\n".join([*lines, ":retry", ":quit", ""]),
        cwd=project,
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout.count("Hello."), done.stdout.count("There are 4 words.")) == (1, 2)
    assert "notes.txt  5 bytes  from user" in done.stdout
    assert (project / "copy.txt").read_text() == "notes"
    assert "there is no skill /nosuch" in done.stderr
    assert "The user starts the skill /text-statistics with: abc" in models.seen[-1].said


@pytest.mark.row("001-18")
@pytest.mark.parametrize(
    ("answer", "result"), [("y\n", "✓ Ran skill"), ("s\n", "✓ Ran skill"), ("n\nnot now\n", "✗ Skill rejected")]
)
def test_an_approval_is_asked_at_the_terminal(
    answer: str, result: str, on_terminal: Any, models: Any, examples: Path, project: Path
) -> None:
    (project / "skillyard.toml").write_text('[permissions.skills]\n"text-*" = "ask"\n')
    models.answer_with(_model)
    code, shown = on_terminal("chat", "--root", examples, "--model", "openai-chat:gpt-5", "Please count", answer=answer)
    assert code == 0
    assert "The skill 'text-statistics' needs your consent." in shown
    assert "it has the script scripts/execute.py" in shown
    assert "file      scripts/execute.py (" in shown
    assert result in shown
    assert "There are 4 words." in shown
    assert ("was not approved: not now" in models.seen[-1].last) == (answer[0] == "n")


def test_without_a_terminal_the_turn_waits_and_says_how_to_go_on(talk: Any, project: Path, models: Any) -> None:
    (project / "skillyard.toml").write_text('[permissions.skills]\n"text-*" = "ask"\n')
    answer = talk("Please count")
    assert answer.code == 1
    assert "answer at a terminal: skillyard chat --resume" in answer.err
    assert len(models.seen) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (["--model", "", "Hi"], 0, ""),
        (["--model", "nonsense", "Hi"], 1, "name one such as"),
        (["--agent", "nobody", "Hi"], 1, "agents"),
        (["--agent", "x", "--system", "y", "Hi"], 2, "leave out --system"),
        (["--json"], 2, "skillyard chat --json"),
        (["--last", "Hi"], 2, "begin one"),
        (["/nosuch thing"], 1, "skillyard list"),
    ],
)
def test_what_cannot_be_is_said_in_two_lines(talk: Any, arguments: list[str], code: int, hint: str) -> None:
    answer = talk(*arguments)
    assert answer.code == code, answer.err
    assert hint in answer.err


def test_where_what_speaks_to_models_is_missing_that_is_said(process: Any, tmp_path: Path) -> None:
    (tmp_path / "pydantic_ai").mkdir()
    (tmp_path / "pydantic_ai/__init__.py").write_text("raise ImportError('not here')")
    done = process("chat", env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: the packages for talking to models are not installed",
        "hint: pip install 'pydantic-ai-slim[anthropic,google,openai]>=1'",
    ]


def test_a_model_that_fails_is_a_failure_with_a_hint(talk: Any, models: Any) -> None:
    models.answer_with(lambda seen: Fail(401, "bad key"))
    answer = talk("Hello")
    assert answer.code == 1
    assert "refuses the key (401)" in answer.err
    assert "hint: check OPENAI_API_KEY in the environment" in answer.err


def test_a_model_without_functions_is_talked_to_in_text(talk: Any, models: Any) -> None:
    talk("--no-tools", "--system", "You are terse.", "--pin", "csv-summary", "Hello")
    assert models.seen[-1].tools == ()
    assert models.seen[-1].system.startswith("You are terse.")
    index = models.seen[-1].system.partition("### Skill: ")[2]
    assert index.startswith("csv-summary")


def test_the_trail_tells_what_became_of_skills(talk: Any, call: Any, examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no skill was used yet" in call("trail").err
    assert "no skill was used yet" in call("trail", "--report").err
    first = talk("--json", "Please count the words").data["conversation"]["id"]
    talk("Hello")
    steps = call("trail", "--root", examples, "--json", "--skill", "text-statistics").data["steps"]
    assert [step["event"] for step in steps] == ["offered", "run", "outcome", "offered"]
    assert steps[1]["detail"].startswith("run_")
    assert steps[1]["duration_ms"] > 0
    assert steps[2]["tokens"] > 0
    assert {step["conversation"] for step in call("trail", first[-8:], "--json").data["steps"]} == {first}
    report = call("trail", "--root", examples, "--report", "--json").data
    assert report["never_used"] == []  # two conversations say nothing
    monkeypatch.setattr("skillyard.conversations.skill_usage._ENOUGH", 2)
    drawn = call("trail", "--root", examples, "--report")
    assert "config:csv-summary: offered in ten conversations or more, and never used" in drawn.err
    assert "config:text-statistics: offered" not in drawn.err
    assert "run_" in call("trail").out
    assert call("trail", "--skill", "nosuch").code == 1


def test_the_report_names_skills_that_are_not_followed_and_those_that_often_fail(
    models: Any, call: Any, make_skill: Callable[..., Path], skills_root: Path
) -> None:
    make_skill(skills_root, "ignored", files={"GUIDE.md": "More."})
    make_skill(skills_root, "broken", files={"scripts/main.py": "raise SystemExit(1)"})
    fails = Call("run_skill", {"skill": "broken"})
    models.script(Call("skill", {"skill": "ignored"}), fails, fails, Say("No."))
    assert call("chat", "--root", skills_root, "--model", "openai-chat:gpt-5", "Do it").code == 0
    report = json.loads(call("trail", "--root", skills_root, "--report", "--json").out)
    assert report["not_followed"] == ["config:ignored"]
    assert report["fails_often"] == ["config:broken"]
    assert report["never_used"] == []


def test_the_model_works_in_a_folder_of_mine_and_its_commands_are_shown_while_they_run(
    talk: Any, call: Any, models: Any, project: Path
) -> None:
    (project / "a.txt").write_text("apples\n")
    work = Call("bash", {"command": "cat a.txt; echo new > b.txt; printf 'no end'; exit 3"})
    models.script(work, Say("Three."), Say("Hello."), Say("Hello."))
    answer = talk("--workspace", project, "Count the apples")
    assert (answer.code, answer.out) == (0, "Three.\n")
    lines = answer.err.splitlines()
    begun = next(number for number, line in enumerate(lines) if line.startswith("· bash command=cat a.txt"))
    assert lines[begun + 1 : begun + 3] == ["| apples", "| no end"]
    assert lines[begun + 3].startswith("✗ bash: ")
    assert lines[begun + 4] == "file b.txt (4 bytes)"
    assert (project / "b.txt").read_text() == "new\n"
    assert talk("--last", "--workspace", project, "Go on").code == 2
    talk("--no-workspace", "Hello")
    assert "bash" not in models.seen[-1].tools
    call("agents", "create", "clerk", "--model", "openai-chat:gpt-5", "--tool", "bash=deny", "--tool", "file_write=ask")
    assert "tools: bash=deny, file_write=ask" in call("agents", "show", "clerk").out
    talk("--agent", "clerk", "Hello")
    assert ("bash" in models.seen[-1].tools, "file_write" in models.seen[-1].tools) == (False, True)
    changed = call("agents", "update", "clerk", "--tool", "bash=allow", "--no-workspace", "--json").data["settings"]
    assert changed == {"tool_permissions": {"file_write": "ask"}, "workspace": False}
    wrong = call("agents", "update", "clerk", "--tool", "basj=deny")
    assert (wrong.code, "did you mean bash?" in wrong.err) == (1, True)
    assert call("agents", "update", "clerk", "--tool", "bash").code == 2


@pytest.mark.parametrize(("typed", "done"), [("y\n", True), ("n\nnot that\n", False)])
def test_a_command_that_a_rule_asks_about_is_shown_and_answered_at_the_terminal(
    on_terminal: Any, models: Any, tmp_path: Path, examples: Path, monkeypatch: pytest.MonkeyPatch, typed: str, done: bool
) -> None:
    rules = Path(os.environ["HOME"], ".config/skillyard/skillyard.toml")
    rules.parent.mkdir(parents=True, exist_ok=True)
    rules.write_text('[permissions.commands]\nask = ["Bash(rm:*)"]\n')
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/a.txt").write_text("x")
    models.script(Call("bash", {"command": "ls | cat; rm a.txt"}), Say("Over."))
    code, said = on_terminal(
        "chat", "--root", examples, "--model", "openai-chat:gpt-5", "--workspace", tmp_path / "mine", "Remove it", answer=typed
    )
    assert code == 0, said
    assert "Run a command in /workspace?" in said
    assert "  | ls | cat; rm a.txt" in said
    assert "asked by  the operator's rule `ask Bash(rm:*)`" in said
    assert (tmp_path / "mine/a.txt").exists() != done
    assert ("was not approved: not that" in models.seen[-1].last) != done
