"""`skillyard.lock`: which content of which skills a project works with, so that everybody on it has the same.

The file is JSON, sorted, without times, and lists for each skill where it comes from and the digest of its content. A source
inside the project or beside it is written relative to it, so that the same checkouts on another machine find it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Unpack, cast

from skillyard.errors import InvalidConfiguration, SignerChanged
from skillyard.packages import Source, SourceKind, is_signer, tree_digest
from skillyard.paths import CLOEXEC, DIRECTORY, refuse_reserved, slug
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.registry.model import InstallOptions, OperationResult
    from skillyard.registry.registry import Registry


LOCK_FILE: Final = "skillyard.lock"
_VERSION: Final = 1
_MAX_BYTES: Final = 4 * 1024 * 1024
_KINDS: Final[tuple[SourceKind, ...]] = ("folder", "archive", "git", "address", "well-known", "extension")
_FAR: Final = "../../../"  # from here on a path says more about the machine than about the project
_LOCAL: Final = ("folder", "archive")


@dataclass(frozen=True, slots=True)
class LockEntry(WireForm):
    """One locked skill: its source, pinned as far as it can be, the digest of its content, the key that signed it if any."""

    skill_id: str = field(metadata=wire(hidden=True))
    source: Source
    digest: str
    signer: str = field(default="", metadata=wire(omit_empty=True))


@dataclass(frozen=True, slots=True)
class LockState:
    """How one locked skill is installed: as locked, with other content (`changed`), or not at all."""

    entry: LockEntry
    state: Literal["ok", "changed", "missing"]

    def to_dict(self) -> dict[str, object]:
        """The state as plain data."""
        return {"skill_id": self.entry.skill_id, "state": self.state, **self.entry.to_dict()}


class ProjectLock:
    """The lock of the project in `folder`."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self.path = self.folder / LOCK_FILE

    def exists(self) -> bool:
        """Whether the project has one."""
        return self.path.is_file()

    def entries(self) -> tuple[LockEntry, ...]:
        """The locked skills, by id; none when there is no file.

        Raises:
            InvalidConfiguration: the file cannot be understood.
        """
        if not self.path.exists():
            return ()
        try:
            refuse_reserved(self.path)
            data = json.loads(self.path.read_bytes()[:_MAX_BYTES].decode("utf-8-sig"))
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
        from skillyard.files import replace_file

        with _locked_folder(self.folder):
            entries = {entry.skill_id: entry for entry in self.entries()} | dict(results)
            kept = {name: self._written(entry).to_dict() for name, entry in sorted(entries.items()) if name not in dropped}
            text = json.dumps({"lock_version": _VERSION, "skills": kept}, indent=2, sort_keys=True, ensure_ascii=False)
            replace_file(self.path, text.encode() + b"\n", mode=0o644)

    def signers(self) -> dict[str, str]:
        """The key of each locked skill that is signed, by the skill's id."""
        return {entry.skill_id: entry.signer for entry in self.entries() if entry.signer}

    def record(self, results: tuple[OperationResult, ...], *, accept_signer: bool = False) -> None:
        """Record what an installation gave.

        Raises:
            SignerChanged: the lock names another signer of a skill, and nobody accepted that.
        """
        entries = {result.skill_id: entry for result in results if (entry := _entry_of(result))}
        for skill_id, signer in self.signers().items() if not accept_signer else ():
            if skill_id in entries and entries[skill_id].signer != signer:
                raise SignerChanged(
                    f"{self.path} says that {signer} signed {skill_id}, and what is installed now is not",
                    hint="ask who publishes it whether that is right, then use --accept-signer",
                    before=signer,
                    now=entries[skill_id].signer or None,
                )
        if entries:
            self.write(entries)

    def states(self, registry: Registry) -> tuple[LockState, ...]:
        """How each locked skill is installed; the files are measured, so that edits show."""
        return tuple(LockState(entry, self._state(entry, registry)) for entry in self.entries())

    def sync(self, registry: Registry, **options: Unpack[InstallOptions]) -> tuple[OperationResult, ...]:
        """Install whatever is not installed as locked; a lock may be a stranger's and replaces no signer and no source.

        Raises:
            DigestMismatch: a source no longer has the locked content.
            SignerChanged, SourceChanged: another signer or source than the lock or the installed version names.
            SkillyardError: as `Registry.install`.
        """
        results: list[OperationResult] = []
        for state in self.states(registry):
            if state.state != "ok":
                entry = state.entry
                report = registry.install(
                    entry.source,
                    expected={entry.skill_id: entry.digest},
                    signers={entry.skill_id: entry.signer},
                    only=(entry.skill_id,),
                    **options,
                )
                results += report.results
        return tuple(results)

    def _state(self, entry: LockEntry, registry: Registry) -> Literal["ok", "changed", "missing"]:
        current = registry.storage.versions.current(entry.skill_id)
        if current is None:
            return "missing"
        return "ok" if tree_digest(registry.storage.versions.path(entry.skill_id, current)) == entry.digest else "changed"

    def _entry(self, name: str, value: Mapping[str, object]) -> LockEntry:
        if not isinstance(value, dict):
            raise ValueError(f"what it says of {name} is not an object")
        if slug(name) != name:
            raise ValueError(f"{name!r} cannot be the id of a skill")
        written = value["source"]
        if not isinstance(written, dict) or written.get("kind") not in _KINDS:
            raise ValueError(f"the source of {name} is not a source")
        words = {key: str(written.get(key, "")) for key in ("address", "path", "ref")}
        digest = value["digest"]
        if not isinstance(digest, str) or not digest.startswith("sha256:"):
            raise ValueError(f"the digest of {name} is none")
        kind = written["kind"]
        source = Source(kind, words["address"], words["path"], words["ref"])
        if kind in _LOCAL:
            source = replace(source, address=str((self.folder / words["address"]).resolve()))
        signer = value.get("signer", "")
        if not isinstance(signer, str) or (signer and not is_signer(signer)):
            raise ValueError(f"the signer of {name} is none")
        return LockEntry(name, source, digest, signer)

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


def _entry_of(result: OperationResult) -> LockEntry | None:
    origin = {key: str(value) for key, value in result.origin.items()}
    if result.digest is None or origin.get("kind") not in _KINDS:
        return None
    ref = origin.get("commit") or origin.get("ref", "")
    source = Source(cast("SourceKind", origin["kind"]), origin["address"], origin.get("path", ""), ref)
    return LockEntry(result.skill_id, source, result.digest, result.signer or "")
