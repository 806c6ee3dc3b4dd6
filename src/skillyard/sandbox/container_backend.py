"""The `container` backend: docker or podman by their own command, where neither bubblewrap nor Landlock is.

The container gets namespaces and, where the engine can, a control group; no network, no privileges, and a tree that it cannot
write. Its first program is ours: it starts the interpreter of the skill under the same process limits and seccomp filter as
elsewhere, and carries its streams over the two pipes that every engine has. No values of the run appear on a command line. In
a session the same first program stays, and a workspace speaks with the program that it has started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from skillyard.errors import RuntimeUnavailable, SandboxUnavailable
from skillyard.network.hosts import ANY_HOST
from skillyard.sandbox.container_engine import BindMount, ContainerEngine, candidates, new_name
from skillyard.sandbox.container_parts import A_FILE, ContainedWork, image_of, init_python, sweep
from skillyard.sandbox.container_process import ContainerGreeting, ContainerProcess
from skillyard.sandbox.job import Job, Level, Limit, Probe, SandboxResult, UnmetRequirement
from skillyard.sandbox.policy import Policy
from skillyard.sandbox.preparation import (
    OWN_FOLDER,
    PreparedRun,
    granted_mounts,
    prepare,
    run_imports,
    run_variables,
    runner_inside,
    session_variables,
)
from skillyard.sandbox.process_launch import Descriptors
from skillyard.sandbox.processes import descendants
from skillyard.sandbox.run_job import (
    check_input,
    collected,
    common_limits,
    policy_proxy,
    process_limits,
    quota_check,
    run_result,
    run_slot,
)
from skillyard.sandbox.runtimes import NODE_ENDINGS, TYPESCRIPT, Runtime, runtime_for, settable, strips_types, version_of
from skillyard.sandbox.seccomp import FilterOptions
from skillyard.sandbox.session_preparation import PreparedSession, session_limits

if TYPE_CHECKING:
    from skillyard.network.proxy import Proxy

_MEBIBYTE: Final = 1024 * 1024
_SHARED_MB: Final = 16
_TICK_MS: Final = 25
REMEDIES: Final = (
    "install docker or podman, and see that `docker run` or `podman run` works for this user",
    'elsewhere than on Linux also name an image that has Python, which is never downloaded: container-image = "…" in [sandbox]',
)
_NO_LIMIT: Final = UnmetRequirement("network.allowlist", "a run needs each host by name; '*' cannot be enforced")


@dataclass(frozen=True, slots=True)
class ContainerBackend:
    """Runs jobs in containers: `image` is what the operator names, `engine` what starts them (`None`: what is found)."""

    name: ClassVar[str] = "container"
    level: ClassVar[Level] = "namespace"
    own_folders: ClassVar[bool] = False
    own_network: ClassVar[bool] = True
    overhead_processes: ClassVar[int] = 1  # the first program
    overhead_bytes: ClassVar[int] = 24 * _MEBIBYTE
    image: str = ""
    engine: ContainerEngine | None = None

    def probe(self) -> Probe:
        """Whether docker or podman is here, starts containers, and they hold against attacks."""
        from skillyard.sandbox.backend_probe import is_remembered, probe_by_attack

        engines = sorted(candidates(self.image), key=lambda one: not is_remembered(f"{self.name} {one.label}", one.program))
        failed: dict[str, Probe] = {}
        for engine in engines:
            tried = replace(self, engine=engine)
            probe = probe_by_attack(
                tried, binary=engine.program, remedies=REMEDIES, facts=_facts(engine), called=f"{self.name} {engine.label}"
            )
            if probe.ok:
                _found[self.image] = engine
                return probe
            failed[engine.kind] = probe  # the last way of each program is the one that needs least
        if not failed:
            return Probe(self.name, ok=False, reason="neither docker nor podman is installed", remedies=REMEDIES)
        reason = "; ".join(f"{kind}: {probe.reason}" if len(failed) > 1 else probe.reason for kind, probe in failed.items())
        return replace(next(iter(failed.values())), reason=reason)

    def supports(self, policy: Policy) -> list[UnmetRequirement]:
        """What of the policy cannot be enforced: only a network without any limit."""
        return [_NO_LIMIT] if policy.reaches_network and ANY_HOST in policy.network_allowlist else []

    async def run(self, job: Job) -> SandboxResult:
        """Run one job to its end, as `run_job` does.

        Raises:
            SandboxUnavailable: no container can be started.
            InvalidInput, NotExecutable, RuntimeUnavailable, PathRefused, FileMissing, FileTooLarge: as `run_job`.
        """
        check_input(job)
        engine = await asyncio.to_thread(self.found_engine)
        runtime = None if engine.shows_machine else _named_runtime(job.entry)
        async with run_slot():
            run = await prepare(self, job, runtime=runtime, counted_by=engine.counter)
            try:
                return await collected(run, await _ContainerRun(self, engine, run).result())
            finally:
                asyncio.get_running_loop().run_in_executor(None, run.stage.remove)

    def found_engine(self) -> ContainerEngine:
        """What starts containers here; blocks.

        Raises:
            SandboxUnavailable: nothing does.
        """
        engine = self.engine or _found.get(self.image)
        if engine is None:
            probe = self.probe()
            if not probe.ok:
                raise SandboxUnavailable(f"no container can be started: {probe.reason}", hint="; or ".join(probe.remedies))
            engine = _found[self.image]
        return engine

    def filter_options(self, *, counted: bool) -> FilterOptions:
        """As under bubblewrap: IPC objects live and die in the run's own namespace."""
        return FilterOptions(uncounted_memory=not counted)

    def limits(self, run: PreparedRun) -> tuple[Limit, ...]:
        """Everything is enforced here."""
        by_proxy = ", proxy" if run.policy.reaches_network else ""
        return (
            *common_limits(run, processes="watchdog", files="tmpfs"),
            Limit("network", run.policy.network, True, f"network namespace{by_proxy} and seccomp"),
            Limit("filesystem", run.policy.filesystem, True, "mount namespace"),
        )


_found: dict[str, ContainerEngine] = {}


def _facts(engine: ContainerEngine) -> dict[str, str]:
    version = version_of(engine.program)
    counting = "control group" if engine.counts else "process limits and a watchdog"
    facts = {"program": engine.program, "version": ".".join(map(str, version)) or "unknown", "memory counted by": counting}
    return {**facts, **({"image": engine.image} if engine.image else {})}


def _named_runtime(entry: str) -> Runtime:
    """What runs an entry in an image, by name; the image says where it is.

    Raises:
        NotExecutable: no runtime will ever fit this file.
    """
    ending = PurePosixPath(entry).suffix.lower()
    if ending == ".py":
        return Runtime("python", "python3")
    if ending in (".sh", ".bash"):
        return Runtime("bash", "bash")
    if ending in NODE_ENDINGS:
        return Runtime("node", "node")
    return runtime_for(entry, as_other=False)


class _ContainerRun:
    """One run in one container."""

    def __init__(self, backend: ContainerBackend, engine: ContainerEngine, run: PreparedRun) -> None:
        self._backend = backend
        self._engine = engine
        self._run = run

    async def result(self) -> SandboxResult:
        """Run it to its end."""
        await asyncio.to_thread(sweep, self._engine)
        result = await self._attempt()
        if result is None:  # somebody has cleaned up the image
            image_of.cache_clear()
            result = await self._attempt(last=True)
        assert result is not None  # noqa: S101 # the last attempt says what went wrong
        return result

    async def _attempt(self, *, last: bool = False) -> SandboxResult | None:
        engine, run, name = self._engine, self._run, new_name()
        argv = await asyncio.to_thread(self._argv, name)
        proxy = policy_proxy(run.policy)
        process = ContainerProcess(engine, name, run.policy, over_quota=self._quota(), proxy=proxy)
        try:
            await process.start(argv, self._job, run.job.stdin)
            await process.finished.wait()
        except OSError as error:
            raise SandboxUnavailable(f"{engine.kind} could not be started: {error}", hint="run `skillyard doctor`") from None
        finally:
            await process.close()
        if process.record.problem is not None:
            raise process.record.problem
        if process.record.greeting is None and process.record.reason is None and not last and engine.shows_machine:
            return None
        return run_result(self._backend, self._run, process.record, proxy.contacts if proxy else ())

    def _quota(self) -> Callable[[list[int]], bool] | None:
        return quota_check(self._backend, self._run) if self._run.job.workspace else None

    @property
    def _work(self) -> ContainedWork:
        run, backend = self._run, self._backend
        return ContainedWork(
            run.stage, run.policy, run.identity, backend.overhead_bytes, backend.overhead_processes, _SHARED_MB, _TICK_MS
        )

    def _argv(self, name: str) -> list[str]:
        run = self._run
        programs = [run.runtime.kind] if run.runtime.kind != "python" else []
        folders = ["/workspace"] if run.has_workspace and not run.job.workspace else []
        return self._work.command(self._engine, name, self._mounts(), (*programs, "bash"), folders)

    def _mounts(self) -> list[BindMount]:
        run, stage = self._run, self._run.stage
        mounts = self._work.mounts(self._engine, run.runtime, run.runtime.extra_programs)
        mounts.append(BindMount(stage.tree, "/skill"))
        if stage.runner:
            mounts.append(BindMount(stage.runner, runner_inside(run)))
        mounts += [BindMount(source, target) for source, target in run_imports(run)]
        if run.job.workspace:
            mounts.append(BindMount(stage.workspace, "/workspace", writable=run.policy.filesystem == "read-write"))
        return mounts

    def _job(self, greeting: ContainerGreeting) -> dict[str, Any]:
        """What the first program is to start, now that it has said what it has."""
        run, policy, engine = self._run, self._run.policy, self._engine
        if not engine.shows_machine:
            run = self._run = replace(run, runtime=_runtime_in_image(run, greeting))
        runtime = run.runtime.with_programs_in(OWN_FOLDER) if engine.shows_machine else run.runtime
        runner = runner_inside(run) if run.stage.runner else ""
        given = run.stage.seeded
        allowed = policy.tmp_mb * _MEBIBYTE + (given.size + 2 * A_FILE * len(given.marks) if given else 0)
        return self._work.job(
            engine,
            greeting,
            self._backend.filter_options(counted=engine.counts),
            argv=runtime.command(f"/skill/{run.entry}", run.job, runner=runner, result=3, gate=-1, limits={}),
            environment=run_variables(run),
            folder="/workspace" if run.has_workspace else "/skill",
            limits=settable(process_limits(run)),
            streams=policy.reaches_network or run.stage.environment.local_sockets,
            deleted=allowed if run.job.workspace else 0,
        )


def _runtime_in_image(run: PreparedRun, greeting: ContainerGreeting) -> Runtime:
    """The run's runtime as the image has it.

    Raises:
        RuntimeUnavailable: it has none that fits.
    """
    runtime = run.runtime
    if runtime.kind == "python":
        return replace(runtime, program=greeting.python)
    program, bash = greeting.programs.get(runtime.kind, ""), greeting.programs.get("bash", "")
    if not program or not bash:
        missing = runtime.kind if not program else "bash"
        raise RuntimeUnavailable(f"the container image has no {missing}", hint="name an image that has it: container-image")
    if PurePosixPath(run.entry).suffix.lower() in TYPESCRIPT and not strips_types(greeting.node_version):
        raise RuntimeUnavailable("TypeScript needs node 22.18 or newer in the container image", hint="name another image")
    return replace(runtime, program=program, version=greeting.node_version)


_SESSION_SHARED_MB: Final = 64
_SESSION_TICK_MS: Final = 100


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
            session.stage,
            session.policy,
            session.identity,
            backend.overhead_bytes,
            processes,
            _SESSION_SHARED_MB,
            _SESSION_TICK_MS,
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
        mounts += [BindMount(source, target) for source, target in session.covers]
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
            limits=settable(session_limits(session)),
            streams=True,  # in a network of its own
        )


def _found_in_image(session: PreparedSession, greeting: ContainerGreeting) -> dict[str, Any]:
    node = greeting.programs.get("node", "")
    return {
        "runtime": replace(session.runtime, program=greeting.python),
        "node": Runtime("node", str(PurePosixPath(node)), version=greeting.node_version) if node else None,
    }
