"""What a skill may do, read from its folder, and what another version of it may do beyond that.

A script is a power wherever it lies: the entry of a run may be any file, and one script may start another. So every file counts
that could run, by its ending, its first bytes or its mode, also where the lists of a skill's files leave it out. An update that
adds a script, a host, a variable, a tool, a package, a server, a hidden file or a higher limit is shown in exactly these words
before it is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from skillyard.packages import TreeEntry, tree_entries
from skillyard.packages.extraction import hidden_files
from skillyard.paths import CLOEXEC, NOFOLLOW, NONBLOCK
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from skillyard.document import Document, Metadata


_RANK: Final[Mapping[str, int]] = {"none": 0, "read-only": 1, "read-write": 2}
_SCRIPT_LIMIT: Final = 20 * 1024 * 1024  # as much as a run reads of a script
_RUNS: Final = frozenset({
    ".awk", ".bash", ".bat", ".cjs", ".class", ".cmd", ".com", ".cts", ".dll", ".dylib", ".exe", ".fish", ".jar", ".js", ".jsx",
    ".ksh", ".lua", ".mjs", ".mts", ".node", ".php", ".pl", ".pm", ".ps1", ".psm1", ".py", ".pyc", ".pyd", ".pyw", ".pyz", ".r",
    ".rb", ".sh", ".so", ".tcl", ".ts", ".tsx", ".vbs", ".wasm", ".zsh",
})  # fmt: skip
"""Endings, in lower case, of what an interpreter or a loader takes."""
_PROGRAMS: Final = (
    b"#!", b"\xef\xbb\xbf#!", b"\x7fELF", b"MZ\x90", b"\0asm", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe",
)  # fmt: skip
"""How programs begin: a line that names an interpreter, and the formats of Linux, Windows, WebAssembly, macOS and Java."""
_LISTS: Final[Mapping[str, str]] = {
    "scripts": "has the script",
    "hosts": "may reach",
    "environment": "is given the variable",
    "packages": "installs the package",
    "needs": "asks for",
    "servers": "calls",
    "hidden": "brings the hidden file",
}


@dataclass(frozen=True, slots=True)
class Powers(WireForm):
    """All that a skill declares or contains that does something; `tools` is None when it does not limit itself to any.

    `needs` are packages and programs that its files declare, import or call beside `packages`: `pypdf`, `npm:docx`,
    `program:qpdf`; it gets them only by a grant.
    """

    scripts: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    packages: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    filesystem: str = "read-only"
    timeout_ms: int = 30_000
    memory_mb: int = 256

    def sentences(self) -> tuple[str, ...]:
        """Sentences for a person who has never seen the skill; nothing when it only holds instructions."""
        sentences = _sentences(replace(self, tools=self.tools or ()), Powers(tools=()))
        return tuple(sentence.partition(", before ")[0] for sentence in sentences)

    def added_since(self, before: Powers) -> tuple[str, ...]:
        """One sentence for everything these allow and `before` did not."""
        return tuple(_sentences(self, before))


@dataclass(frozen=True, slots=True)
class PowerChange(WireForm, also=("consent",)):
    """An update that widens what a skill may do: `widened` has one sentence for each added power."""

    skill_id: str
    name: str
    before: Powers
    after: Powers
    widened: tuple[str, ...]

    @property
    def consent(self) -> str:
        """A name for exactly this change: who agrees to it agrees to no other."""
        parts = (self.skill_id, self.widened, self.before.to_dict(), self.after.to_dict())
        text = json.dumps(parts, sort_keys=True, default=str)
        return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_powers(directory: str | os.PathLike[str], document: Document) -> Powers:
    """What the skill in `directory`, whose SKILL.md is `document`, may do."""
    from skillyard.sandbox import Policy

    metadata, usual, folder = document.metadata, Policy(), Path(directory)
    security = metadata.security
    scripts, hidden = _files(folder)
    packages = tuple(sorted(_packages(folder, scripts)))
    return Powers(
        scripts=scripts,
        hosts=tuple(sorted(security.network_allowlist)) if security.network == "allowlist" else (),
        environment=tuple(sorted(security.environment)),
        tools=metadata.allowed_tools if "allowed_tools" in metadata.declared else None,
        packages=packages,
        needs=_needs(folder, metadata.name, packages),
        servers=_servers(metadata),
        hidden=hidden,
        filesystem=security.filesystem or usual.filesystem,
        timeout_ms=security.timeout_ms or usual.timeout_ms,
        memory_mb=security.memory_mb or usual.memory_mb,
    )


def _files(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What could run, and what some programs read by themselves; nothing is left out of the walk."""
    entries = [entry for entry in sorted(tree_entries(folder)) if entry.kind != "d"]
    scripts = tuple(entry.path for entry in entries if entry.path != "SKILL.md" and _could_run(folder, entry))
    return scripts, hidden_files([entry.path for entry in entries])


def _could_run(folder: Path, entry: TreeEntry) -> bool:
    """Whether a file is a program: by its ending, by its mode, or by its first bytes."""
    if PurePath(entry.path).suffix.lower() in _RUNS or entry.kind == "x":
        return True
    return entry.kind == "f" and _beginning(folder / entry.path).startswith(_PROGRAMS)


def _beginning(path: Path) -> bytes:
    """The first bytes of a file; none of one that cannot be read, and so cannot be run either."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC), "rb") as file:
            return file.read(8)
    except OSError:
        return b""


def _packages(folder: Path, scripts: tuple[str, ...]) -> Iterator[str]:
    """The packages that the blocks of Python scripts require, whatever the scripts are called."""
    from skillyard.environments.script_block import read_script_block
    from skillyard.errors import FileProblem, NotExecutable
    from skillyard.paths import read_inside

    for script in scripts:
        try:
            yield from read_script_block(read_inside(folder, script, limit=_SCRIPT_LIMIT)).dependencies
        except (FileProblem, NotExecutable, OSError):
            continue  # a run refuses it


def _needs(folder: Path, name: str, packages: tuple[str, ...]) -> tuple[str, ...]:
    """The packages and programs that the skill's files suggest, without those that its scripts require themselves."""
    from skillyard.environments import skill_needs

    return tuple(sorted(set(skill_needs(str(folder), name).proposed.words) - set(packages)))


def _servers(metadata: Metadata) -> tuple[str, ...]:
    """The tool of a server, or the pool of workers, that a distributed skill calls."""
    name, tool = metadata.config.get("serverId"), metadata.config.get("toolName")
    if metadata.kind != "distributed" or not isinstance(name, str):
        return ()
    return (f"{name}: {tool}" if isinstance(tool, str) and tool.strip() else f"{name} (a pool of workers)",)


def _sentences(after: Powers, before: Powers) -> Iterator[str]:
    from skillyard.network import covers

    for name, words in _LISTS.items():
        had = getattr(before, name)
        for item in getattr(after, name):
            if item not in had and not (name == "hosts" and covers(had, item)):
                yield f"{words} {item}"
    yield from _tool_sentences(after.tools, before.tools)
    if _RANK.get(after.filesystem, 2) > _RANK.get(before.filesystem, 2):
        yield f"uses the file system {after.filesystem}, before {before.filesystem}"
    if after.timeout_ms > before.timeout_ms:
        yield f"may run {after.timeout_ms:,} ms, before {before.timeout_ms:,}"
    if after.memory_mb > before.memory_mb:
        yield f"may use {after.memory_mb:,} MB of memory, before {before.memory_mb:,}"


def _tool_sentences(after: tuple[str, ...] | None, before: tuple[str, ...] | None) -> Iterator[str]:
    """What `after` adds: some clients grant the tools that are named, and limit a skill to them."""
    if after is None:
        if before is not None:
            yield "no longer limits itself to tools"
        return
    yield from (f"uses the tool {tool}" for tool in after if tool not in (before or ()))
