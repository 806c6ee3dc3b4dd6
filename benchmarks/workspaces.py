"""What a workspace costs: a command and a program in a standing session against the same without, first calls, many sessions.

`python -m benchmarks.workspaces [rounds]`. Read the differences and ratios of the fastest of each: other work on the machine
only adds.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.environments import PACKAGES, make_cached
from benchmarks.figures.goals import Goal, print_goals
from skillyard.environments import EnvironmentRequest, SkillGrant
from skillyard.sandbox import backends, choose_backend
from skillyard.sandbox.processes import memory_in_use
from skillyard.sandbox.runtimes import runtime_for
from skillyard.sandbox.sandbox_session import LocalProcessTree
from skillyard.workspace import WORKSPACE_POLICY, Workspace, WorkspaceOptions

COMMAND = "echo ok"
CODE = 'import json\nprint(json.dumps({"ok": True}))\n'
AT_ONCE = 50
_MEBIBYTE = 1024 * 1024
READY_SECONDS = 0.1  # until an interpreter that was started waits
Way = Callable[[], Awaitable[None]]
Measured = Callable[[], Awaitable[float]]


async def timed(way: Way) -> float:
    """How many milliseconds it takes."""
    started = time.perf_counter()
    await way()
    return (time.perf_counter() - started) * 1000


async def bare(command: list[str], folder: Path) -> None:
    """The same without a sandbox."""
    subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, cwd=folder, capture_output=True, check=True)


async def in_session(workspace: Workspace) -> None:
    """A command in a session that stands."""
    assert (await workspace.bash(COMMAND)).text == "ok"


async def program(workspace: Workspace) -> None:
    """A program in a session that stands."""
    assert (await workspace.code_run("python", CODE)).ok


async def first(folder: Path, options: WorkspaceOptions) -> float:
    """The first command of a workspace, up to its answer, in milliseconds; the end of the session is not part of it."""
    workspace = Workspace(folder, options=options)
    taken = await timed(partial(in_session, workspace))
    await workspace.close()
    return taken


async def ready_program(workspace: Workspace) -> float:
    """A program for which an interpreter stands ready, in milliseconds."""
    await program(workspace)
    session, _ = await workspace.session()
    while not session.channel.standby:
        await asyncio.sleep(0.005)
    await asyncio.sleep(READY_SECONDS)
    return await timed(partial(program, workspace))


async def unready_program(workspace: Workspace) -> float:
    """A program for which an interpreter has to be started, in milliseconds: the shell is another one than before."""
    await workspace.bash('export TURN="$RANDOM$RANDOM"')
    return await timed(partial(program, workspace))


async def measure(ways: dict[str, Measured], rounds: int) -> dict[str, float]:
    """The fastest of each way in milliseconds; every round takes them in another order."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        await way()
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            times[name].append(await ways[name]())
    return {name: min(taken) for name, taken in times.items()}


async def many(base: Path, backend: str) -> tuple[float, float]:
    """Seconds until every one of many new workspaces has answered a command and a program, and their memory in MiB."""
    workspaces = []
    for number in range(AT_ONCE):
        folder = base / f"many{number}"
        folder.mkdir(exist_ok=True)
        workspaces.append(Workspace(folder, options=WorkspaceOptions(backend=backend)))
    started = time.perf_counter()
    await asyncio.gather(*(in_session(workspace) for workspace in workspaces))
    await asyncio.gather(*(program(workspace) for workspace in workspaces))
    seconds = time.perf_counter() - started
    await asyncio.sleep(10 * READY_SECONDS)  # their interpreters in waiting are part of what they take
    pids: list[int] = []
    for workspace in workspaces:
        session, _ = await workspace.session()
        tree = session.channel.session._tree
        pids += [*tree.processes(), *([tree.first] if isinstance(tree, LocalProcessTree) else ())]
    memory = memory_in_use(pids, enough=0) / _MEBIBYTE
    await asyncio.gather(*(workspace.close() for workspace in workspaces))
    return seconds, memory


async def compare(base: Path, backend: str, rounds: int) -> tuple[dict[str, float], float]:
    """The table of one backend: the fastest of each, and the memory of many sessions."""
    folder = base / "files"
    folder.mkdir(exist_ok=True)
    script = folder / "code.py"
    script.write_text(CODE, encoding="utf-8")
    workspace = Workspace(folder, options=WorkspaceOptions(backend=backend))
    python = runtime_for("x.py", as_other=os.geteuid() == 0).program
    plain = WorkspaceOptions(backend=backend)
    granted = replace(plain, environment=EnvironmentRequest(grant=SkillGrant(PACKAGES, PACKAGES, ("pdftotext", "git")))())
    ways: dict[str, Measured] = {
        "bare command": partial(timed, partial(bare, ["/bin/bash", "--noprofile", "--norc", "-c", COMMAND], folder)),
        "bare program": partial(timed, partial(bare, [python, str(script)], folder)),
        "command": partial(timed, partial(in_session, workspace)),
        "program": partial(unready_program, workspace),
        "program, ready": partial(ready_program, workspace),
        "first command": partial(first, folder, plain),
        "with environment": partial(first, folder, granted),
    }
    found = await measure(ways, rounds)
    await workspace.close()
    seconds, memory = await many(base, backend)
    for name, fastest in found.items():
        print(f"{backend:10} {name:16} {fastest:10.1f} ms")
    print(f"{backend:10} {AT_ONCE} sessions at once: a command and a program each in {seconds:.1f} s, {memory:.0f} MiB")
    return found, memory


def goals(found: dict[str, float], memory: float) -> list[Goal]:
    return [
        Goal("a command, over the same without", found["command"] - found["bare command"], 5, " ms"),
        Goal("the first command, over the same without", found["first command"] - found["bare command"], 40, " ms"),
        Goal("a program, against the same without", found["program"] / found["bare program"], 1.35, " x"),
        Goal("a program, ready, against the same without", found["program, ready"] / found["bare program"], 0.3, " x"),
        Goal("an environment, cached, more at the first", found["with environment"] - found["first command"], 10, " ms"),
        Goal(f"memory of {AT_ONCE} sessions at once", memory, 4096, " MiB"),
    ]


async def main(rounds: int) -> None:
    usable = [backend.name for backend in backends() if backend.probe().ok]
    strongest = choose_backend(WORKSPACE_POLICY).name
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        base.chmod(0o755)
        make_cached(base / "home")
        found = {name: await compare(base, name, rounds) for name in usable}
    print_goals(goals(*found[strongest]))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdigit() else 30))
