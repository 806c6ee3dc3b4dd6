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
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from skillyard.packages import FolderDifference, TreeEntry, compare_trees, tree_digest, tree_entries
from skillyard.packages.extraction import hidden_files
from skillyard.paths import CLOEXEC, NOFOLLOW, NONBLOCK
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from skillyard.catalog.skill_files import KeptLink
    from skillyard.document import Document, Metadata
    from skillyard.environments.declared import Requirements
    from skillyard.scanner.finding import Effect


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
    "secrets": "wants your variable",
    "packages": "installs the package",
    "needs": "asks for",
    "servers": "calls",
    "skills": "uses the skill",
    "events": "starts by itself on the event",
    "fetches": "tells its reader to fetch",
    "hidden": "brings the hidden file",
    "tools": "uses the tool",
}
POWER_LISTS: Final = tuple(_LISTS)
"""The powers that are lists, by the names of their fields."""
_PACKAGE: Final = re.compile(r"(?:npm:)?@?[\w./-]+")
_SECRET: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,127})\}")
PINNED: Final = " sha256:"
"""Between the address of something that is kept, and its digest."""
_LIMITS: Final = ("filesystem", "timeout_ms", "memory_mb")


@dataclass(frozen=True, slots=True)
class Powers(WireForm):
    """All that a skill declares or contains that does something: one value of a lattice.

    `a <= b`: whatever `a` allows, `b` allows. `a | b` is the least that allows both, `a - b` what `b` lacks of `a`, `<= c`
    exactly when `a <= b | c`. A list is kept in one form: sorted, without what another entry covers.

    `tools` are those it names, `any_tool` says that it does not limit itself to them. `needs` are packages and programs that
    its files declare, import or call beside `packages` (`pypdf`, `npm:docx`, `program:qpdf`); it gets them only by a grant.
    `secrets` are variables of the user, `skills` other skills that it requires, `fetches` what its text tells to fetch that
    nothing pins. `by_model`: a model may pick it unasked. What a run wants remembered needs no declaration: who runs may ask.
    """

    scripts: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    any_tool: bool = True
    packages: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    fetches: tuple[str, ...] = ()
    by_model: bool = True
    filesystem: str = "read-only"
    timeout_ms: int = 30_000
    memory_mb: int = 256

    def __post_init__(self) -> None:
        for name in _LISTS:
            object.__setattr__(self, name, _lacking(name, getattr(self, name)))
        if self.filesystem not in _RANK:
            object.__setattr__(self, "filesystem", "read-write")

    def __le__(self, other: Powers) -> bool:
        flags = self.any_tool <= other.any_tool and self.by_model <= other.by_model
        limits = all(_level(self, name) <= _level(other, name) for name in _LIMITS)
        return flags and limits and not any(_lacking(name, getattr(self, name), getattr(other, name)) for name in _LISTS)

    def __or__(self, other: Powers) -> Powers:
        joined: dict[str, Any] = {name: (*getattr(self, name), *getattr(other, name)) for name in _LISTS}
        for name in _LIMITS:
            joined[name] = getattr(self if _level(self, name) > _level(other, name) else other, name)
        return Powers(any_tool=self.any_tool or other.any_tool, by_model=self.by_model or other.by_model, **joined)

    def __sub__(self, other: Powers) -> Powers:
        kept: dict[str, Any] = {name: _lacking(name, getattr(self, name), getattr(other, name)) for name in _LISTS}
        for name in _LIMITS:
            more = _level(self, name) > _level(other, name)
            kept[name] = getattr(self if more else NO_POWERS, name)
        return Powers(any_tool=self.any_tool > other.any_tool, by_model=self.by_model > other.by_model, **kept)

    def with_links(self, kept: Iterable[KeptLink]) -> Powers:
        """These, with what was kept of `fetches` pinned: such an entry names its digest."""
        pinned = {one.address: f"{one.address}{PINNED}{one.sha256}" for one in kept if one.sha256}
        return replace(self, fetches=tuple(pinned.get(link, link) for link in self.fetches))

    def sentences(self) -> tuple[str, ...]:
        """Sentences for a person who has never seen the skill; nothing when it only holds instructions."""
        return tuple(_sentences(self - Powers()))

    def added_since(self, before: Powers) -> tuple[str, ...]:
        """One sentence for everything these allow and `before` did not: none exactly when `self <= before`."""
        return tuple(_sentences(self - before, before))

    def lost_since(self, before: Powers) -> tuple[str, ...]:
        """One sentence for everything that `before` allowed and these do not."""
        return tuple(_sentences(before - self))


@dataclass(frozen=True, slots=True)
class PowerChange(WireForm, also=("consent",)):
    """An update that widens what a skill may do, or a dependency: `widened` has one sentence for each added power.

    `required_by` says of a dependency which skills require it, `source` where it comes from.
    """

    skill_id: str
    name: str
    before: Powers
    after: Powers
    widened: tuple[str, ...]
    required_by: tuple[str, ...] = ()
    source: str = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Why it is installed as a dependency, where it is one, and what it may do more."""
        return (*(f"is a dependency: {reason}" for reason in self.required_by), *self.widened)

    @property
    def consent(self) -> str:
        """A name for exactly this change: who agrees to it agrees to no other."""
        parts = (self.skill_id, self.widened, self.before.to_dict(), self.after.to_dict(), self.required_by, self.source)
        text = json.dumps(parts, sort_keys=True, default=str)
        return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class SkillComparison:
    """The difference between two versions of a skill: its files, what it may do, and what it did when it was watched.

    `widened` and `narrowed` have a sentence for each power that came or went; they are None where a SKILL.md cannot be read.
    `added_effects` and `removed_effects` are None unless both were watched (`scan --run`) here with these very bytes.
    """

    difference: FolderDifference
    before: Powers | None
    after: Powers | None
    widened: tuple[str, ...] | None
    narrowed: tuple[str, ...] | None
    added_effects: tuple[Effect, ...] | None = None
    removed_effects: tuple[Effect, ...] | None = None


def compare_skills(before: Path, after: Path) -> SkillComparison:
    """Compare two folders that each hold a version of a skill.

    Raises:
        OSError: a folder cannot be read.
    """
    from skillyard.scanner.watch import kept_report

    difference, (old, new) = compare_trees(before, after), map(installed_powers, (before, after))
    both = (old, new) if old is not None and new is not None else None
    reports = [kept_report(tree_digest(folder)) for folder in (before, after)]
    done: list[dict[object, Effect]] = [
        {(one.rule, one.by, one.target): one for one in report.effects} for report in reports if report
    ]
    watched = len(done) == len(reports)
    return SkillComparison(
        difference,
        old,
        new,
        both and both[1].added_since(both[0]),
        both and both[1].lost_since(both[0]),
        tuple(one for key, one in done[1].items() if key not in done[0]) if watched else None,
        tuple(one for key, one in done[0].items() if key not in done[1]) if watched else None,
    )


def installed_powers(folder: Path) -> Powers | None:
    """What the skill in a folder may do, with the links kept that an installed version has; None where it cannot be read."""
    from skillyard.catalog.skill_files import kept_links
    from skillyard.document import DOCUMENT_LIMIT, parse_document
    from skillyard.errors import FileProblem
    from skillyard.paths import read_inside

    try:
        powers = read_powers(folder, parse_document(read_inside(folder, "SKILL.md", limit=DOCUMENT_LIMIT)))
        return powers.with_links(kept_links(folder))
    except (FileProblem, OSError):
        return None


def read_powers(directory: str | os.PathLike[str], document: Document) -> Powers:
    """What the skill in `directory`, whose SKILL.md is `document`, may do."""
    from skillyard.environments.declared import read_requirements
    from skillyard.sandbox import Policy

    metadata, usual, folder = document.metadata, Policy(), Path(directory)
    security, required = metadata.security, read_requirements(document)
    scripts, hidden = _files(folder)
    packages = tuple(_packages(folder, scripts))
    needs = _needs(folder, metadata.name, packages)
    return Powers(
        scripts=scripts,
        hosts=security.network_allowlist if security.network == "allowlist" else (),
        environment=tuple(security.environment),
        tools=metadata.allowed_tools,
        any_tool="allowed_tools" not in metadata.declared,
        packages=packages,
        needs=tuple(needs),
        servers=tuple(_servers(metadata, required)),
        hidden=hidden,
        fetches=tuple(_fetches(folder, {*needs, *packages})),
        secrets=(*required.env, *required.any_env, *_named_secrets(metadata)),
        skills=(*required.skills, *required.any_skills),
        events=metadata.triggers.event_types,
        by_model=metadata.model_invocable,
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
    from skillyard.environments.declared import read_script_block
    from skillyard.errors import FileProblem, NotExecutable
    from skillyard.paths import read_inside

    for script in scripts:
        try:
            yield from read_script_block(read_inside(folder, script, limit=_SCRIPT_LIMIT)).dependencies
        except (FileProblem, NotExecutable, OSError):
            continue  # a run refuses it


def _needs(folder: Path, name: str, packages: tuple[str, ...]) -> set[str]:
    """The packages and programs that the skill's files suggest, without those that its scripts require themselves."""
    from skillyard.environments import skill_needs

    return set(skill_needs(str(folder), name).proposed.words) - set(packages)


def _fetches(folder: Path, needs: set[str]) -> Iterator[str]:
    """The late links of its text, without packages that are needs already."""
    from skillyard.scanner.late_links import find_late_links

    names = {match[0].lower() for need in needs if (match := _PACKAGE.match(need))}
    for link in find_late_links(folder):
        if link.kind != "package" or link.address.removeprefix("pypi:").lower() not in names:
            yield link.address


def _servers(metadata: Metadata, required: Requirements) -> Iterator[str]:
    """The servers that it requires, the tool or pool of a distributed skill, and the request of a service."""
    yield from (*required.mcp_servers, *required.any_mcp_servers)
    name, tool, endpoint = (metadata.config.get(key) for key in ("serverId", "toolName", "endpoint"))
    if metadata.kind == "distributed" and isinstance(name, str):
        yield f"{name}: {tool}" if isinstance(tool, str) and tool.strip() else f"{name} (a pool of workers)"
    if metadata.kind == "service" and isinstance(endpoint, str):
        yield f"{metadata.config.get('method') or 'POST'} {endpoint}"


def _named_secrets(metadata: Metadata) -> Iterator[str]:
    """The names that the headers of a service have in place of values."""
    headers = metadata.config.get("headers")
    for value in headers.values() if metadata.kind == "service" and isinstance(headers, Mapping) else ():
        yield from _SECRET.findall(value) if isinstance(value, str) else ()


def _sentences(gained: Powers, before: Powers | None = None) -> Iterator[str]:
    """One sentence for each part of a difference; of limits with what they were `before`."""
    for name, words in _LISTS.items():
        yield from (f"{words} {item}" for item in getattr(gained, name))
    if gained.any_tool:
        yield "no longer limits itself to tools" if before else "uses tools beyond those that it names"
    if gained.by_model:
        yield "may be used by a model without being asked for"
    if gained.filesystem != NO_POWERS.filesystem:
        yield f"uses the file system {gained.filesystem}" + (f", before {before.filesystem}" if before else "")
    if gained.timeout_ms:
        yield f"may run {gained.timeout_ms:,} ms" + (f", before {before.timeout_ms:,}" if before else "")
    if gained.memory_mb:
        yield f"may use {gained.memory_mb:,} MB of memory" + (f", before {before.memory_mb:,}" if before else "")


def _lacking(name: str, wanted: Iterable[str], there: Iterable[str] = ()) -> tuple[str, ...]:
    """The entries of a list that another does not allow, in the one form of such a list: sorted, without what is covered."""
    if name == "hosts":
        from skillyard.network.hosts import HostSet

        return (HostSet.read(wanted) - HostSet.read(there)).entries()
    items, known = set(wanted), set(there)
    if name == "fetches":  # an address with any content allows all that it does with one content
        known |= {link for link in items if PINNED in link and link.partition(PINNED)[0] in items | known}
    if name == "tools":  # `Bash` allows all that `Bash(git:*)` does
        known |= {tool for tool in items if "(" in tool and tool.partition("(")[0] in items | known}
    return tuple(sorted(items - known))


def _level(powers: Powers, name: str) -> int:
    value = getattr(powers, name)
    return _RANK.get(value, 2) if isinstance(value, str) else int(value)


NO_POWERS: Final = Powers(any_tool=False, by_model=False, filesystem="none", timeout_ms=0, memory_mb=0)
"""The least element: it allows nothing."""
