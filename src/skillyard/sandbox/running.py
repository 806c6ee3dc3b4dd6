"""The course of every run, whatever the backend: choose an interpreter, copy the skill, start, watch, conclude, clean."""

from __future__ import annotations

import asyncio
import marshal
import os
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from skillyard.errors import InvalidInput, SandboxUnavailable
from skillyard.paths import safe_relative
from skillyard.sandbox.cgroup import Cgroup, make_cgroup
from skillyard.sandbox.conclusion import conclude
from skillyard.sandbox.ending import Ending
from skillyard.sandbox.filters import FilterOptions, build_filter
from skillyard.sandbox.identity import Identity, pick_identity
from skillyard.sandbox.job import Job, Limit, Result
from skillyard.sandbox.policy import Policy
from skillyard.sandbox.processes import deleted_bytes, files_in
from skillyard.sandbox.runtimes import Runtime, runtime_for
from skillyard.sandbox.spawning import Command, Descriptors
from skillyard.sandbox.staging import Stage, stage
from skillyard.sandbox.supervisor import supervise
from skillyard.sandbox.syscalls import this_machine
from skillyard.sandbox.workspace import collect

if TYPE_CHECKING:
    from skillyard.sandbox.network.contact import Contact
    from skillyard.sandbox.network.proxy import Proxy

__all__ = [
    "Engine",
    "Prepared",
    "check_input",
    "concluded",
    "own_script",
    "prepare",
    "process_limits",
    "quota",
    "run_job",
    "run_slot",
    "sealed_files",
]

_MEBIBYTE: Final = 1024 * 1024
_A_FILE: Final = 4096  # bytes that a file takes whatever is in it
_LIBRARIES: Final[Mapping[str, str]] = {"python": "library", "node": "node_modules"}  # where each looks for what is imported
_slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything decided before a run starts; one that `waits` is started before there is anything to do."""

    job: Job
    entry: str
    runtime: Runtime
    identity: Identity | None
    stage: Stage
    cgroup: Cgroup | None
    waits: bool = False

    @property
    def policy(self) -> Policy:
        """What the run may do."""
        return self.job.policy

    @property
    def has_workspace(self) -> bool:
        """Whether the run begins in a workspace instead of the skill's folder."""
        return bool(self.job.workspace) or self.policy.filesystem == "read-write"


class Engine(Protocol):
    """What differs between backends."""

    @property
    def name(self) -> str:
        """The backend's name."""

    @property
    def own_folders(self) -> bool:
        """Whether the run writes to folders of the machine, because it has no file systems of its own."""

    @property
    def overhead_processes(self) -> int:
        """How many processes of the backend itself are counted with the run's."""

    @property
    def overhead_bytes(self) -> int:
        """How much memory the backend itself needs beside the run."""

    def command(self, run: Prepared, descriptors: Descriptors) -> Command:
        """How to start the run."""

    def files(self) -> tuple[bytes, ...]:
        """What the program needs as files in memory, beside the seccomp filter, which is always the first."""

    def filter_options(self, *, counted: bool) -> FilterOptions:
        """What the seccomp filter denies; `counted` when a cgroup counts memory."""

    def limits(self, run: Prepared) -> tuple[Limit, ...]:
        """What is enforced, and by what."""


async def run_job(engine: Engine, job: Job) -> Result:
    """Run one job to its end; no more than twice as many at once as there are processors.

    Raises:
        InvalidInput: an argument or the input cannot be passed on.
        NotExecutable, RuntimeUnavailable, PathRefused, FileMissing, FileTooLarge: the entry cannot be started.
    """
    check_input(job)
    async with run_slot():
        run = await prepare(engine, job)
        try:
            return await _collected(run, await _run(engine, run))
        finally:
            # Off the way of the answer; whoever closes the loop waits for it, and the end of the process does.
            asyncio.get_running_loop().run_in_executor(None, run.stage.remove)


async def _collected(run: Prepared, result: Result) -> Result:
    """The result, when what the run made of its workspace is back; a run that was ended gives nothing back."""
    seeded = run.stage.seeded
    if seeded is None or run.policy.filesystem != "read-write" or result.status not in ("ok", "error"):
        return result
    found = await asyncio.to_thread(collect, run.stage.workspace, seeded, run.job.workspace)
    return replace(result, files=found.files, warnings=(*result.warnings, *found.warnings))


async def prepare(engine: Engine, job: Job, *, waits: bool = False) -> Prepared:
    """Choose who runs the job and with what, and copy the skill; whoever gets the answer removes its copy and its cgroup."""
    entry = safe_relative(job.entry)
    identity = pick_identity()
    runtime = runtime_for(entry, as_other=identity is not None)
    # Copying and deleting may take long for a large skill; the process itself is started from the loop's own thread,
    # because the sandbox dies with the thread that started it.
    staging = asyncio.ensure_future(asyncio.to_thread(_stage, engine, job, entry, runtime, identity))
    cgroup = None
    try:
        await asyncio.sleep(0)  # the thread begins, and the group is made meanwhile
        cgroup = _cgroup(engine, job.policy)
        staged = await asyncio.shield(staging)
    except BaseException:
        if cgroup:
            cgroup.remove()
        await _forget(staging)
        raise
    return Prepared(job, entry, runtime, identity, staged, cgroup, waits)


async def _forget(staging: asyncio.Future[Stage]) -> None:
    """Remove the copy as soon as it is made: a caller that goes away meanwhile, and says so twice, leaves none behind."""
    while not staging.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([staging])
    if not staging.cancelled() and staging.exception() is None:
        # In a thread that no further cancelling takes back before it has begun.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, staging.result().remove))


async def _run(engine: Engine, run: Prepared) -> Result:
    proxy = _proxy(run.policy)
    try:
        ending = await _supervise(engine, run, proxy)
    except OSError as error:
        raise SandboxUnavailable(f"the sandbox could not be started: {error}", hint="run `skillyard doctor`") from None
    return concluded(engine, run, ending, proxy.contacts if proxy else ())


def concluded(engine: Engine, run: Prepared, ending: Ending, contacts: tuple[Contact, ...] = ()) -> Result:
    """The result of a run that has ended."""
    return conclude(
        ending,
        run.policy,
        limits=engine.limits(run),
        isolation=engine.name,
        interpreter=run.runtime.program,
        warnings=_warnings(run, ending),
        contacts=contacts,
    )


def _proxy(policy: Policy) -> Proxy | None:
    """The way out for a run that may reach hosts."""
    if not policy.reaches_network:
        return None
    from skillyard.sandbox.hosts import read_rules
    from skillyard.sandbox.network.proxy import Proxy  # loads the HTTP parser, which other runs do not need

    return Proxy(read_rules(policy.network_allowlist), private=policy.private_networks)


def sealed_files(engine: Engine, run: Prepared) -> tuple[bytes, ...]:
    """What the run's program gets as files in memory, its seccomp filter first.

    Raises:
        SandboxUnavailable: no filter is known for this machine.
    """
    machine = this_machine()
    if machine is None:
        raise SandboxUnavailable("no seccomp filter is known for this processor", hint="use an x86_64 or aarch64 machine")
    options = replace(engine.filter_options(counted=run.cgroup is not None), streams=run.policy.reaches_network)
    return (build_filter(machine, options), *engine.files())


async def _supervise(engine: Engine, run: Prepared, proxy: Proxy | None) -> Ending:
    return await supervise(
        partial(engine.command, run),
        policy=run.policy,
        stdin=run.job.stdin,
        files=sealed_files(engine, run),
        cgroup=run.cgroup,
        over_quota=quota(engine, run),
        door=proxy,
    )


def _warnings(run: Prepared, ending: Ending) -> tuple[str, ...]:
    skipped = [f"{name} is not a regular file and was left out" for name in run.stage.skipped[:20]]
    held = [] if ending.drained else ["something still held the run's output open after its end"]
    return (*skipped, *held)


def check_input(job: Job) -> None:
    """Refuse what cannot be handed over.

    Raises:
        InvalidInput: the input is too large, or an argument cannot be one.
    """
    if len(job.stdin) > job.policy.input_bytes:
        raise InvalidInput(f"the input is over {job.policy.input_bytes} bytes", hint="give the skill less input")
    if any("\0" in argument for argument in job.arguments):
        raise InvalidInput("an argument holds a NUL character", hint="give arguments as plain text")


def run_slot() -> asyncio.Semaphore:
    """What each run of the current loop holds while it lasts; twice as many as there are processors."""
    loop = asyncio.get_running_loop()
    if loop not in _slots:
        _slots[loop] = asyncio.Semaphore(2 * (os.cpu_count() or 1))
    return _slots[loop]


def _cgroup(engine: Engine, policy: Policy) -> Cgroup | None:
    return make_cgroup(memory_bytes=policy.memory_bytes + engine.overhead_bytes, pids=policy.pids + engine.overhead_processes)


def _copy(job: Job, entry: str, identity: Identity | None) -> Stage:
    """The copy of the skill; what is to be verified is copied whole, whatever the run may see of it."""
    whole = job.policy.filesystem != "none"
    if job.verify is None:
        return stage(job.tree, entry, whole=whole, complete=False, identity=identity)
    made = stage(job.tree, entry, whole=True, complete=True, identity=identity)
    try:
        job.verify(made.tree)
        return made if whole else stage(made.tree, entry, whole=False, complete=True, identity=identity)
    except BaseException:
        whole = False
        raise
    finally:
        if not whole:
            made.remove()


def _stage(engine: Engine, job: Job, entry: str, runtime: Runtime, identity: Identity | None) -> Stage:
    made = _copy(job, entry, identity)
    try:
        if runtime.kind == "python":
            made.runner = made.add_file(*own_script("python_runner", compiled=runtime.same_python))
        elif runtime.kind == "node":
            made.runner = made.add_file("node_runner.cjs", own_file("node_runner.cjs"))
        if runtime.kind in _LIBRARIES and job.library:
            for_python = runtime.kind == "python"
            files = {name: data for name, data in job.library.items() if name.endswith(".py") == for_python}
            made.add_library(_LIBRARIES[runtime.kind], files)
        if runtime.kind == "python":
            packages = job.packages if isinstance(job.packages, str) else job.packages(made.tree)
            if packages:
                made.add_packages(packages, identity)
        if engine.own_folders:
            made.add_folder(made.scratch, identity)
        if job.workspace or (engine.own_folders and job.policy.filesystem == "read-write"):
            made.add_workspace(job.workspace, identity)
    except BaseException:
        made.remove()
        raise
    return made


@lru_cache(maxsize=4)
def own_file(name: str) -> bytes:
    """The content of a file of this room."""
    return Path(__file__).with_name(name).read_bytes()


@lru_cache(maxsize=4)
def own_script(name: str, *, compiled: bool) -> tuple[str, bytes]:
    """The file name and content of a script of this room; compiled where the same Python will read it."""
    source = Path(__file__).with_name(f"{name}.py").read_bytes()
    if not compiled:
        return f"{name}.py", source
    code = compile(source, f"{name}.py", "exec", dont_inherit=True)
    return f"{name}.pyc", MAGIC_NUMBER + bytes(12) + marshal.dumps(code)


def quota(engine: Engine, run: Prepared) -> Callable[[list[int]], bool] | None:
    """How to see, from the numbers of the run's processes, that it has written too much; `None` where the kernel sees to it."""
    if engine.own_folders:
        return partial(_folders_over_quota, run)
    in_memory = partial(_too_many_files, run) if run.cgroup is None else None
    if not run.job.workspace:
        return in_memory
    return lambda pids: _folders_over_quota(run, pids, "/workspace") or (in_memory is not None and in_memory(pids))


def _folders_over_quota(run: Prepared, pids: list[int], seen_as: str = "") -> bool:
    """Whether the run's own folders, or files it has deleted and still holds, are larger than they may be.

    What lay in the workspace before does not count.
    """
    allowed, stage = run.policy.tmp_mb * _MEBIBYTE, run.stage
    given = stage.seeded.size + 2 * _A_FILE * len(stage.seeded.marks) if stage.seeded else 0
    large = _size(stage.scratch, allowed) > allowed or _size(stage.workspace, allowed + given) > allowed + given
    return large or deleted_bytes(pids, stage.base, seen_as=seen_as) > allowed + given


def _size(folder: str, enough: int) -> int:
    """The bytes that a folder takes; more than `enough` when a part of it cannot be looked into."""
    total, waiting = 0, [folder]
    while waiting and total <= enough:
        try:
            with os.scandir(waiting.pop()) as items:
                for item in items:
                    total += _A_FILE + item.stat(follow_symlinks=False).st_blocks * 512
                    if item.is_dir(follow_symlinks=False):
                        waiting.append(item.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:  # made unreadable, or nested deeper than a path is long
            return enough + 1
    return total


def _too_many_files(run: Prepared, pids: list[int]) -> bool:
    """Whether the file systems in memory hold more files than fit their size: an empty file is memory that nobody counts."""
    allowed = run.policy.tmp_mb * _MEBIBYTE // _A_FILE
    return any(files_in(pids[0], folder) > allowed for folder in ("/tmp", "/dev/shm", "/workspace") if pids)  # noqa: S108


def process_limits(run: Prepared) -> Mapping[str, int]:
    """The process limits to set just before the skill's own program, by the names of `resource.RLIMIT_*`.

    Memory is only limited where no cgroup counts it, and address space never for node, which reserves far more than it uses.
    The number of processes is counted for the user, so its limit is only set where the user is the run's own.
    """
    policy = run.policy
    limits = {
        "CORE": 1,  # one byte also stops the program of the machine that collects cores; zero only stops files
        "NOFILE": policy.nofile,
        "FSIZE": policy.file_size_mb * _MEBIBYTE,
        "STACK": 8 * _MEBIBYTE,
        "CPU": policy.timeout_ms // 1000 + 1,
    }
    if run.cgroup is None:
        limits["DATA"] = policy.memory_bytes + run.runtime.reserve_mb * _MEBIBYTE
        if run.runtime.kind != "node":
            limits["AS"] = 2 * policy.memory_bytes + 128 * _MEBIBYTE
    return limits
