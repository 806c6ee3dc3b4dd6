"""Preparation of a run, whatever the backend: its interpreter, a control group, its copy of the skill, and where they are.

With file systems of its own a process finds the skill at `/skill`, its files to work on at `/workspace`, what Skillyard adds
below `/opt/skillyard`, and the machine's own programs at their usual places.
"""

from __future__ import annotations

import asyncio
import marshal
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from skillyard.paths import safe_relative
from skillyard.sandbox.cgroups import Cgroup, make_cgroup
from skillyard.sandbox.job import NODE_PACKAGES_INSIDE, SEEN_INSIDE, Job, Limit
from skillyard.sandbox.policy import Policy, base_environment, proxy_environment
from skillyard.sandbox.process_launch import PROXY_PORT, Descriptors, Identity, SandboxCommand, pick_identity
from skillyard.sandbox.runtimes import Runtime, is_system, runtime_for
from skillyard.sandbox.seccomp import FilterOptions
from skillyard.sandbox.staging import StagedCopy, stage_skill, without_compiled

if TYPE_CHECKING:
    from skillyard.sandbox.session_preparation import PreparedSession

_LIBRARIES: Final[Mapping[str, str]] = {"python": "library", "node": "node_modules"}  # where each looks for what is imported


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """Everything decided before a run starts; one that `waits` is started before there is anything to do.

    `counted_by` names the control group that counts memory and processes, empty where none does; `cgroup` is that group where
    it is this process's to make.
    """

    job: Job
    entry: str
    runtime: Runtime
    identity: Identity | None
    stage: StagedCopy
    cgroup: Cgroup | None
    waits: bool = False
    counted_by: str = ""

    @property
    def policy(self) -> Policy:
        """What the run may do."""
        return self.job.policy

    @property
    def has_workspace(self) -> bool:
        """Whether the run begins in a workspace instead of the skill's folder."""
        return bool(self.job.workspace) or self.policy.filesystem == "read-write"


class IsolationMechanism(Protocol):
    """What differs between backends."""

    @property
    def name(self) -> str:
        """The backend's name."""

    @property
    def own_folders(self) -> bool:
        """Whether the run writes to folders of the machine, because it has no file systems of its own."""

    @property
    def own_network(self) -> bool:
        """Whether the run has a network of its own, in which sockets reach nothing of the machine."""

    @property
    def overhead_processes(self) -> int:
        """How many processes of the backend itself are counted with the run's."""

    @property
    def overhead_bytes(self) -> int:
        """How much memory the backend itself needs beside the run."""

    def filter_options(self, *, counted: bool) -> FilterOptions:
        """What the seccomp filter denies; `counted` when a cgroup counts memory."""

    def limits(self, run: PreparedRun) -> tuple[Limit, ...]:
        """What is enforced, and by what."""


class SpawnedMechanism(IsolationMechanism, Protocol):
    """A backend whose program this process starts itself, with a descriptor for each stream."""

    def command(self, run: PreparedRun, descriptors: Descriptors) -> SandboxCommand:
        """How to start the run."""

    def session_command(self, session: PreparedSession, descriptors: Descriptors) -> SandboxCommand:
        """How to start a session."""

    def files(self) -> tuple[bytes, ...]:
        """What the program needs as files in memory, beside the seccomp filter, which is always the first."""


async def prepare(
    engine: IsolationMechanism, job: Job, *, waits: bool = False, runtime: Runtime | None = None, counted_by: str | None = None
) -> PreparedRun:
    """Choose who runs the job and with what, and copy the skill; the caller removes its copy and its cgroup.

    `runtime` is what runs it where that is not this machine's to say; with `counted_by` no group is made, because something
    else counts (empty: nothing does).
    """
    entry = safe_relative(job.entry)
    identity = pick_identity()
    runtime = runtime or runtime_for(entry, as_other=identity is not None)
    # Copying and deleting may take long for a large skill; the process itself is started from the loop's own thread,
    # because the sandbox dies with the thread that started it.
    staging = asyncio.ensure_future(asyncio.to_thread(_stage, engine, job, entry, runtime, identity))
    cgroup = None
    try:
        await asyncio.sleep(0)  # the thread begins, and the group is made meanwhile
        memory_bytes, pids = job.policy.memory_bytes + engine.overhead_bytes, job.policy.pids + engine.overhead_processes
        cgroup = make_cgroup(memory_bytes=memory_bytes, pids=pids) if counted_by is None else None
        staged = await asyncio.shield(staging)
    except BaseException:
        if cgroup:
            cgroup.remove()
        await _forget(staging)
        raise
    return PreparedRun(job, entry, runtime, identity, staged, cgroup, waits, counted_by or (cgroup.name if cgroup else ""))


async def _forget(staging: asyncio.Future[StagedCopy]) -> None:
    """Remove the copy as soon as it is made: a caller that goes away meanwhile, and says so twice, leaves none behind."""
    while not staging.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([staging])
    if not staging.cancelled() and staging.exception() is None:
        # In a thread that no further cancelling takes back before it has begun.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, staging.result().remove))


def _copy(job: Job, entry: str, identity: Identity | None) -> StagedCopy:
    """The copy of the skill; what is to be verified is copied whole, whatever the run may see of it."""
    whole = job.policy.filesystem != "none"
    if job.verify is None:
        return stage_skill(job.tree, entry, whole=whole, complete=False, identity=identity)
    made = stage_skill(job.tree, entry, whole=True, complete=True, identity=identity)
    try:
        job.verify(made.tree)
        return without_compiled(made) if whole else stage_skill(made.tree, entry, whole=False, complete=True, identity=identity)
    except BaseException:
        whole = False
        raise
    finally:
        if not whole:
            made.remove()


def _stage(engine: IsolationMechanism, job: Job, entry: str, runtime: Runtime, identity: Identity | None) -> StagedCopy:
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
        environment = job.environment(made.tree) if callable(job.environment) else job.environment
        made.add_environment(environment, identity, node_inside="" if engine.own_folders else NODE_PACKAGES_INSIDE)
        if engine.own_folders:
            made.add_folder(made.scratch, identity)
        if job.workspace or (engine.own_folders and job.policy.filesystem == "read-write"):
            made.add_workspace(job.workspace, identity, job.policy)
    except BaseException:
        made.remove()
        raise
    return made


@lru_cache(maxsize=4)
def own_file(name: str) -> bytes:
    """The content of a file of this package."""
    return Path(__file__).with_name(name).read_bytes()


@lru_cache(maxsize=4)
def own_script(name: str, *, compiled: bool) -> tuple[str, bytes]:
    """The file name and content of a script of this package; compiled where the same Python will read it."""
    source = Path(__file__).with_name(f"{name}.py").read_bytes()
    if not compiled:
        return f"{name}.py", source
    code = compile(source, f"{name}.py", "exec", dont_inherit=True)
    return f"{name}.pyc", MAGIC_NUMBER + bytes(12) + marshal.dumps(code)


OWN_FOLDER: Final = "/opt/skillyard/"
SCRATCH: Final = "/tmp"  # noqa: S108 # the run's own: new, empty and sized
TOP_FOLDERS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
SYSTEM_FILES: Final = ("/etc/ld.so.cache", "/etc/alternatives")
# Where distributions keep the authorities that programs trust; seen only by a run that may reach hosts.
CERTIFICATES: Final = ("/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", "/etc/ca-certificates/extracted")

# What programs of a session serve to each other is in its own network and not the proxy's concern.
_OWN_SERVERS: Final = dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1")


@lru_cache(maxsize=16)
def small_files(uid: int, gid: int) -> Mapping[str, bytes]:
    """What programs look up about users and hosts, by path; the machine's own files stay outside."""
    return {
        "/etc/passwd": f"skill:x:{uid}:{gid}:skill:/tmp:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n".encode(),
        "/etc/group": f"skill:x:{gid}:\nnogroup:x:65534:\n".encode(),
        "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
        "/etc/hosts": b"127.0.0.1 localhost sandbox\n",
        "/etc/resolv.conf": b"",
    }


def runner_inside(run: PreparedRun) -> str:
    """The path of our own script that starts the skill's."""
    return OWN_FOLDER + Path(run.stage.runner).name


def run_imports(run: PreparedRun) -> list[tuple[str, str]]:
    """What the script may import, and where: beside the runner for Python, at the root for node, which looks upwards."""
    stage, mounts = run.stage, []
    if stage.library:
        name = Path(stage.library).name
        mounts.append((stage.library, f"/{name}" if run.runtime.kind == "node" else OWN_FOLDER + name))
    return [*mounts, *granted_mounts(stage)]


def granted_mounts(stage: StagedCopy) -> list[tuple[str, str]]:
    """What is granted, and where it is seen; where our own library has links to npm packages, it is mounted already."""
    mounts: list[tuple[str, str]] = []
    if stage.packages:
        mounts.append((os.path.realpath(stage.packages), SEEN_INSIDE.packages))
    if stage.linked:
        mounts.append((os.path.realpath(stage.linked), NODE_PACKAGES_INSIDE))
    elif stage.modules:
        mounts.append((os.path.realpath(stage.modules), SEEN_INSIDE.modules))
    if stage.commands:
        mounts.append((stage.commands, SEEN_INSIDE.commands))
    others = (path for path in stage.environment.mounts if not is_system(path) and not path.startswith("/proc/"))
    return [*mounts, *((os.path.realpath(path), path) for path in others)]  # it has a /proc of its own


def run_variables(run: PreparedRun) -> dict[str, str]:
    """The variables of a run."""
    granted = run.stage.environment.process_variables(base_environment(scratch=SCRATCH), SEEN_INSIDE)
    proxy = proxy_environment(PROXY_PORT) if run.policy.reaches_network else {}
    return {**granted, **run.policy.environment, **proxy}


def session_variables(session: PreparedSession) -> dict[str, str]:
    """The variables of a session."""
    proxy = {**proxy_environment(PROXY_PORT), **_OWN_SERVERS} if session.policy.reaches_network else {}
    return {**session.environment(scratch=SCRATCH, programs=f"{OWN_FOLDER}bin", seen=SEEN_INSIDE), **proxy}
