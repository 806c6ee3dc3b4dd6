"""Starting a program through bash, which sets what the program cannot set for itself: limits, the result pipe, the gate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from skillyard.errors import RuntimeUnavailable

__all__ = ["PLAIN_BASH", "bash", "shell_setup"]

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


def shell_setup(result: int, gate: int, limits: Mapping[str, int]) -> str:
    """The commands that set `limits`, move the result pipe to its promised number and wait until the gate opens."""
    parts = [f"ulimit {_ULIMIT[name][0]} {-(-number // _ULIMIT[name][1])}; " for name, number in limits.items()]
    if result != _RESULT:
        parts.append(f"exec {_RESULT}>&{result} {result}>&-; ")
    if gate >= 0:
        parts.append(f"IFS= read -r -N 1 -u {gate} || exit 1; exec {gate}<&-; ")
    return "".join(parts)
