"""A session: a persistent sandbox with one program that takes requests over a pipe, until it is closed or killed.

What comes back from it is untrusted: `receive` gets the bytes as they are, and its caller checks them. The
kernel ends a session with the process that opened it, whatever ends that process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from skillyard.errors import SandboxUnavailable
from skillyard.sandbox.job import SandboxBackend, Status
from skillyard.sandbox.policy import Policy
from skillyard.sandbox.preparation import IsolationMechanism, SpawnedMechanism
from skillyard.sandbox.processes import descendants, namespace_number, started_at
from skillyard.sandbox.run_job import filter_files, policy_proxy, run_slot, session_quota
from skillyard.sandbox.session_preparation import PreparedSession, SessionRequest, prepare_session
from skillyard.sandbox.supervisor import SupervisedProcess

if TYPE_CHECKING:
    from skillyard.network import Contact, RunProxy
    from skillyard.sandbox.container_backend import ContainerSession
    from skillyard.sandbox.container_process import ContainerProcess
    from skillyard.sandbox.runtimes import Runtime

_IDLE_WATCH_SECONDS: Final = 0.25
_BUSY_WATCH_SECONDS: Final = 0.025


class SandboxSession:
    """One open session; `ended` is set when no process of it is left. Belongs to the event loop that opened it."""

    def __init__(
        self,
        mechanism: IsolationMechanism,
        session: PreparedSession,
        watch: SupervisedProcess | ContainerProcess,
        proxy: RunProxy | None,
        tree: LocalProcessTree | ContainerSession,
    ) -> None:
        self._mechanism = mechanism
        self._session = session
        self._watch = watch
        self._proxy = proxy
        self._tree = tree
        self._closing: asyncio.Task[None] | None = None
        self.ended: Final = watch.finished

    @property
    def folder(self) -> str:
        """The path of the session's folder as programs in it see it."""
        return self._session.folder if self._mechanism.own_folders else "/workspace"

    @property
    def held(self) -> Mapping[str, str]:
        """The copies of what it sees read-only in its folder, by the path below that."""
        return self._session.held

    @property
    def isolation(self) -> str:
        """The name of the backend."""
        return self._mechanism.name

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._watch.alive

    @property
    def end_reason(self) -> Status | None:
        """Why it was ended, `None` when nothing has ended it (it may have ended by itself)."""
        return self._watch.record.reason

    @property
    def diagnosis(self) -> str:
        """What the first program said of itself, for the log; read once."""
        return self._watch.record.stderr.take().decode("utf-8", "replace")

    @property
    def node(self) -> Runtime | None:
        """The node of the session, that programs in it call `node`; `None` where there is none."""
        return self._session.node

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """The hosts that were asked for."""
        return self._proxy.contacts if self._proxy else ()

    def send(self, data: bytes) -> bool:
        """Write to the first program's input; `False` when it takes no more."""
        return self._watch.send(data)

    def watch_closely(self, close: bool) -> None:
        """Look at memory and processes often (where no control group counts them), while something is at work."""
        self._watch.watch_seconds = _BUSY_WATCH_SECONDS if close else _IDLE_WATCH_SECONDS

    def processes(self) -> list[int]:
        """The numbers, on this machine, of all processes of the session beside its first program; blocks for a moment."""
        return self._tree.processes()

    def end_processes(self, since: float, keep: Collection[int]) -> int:
        """Kill what was started since a moment and is not below one of `keep`; how many there were. Blocks for a moment.

        For what a command has left behind when it was ended: processes that have gone out of its group. `since` is in seconds
        since the machine was started (`CLOCK_BOOTTIME`), `keep` are numbers as the session's own processes see them.
        """
        return self._tree.end(since, keep)

    def stop(self, reason: Status = "killed") -> None:
        """End it now, with everything in it; `close` waits for that."""
        self._watch.stop(reason)

    async def close(self) -> None:
        """End it, and leave nothing: no process, no descriptor, no control group, no temporary folder."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await self._watch.close()
        finally:
            await asyncio.get_running_loop().run_in_executor(None, self._session.release)


class LocalProcessTree:
    """The processes of a session that are below a process of this machine."""

    def __init__(self, mechanism: IsolationMechanism, watch: SupervisedProcess) -> None:
        self._mechanism = mechanism
        self._watch = watch

    def processes(self) -> list[int]:
        """Their numbers on this machine, without the first program; blocks for a moment."""
        first = self.first
        return [pid for pid in self._below(first) if pid != first]

    def end(self, since: float, keep: Collection[int]) -> int:
        """Kill what was started since a moment and is not below one of `keep`; how many there were. Blocks for a moment."""
        begun = int(since * os.sysconf("SC_CLK_TCK"))
        inside = {namespace_number(pid): pid for pid in self.processes()}
        kept = {pid for number in keep if number in inside for pid in (inside[number], *descendants(inside[number]))}
        victims = [pid for pid in inside.values() if pid not in kept and started_at(pid) >= begun]
        for pid in victims:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return len(victims)

    @property
    def first(self) -> int:
        """The number of the first program on this machine; where it has a process namespace, it is the first in that."""
        shared = self._mechanism.own_folders
        return next((pid for pid in descendants(self._watch.pid) if shared or namespace_number(pid) == 1), self._watch.pid)

    def _below(self, first: int) -> list[int]:
        """The first program, if it runs, and everything below the program that was started."""
        everything = descendants(self._watch.pid)
        return everything[everything.index(first) :] if first in everything else []


async def open_session(backend: SandboxBackend, request: SessionRequest, receive: Callable[[bytes], object]) -> SandboxSession:
    """Open a session in `backend`; `receive` is called on the loop with each piece that its first program writes.

    Raises:
        SandboxUnavailable: it could not be started, the backend cannot enforce the policy, or has no place for a proxy that is
            given.
        FileMissing, InvalidInput, RuntimeUnavailable: as `prepare_session`.
    """
    if unmet := backend.supports(request.policy):
        raise SandboxUnavailable(f"{backend.name} cannot enforce this policy: {unmet[0].reason}", hint="run `skillyard doctor`")
    if request.proxy is not None and backend.name != "bwrap":
        raise SandboxUnavailable(f"{backend.name} has no network of its own to play", hint="install bubblewrap")
    async with run_slot():
        if backend.name == "container":
            return await _in_container(backend, request, receive)
        mechanism: SpawnedMechanism = backend  # type: ignore[assignment] # every other backend is one
        session = await _prepared(mechanism, request)
        proxy = request.proxy or policy_proxy(request.policy)
        watch = SupervisedProcess(request.policy, session.cgroup, session_quota(mechanism, session), proxy, channel=receive)
        watch.watch_seconds = _IDLE_WATCH_SECONDS
        opened = SandboxSession(mechanism, session, watch, proxy, LocalProcessTree(mechanism, watch))
        try:
            watch.start(partial(mechanism.session_command, session), b"", _files(mechanism, request.policy, session))
        except OSError as error:
            await opened.close()
            raise SandboxUnavailable(f"the sandbox could not be started: {error}", hint="run `skillyard doctor`") from None
        except BaseException:
            await opened.close()
            raise
        return opened


async def _in_container(
    mechanism: SandboxBackend, request: SessionRequest, receive: Callable[[bytes], object]
) -> SandboxSession:
    from skillyard.sandbox.container_backend import ContainerBackend, ContainerSession, find_session_engine

    assert isinstance(mechanism, ContainerBackend)  # noqa: S101 # the only one of that name
    engine, python = await asyncio.to_thread(find_session_engine, mechanism)
    session = await _prepared(mechanism, request, runtime=python, counted_by=engine.counter)
    proxy = policy_proxy(request.policy)
    contained = ContainerSession(mechanism, engine, session, proxy, receive)
    opened = SandboxSession(mechanism, session, contained.process, proxy, contained)
    try:
        await contained.start()
    except OSError as error:
        await opened.close()
        raise SandboxUnavailable(f"{engine.kind} could not be started: {error}", hint="run `skillyard doctor`") from None
    except BaseException:
        await opened.close()
        raise
    return SandboxSession(mechanism, contained.session, contained.process, proxy, contained)


async def _prepared(
    mechanism: IsolationMechanism, request: SessionRequest, *, runtime: Runtime | None = None, counted_by: str | None = None
) -> PreparedSession:
    """Prepare in a thread; who goes away meanwhile leaves nothing behind."""
    work = partial(
        prepare_session,
        request,
        own_folders=mechanism.own_folders,
        extra_bytes=mechanism.overhead_bytes,
        extra_processes=mechanism.overhead_processes + 3,
        runtime=runtime,
        counted_by=counted_by,
    )
    preparing = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(preparing)
    except asyncio.CancelledError:
        preparing.add_done_callback(_forget)
        raise


def _forget(preparing: asyncio.Future[PreparedSession]) -> None:
    if not preparing.cancelled() and preparing.exception() is None:
        session = preparing.result()
        if session.cgroup:
            session.cgroup.remove()
        session.release()


def _files(mechanism: SpawnedMechanism, policy: Policy, session: PreparedSession) -> tuple[bytes, ...]:
    """The files in memory. Where the session has a network of its own, its programs may serve and reach each other there."""
    own_network = mechanism.own_network
    streams = own_network or policy.reaches_network
    own_user = session.identity is not None and session.identity.single
    return filter_files(
        mechanism,
        counted=session.cgroup is not None,
        streams=streams,
        own_user=own_user,
        local_sockets=own_network and session.request.environment.local_sockets,
    )
