"""A session in a container: the same first program stays, and a workspace speaks with the program that it has started."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from skillyard.errors import SandboxUnavailable
from skillyard.sandbox.container_backend import ContainerBackend
from skillyard.sandbox.container_engine import BindMount, ContainerEngine, new_name, system_mounts, temporary_folder
from skillyard.sandbox.container_parts import (
    check_counting,
    container_user,
    image_of,
    init_arguments,
    init_python,
    number_of_processes,
    own_mounts,
    refuse_what_is_of_this_machine,
    sweep,
)
from skillyard.sandbox.container_process import ContainerGreeting, ContainerProcess
from skillyard.sandbox.inside_paths import CERTIFICATES, OWN_FOLDER, SCRATCH, granted_mounts, session_variables
from skillyard.sandbox.process_launch import PROXY_PORT, Descriptors
from skillyard.sandbox.processes import descendants
from skillyard.sandbox.run_lifecycle import seccomp_filter
from skillyard.sandbox.runtimes import Runtime
from skillyard.sandbox.session_preparation import PreparedSession, session_limits

if TYPE_CHECKING:
    from skillyard.network.proxy import Proxy

_SHARED_MB: Final = 64
_TICK_MS: Final = 100
_A_FILE: Final = 4096
_MEBIBYTE: Final = 1024 * 1024


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

    def _argv(self) -> list[str]:
        engine, session, policy = self._engine, self.session, self.session.policy
        image, user = image_of(engine), container_user(engine, session.identity)
        python = init_python(engine, as_other=session.identity is not None)
        options = engine.isolation(
            self._name,
            user=f"{user[0]}:{user[1]}",
            shared_mb=_SHARED_MB,
            memory_bytes=policy.memory_bytes + self._backend.overhead_bytes,
            pids=policy.pids + self._backend.overhead_processes + 1,
            nofile=policy.nofile,
        )
        mounts = [word for mount in self._mounts(python, user) for word in mount.words()]
        return [
            *engine.command("run"), *options, *temporary_folder(SCRATCH, policy.tmp_mb), *mounts, "--entrypoint",
            python.program, image, *init_arguments(python), "node", "bash",
        ]  # fmt: skip

    def _mounts(self, python: Runtime, user: tuple[int, int]) -> list[BindMount]:
        session, stage = self.session, self.session.stage
        mounts: list[BindMount] = []
        if self._engine.shows_machine:
            certificates = CERTIFICATES if session.policy.reaches_network else ()
            mounts += system_mounts((*python.folders, *session.runtime.folders, *certificates))
            mounts += [BindMount(path, OWN_FOLDER + Path(path).name) for path in session.extra_programs]
            stage.add_programs(session.names(OWN_FOLDER))
            mounts.append(BindMount(stage.programs, f"{OWN_FOLDER}bin"))
        else:
            refuse_what_is_of_this_machine(stage)
        mounts += own_mounts(stage, python, user)
        mounts.append(BindMount(stage.tree, f"{OWN_FOLDER}session"))
        mounts += [BindMount(source, target) for source, target in granted_mounts(stage)]
        mounts += [BindMount(mount.source, mount.target) for mount in session.mounts]
        mounts.append(BindMount(session.folder, "/workspace", writable=not session.request.read_only))
        mounts += [BindMount(copy, f"/workspace/{path}") for path, copy in session.held.items()]
        return mounts

    def _job(self, greeting: ContainerGreeting) -> dict[str, Any]:
        session, counted = self.session, self._engine.counts
        policy = session.policy
        check_counting(self._engine, greeting, policy.memory_bytes + self._backend.overhead_bytes)
        if not self._engine.shows_machine:
            session = self.session = replace(session, **_found_in_image(session, greeting))
        limits = {**session_limits(session), **number_of_processes(self._engine, session.identity, policy.pids + 2)}
        program = seccomp_filter(
            self._backend.filter_options(counted=counted),
            streams=True,  # in a network of its own
            local_sockets=session.request.environment.local_sockets,
            processor=greeting.machine,
        )
        own = Descriptors(control=-1, result=3, gate=-1, files=())
        return {
            "argv": session.command(f"{OWN_FOLDER}session/{session.program}", own, {}),
            "environment": session_variables(session),
            "folder": "/workspace",
            "limits": limits,
            "filter": base64.b64encode(program).decode(),
            "proxy_port": PROXY_PORT if policy.reaches_network else 0,
            "watch_memory": 0 if counted else policy.memory_bytes,
            "watch_pids": 0 if counted else policy.pids,
            "watch_files": 0 if counted else policy.tmp_mb * _MEBIBYTE // _A_FILE,
            "watch_deleted": 0,
            "tick_ms": _TICK_MS,
        }


def _found_in_image(session: PreparedSession, greeting: ContainerGreeting) -> dict[str, Any]:
    node = greeting.programs.get("node", "")
    return {
        "runtime": replace(session.runtime, program=greeting.python),
        "node": Runtime("node", str(PurePosixPath(node)), version=greeting.node_version) if node else None,
    }
