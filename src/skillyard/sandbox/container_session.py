"""A session in a container: the same first program stays, and a workspace speaks with the program that it has started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from skillyard.errors import SandboxUnavailable
from skillyard.sandbox.container_backend import ContainerBackend
from skillyard.sandbox.container_engine import BindMount, ContainerEngine, new_name
from skillyard.sandbox.container_parts import ContainedWork, init_python, sweep
from skillyard.sandbox.container_process import ContainerGreeting, ContainerProcess
from skillyard.sandbox.preparation import OWN_FOLDER, granted_mounts, session_variables
from skillyard.sandbox.process_launch import Descriptors
from skillyard.sandbox.processes import descendants
from skillyard.sandbox.runtimes import Runtime
from skillyard.sandbox.session_preparation import PreparedSession, session_limits

if TYPE_CHECKING:
    from skillyard.network.proxy import Proxy

_SHARED_MB: Final = 64
_TICK_MS: Final = 100


def find_session_engine(backend: ContainerBackend) -> tuple[ContainerEngine, Runtime | None]:
    """What starts the container of a session, and the session's Python where that is not this machine's to say; blocks.

    Raises:
        SandboxUnavailable: no container can be started.
    """
    engine = backend.found_engine()
    sweep(engine)
    return engine, None if engine.shows_machine else init_python(engine, as_other=False)


class ContainerSession:
    """The container of a prepared session, and the processes in it."""

    def __init__(
        self,
        backend: ContainerBackend,
        engine: ContainerEngine,
        session: PreparedSession,
        proxy: Proxy | None,
        receive: Callable[[bytes], object],
    ) -> None:
        self.session = session
        self._backend = backend
        self._engine = engine
        self._name = new_name()
        self._loop = asyncio.get_running_loop()
        self.process: Final = ContainerProcess(engine, self._name, session.policy, proxy=proxy, channel=receive)

    async def start(self) -> None:
        """Start it, and wait until its first program runs, or has ended.

        Raises:
            SandboxUnavailable: its container cannot be started.
            OSError: the engine's program cannot be.
        """
        argv = await asyncio.to_thread(self._argv)
        await self.process.start(argv, self._job, b"")
        await self.process.started.wait()
        if self.process.record.problem is not None:
            raise self.process.record.problem

    def processes(self) -> list[int]:
        """The numbers, on this machine, of all processes of the session beside its first program; blocks for a moment.

        Empty where the engine is not on this machine.
        """
        try:
            first = self._engine.call("inspect", "--format", "{{.State.Pid}}", self._name).strip()
        except SandboxUnavailable:
            return []
        below = descendants(int(first)) if first.isdigit() and self._engine.shows_machine else []
        return below[1:]  # without the program of the session

    def end(self, since: float, keep: Collection[int]) -> int:
        """Kill what was started since a moment and is not below one of `keep`; how many. Blocks; not on the session's loop."""
        return asyncio.run_coroutine_threadsafe(self.process.end_processes(since, keep), self._loop).result()

    @property
    def _work(self) -> ContainedWork:
        session, backend = self.session, self._backend
        processes = backend.overhead_processes + 1  # and the program that starts the commands
        return ContainedWork(
            session.stage, session.policy, session.identity, backend.overhead_bytes, processes, _SHARED_MB, _TICK_MS
        )

    def _argv(self) -> list[str]:
        return self._work.command(self._engine, self._name, self._mounts(), ("node", "bash"))

    def _mounts(self) -> list[BindMount]:
        session, stage = self.session, self.session.stage
        mounts = self._work.mounts(self._engine, session.runtime, session.extra_programs)
        if self._engine.shows_machine:
            stage.add_programs(session.names(OWN_FOLDER))
            mounts.append(BindMount(stage.programs, f"{OWN_FOLDER}bin"))
        mounts.append(BindMount(stage.tree, f"{OWN_FOLDER}session"))
        mounts += [BindMount(source, target) for source, target in granted_mounts(stage)]
        mounts += [BindMount(mount.source, mount.target) for mount in session.mounts]
        mounts.append(BindMount(session.folder, "/workspace", writable=not session.request.read_only))
        mounts += [BindMount(copy, f"/workspace/{path}") for path, copy in session.held.items()]
        return mounts

    def _job(self, greeting: ContainerGreeting) -> dict[str, Any]:
        session, engine = self.session, self._engine
        if not engine.shows_machine:
            session = self.session = replace(session, **_found_in_image(session, greeting))
        own = Descriptors(control=-1, result=3, gate=-1, files=())
        return self._work.job(
            engine,
            greeting,
            self._backend.filter_options(counted=engine.counts),
            argv=session.command(f"{OWN_FOLDER}session/{session.program}", own, {}),
            environment=session_variables(session),
            folder="/workspace",
            limits=session_limits(session),
            streams=True,  # in a network of its own
        )


def _found_in_image(session: PreparedSession, greeting: ContainerGreeting) -> dict[str, Any]:
    node = greeting.programs.get("node", "")
    return {
        "runtime": replace(session.runtime, program=greeting.python),
        "node": Runtime("node", str(PurePosixPath(node)), version=greeting.node_version) if node else None,
    }
