"""What one shell leaves to the next: read strictly, and under rules nothing that changes what commands do."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.permissions import Approvals, CommandGate, CommandPolicy, CommandRules
from skillyard.workspace import Workspace
from skillyard.workspace.workspace_session import ShellState

MakeWorkspace = Callable[..., Workspace]


def gate(**rules: object) -> CommandGate:
    """A gate with rules of the operator, with nobody to ask; `/workspace` or the folder itself is no matter here."""
    policy = CommandPolicy([("operator", CommandRules(**rules))])  # type: ignore[arg-type] # fields of the rules
    return CommandGate(lambda: policy, Approvals(), lambda: "/workspace")


@pytest.mark.abuse("I12")
async def test_no_descriptor_of_a_command_reaches_the_next_shell(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(authorizer=gate(allow=["Bash(printf:*)", "Bash(ls:*)"], default="deny"))
    Path(workspace.folder, "victim").write_text("x")
    states = (
        rf"{workspace.path}/taken\0rm victim; ls() {{ echo taken; }}\n",
        rf"{workspace.path}/taken\n\0declare -x TAKEN=\"1\"\n\0rm victim; ls() {{ echo taken; }}\n\0",
    )
    for state in states:
        await workspace.bash("; ".join(f"printf '{state}' >&{number}" for number in (*range(3, 20), *range(245, 256))))
        assert workspace.working_folder == workspace.path
        assert (await workspace.bash("ls")).text == "victim"


@pytest.mark.abuse("I12")
async def test_under_rules_nothing_is_left_that_changes_what_commands_do(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(authorizer=gate(deny=["Bash(rm:*)"]))
    await workspace.bash("mkdir b; printf '#!/bin/sh\\necho taken\\n' > b/ls; chmod 755 b/ls")
    session, _ = await workspace.session()
    names = ("PATH", "BASH_ENV", "LD_PRELOAD", "PS4", "IFS", "PROMPT_COMMAND", "GIT_PAGER")
    lines = "".join(f'declare -x {name}="{workspace.path}/b"\n' for name in names)
    read = ShellState.read(f'{workspace.path}\n\0{lines}declare -x UNIT="m"\n\0ls () {{ echo taken; }}\n\0'.encode())
    assert read is not None
    session._state = read[1]
    answer = await workspace.bash('ls; echo "[$UNIT][$LD_PRELOAD$BASH_ENV$GIT_PAGER]"')
    assert answer.text == "b\n[m][]"


async def test_without_rules_functions_and_every_variable_stay(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(authorizer=gate())
    await workspace.bash(
        "greet() { echo hello $1; }; export PATH=$PATH:/extra EMPTY= A=$'a\\n\\'b\"$`\\\\é\\x01\\xff'; export BARE"
    )
    answer = await workspace.bash('greet you; echo ${PATH##*:} ${EMPTY-unset}; printf %s "$A" | od -An -tx1')
    assert answer.text.splitlines()[:2] == ["hello you", "/extra"]
    assert "".join(answer.text.splitlines()[2:]).split() == [f"{byte:02x}" for byte in "a\n'b\"$`\\é\x01".encode() + b"\xff"]


@given(st.dictionaries(st.sampled_from(["A", "B_1", "c"]), st.text(st.characters(exclude_characters="\0", codec="utf-8"))))
def test_what_bash_declares_is_read_and_written_as_the_same(values: dict[str, str]) -> None:
    shown = subprocess.run(
        ["/bin/bash", "-c", "declare -px"], env={**values, "LC_ALL": "C.UTF-8"}, capture_output=True, check=True
    ).stdout
    read = ShellState.read(b"/work\n\0" + shown + b"\0\0")
    assert read is not None
    assert {name: value for name, value in read[1].variables if name in values} == values
    for line in shlex.split(read[1].text(judged=True), posix=True):
        assert line == "export" or line.partition("=")[0].isidentifier()


@pytest.mark.parametrize(
    "state",
    [
        b"/w\n\0rm victim\n\0\0",
        b'/w\n\0declare -x A="x"; rm victim\n\0\0',
        b'/w\n\0declare -x A="$(rm victim)"\n\0\0',
        b'/w\n\0declare -x A="`rm victim`"\n\0\0',
        b'/w\n\0declare -x A="x" B\n\0\0',
        b"/w\n\0declare -x A[$(rm victim)]=\"x\"\n\0\0",
        b'/w\n\0declare -ax A=([$(rm)]="x"; rm victim)\n\0\0',
        b"/w\n\0declare -x A=x\n\0\0",
        b'/w\n\0declare -x A="x"\n\0',
        b'relative\n\0declare -x A="x"\n\0\0',
        b"",
    ],
)  # fmt: skip
def test_anything_else_than_a_shells_own_lines_is_no_state(state: bytes) -> None:
    assert ShellState.read(state) is None


def test_lists_and_what_each_shell_says_of_itself_are_left_out() -> None:
    lines = b"declare -ax L=([0]=\"a b\" [1]=$'c\\n')\n"
    lines += b'declare -x PWD="/x"\ndeclare -irx UID="0"\n'
    lines += b'declare -x BARE\ndeclare -ix N="a[1]"\n'
    read = ShellState.read(b"/w\n\0" + lines + b"\0\0")
    assert read == ("/w", ShellState((("BARE", None), ("N", "a[1]"))))
    assert read[1].text(judged=True) == "export BARE\nexport N='a[1]'"
