"""`skillyard.lock`: which content of which skills a project works with, so that everybody on it has the same.

The file is JSON, sorted, without times, and lists for each skill where it comes from, the digest of its content, and that of
each file, which add up to it. A source inside the project or beside it is written relative to it, so that the same checkouts
on another machine find it. Where a project has the lock of `npx skills` too, its skills count as locked, and it follows ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Unpack, cast

from skillyard.catalog.skill_files import kept_links
from skillyard.errors import InvalidConfiguration, SignerChanged
from skillyard.packages import Source, SourceKind, is_signer
from skillyard.packages.digest import DIGEST_PATTERN, content_digests, digest_of_contents
from skillyard.packages.model_signature import is_model_signer
from skillyard.paths import CLOEXEC, DIRECTORY, refuse_reserved, slug
from skillyard.registry.requirements import required_skills
from skillyard.registry.skills_lock import SKILLS_LOCK_FILE, SkillsLock, folder_hash
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.registry.registry import Registry
    from skillyard.registry.registry_values import InstallOptions, OperationResult


LOCK_FILE: Final = "skillyard.lock"
_VERSION: Final = 1
_MAX_BYTES: Final = 4 * 1024 * 1024
_KINDS: Final[tuple[SourceKind, ...]] = ("folder", "archive", "git", "address", "well-known", "extension", "oci")
_FAR: Final = "../../../"  # from here on a path says more about the machine than about the project
_LOCAL: Final = ("folder", "archive")
_MOST_FILES: Final = 1000  # of a skill with more only the digest is kept
_CONFLICT: Final = "<<<<<<<"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class LockEntry(WireForm):
    """One locked skill: its source, pinned as far as it can be, the digest of its content, the key that signed it if any.

    `files` has the letter and SHA-256 of everything in it, by path, unless that is too much; `folder_hash` is what
    `skills-lock.json` says of it. A skill that only that file names has no digest.
    """

    skill_id: str = field(metadata=wire(hidden=True))
    source: Source
    digest: str = field(default="", metadata=wire(omit_empty=True))
    signer: str = field(default="", metadata=wire(omit_empty=True))
    files: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False, metadata=wire(omit_empty=True))
    folder_hash: str = field(default="", metadata=wire(omit_empty=True))
    links: Mapping[str, str] = field(default_factory=dict, hash=False, metadata=wire(omit_empty=True))
    """What was kept of the addresses that its text tells to fetch: the SHA-256 by address."""
    requires: tuple[str, ...] = field(default=(), metadata=wire(omit_empty=True))
    """The skills that it requires, each with its range."""
    required_by: tuple[str, ...] = field(default=(), metadata=wire(omit_empty=True))
    """Why it was installed, where no person named it."""

    @property
    def promised(self) -> str:
        """The content that it must have, as `InstallRequest.expected` takes it."""
        return self.digest or f"{SKILLS_LOCK_FILE}:{self.folder_hash}"


@dataclass(frozen=True, slots=True)
class LockState:
    """How one locked skill is installed: as locked, with other content (`changed`), or not at all.

    `unmet`: it is as locked, and skills that it requires are neither here nor locked, which `requires` names. `conflict`: it
    is as `skillyard.lock` says, and `skills-lock.json` says something else. Of a changed one, `changed_files`,
    `missing_files` and `extra_files` are what is other than locked, where the lock says what its files are. An address of
    which something else is kept than locked is among the `changed_files`.
    """

    entry: LockEntry
    state: Literal["ok", "changed", "missing", "conflict", "unmet"]
    changed_files: tuple[str, ...] = ()
    missing_files: tuple[str, ...] = ()
    extra_files: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The state with the fields of its entry, without the digests of its files, which may be thousands."""
        files = {"changed_files": self.changed_files, "missing_files": self.missing_files, "extra_files": self.extra_files}
        files |= {"unmet": self.requires}
        locked = {name: value for name, value in self.entry.to_dict().items() if name != "files"}
        named = {name: list(paths) for name, paths in files.items() if paths}
        return {"skill_id": self.entry.skill_id, "state": self.state, **named, **locked}


class ProjectLock:
    """The lock of the project in `folder`."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self.path = self.folder / LOCK_FILE
        self._foreign = SkillsLock(self.folder)

    def exists(self) -> bool:
        """Whether the project has one, its own or that of `npx skills`."""
        return self.path.is_file() or self._foreign.exists()

    def begin_skills_lock(self) -> None:
        """Write the lock of `npx skills` where there is none: from then on it is kept in step with ours."""
        with _locked_folder(self.folder):
            if not self._foreign.exists():
                self._foreign.write({})

    def entries(self) -> tuple[LockEntry, ...]:
        """The skills that either file locks, by id; none when there is no file.

        Raises:
            InvalidConfiguration: a file cannot be understood, or was changed by hand.
        """
        entries = {entry.skill_id: entry for entry in self._own_entries()}
        for found in self._foreign.entries():
            own = entries.get(found.skill_id, LockEntry(found.skill_id, found.source))
            entries[found.skill_id] = replace(own, folder_hash=found.folder_hash)
        return tuple(entry for _, entry in sorted(entries.items()))

    def _own_entries(self) -> tuple[LockEntry, ...]:
        if not self.path.exists():
            return ()
        try:
            refuse_reserved(self.path)
            text = self.path.read_bytes()[:_MAX_BYTES].decode("utf-8-sig")
            if any(line.startswith(_CONFLICT) for line in text.splitlines()):
                raise ValueError("it has the marks of a merge that was not finished")
            data = json.loads(text)
            if not isinstance(data, dict) or "lock_version" not in data or not isinstance(data.get("skills"), dict):
                raise ValueError("it is not the object with `lock_version` and `skills` that a lock is")
            if data["lock_version"] != _VERSION:
                raise InvalidConfiguration(
                    f"{self.path} was written by a newer Skillyard", hint="upgrade skillyard", file=str(self.path)
                )
            return tuple(self._entry(name, value) for name, value in sorted(data["skills"].items()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            raise InvalidConfiguration(
                f"{self.path} cannot be understood: {why}",
                hint="take it from version control again, or delete it and `skillyard install SOURCE --save`",
                file=str(self.path),
            ) from None

    def write(self, results: Mapping[str, LockEntry], *, dropped: tuple[str, ...] = ()) -> None:
        """Add or replace entries and drop others; the file is replaced in one step, under a lock."""
        with _locked_folder(self.folder):
            if results or self.path.exists():
                self._write(results, dropped)
            if dropped and self._foreign.exists():
                self._foreign.write({}, dropped=dropped)

    def _write(self, results: Mapping[str, LockEntry], dropped: tuple[str, ...] = ()) -> None:
        from skillyard.files import replace_file

        entries = {entry.skill_id: entry for entry in self._own_entries()} | dict(results)
        kept = {name: self._written(entry).to_dict() for name, entry in sorted(entries.items()) if name not in dropped}
        text = json.dumps({"lock_version": _VERSION, "skills": kept}, indent=2, sort_keys=True, ensure_ascii=False)
        replace_file(self.path, text.encode() + b"\n", mode=0o644)

    def signers(self) -> dict[str, str]:
        """The key of each locked skill that is signed, by the skill's id."""
        return {entry.skill_id: entry.signer for entry in self._own_entries() if entry.signer}

    def record(
        self, results: tuple[OperationResult, ...], registry: Registry, *, accept_signer: bool = False, begin: bool = True
    ) -> tuple[str, ...]:
        """Record what an installation gave, in each of the two files that is there; gives the ids of which one has no words.

        With `begin` skills are locked that were not, and our file is written where there is none; otherwise only what a file
        locks already is locked again.

        Raises:
            SignerChanged: the lock names another signer of a skill, and nobody accepted that.
        """
        own, foreign = {entry.skill_id for entry in self._own_entries()}, {one.skill_id for one in self._foreign.entries()}
        versions = registry.storage.versions
        trees = {one.skill_id: versions.path(one.skill_id, one.version) for one in results if one.version and one.digest}
        entries = {one.skill_id: entry for one in results if (entry := _entry_of(one, trees.get(one.skill_id)))}
        along = registry.records.read.required_by
        entries = {name: replace(entry, required_by=along(name)) for name, entry in entries.items()}
        for skill_id, signer in self.signers().items() if not accept_signer else ():
            if skill_id in entries and entries[skill_id].signer != signer:
                raise SignerChanged(
                    f"{self.path} says that {signer} signed {skill_id}, and what is installed now is not",
                    hint="ask who publishes it whether that is right, then use --accept-signer",
                    before=signer,
                    now=entries[skill_id].signer or None,
                )
        with _locked_folder(self.folder):
            if locked := {name: entry for name, entry in entries.items() if begin or name in own}:
                self._write(locked)
            foreign_entries = {
                one.skill_id: (one.name, {key: str(value) for key, value in one.origin.items()}, trees[one.skill_id])
                for one in results
                if one.skill_id in entries and (begin or one.skill_id in foreign)
            }
            return self._foreign.write(foreign_entries) if foreign_entries and self._foreign.exists() else ()

    def states(self, registry: Registry) -> tuple[LockState, ...]:
        """How each locked skill is installed; the files are measured, so that edits show."""
        entries = self.entries()
        locked = {entry.skill_id for entry in entries}
        return tuple(_with_unmet(self._state(entry, registry), locked, registry) for entry in entries)

    def verify(self, registry: Registry) -> tuple[LockState, ...]:
        """`states`, and how the installed skills that are not locked are: as they were installed, or `changed` since."""
        states = self.states(registry)
        locked = {state.entry.skill_id for state in states}
        for version in registry.installed.serving().values():
            if version.skill_id not in locked:
                source = Source(cast("SourceKind", version.source_type), str(version.origin.get("address", "")))
                states += (self._state(LockEntry(version.skill_id, source, version.digest), registry),)
        return states

    def sync(self, registry: Registry, **options: Unpack[InstallOptions]) -> tuple[OperationResult, ...]:
        """Install everything that differs from the lock; a lock is not trusted and replaces no signer and no source.

        Raises:
            DigestMismatch: a source no longer has the locked content.
            SignerChanged, SourceChanged: another signer or source than the lock or the installed version names.
            SkillyardError: as `Registry.install`.
        """
        results: list[OperationResult] = []
        for state in self.states(registry):
            entry = state.entry
            if state.state == "conflict":
                raise InvalidConfiguration(
                    f"{LOCK_FILE} and {SKILLS_LOCK_FILE} name different content of {entry.skill_id}",
                    hint=f"`skillyard update {entry.skill_id}` takes the newest and writes both, or take one of them back",
                    file=str(self.path),
                )
            if state.state not in ("ok", "unmet"):
                locked: InstallOptions = {**options, "dependencies": False}
                locked["required_by"] = {entry.skill_id: entry.required_by}
                report = registry.install(
                    entry.source,
                    expected={entry.skill_id: entry.promised},
                    signers={entry.skill_id: entry.signer} if entry.digest else {},
                    only=(entry.skill_id,),
                    **locked,
                )
                results += report.results
        return tuple(results)

    def _state(self, entry: LockEntry, registry: Registry) -> LockState:
        current = registry.storage.versions.current(entry.skill_id)
        if current is None:
            return LockState(entry, "missing")
        tree = registry.storage.versions.path(entry.skill_id, current)
        if entry.digest and digest_of_contents(found := content_digests(tree)) != entry.digest:
            if not entry.files:
                return LockState(entry, "changed")
            before, now = entry.files.keys(), found.keys()
            return LockState(
                entry,
                "changed",
                changed_files=tuple(sorted(path for path in before & now if entry.files[path] != found[path])),
                missing_files=tuple(sorted(before - now)),
                extra_files=tuple(sorted(now - before)),
            )
        here = {one.address: one.sha256 for one in kept_links(tree) if one.sha256}
        if other := sorted(address for address, sha256 in entry.links.items() if here.get(address, sha256) != sha256):
            return LockState(entry, "changed", changed_files=tuple(other))
        if not entry.folder_hash or folder_hash(tree) == entry.folder_hash:
            return LockState(entry, "ok")
        return LockState(entry, "conflict" if entry.digest else "changed")

    def _entry(self, name: str, value: Mapping[str, object]) -> LockEntry:
        if not isinstance(value, dict):
            raise ValueError(f"what it says of {name} is not an object")
        if slug(name) != name:
            raise ValueError(f"{name!r} cannot be the id of a skill")
        written = value["source"]
        if not isinstance(written, dict) or written.get("kind") not in _KINDS:
            raise ValueError(f"the source of {name} is not a source")
        words = {key: str(written.get(key, "")) for key in ("address", "path", "ref", "version")}
        digest = value["digest"]
        if not isinstance(digest, str) or not DIGEST_PATTERN.fullmatch(digest):
            raise ValueError(f"the digest of {name} is not a digest: it was changed by hand")
        files = value.get("files", {})
        if not isinstance(files, dict) or not all(isinstance(content, str) for content in files.values()):
            raise ValueError(f"the files of {name} are not a table of digests")
        if files and digest_of_contents(files) != digest:
            raise ValueError(f"the files of {name} do not add up to its digest: it was changed by hand")
        kind = written["kind"]
        source = Source(kind, words["address"], words["path"], words["ref"], version=words["version"])
        if kind in _LOCAL:
            source = replace(source, address=str((self.folder / words["address"]).resolve()))
        signer = value.get("signer", "")
        if not isinstance(signer, str) or (signer and not (is_signer(signer) or is_model_signer(signer))):
            raise ValueError(f"the signer of {name} is none")
        links = value.get("links", {})
        if not isinstance(links, dict) or not all(isinstance(one, str) and _SHA256.fullmatch(one) for one in links.values()):
            raise ValueError(f"the links of {name} are not addresses with their SHA-256")
        lists = [_texts(name, key, value.get(key, [])) for key in ("requires", "required_by")]
        return LockEntry(name, source, digest, signer, files, "", links, *lists)

    def _written(self, entry: LockEntry) -> LockEntry:
        """The entry with a path in the project, or at most two folders above it, written relative to the project."""
        if entry.source.kind not in _LOCAL:
            return entry
        written = os.path.relpath(entry.source.address, self.folder.resolve())
        if written.startswith(_FAR):
            return entry
        return replace(entry, source=replace(entry.source, address=Path(written).as_posix()))


@contextlib.contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from writing this lock; the folder itself is held, so that no further file lies beside it."""
    import fcntl  # not on every platform

    descriptor = os.open(folder, os.O_RDONLY | DIRECTORY | CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _entry_of(result: OperationResult, tree: Path | None) -> LockEntry | None:
    origin = {key: str(value) for key, value in result.origin.items()}
    if result.digest is None or tree is None or result.status == "waiting" or origin.get("kind") not in _KINDS:
        return None
    ref = origin.get("commit") or origin.get("ref", "")
    source = Source(cast("SourceKind", origin["kind"]), origin["address"], origin.get("path", ""), ref)
    if source.kind == "well-known":  # what a site calls it leads to it when the site has gone on
        source = replace(source, version=origin.get("version", ""))
    files = content_digests(tree)
    links = {one.address: one.sha256 for one in kept_links(tree) if one.sha256}
    whole = len(files) <= _MOST_FILES and digest_of_contents(files) == result.digest
    requires = required_skills(tree)
    return LockEntry(
        result.skill_id, source, result.digest, result.signer or "", files if whole else {}, links=links, requires=requires
    )


def _texts(name: str, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"`{key}` of {name} is not a list of texts")
    return tuple(value)


def _with_unmet(state: LockState, locked: Collection[str], registry: Registry) -> LockState:
    """The state, with what is required and neither here as it must be nor locked."""
    lacking = registry.dependencies.lacking(state.entry.skill_id, state.entry.requires, locked)
    return replace(state, state="unmet" if state.state == "ok" else state.state, requires=lacking) if lacking else state
