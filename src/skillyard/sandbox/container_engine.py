"""The program that makes containers: docker or podman, whichever answers, by its own command.

No image is ever downloaded. On Linux one is made of what is installed: an empty tree, in which each container is shown the
machine's own programs read-only. An image that the operator names is used instead where there is one. The name of a container
says which process started it, so that the next one removes what a killed process has left.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import platform
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from skillyard.errors import SandboxUnavailable
from skillyard.sandbox.preparation import SYSTEM_FILES, TOP_FOLDERS
from skillyard.sandbox.processes import is_running, started_at
from skillyard.sandbox.runtimes import CONTAINER_PROGRAMS, on_trusted_path, settable

EngineKind = Literal["docker", "podman"]
LABEL: Final = "org.skillyard.run"
_MOUNT_POINTS: Final = (
    "dev", "etc", "opt", "opt/skillyard", "proc", "run", "skill", "sys", "tmp", "usr", "var", "workspace",
)  # fmt: skip
_REPOSITORY: Final = "skillyard-system"
_PATIENCE: Final = 60  # seconds for a command of the engine that is no run
# What the engine's program has to know to find its service, its storage and its settings; nothing of it enters a container.
_PASSED: Final = (
    "CONTAINERS_CONF", "CONTAINERS_REGISTRIES_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINER_CONNECTION", "CONTAINER_HOST",
    "CONTAINER_SSHKEY", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_CERT_PATH", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST",
    "DOCKER_TLS_VERIFY", "HOME", "PATH", "STORAGE_DRIVER", "TMPDIR", "USER", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
)  # fmt: skip
_MOST_PROCESSES: Final = 32_768


@dataclass(frozen=True, slots=True)
class BindMount:
    """A file or folder of this machine at a place of the container."""

    source: str
    target: str
    writable: bool = False

    def words(self) -> tuple[str, str]:
        """The option for it.

        Raises:
            SandboxUnavailable: its name cannot be written in one.
        """
        if any(mark in self.source + self.target for mark in ',"\n'):
            raise SandboxUnavailable(
                f"{self.source!r} cannot be shown to a container: its name holds a comma, a quote or a line break",
                hint="put it into a folder with a plain name",
            )
        return "--mount", f"type=bind,source={self.source},target={self.target}{'' if self.writable else ',readonly'}"


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """One way to start containers here.

    `image` is what the operator names, empty for one made of this machine. `options` stand before every command, `counts` says
    whether containers get a control group that counts memory and processes.
    """

    kind: EngineKind
    program: str
    image: str = ""
    options: tuple[str, ...] = ()
    counts: bool = True

    @property
    def label(self) -> str:
        """A short name for reports and for remembering that it held."""
        words = [self.kind, *self.options, *([] if self.counts else ["uncounted"]), *([self.image] if self.image else [])]
        return " ".join(words)

    @property
    def counter(self) -> str:
        """What counts memory and processes, for reports; empty where nothing does."""
        return f"cgroup of {self.kind}" if self.counts else ""

    @property
    def shows_machine(self) -> bool:
        """Whether containers see this machine's own programs."""
        return not self.image

    def command(self, *words: str) -> list[str]:
        """The command line for something."""
        return [self.program, *self.options, *words]

    def call(self, *words: str, stdin: bytes = b"") -> bytes:
        """What a command of the engine prints; blocks.

        Raises:
            SandboxUnavailable: it failed or did not answer.
        """
        try:
            done = subprocess.run(  # noqa: S603 # a trusted program; no shell
                self.command(*words), input=stdin, capture_output=True, env=engine_environment(), cwd="/", timeout=_PATIENCE,
                check=False,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxUnavailable(f"{self.kind} did not answer: {error}", hint="run `skillyard doctor`") from None
        if done.returncode != 0:
            words_of_it = done.stderr.decode("utf-8", "replace").strip()[-300:]
            raise SandboxUnavailable(f"{self.kind} {words[0]} failed: {words_of_it}", hint="run `skillyard doctor`")
        return done.stdout

    def ensure_image(self) -> str:
        """The name of the image that runs use, which is there afterwards; blocks.

        Raises:
            SandboxUnavailable: the operator's is not there, or none can be made.
        """
        if self.image:
            try:
                self.call("image", "inspect", self.image)
            except SandboxUnavailable as error:
                raise SandboxUnavailable(
                    f"the image {self.image} cannot be used: {error.message}", hint=f"{self.kind} pull {self.image}"
                ) from None
            return self.image
        archive = _empty_tree()
        name = f"{_REPOSITORY}:{hashlib.sha256(archive).hexdigest()[:16]}"
        with contextlib.suppress(SandboxUnavailable):
            self.call("image", "inspect", name)
            return name
        self.call("import", "-", name, stdin=archive)
        return name

    def isolation(self, name: str, *, user: str, shared_mb: int, memory_bytes: int, pids: int, nofile: int) -> list[str]:
        """The options of a container: nothing of the machine, no network, no privileges, its limits, its name and our mark."""
        options = [
            "--rm", "--interactive", "--name", name, "--label", LABEL, "--pull", "never",
            "--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
            "--security-opt", "label=disable", "--log-driver", "none", "--hostname", "sandbox", "--ipc", "private",
            "--user", user, "--workdir", "/", "--shm-size", f"{shared_mb}m",
            "--ulimit", _ulimit("nofile", max(1024, nofile + 64)), "--ulimit", _ulimit("nproc", _MOST_PROCESSES),
        ]  # fmt: skip
        if self.kind == "podman":
            options += ["--read-only-tmpfs=false", "--http-proxy=false", "--passwd=false", "--no-hosts", "--systemd=false"]
            if sys.platform == "linux" and os.geteuid() != 0:
                options.append("--userns=keep-id")  # the numbers of users are the same inside and outside
        if self.counts:
            options += ["--memory", str(memory_bytes), "--memory-swap", str(memory_bytes), "--pids-limit", str(pids)]
        else:  # a shared mapping of it is memory that nobody is charged with
            options += BindMount("/dev/null", "/dev/zero").words()
        return options

    def remove(self, name: str) -> None:
        """End a container at once and remove it; blocks."""
        for words in (("kill", name), ("rm", "--force", name)):  # alone, the second would wait for it to end by itself
            with contextlib.suppress(SandboxUnavailable):
                self.call(*words)

    def sweep(self) -> None:
        """Remove the containers of processes of this machine that are no longer alive; blocks."""
        with contextlib.suppress(SandboxUnavailable):
            names = self.call("ps", "--all", "--filter", f"label={LABEL}", "--format", "{{.Names}}").decode("utf-8", "replace")
            for name in names.split():
                if _is_abandoned(name):
                    self.remove(name)


def engine_environment() -> dict[str, str]:
    """The variables of the engine's program."""
    return {name: os.environ[name] for name in _PASSED if os.environ.get(name)}


def candidates(image: str) -> Iterator[ContainerEngine]:
    """Every way that could work here, the better ones first: each program, its usual runtime or runc, counting or not."""
    for kind in CONTAINER_PROGRAMS:
        for program in on_trusted_path(kind):
            engine = ContainerEngine(kind, program, image)
            others = [("--runtime", "runc")] if kind == "podman" and _has_runc() else []
            for counts in (True, False):
                yield replace(engine, counts=counts)
                for options in others:
                    yield replace(engine, counts=counts, options=options)
            break


def _has_runc() -> bool:
    return next(on_trusted_path("runc"), "") != "" or Path("/usr/sbin/runc").exists()


def _ulimit(name: str, number: int) -> str:
    """A limit that this user may set: podman fails where it would have to raise one."""
    if sys.platform == "linux":
        number = settable({name.upper(): number})[name.upper()]
    return f"{name}={number}:{number}"


@lru_cache(maxsize=1)
def _place() -> str:
    """What distinguishes machines, and the process numbers of containers on one machine."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def new_name() -> str:
    """A name for a container: of this machine, this process and when that was started."""
    return f"skillyard.{_place()}.{os.getpid()}.{started_at(os.getpid())}.{os.urandom(4).hex()}"


def _is_abandoned(name: str) -> bool:
    """Whether a name was given by a process of this machine which has ended."""
    match = re.fullmatch(r"skillyard\.([0-9a-f]+)\.(\d{1,10})\.(\d{1,20})\.[0-9a-f]+", name)
    if match is None or match[1] != _place():
        return False
    if sys.platform == "linux":
        return started_at(int(match[2])) != int(match[3])
    return not is_running(int(match[2]))


@lru_cache(maxsize=1)
def _empty_tree() -> bytes:
    """The archive of an image with nothing in it but folders to mount on, and the links that this machine has beside `/usr`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in _MOUNT_POINTS:
            _add(archive, name, tarfile.DIRTYPE, mode=0o1777 if name in ("tmp", "workspace") else 0o755)
        for name in TOP_FOLDERS:
            folder = Path("/", name)
            if folder.is_symlink():
                _add(archive, name, tarfile.SYMTYPE, str(folder.readlink()))
            elif folder.is_dir():
                _add(archive, name, tarfile.DIRTYPE)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, kind: bytes, target: str = "", *, mode: int = 0o755) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode = kind, target, mode
    archive.addfile(entry)


def system_mounts(paths: Iterable[str]) -> list[BindMount]:
    """The machine's programs and libraries, and `paths` of it, at their own places."""
    top = [f"/{name}" for name in TOP_FOLDERS if Path("/", name).is_dir() and not Path("/", name).is_symlink()]
    usual = ["/usr", *top, *SYSTEM_FILES]
    return [BindMount(os.path.realpath(path), path) for path in dict.fromkeys((*usual, *paths)) if Path(path).exists()]


def temporary_folder(target: str, megabytes: int) -> Sequence[str]:
    """The option for a file system in memory."""
    return ("--tmpfs", f"{target}:rw,exec,nosuid,nodev,size={megabytes * 1024 * 1024},mode=1777")
