"""Programs of `code_run` that find an interpreter waiting for them: nothing but the time tells them from others."""

from __future__ import annotations

import asyncio
import re

import pytest

from skillyard.workspace import Workspace

PROGRAMS = {
    "names": "import sys; print(__name__, sorted(globals()), sys.argv, sys.path, sys.flags, sys.executable)",
    "environment": "import os; print(sorted(os.environ.items()), os.getcwd(), os.getpgrp() == os.getpid())",
    "an error": "def f():\n    return 1 / 0\nf()",
    "an error that is no program": "x = = 1",
    "an error in a chain": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('é') from error",
    "an exit with a text": "import sys; sys.exit('no more')",
    "an exit with a number": "raise SystemExit(7)",
    "an interrupt": "raise KeyboardInterrupt",
    "an end by a signal": "import os; os.kill(os.getpid(), 9)",
    "what is done at the end": "import atexit, threading\natexit.register(print, 2)\nthreading.Thread(target=print).start()",
    "a hook of its own": "import sys\nsys.excepthook = lambda *what: print('hook', what[0], what[2].tb_lineno)\n1 / 0",
    "a coding": "# -*- coding: latin-1 -*-\nprint(len('é'))",
    "annotations": "from __future__ import annotations\nx: int = 1\nprint(__annotations__)",
    "itself": "import __main__, inspect\nprint(__main__.__dict__ is globals(), inspect.getsource(__main__))",
}


async def _waiting(workspace: Workspace) -> int:
    """The number of the interpreter that waits, once one does."""
    session, _ = await workspace.session()
    while not session.channel.standby:
        await asyncio.sleep(0.005)
    return session.channel.standby


async def _with_one_waiting(workspace: Workspace) -> int:
    await workspace.code_run("python", "")
    assert (await workspace.code_run("python", "pass")).ok
    return await _waiting(workspace)


def _without_names(text: str) -> str:
    return re.sub(r"skillyard-code-[0-9a-f]{8}", "code", text)


@pytest.mark.parametrize("name", list(PROGRAMS))
async def test_a_program_cannot_tell_whether_an_interpreter_waited_for_it(workspace: Workspace, name: str) -> None:
    cold = await workspace.code_run("python", PROGRAMS[name])
    number = await _waiting(workspace)
    warm = await workspace.code_run("python", PROGRAMS[name])
    assert _without_names(warm.text) == _without_names(cold.text)
    assert (warm.ok, warm.code, warm.exit_code, warm.signal) == (cold.ok, cold.code, cold.exit_code, cold.signal)
    session, _ = await workspace.session()
    assert session.channel.standby != number  # it was taken


async def test_the_interpreter_that_waits_is_the_one_that_executes(workspace: Workspace) -> None:
    number = await _with_one_waiting(workspace)
    assert (await workspace.code_run("python", "import os; print(os.getpid())")).text == str(number)


async def test_what_the_shell_has_changed_is_seen_by_the_next_program(workspace: Workspace) -> None:
    await _with_one_waiting(workspace)
    await workspace.bash("mkdir deeper; cd deeper; export UNIT=metre")
    program = "import os; print(os.path.basename(os.getcwd()), os.environ['UNIT'])"
    assert (await workspace.code_run("python", program)).text == "deeper metre"
    await _waiting(workspace)
    assert (await workspace.code_run("python", program)).text == "deeper metre"
    await workspace.bash("rmdir ../deeper")
    assert (await workspace.code_run("python", "print('elsewhere')")).code == "file_not_found"
    assert (await workspace.code_run("python", "print('elsewhere')")).text == "elsewhere"


async def test_packages_that_were_installed_meanwhile_and_modules_of_ones_own_are_found(workspace: Workspace) -> None:
    await _with_one_waiting(workspace)
    await workspace.bash('own=$(python3 -m site --user-site); mkdir -p "$own"; echo VALUE=3 > "$own/fresh.py"')
    assert (await workspace.code_run("python", "import fresh; print(fresh.VALUE)")).text == "3"
    await _waiting(workspace)
    await workspace.file_write("json.py", "VALUE = 4\n")
    assert (await workspace.code_run("python", "import json; print(json.VALUE)")).text == "4"


async def test_one_that_was_killed_is_not_missed(workspace: Workspace) -> None:
    number = await _with_one_waiting(workspace)
    assert (await workspace.bash(f"kill -9 {number}; sleep 0.05; echo done")).text == "done"
    assert (await workspace.code_run("python", "print(1)")).text == "1"


@pytest.mark.abuse("I8")
async def test_a_program_over_its_time_ends_with_all_it_started(workspace: Workspace) -> None:
    await _with_one_waiting(workspace)
    program = "import subprocess, signal, time\nsignal.signal(15, signal.SIG_IGN)\n"
    program += "subprocess.Popen(['sleep', '331'], start_new_session=True)\ntime.sleep(332)"
    assert (await workspace.code_run("python", program, timeout=400)).code == "timeout"
    session, _ = await workspace.session()
    waiting = {session.channel.standby}
    assert len(session.channel.session.processes()) <= len(waiting)
    assert (await workspace.code_run("python", "print(1)")).text == "1"
