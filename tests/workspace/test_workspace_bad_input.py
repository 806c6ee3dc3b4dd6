"""What goes wrong in a workspace, one line each: a clear answer, nothing left running, nothing lost."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillyard.workspace import WORKSPACE_POLICY, Workspace, WorkspaceFolder

if TYPE_CHECKING:
    from tests.workspace.conftest import MakeWorkspace

_DEEP = (
    "import os\nfor _ in range(300):\n    os.mkdir('deep-folder'); os.chdir('deep-folder')\nopen('bottom', 'w').write('found')"
)
_STRANGE = r"printf 1 > $'line\nbreak'; printf 2 > $'not\xff-utf8'; printf 3 > --; printf 4 > '$(touch no)'"


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        ("cat < /dev/zero | head -c 400000 | tr '\\0' 'x'", None, "characters left out"),
        ("printf '\\xff\\xfe\\x00\\x01'", None, "binary output of 4 bytes is not shown"),
        ("exec 2>&-; echo out; false", "command_failed", "out\n[exit code 1]"),
        ("kill -9 $$", "command_failed", "[exit code 137: ended by SIGKILL]"),
        ("read answer; echo got: $answer", None, "got:"),
        ("echo 'unclosed", "command_failed", "unexpected EOF"),
        ("no-such-program --help", "command_failed", "no-such-program: command not found"),
        ("exec 250>&- 251>&-; echo closed", None, "closed"),
        ("echo 'x;y' >&250; echo forged", None, "forged"),
        ("sleep 60", "timeout", "[The command was ended after 0.5 s."),
        ("trap '' INT TERM HUP; while :; do :; done", "timeout", "[The command was ended after 0.5 s."),
        ("yes | tr -d '\\n'", "output_limit", "Send its output to a file instead"),
    ],
)
@pytest.mark.abuse("I6")
async def test_every_end_of_a_command_has_a_clear_answer(
    make_workspace: MakeWorkspace, command: str, code: str | None, text: str
) -> None:
    workspace = make_workspace(policy=replace(WORKSPACE_POLICY, output_bytes=1_000_000))
    await workspace.bash("export STAYS=1; echo kept > kept")
    answer = await workspace.bash(command, timeout=500 if code == "timeout" else None)
    assert (answer.code, text in answer.text) == (code, True), answer.text
    after = await workspace.bash("echo $STAYS; cat kept")
    assert (after.text, after.fresh) == ("1\nkept", False)
    session, _ = await workspace.session()
    assert session.channel.session.processes() == []


@pytest.mark.abuse("I1")
async def test_strange_names_are_listed_read_and_searched_and_lead_nowhere(workspace: Workspace) -> None:
    assert (await workspace.bash(_STRANGE)).ok
    listed = await workspace.file_list(".")
    assert listed.ok
    assert [line.rpartition("  ")[0] for line in listed.text.splitlines()] == [
        "$(touch no)",
        "--",
        "line\\nbreak",
        "not\ufffd-utf8",
    ]
    assert (await workspace.file_search("[1-4]", output_mode="files_with_matches")).ok
    assert (await workspace.file_read("$(touch no)")).text.endswith("4")
    assert not Path(workspace.folder, "no").exists()
    names = [file.path for file in WorkspaceFolder(workspace.folder).files()]
    assert len(names) == 4
    assert (await workspace.file_read("line\nbreak")).text.endswith("1")


@pytest.mark.abuse("I9")
async def test_folders_deeper_than_any_path_do_not_stop_the_tools(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(held_back=False)  # in a project of a user such a folder is held back as a whole
    await workspace.file_write("kept.txt", "found")
    assert (await workspace.code_run("python", _DEEP)).ok
    for answer in (
        await workspace.file_list(".", pattern="**/*.txt"),
        await workspace.file_search("found", output_mode="files_with_matches"),
        await workspace.bash("ls"),
    ):
        assert (answer.ok, "kept.txt" in answer.text) == (True, True), answer.text
    assert [file.path for file in WorkspaceFolder(workspace.folder).files()] == ["kept.txt"]
    assert (await workspace.bash("rm -r deep-folder; ls")).text == "kept.txt"


@pytest.mark.abuse("I2")
async def test_pipes_and_sockets_in_the_folder_hold_nobody_up(workspace: Workspace) -> None:
    assert "Operation not permitted" in (await workspace.bash("mkfifo own")).text
    os.mkfifo(f"{workspace.folder}/pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{workspace.folder}/socket")
    for name in ("pipe", "socket"):
        assert (await workspace.file_read(name)).code == "path_refused"
    assert (await workspace.file_search("x")).text == "Nothing fits."
    assert (await workspace.file_list(".")).ok
    assert WorkspaceFolder(workspace.folder).files() == ()
    assert not (await workspace.bash("cat pipe", timeout=300)).ok
    assert (await workspace.bash("echo on")).text == "on"


@pytest.mark.abuse("I6")
async def test_a_background_process_that_floods_its_output_holds_nobody_up(workspace: Workspace) -> None:
    await workspace.bash("yes flood", background=True)
    answer = await workspace.bash("echo on")
    assert (answer.text, answer.fresh) == ("on", False)
    newest = await workspace.bash(process="bg1")
    assert newest.ok
    assert len(newest.text) < 40_000
    stopped = await workspace.bash(process="bg1", stop=True)
    assert "bg1 was ended" in stopped.text
    session, _ = await workspace.session()
    assert session.channel.session.processes() == []


@pytest.mark.abuse("I8")
async def test_a_killed_session_ends_its_calls_and_the_next_begins_another(workspace: Workspace) -> None:
    await workspace.bash("echo kept > kept; cd /tmp")
    session, _ = await workspace.session()
    began = asyncio.Event()
    call = asyncio.create_task(workspace.bash("echo go; sleep 341", listener=lambda *_: began.set()))
    await began.wait()
    running = session.channel.session
    if running.isolation == "container":  # its first program is no process of this machine
        running.stop()
    else:
        os.kill(running._tree.first, signal.SIGKILL)
    answer = await call
    assert (answer.code, "The next call begins a fresh one" in answer.text) == ("session_ended", True)
    after = await workspace.bash("cat kept; pwd")
    assert (after.fresh, after.text.splitlines()[1:]) == (True, ["kept", workspace.path])


@pytest.mark.abuse("I6")
async def test_an_interrupt_in_the_middle_of_writing_loses_nothing_that_was_there(workspace: Workspace) -> None:
    await workspace.file_write("kept.txt", "kept")
    began = asyncio.Event()
    writing = "echo more > grows.txt; echo go; while :; do echo more >> grows.txt; done"
    call = asyncio.create_task(workspace.bash(writing, listener=lambda *_: began.set()))
    await began.wait()
    assert await workspace.interrupt()
    assert (await call).code == "interrupted"
    size = Path(workspace.folder, "grows.txt").stat().st_size
    assert (await workspace.file_read("kept.txt")).text.endswith("kept")
    assert Path(workspace.folder, "grows.txt").stat().st_size == size
