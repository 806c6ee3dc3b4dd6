"""Which program runs an entry: a table by file ending.

An entry is never found through `PATH` and its `#!` line is not obeyed. Every runtime ends up with the result pipe on
descriptor 3 and with the process limits set before the skill's first line runs.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final

from skillyard.errors import NotExecutable, RuntimeUnavailable
from skillyard.sandbox.identity import can_reach

__all__ = ["Runtime", "can_start", "runtime_for"]

_BASH: Final = ("/bin/bash", "/usr/bin/bash")
_SYSTEM_PYTHONS: Final = ("/usr/bin/python3", "/usr/local/bin/python3")
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
_LATER: Final = {".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"}


@dataclass(frozen=True, slots=True)
class Runtime:
    """One interpreter: its kind, its path, and the folders it needs beside the system's own.

    `same_python` says that it reads code compiled by this process's Python.
    """

    kind: str
    program: str
    folders: tuple[str, ...] = ()
    same_python: bool = False

    def command(
        self, entry: str, arguments: Sequence[str], *, runner: str, result: int, gate: int, limits: Mapping[str, int]
    ) -> list[str]:
        """The command line that runs `entry`.

        It finds the result pipe at the number `result`, has still to set `limits`, and waits for one byte from `gate` (unless
        that is -1) before the skill's first line runs.
        """
        if self.kind == "python":
            text = ",".join(f"{name}={number}" for name, number in limits.items())
            return [self.program, "-s", "-E", "-B", "-S", runner, str(result), str(gate), text, entry, *arguments]
        plain = [self.program, "--noprofile", "--norc"]
        setup = _bash_setup(result, gate, limits)
        start = [*plain, "-c", f'{setup}exec {shlex.join(plain)} "$0" "$@"'] if setup else plain
        return [*start, entry, *arguments]


def _bash_setup(result: int, gate: int, limits: Mapping[str, int]) -> str:
    parts = [f"ulimit {_ULIMIT[name][0]} {-(-number // _ULIMIT[name][1])}; " for name, number in limits.items()]
    if result != _RESULT:
        parts.append(f"exec {_RESULT}>&{result} {result}>&-; ")
    if gate >= 0:
        parts.append(f"IFS= read -r -N 1 -u {gate} || exit 1; exec {gate}<&-; ")
    return "".join(parts)


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
        return _bash()
    if ending in _LATER:
        raise RuntimeUnavailable(
            f"{entry!r} is JavaScript or TypeScript, which this version of Skillyard does not run",
            hint="give the skill a Python (.py) or shell (.sh) entry",
        )
    raise NotExecutable(f"{entry!r} is not a kind of script that can run", hint="entries end in .py, .sh or .bash")


def can_start(entry: str) -> bool:
    """Whether a runtime for this kind of file is here."""
    try:
        runtime_for(entry, as_other=os.geteuid() == 0)
    except (RuntimeUnavailable, NotExecutable):
        return False
    return True


@lru_cache(maxsize=2)
def _python(as_other: bool) -> Runtime:
    prefix = os.path.realpath(sys.base_prefix)
    own = f"{prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if Path(own).exists() and can_reach(own, as_other=as_other):
        return Runtime("python", own, () if _is_system(prefix) else (prefix,), same_python=True)
    for program in _SYSTEM_PYTHONS:
        if Path(program).exists() and can_reach(program, as_other=as_other):
            same = Path(program).resolve().name == Path(own).name
            return Runtime("python", program, same_python=same and sys.implementation.name == "cpython")
    raise RuntimeUnavailable(
        "no Python that a sandbox may use was found",
        hint="install the system's python3, or make the folder of this Python readable to other users",
    )


@lru_cache(maxsize=1)
def _bash() -> Runtime:
    for program in _BASH:
        if Path(program).exists():
            return Runtime("bash", program)
    raise RuntimeUnavailable(
        "there is no bash here to run a shell script", hint="install bash, for example apt-get install bash"
    )


def _is_system(prefix: str) -> bool:
    return prefix in ("/", "/usr") or prefix.startswith("/usr/")
