"""What every container gets, of a run or of a session: our first program, its user, its image, the checks before it starts."""

from __future__ import annotations

import os
import sys
import time
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final

from skillyard.errors import SandboxUnavailable
from skillyard.sandbox.container_engine import BindMount, ContainerEngine
from skillyard.sandbox.container_process import ContainerGreeting
from skillyard.sandbox.preparation import OWN_FOLDER, own_script, small_files
from skillyard.sandbox.process_launch import Identity
from skillyard.sandbox.processes import threads_of_user
from skillyard.sandbox.runtimes import Runtime, runtime_for
from skillyard.sandbox.staging import StagedCopy

_INIT: Final = ("container_init", "container_frames", "container_links", "container_watch", "processes")
_INIT_FOLDER: Final = f"{OWN_FOLDER}container"
_SWEEP_SECONDS: Final = 60.0
# The user in an image of the operator's on another system, whose engine runs in a virtual machine of its own.
_OTHER_USER: Final = 1000
_sweeps: dict[str, float] = {}


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
