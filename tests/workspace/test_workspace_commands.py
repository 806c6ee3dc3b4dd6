"""Commands and code in a workspace: what stays from call to call, how each end is reported, what goes on in the background."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from skillyard.errors import InvalidInput
from skillyard.workspace import Workspace


async def test_the_folder_exported_variables_and_functions_stay_from_call_to_call(workspace: Workspace) -> None:
    await workspace.bash("mkdir -p a/b; cd a/b; export UNIT=metre; greet() { echo hello $1; }")
    answer = await workspace.bash('pwd; echo "$UNIT"; greet you')
    assert answer.text == f"{workspace.path}/a/b\nmetre\nhello you"
    assert (answer.ok, answer.exit_code, workspace.working_folder) == (True, 0, f"{workspace.path}/a/b")


async def test_only_the_shell_itself_says_what_it_leaves(workspace: Workspace) -> None:
    """A child that bash has just forked runs the trap of the shell when a signal ends both; both wrote one folder."""
    await workspace.bash("mkdir -p kept; cd kept; export A=1; (cd /; __skillyard_keep) & __skillyard_keep | cat; wait")
    after = await workspace.bash('basename "$PWD"; echo $A')
    assert (after.text, after.fresh) == ("kept\n1", False)


async def test_exit_ends_the_command_and_not_the_session(workspace: Workspace) -> None:
    answer = await workspace.bash("mkdir -p kept; cd kept; export A=1; exit 3")
    assert (answer.code, answer.exit_code) == ("command_failed", 3)
    after = await workspace.bash('basename "$PWD"; echo $A')
    assert (after.text, after.fresh) == ("kept\n1", False)


async def test_output_comes_live_from_both_streams_and_whole_in_the_answer(workspace: Workspace) -> None:
    received: list[tuple[str, str]] = []
    answer = await workspace.bash("echo é; echo two >&2", listener=lambda stream, text: received.append((stream, text)))
    assert "".join(text for stream, text in received if stream == "stdout") == "é\n"
    assert "".join(text for stream, text in received if stream == "stderr") == "two\n"
    assert sorted(answer.text.split()) == ["two", "é"]


@pytest.mark.abuse("I8")
async def test_a_command_over_its_time_ends_with_all_it_started_and_the_shell_stays(workspace: Workspace) -> None:
    await workspace.bash("export STAYS=1")
    answer = await workspace.bash("trap '' TERM; (setsid sleep 321 &) ; sleep 322", timeout=200)
    assert (answer.ok, answer.code) == (False, "timeout")
    after = await workspace.bash("echo $STAYS")
    assert (after.text, after.fresh) == ("1", False)
    assert await _running(workspace) == []


async def test_an_interrupt_ends_the_command_and_the_session_goes_on(workspace: Workspace) -> None:
    began = asyncio.Event()
    call = asyncio.create_task(workspace.bash("echo go; sleep 323", listener=lambda *_: began.set()))
    await began.wait()
    assert await workspace.interrupt()
    assert (await call).code == "interrupted"
    assert not await workspace.interrupt()
    assert (await workspace.bash("echo on")).text == "on"


async def test_a_caller_that_goes_away_ends_its_command(workspace: Workspace) -> None:
    began = asyncio.Event()
    call = asyncio.create_task(workspace.bash("echo go; sleep 324", listener=lambda *_: began.set()))
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await workspace.bash("echo on")).text == "on"
    assert await _running(workspace) == []


@pytest.mark.row("003-12")
@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import sys, helper; print(helper.VALUE, len(sys.argv))"),
        ("javascript", "const fs = require('fs'); console.log(fs.readFileSync('helper.py', 'utf8').trim().slice(-1), 1)"),
        ("typescript", "enum Size { One = 1 }; const text: string = `2 ${Size.One}`; console.log(text)"),
    ],
)
async def test_code_runs_in_the_working_folder_and_leaves_no_file(workspace: Workspace, language: str, code: str) -> None:
    await workspace.file_write("helper.py", "VALUE = 2")
    answer = await workspace.code_run(language, code)
    assert (answer.text, answer.ok) == ("2 1", True)
    assert "skillyard-code" not in (await workspace.bash("ls -A")).text


async def test_an_unknown_language_and_bad_arguments_are_answers_with_codes(workspace: Workspace) -> None:
    assert (await workspace.code_run("cobol", "x")).code == "invalid_input"
    assert (await workspace.bash("")).code == "invalid_input"
    assert (await workspace.bash("true", timeout=-1)).code == "invalid_input"
    assert (await workspace.call("bash", {"commando": "true"})).code == "invalid_input"
    assert (await workspace.call("fly", {})).code == "invalid_input"
    assert not workspace.is_open


async def test_a_background_process_goes_on_is_listed_looked_at_and_stopped(workspace: Workspace) -> None:
    started = await workspace.bash("echo serving; sleep 325", background=True)
    assert started.process == "bg1"
    while "serving" not in (seen := await workspace.bash(process="bg1")).text:
        assert seen.data["state"] == "running"
    assert (await workspace.bash("echo meanwhile")).text == "meanwhile"
    assert [process.id for process in workspace.processes()] == ["bg1"]
    stopped = await workspace.bash(process="bg1", stop=True)
    assert (stopped.data["state"], workspace.processes()[0].state) == ("killed", "killed")
    assert (await workspace.bash(process="bg9")).code == "record_not_found"
    assert await _running(workspace) == []


async def test_a_timeout_spares_background_processes(workspace: Workspace) -> None:
    await workspace.bash("(setsid sleep 326; true)", background=True)
    await workspace.bash("sleep 327", timeout=100)
    assert await _running(workspace) == ["326"]


async def test_a_fresh_session_says_so_and_keeps_the_files(workspace: Workspace) -> None:
    await workspace.bash("echo kept > file; export GONE=1")
    await workspace.restart()
    answer = await workspace.bash("cat file; echo [$GONE]")
    assert answer.fresh
    assert answer.text.startswith("[The shell is fresh")
    assert answer.text.endswith("kept\n[]")
    assert not (await workspace.bash("true")).fresh


async def test_a_workspace_that_was_used_before_begins_fresh(make_workspace: object) -> None:
    answer = await make_workspace(resumed=True).file_write("a", "b")  # type: ignore[operator]
    assert (answer.fresh, answer.ok) == (True, True)


async def test_long_output_is_cut_in_the_middle_and_kept_in_a_file_that_is_named(workspace: Workspace) -> None:
    answer = await workspace.bash("seq 1 20000")
    assert answer.text.startswith("1\n2\n")
    assert "20000\n[the whole output is in " in answer.text
    assert len(answer.text) < 32_000
    assert answer.output_file is not None
    assert (await workspace.bash(f"wc -l < {answer.output_file}; tail -1 {answer.output_file}")).text == "20000\n20000"


async def _running(workspace: Workspace) -> list[str]:
    """The arguments of every `sleep` that runs in the session, as the machine sees it."""
    session, _ = await workspace.session()
    found = []
    for pid in session.channel.session.processes():
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # of proc
            words = file.read().split(b"\0")
        if words[0] == b"sleep":
            found.append(words[1].decode())
    return found


async def test_a_workspace_is_refused_to_another_event_loop_until_it_is_closed(workspace: Workspace) -> None:
    async def elsewhere() -> tuple[str, str]:
        answer = await workspace.bash("echo two")
        with suppress(InvalidInput):
            await workspace.close()
            return answer.text.splitlines()[-1], "closed"
        return answer.text, "refused"

    assert (await workspace.bash("cd /tmp; echo one")).text == "one"
    text, closing = await asyncio.to_thread(asyncio.run, elsewhere())
    assert "begun in another event loop" in text
    assert closing == "refused"
    assert (await workspace.bash("pwd")).text == "/tmp"
    await workspace.close()
    assert await asyncio.to_thread(asyncio.run, elsewhere()) == ("two", "closed")
