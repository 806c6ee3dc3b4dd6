"""What every container gets, of a run or of a session: its command, mounts and job, our first program, its user and image."""

from __future__ import annotations

import base64
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from skillyard.errors import SandboxUnavailable
from skillyard.sandbox.container_engine import BindMount, ContainerEngine, system_mounts, temporary_folder
from skillyard.sandbox.container_process import ContainerGreeting
from skillyard.sandbox.policy import Policy
from skillyard.sandbox.preparation import CERTIFICATES, OWN_FOLDER, SCRATCH, own_script, small_files
from skillyard.sandbox.process_launch import PROXY_PORT, Identity
from skillyard.sandbox.processes import threads_of_user
from skillyard.sandbox.run_job import seccomp_filter
from skillyard.sandbox.runtimes import Runtime, runtime_for
from skillyard.sandbox.staging import StagedCopy

if TYPE_CHECKING:
    from skillyard.sandbox.seccomp import FilterOptions

_INIT: Final = ("container_init", "container_frames", "processes")
_INIT_FOLDER: Final = f"{OWN_FOLDER}container"
_SWEEP_SECONDS: Final = 60.0
# The user in an image of the operator's on another system, whose engine runs in a virtual machine of its own.
_OTHER_USER: Final = 1000
_sweeps: dict[str, float] = {}
_MEBIBYTE: Final = 1024 * 1024
A_FILE: Final = 4096
"""The bytes that one file takes at least, by which files are counted."""


@dataclass(frozen=True, slots=True)
class ContainedWork:
    """What a container is made for, a run or a session, as far as both are the same.

    `overhead_bytes` and `processes` are what the container may have beside what the policy allows: of its first program, and of
    those that start the others. `tick_ms` is the time between two looks at what nothing but we count.
    """

    stage: StagedCopy
    policy: Policy
    identity: Identity | None
    overhead_bytes: int
    processes: int
    shared_mb: int
    tick_ms: int

    def command(
        self,
        engine: ContainerEngine,
        name: str,
        mounts: Iterable[BindMount],
        programs: Iterable[str],
        folders: Iterable[str] = (),
    ) -> list[str]:
        """The command that starts the container; its first program looks for `programs`. `folders` are more temporary ones.

        Blocks the first time, until the image is there.
        """
        policy, (user, group) = self.policy, container_user(engine, self.identity)
        python = init_python(engine, as_other=self.identity is not None)
        options = engine.isolation(
            name,
            user=f"{user}:{group}",
            shared_mb=self.shared_mb,
            memory_bytes=policy.memory_bytes + self.overhead_bytes,
            pids=policy.pids + self.processes,
            nofile=policy.nofile,
        )
        temporary = [word for folder in (SCRATCH, *folders) for word in temporary_folder(folder, policy.tmp_mb)]
        return [
            *engine.command("run"), *options, *temporary, *(word for mount in mounts for word in mount.words()),
            "--entrypoint", python.program, image_of(engine), *init_arguments(python), *dict.fromkeys(programs),
        ]  # fmt: skip

    def mounts(self, engine: ContainerEngine, runtime: Runtime, extra_programs: Iterable[str]) -> list[BindMount]:
        """The runtime and the programs of this machine, where the container shows it, and what is our own.

        Raises:
            SandboxUnavailable: what is granted here cannot be used in the system of the image.
        """
        python, mounts = init_python(engine, as_other=self.identity is not None), []
        if engine.shows_machine:
            certificates = CERTIFICATES if self.policy.reaches_network else ()
            mounts += system_mounts((*python.folders, *runtime.folders, *certificates))
            mounts += [BindMount(path, OWN_FOLDER + Path(path).name) for path in extra_programs]
        else:
            refuse_what_is_of_this_machine(self.stage)
        return mounts + own_mounts(self.stage, python, container_user(engine, self.identity))

    def job(
        self, engine: ContainerEngine, greeting: ContainerGreeting, options: FilterOptions, *, argv: Sequence[str],
        environment: Mapping[str, str], folder: str, limits: Mapping[str, int], streams: bool, deleted: int = 0,
    ) -> dict[str, Any]:  # fmt: skip
        """What the first program is to start, and within which limits.

        `streams` lets it open sockets; `deleted` are the bytes of deleted files that may stay open in a folder of the machine.

        Raises:
            SandboxUnavailable: the engine has not set the limits that were asked for.
        """
        policy = self.policy
        check_counting(engine, greeting, policy.memory_bytes + self.overhead_bytes)
        local = self.stage.environment.local_sockets
        program = seccomp_filter(options, streams=streams, local_sockets=local, processor=greeting.machine)
        counted = engine.counts
        return {
            "argv": argv,
            "environment": environment,
            "folder": folder,
            "limits": {**limits, **number_of_processes(engine, self.identity, policy.pids + self.processes)},
            "filter": base64.b64encode(program).decode(),
            "proxy_port": PROXY_PORT if policy.reaches_network else 0,
            "watch_memory": 0 if counted else policy.memory_bytes,
            "watch_pids": 0 if counted else policy.pids,
            "watch_files": 0 if counted else policy.tmp_mb * _MEBIBYTE // A_FILE,
            "watch_deleted": deleted,
            "tick_ms": self.tick_ms,
        }


def number_of_processes(engine: ContainerEngine, identity: Identity | None, pids: int) -> dict[str, int]:
    """The process limit where no control group counts; the kernel counts what the user runs outside of the container too."""
    if engine.counts or sys.platform != "linux":
        return {}
    others = 0 if identity is not None and identity.single else threads_of_user(identity.uid if identity else os.getuid())
    return {"NPROC": pids + others}


def check_counting(engine: ContainerEngine, greeting: ContainerGreeting, memory_bytes: int) -> None:
    """See that the control group of a container has the limits that were asked for.

    Raises:
        SandboxUnavailable: the engine has not set them.
    """
    if engine.counts and (greeting.memory_bytes is None or greeting.memory_bytes > memory_bytes or greeting.pids is None):
        raise SandboxUnavailable(
            f"{engine.kind} does not limit the memory and the processes of containers here",
            hint="give its user a control group that it may write to",
        )


def refuse_what_is_of_this_machine(stage: StagedCopy) -> None:
    """Refuse installed packages and programs of this machine where a container has another system.

    Raises:
        SandboxUnavailable: the run is granted some.
    """
    granted = stage.environment
    if granted.python_packages or granted.node_modules or granted.mounts or granted.path:
        raise SandboxUnavailable(
            "packages and programs that are granted on this machine cannot be used in a container with an image of its own",
            hint="put them into the image, or use bubblewrap",
        )


def own_mounts(stage: StagedCopy, python: Runtime, user: tuple[int, int]) -> list[BindMount]:
    """Our own first program and the small files of `/etc`, which are put beside the skill."""
    folder = f"{stage.base}/container"
    Path(folder).mkdir(exist_ok=True)
    Path(folder).chmod(0o755)
    mounts = [BindMount(folder, _INIT_FOLDER)]
    for name in _INIT:
        own_name, data = own_script(name, compiled=python.same_python)
        if not os.path.exists(f"{folder}/{own_name}"):
            stage.add_file(f"container/{own_name}", data)
    for path, data in small_files(*user).items():
        name = f"etc-{PurePosixPath(path).name}"
        source = f"{stage.base}/{name}"
        mounts.append(BindMount(source if os.path.exists(source) else stage.add_file(name, data), path))
    return mounts


def init_arguments(python: Runtime) -> list[str]:
    """The arguments of the Python that is the first program."""
    name, _ = own_script(_INIT[0], compiled=python.same_python)
    return ["-s", "-E", "-S", "-B", f"{_INIT_FOLDER}/{name}"]


def init_python(engine: ContainerEngine, *, as_other: bool) -> Runtime:
    """What the first program runs on."""
    return runtime_for("init.py", as_other=as_other) if engine.shows_machine else Runtime("python", "python3")


def container_user(engine: ContainerEngine, identity: Identity | None) -> tuple[int, int]:
    """User and group in the container."""
    if identity is not None:
        return identity.uid, identity.gid
    if sys.platform != "linux":
        return _OTHER_USER, _OTHER_USER
    # The root of a docker without privileges is this user.
    return (0, 0) if _is_rootless_docker(engine) else (os.getuid(), os.getgid())


@lru_cache(maxsize=4)
def _is_rootless_docker(engine: ContainerEngine) -> bool:
    return engine.kind == "docker" and b"rootless" in engine.call("info", "--format", "{{.SecurityOptions}}")


@lru_cache(maxsize=4)
def image_of(engine: ContainerEngine) -> str:
    """The image that containers of the engine use, which is there afterwards; blocks the first time."""
    return engine.ensure_image()


def sweep(engine: ContainerEngine) -> None:
    """Remove what dead processes have left, at most once a minute; blocks."""
    now = time.monotonic()
    if now >= _sweeps.get(engine.program, now):
        _sweeps[engine.program] = now + _SWEEP_SECONDS
        engine.sweep()
