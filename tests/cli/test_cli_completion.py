"""Completion in the shells, guidance for agents, and opening a folder."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def _words(call: Call, *typed: str) -> list[str]:
    answer = call("completion", "words", "--", *typed)
    assert answer.code == 0
    return str(answer.out).split()


def test_commands_options_values_and_names_are_completed(call: Call, project: Path, make_skill: Call) -> None:
    make_skill(project / ".claude" / "skills", "tidy")
    assert _words(call, "inst") == ["install"]
    assert "--dry-run" in _words(call, "install", "--d")
    assert _words(call, "check", "--severity", "") == ["error", "warning", "info"]
    assert _words(call, "workspace", "l") == ["list"]
    assert _words(call, "show", "t") == ["tidy"]
    assert _words(call, "install", "./") == []
    assert _words(call, "nothing", "x") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_for_words(call: Call, shell: str) -> None:
    answer = call("completion", shell)
    assert answer.code == 0
    assert "skillyard completion words -- " in answer.out


def test_bash_takes_the_words(call: Call) -> None:
    script = call("completion", "bash").out + (
        "skillyard() { printf '%s\\n' \"${@:4}\"; }\n"
        'COMP_WORDS=(skillyard show "two words"); COMP_CWORD=2; _skillyard; printf "[%s]" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("[show][two\\ words]", "")


def test_a_name_that_a_shell_would_run_is_not_completed(call: Call, project: Path, make_skill: Call) -> None:
    folder = make_skill(project / ".claude" / "skills", "tidy")
    document = project / ".claude" / "skills" / "tidy" / "SKILL.md"
    document.write_text('---\nname: "we$(touch PWNED)"\ndescription: Does it. Use in a test.\n---\nDo it.\n')
    offered = _words(call, "show", "")
    assert offered, folder
    assert not any(set(word) & set("$()`;&|<> '\"") for word in offered)


def test_bash_quotes_what_it_puts_into_the_line(call: Call, tmp_path: Path) -> None:
    script = call("completion", "bash").out + (
        "skillyard() { printf '%s\\n' 'we$(touch PWNED)' '*'; }\n"
        'COMP_WORDS=(skillyard show ""); COMP_CWORD=2; _skillyard\n'
        'printf "%s\\n" "${#COMPREPLY[@]}"; eval "echo ${COMPREPLY[*]}"\n'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("2\nwe$(touch PWNED) *\n", "")
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.row("004-15")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_guidance_for_the_file_of_an_agent_names_the_tools_in_order(call: Call, language: str) -> None:
    text = call("prompt", "--guidance", "--language", language).out
    assert text.index("skills_list") < text.index("skills_load") < text.index("allowed-tools") < text.index("read_skill_file")


def test_the_folder_of_a_skill_is_opened(
    call: Call, project: Path, make_skill: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill(project / ".claude" / "skills", "tidy")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    answer = call("open", "tidy")
    assert answer.out == f"{project}/.claude/skills/tidy\n"
    assert "no file manager" in answer.err
    assert call("open", "--json").data["opened"] is False
    opener = tmp_path / "bin" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text("#!/bin/sh\n")
    opener.chmod(0o755)
    monkeypatch.setenv("PATH", str(opener.parent), prepend=":")
    monkeypatch.setenv("DISPLAY", ":1")
    assert call("open", "tidy", "--json").data["opened"] is True
