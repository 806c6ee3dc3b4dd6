"""Which program runs an entry: a table by file ending.

An entry is never found through `PATH` and its `#!` line is not obeyed. Every runtime ends up with the result pipe on
descriptor 3 and with the process limits set before the skill's first line runs.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final

from skillyard.errors import NotExecutable, RuntimeUnavailable
from skillyard.sandbox.identity import can_reach
from skillyard.sandbox.node import TYPESCRIPT, Tools, find_tools, node_command
from skillyard.sandbox.programs import is_system
from skillyard.sandbox.shell import PLAIN_BASH, bash, shell_setup

__all__ = ["Runtime", "can_start", "interpreter_for", "runtime_for"]

_SYSTEM_PYTHONS: Final = ("/usr/bin/python3", "/usr/local/bin/python3")
_NODE: Final = (".js", ".mjs", ".cjs", *TYPESCRIPT)


@dataclass(frozen=True, slots=True)
class Runtime:
    """One interpreter: its kind, its path, and the folders it needs beside the system's own.

    `same_python` says that it reads code compiled by this process's Python. `version` and `compiler` are node's.
    """

    kind: str
    program: str
    folders: tuple[str, ...] = ()
    same_python: bool = False
    version: tuple[int, ...] = ()
    compiler: str = ""

    @property
    def carried(self) -> tuple[str, ...]:
        """Single programs outside the system's folders that the sandbox has to show to the run."""
        return tuple(path for path in (self.program, self.compiler) if self.kind == "node" and path and not is_system(path))

    @property
    def reserve_mb(self) -> int:
        """Data that the interpreter sets aside and hardly touches; only a limit on data counts it."""
        return 8192 if self.kind == "node" else 0

    def carried_to(self, folder: str) -> Runtime:
        """This runtime with the programs that are carried in `folder`."""
        moved = {path: f"{folder}{PurePosixPath(path).name}" for path in self.carried}
        return replace(self, program=moved.get(self.program, self.program), compiler=moved.get(self.compiler, self.compiler))

    def command(
        self,
        entry: str,
        arguments: Sequence[str],
        *,
        runner: str,
        result: int,
        gate: int,
        limits: Mapping[str, int],
        memory_mb: int,
        call: bool = True,
        waits: bool = False,
    ) -> list[str]:
        """The command line that runs `entry`, and, with `call`, calls the `execute` it may define.

        It finds the result pipe at the number `result`, has still to set `limits`, and waits for one byte from `gate` (unless
        that is -1) before the skill's first line runs; with `waits` that may be long, and Python does beforehand what it can.
        """
        mode = "call" if call else "script"
        if self.kind == "python":
            early = "waiting-" if waits else ""
            text = ",".join(f"{name}={number}" for name, number in limits.items())
            return [self.program, "-s", "-E", "-B", "-S", runner, str(result), str(gate), text, early + mode, entry, *arguments]
        setup = shell_setup(result, gate, limits)
        if self.kind == "node":
            tools = Tools(self.program, self.version, self.compiler)
            start = [runner, mode]
            return node_command(tools, entry, arguments, start=start, setup=setup, memory_mb=memory_mb)
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
    if ending in _NODE:
        bash()
        tools = find_tools(ending, as_other=as_other)
        return Runtime("node", tools.node, version=tools.version, compiler=tools.compiler)
    raise NotExecutable(
        f"{entry!r} is not a kind of script that can run", hint="entries end in .py, .sh, .bash, .js, .mjs, .cjs, .ts or .mts"
    )


def can_start(entry: str) -> bool:
    """Whether a runtime for this kind of file is here."""
    try:
        runtime_for(entry, as_other=os.geteuid() == 0)
    except (RuntimeUnavailable, NotExecutable):
        return False
    return True


def interpreter_for(entry: str) -> str:
    """The path of the program that would run this kind of file.

    Raises:
        RuntimeUnavailable, NotExecutable: there is none.
    """
    return runtime_for(entry, as_other=os.geteuid() == 0).program


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
