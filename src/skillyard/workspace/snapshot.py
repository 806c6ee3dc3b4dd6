"""Snapshots of a workspace's folder in a store, so that a conversation can continue on another machine with its files.

`restore` brings what was saved elsewhere since, `save` keeps what was changed here; both move only what differs. A snapshot is
a manifest of paths, which a `SnapshotRecord` keeps, and the content of the files in a store by digest: small files many in one
blob, large ones in pieces. What somebody else has saved meanwhile is joined with what was changed here, path by path.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from skillyard.errors import ConversationBusy, DigestMismatch, PackageMissing
from skillyard.files import lock_file, replace_file
from skillyard.packages import Store, digest_of, open_store
from skillyard.wire import WireForm
from skillyard.workspace.snapshot_tree import (
    FolderScan,
    FolderWriter,
    Mark,
    SnapshotEntry,
    SnapshotLimits,
    open_entry,
    scan_folder,
)

_BLOB: Final = 8 * 1024 * 1024
_TRIES: Final = 5
_LARGEST_MANIFEST: Final = 256 * 1024 * 1024
_WITHOUT_LIMITS: Final = SnapshotLimits(sys.maxsize, sys.maxsize)
Entries = Mapping[str, SnapshotEntry]


class SnapshotRecord(Protocol):
    """Where the manifest of the newest snapshot is kept, for every machine. Methods block."""

    def current(self) -> str | None:
        """The digest of the newest manifest; None when there is none."""

    def read(self) -> bytes | None:
        """The newest manifest."""

    def replace(self, expected: str | None, manifest: bytes) -> bool:
        """Keep a manifest in place of the one with the digest `expected`; False when another one is there by now.

        Raises:
            ConversationBusy: who asks may not save any more.
        """


@dataclass(frozen=True, slots=True)
class SnapshotReport(WireForm):
    """What was moved: the paths that were brought, deleted here and saved, and the bytes that went over the network.

    `missing` are paths whose content is not in the store any more: what lay here has stayed.
    """

    brought: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    saved: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Manifest:
    """What is in a snapshot: entries by path; of each content its pieces `(blob, offset, length)`; the sizes of the blobs.

    `retired` are blobs that it does without; the next one deletes them, so that who still reads the one before finds them.
    """

    entries: dict[str, SnapshotEntry] = field(default_factory=dict)
    pieces: dict[str, list[tuple[str, int, int]]] = field(default_factory=dict)
    blobs: dict[str, int] = field(default_factory=dict)
    retired: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, data: bytes) -> _Manifest:
        plain = json.loads(zlib.decompressobj().decompress(data, _LARGEST_MANIFEST))
        entries = {path: SnapshotEntry(*entry) for path, entry in plain["entries"].items()}
        pieces = {content: [tuple(piece) for piece in found] for content, found in plain["pieces"].items()}
        return cls(entries, pieces, plain["blobs"], plain["retired"])

    def bytes(self) -> bytes:
        plain = {"version": 1, "entries": self.entries, "pieces": self.pieces, "blobs": self.blobs, "retired": self.retired}
        return zlib.compress(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode("ascii"))

    def compact(self) -> set[str]:
        """The contents that are used and lie in blobs at least half of which are."""
        used = {entry.content for entry in self.entries.values() if entry.kind == "f"} & self.pieces.keys()
        live: dict[str, int] = {}
        for content in used:
            for blob, _, length in self.pieces[content]:
                live[blob] = live.get(blob, 0) + length
        return {content for content in used if all(live[blob] * 2 >= self.blobs[blob] for blob, _, _ in self.pieces[content])}


@dataclass(slots=True)
class _LocalState:
    """What this machine has: the digest of the manifest that its folder was joined with last, and the marks of its files."""

    digest: str | None = None
    manifest: _Manifest = field(default_factory=_Manifest)
    marks: dict[str, Mark] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str) -> _LocalState:
        """As it was written; empty when it was not, or cannot be understood: then everything is compared anew."""
        try:
            digest, manifest, marks = json.loads(Path(path).read_bytes())
            found = _Manifest.read(bytes.fromhex(manifest)) if manifest else _Manifest()
            return cls(digest, found, {name: tuple(mark) for name, mark in marks.items()})
        except (OSError, ValueError, TypeError, KeyError, zlib.error):
            return cls()

    def write(self, path: str) -> None:
        plain = [self.digest, self.manifest.bytes().hex(), self.marks]
        replace_file(path, json.dumps(plain).encode("ascii"), durable=False)


class FolderSnapshots:
    """The snapshots of one folder: `store` has the contents (and nothing else), `record` the newest manifest.

    What it remembers of the folder it keeps in files beside it. The methods block, and only one at a time works on a folder,
    whichever process calls it.
    """

    def __init__(self, folder: str, store: Store, record: SnapshotRecord, limits: SnapshotLimits | None = None) -> None:
        self._folder = os.path.realpath(folder)
        self._store = store
        self._record = record
        self._limits = limits or SnapshotLimits()
        self._state_file = f"{self._folder}.snapshot"
        self._beside = f"{self._folder}.incoming"

    def restore(self) -> SnapshotReport:
        """Bring what was saved elsewhere since this machine last had the newest.

        It wins over what was changed here and not saved. A content that the store has lost is left out, and reported. The
        folder here may be over the limits, so that what it cannot save keeps nothing from it.

        Raises:
            StoreFailed: the store cannot be read; the folder may be between the two states, and another call goes on.
        """
        os.makedirs(self._folder, 0o700, exist_ok=True)
        if self._record.current() is None:
            return SnapshotReport()
        with lock_file(f"{self._folder}.lock"):
            state = _LocalState.read(self._state_file)
            before = None
            while (current := self._record.current()) not in (None, state.digest):
                try:
                    return self._brought(state, lenient=current == before)
                except (PackageMissing, DigestMismatch):  # a newer one may have taken the place of this one
                    before = current
        return SnapshotReport()

    def _brought(self, state: _LocalState, *, lenient: bool) -> SnapshotReport:
        data = self._record.read()
        if data is None:
            return SnapshotReport()
        theirs = _Manifest.read(data)
        scan = self._scan(state, _WITHOUT_LIMITS)
        wanted = join_entries(state.manifest.entries, scan.entries, theirs.entries, ours_first=False)
        report = self._apply(scan, wanted, theirs, lenient=lenient)
        state.digest, state.manifest, state.marks = digest_of(data), theirs, scan.marks
        state.write(self._state_file)
        return report

    def save(self) -> SnapshotReport:
        """Keep what was changed here; what somebody else has saved meanwhile is brought, where it was not changed here too.

        Raises:
            FileTooLarge: the folder is over the limits.
            StoreFailed: the store cannot be written; what was saved before stays.
            ConversationBusy: somebody else works on it now.
        """
        os.makedirs(self._folder, 0o700, exist_ok=True)
        with lock_file(f"{self._folder}.lock"):
            state = _LocalState.read(self._state_file)
            for _ in range(_TRIES):
                report = self._saved(state)
                if report is not None:
                    return report
        raise ConversationBusy("the files of the workspace are changed elsewhere all the time", hint="try again")

    def _saved(self, state: _LocalState) -> SnapshotReport | None:
        """Save once; None when somebody else was faster."""
        scan = self._scan(state, self._limits)
        base = theirs = state.manifest
        if (expected := self._record.current()) != state.digest:
            data = self._record.read()
            expected, theirs = (None, _Manifest()) if data is None else (digest_of(data), _Manifest.read(data))
            base = state.manifest if data is not None else theirs  # records that know nothing have deleted nothing
        wanted = join_entries(base.entries, scan.entries, theirs.entries, ours_first=True)
        report = self._apply(scan, wanted, theirs, lenient=True)
        made, moved, number = self._uploaded(wanted, theirs, scan)
        if _same(made.entries, theirs.entries) and not moved:
            state.digest, state.manifest, state.marks = expected, theirs, scan.marks
            state.write(self._state_file)
            return report
        made.retired = sorted(theirs.blobs.keys() - made.blobs.keys())
        manifest = made.bytes()
        if not self._record.replace(expected, manifest):
            return None
        for blob in set(theirs.retired) - made.blobs.keys() - set(made.retired):
            self._store.delete(blob)
        state.digest, state.manifest, state.marks = digest_of(manifest), made, scan.marks
        state.write(self._state_file)
        return replace(report, saved=number, bytes=report.bytes + moved)

    def remove(self) -> None:
        """Delete everything that the store has of it.

        Raises:
            StoreFailed: it cannot be used.
        """
        for blob in self._store.list():
            self._store.delete(blob)

    def _scan(self, state: _LocalState, limits: SnapshotLimits) -> FolderScan:
        """What lies here; what cannot be read counts as it was."""
        known = state.manifest.entries
        scan = scan_folder(self._folder, known, state.marks, limits)
        scan.entries |= {path: entry for path, entry in known.items() if not scan.knows(path)}
        return scan

    def _apply(self, scan: FolderScan, wanted: dict[str, SnapshotEntry], theirs: _Manifest, *, lenient: bool) -> SnapshotReport:
        """Make the folder as the manifest says: files that differ come from the store, each blob once.

        Where it is `lenient`, what the store does not have is left as it is here.
        """
        gone = sorted(path for path in scan.entries if path not in wanted)
        fresh = {path: entry for path, entry in wanted.items() if not entry.is_like(scan.entries.get(path))}
        if not gone and not fresh:
            return SnapshotReport()
        missing: list[str] = []
        with closing(FolderWriter(self._folder, self._beside)) as writer:
            for path in reversed(gone):
                writer.remove(path)
                scan.marks.pop(path, None)
            reader = _PieceReader(self._store)
            for path, entry in sorted(fresh.items(), key=lambda item: _first_piece(item[1], theirs)):
                try:
                    self._put(writer, reader, path, entry, theirs, scan)
                except (PackageMissing, DigestMismatch):
                    if not lenient:
                        raise
                    missing.append(path)
        for path in missing:
            if path in scan.entries:
                wanted[path] = scan.entries[path]
            else:
                del wanted[path]
        return SnapshotReport(tuple(sorted(fresh.keys() - set(missing))), tuple(gone), tuple(missing), bytes=reader.moved)

    @staticmethod
    def _put(
        writer: FolderWriter, reader: _PieceReader, path: str, entry: SnapshotEntry, theirs: _Manifest, scan: FolderScan
    ) -> None:
        """Put one entry into the folder."""
        scan.marks.pop(path, None)
        if entry.kind == "l":
            writer.put_link(path, entry)
        elif entry.kind == "d":
            writer.put_folder(path, entry)
        else:
            with writer.building() as (file, built):
                for part in reader.parts(theirs.pieces[entry.content]):
                    _write_all(file, part)
                scan.marks[path] = writer.put_file(path, entry, file, built)
        scan.entries[path] = entry

    def _uploaded(self, wanted: dict[str, SnapshotEntry], theirs: _Manifest, scan: FolderScan) -> tuple[_Manifest, int, int]:
        """The manifest of the folder, its contents all in the store; how many bytes and how many files were moved."""
        made = _Manifest(wanted, dict(theirs.pieces), dict(theirs.blobs))
        kept = made.compact()
        packer = _Packer(self._store, made)
        number = 0
        for path in sorted(path for path, entry in wanted.items() if entry.kind == "f" and entry.content not in kept):
            if wanted[path].content in packer.packed:
                continue
            found = packer.add(self._folder, path, wanted[path])
            number += 1
            if found is None:  # it went away, or was changed, while it was read: the next time has it
                scan.marks.pop(path, None)
                before = theirs.entries.get(path)
                if before is None:
                    del wanted[path]
                else:
                    wanted[path] = before
        packer.flush()
        used = {entry.content for entry in wanted.values() if entry.kind == "f"}
        made.pieces = {content: pieces for content, pieces in made.pieces.items() if content in used}
        blobs = {blob for pieces in made.pieces.values() for blob, _, _ in pieces}
        made.blobs = {blob: size for blob, size in made.blobs.items() if blob in blobs}
        return made, packer.moved, number


def snapshot_store(address: str, name: str) -> Store:
    """The part of the store at `address` that has the contents of one workspace."""
    return open_store(f"{address.rstrip('/')}/workspaces/{name}")


def snapshot_blobs(manifest: bytes) -> dict[str, int] | None:
    """What a snapshot has in its store, by digest with its size in bytes; None for a manifest that cannot be read."""
    try:
        return dict(_Manifest.read(manifest).blobs)
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error):
        return None


class _Packer:
    """Puts contents into the store: small ones one after the other in a blob, large ones in pieces."""

    def __init__(self, store: Store, manifest: _Manifest) -> None:
        self._store = store
        self._manifest = manifest
        self._waiting = bytearray()
        self._pieces: dict[str, list[tuple[str, int, int]]] = {}
        self.packed: set[str] = set()
        self.moved = 0

    def add(self, folder: str, path: str, entry: SnapshotEntry) -> str | None:
        """Add the content of a file; None when it is not what the entry says."""
        opened = open_entry(folder, path)
        if opened is None:
            return None
        with os.fdopen(opened, "rb", buffering=0) as file:
            return self._add(file.fileno(), entry)

    def _add(self, file: int, entry: SnapshotEntry) -> str | None:
        digest, pieces, left = hashlib.sha256(), [], entry.size
        if entry.size + len(self._waiting) > _BLOB:
            self.flush()
        while left:
            data = _read_exactly(file, min(left, _BLOB))
            if not data:
                return None
            digest.update(data)
            left -= len(data)
            if entry.size <= _BLOB:
                pieces.append(("", len(self._waiting), len(data)))
                self._waiting += data
            else:
                pieces.append((self._put(data), 0, len(data)))
        if f"sha256:{digest.hexdigest()}" != entry.content:
            return None
        self._pieces[entry.content] = pieces
        self.packed.add(entry.content)
        return entry.content

    def flush(self) -> None:
        """Put what waits into the store."""
        blob = self._put(bytes(self._waiting)) if self._waiting else ""
        self._waiting.clear()
        for content, pieces in self._pieces.items():
            self._manifest.pieces[content] = [(piece[0] or blob, piece[1], piece[2]) for piece in pieces]
        self._pieces.clear()

    def _put(self, data: bytes) -> str:
        blob = self._store.put(data)
        self._manifest.blobs[blob] = len(data)
        self.moved += len(data)
        return blob


class _PieceReader:
    """Gives pieces of blobs; the last blob is kept, because what lies in it comes one after the other."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: tuple[str, bytes] = ("", b"")
        self.moved = 0

    def parts(self, pieces: Iterable[tuple[str, int, int]]) -> Iterator[bytes]:
        """The bytes of each piece."""
        for blob, offset, length in pieces:
            if self._last[0] != blob:
                self._last = blob, self._store.get(blob)
                self.moved += len(self._last[1])
            yield self._last[1][offset : offset + length]


def join_entries(base: Entries, ours: Entries, theirs: Entries, *, ours_first: bool) -> dict[str, SnapshotEntry]:
    """What was changed here and what was changed there since `base`, together; where both changed a path, one of them wins."""
    joined: dict[str, SnapshotEntry] = {}
    for path in {**base, **ours, **theirs}:
        before, here, there = base.get(path), ours.get(path), theirs.get(path)
        if _like(here, before):
            chosen = there
        elif _like(there, before):
            chosen = here
        else:
            chosen = here if ours_first else there
        if chosen is not None:
            joined[path] = chosen
    return _without_clashes(joined, ours if ours_first else theirs)


def _without_clashes(joined: dict[str, SnapshotEntry], first: Entries) -> dict[str, SnapshotEntry]:
    """Without files where a folder has to be: one side has made a file of a folder, or the other way round."""
    for path in sorted(joined):
        parts = path.split("/")
        for above in ("/".join(parts[:count]) for count in range(1, len(parts))):
            if above in joined and path in joined:
                del joined[path if joined[above].kind != "d" and above in first else above]
    return joined


def _like(one: SnapshotEntry | None, other: SnapshotEntry | None) -> bool:
    return one is other if one is None else one.is_like(other)


def _same(ours: Entries, theirs: Entries) -> bool:
    return ours.keys() == theirs.keys() and all(entry.is_like(theirs[path]) for path, entry in ours.items())


def _first_piece(entry: SnapshotEntry, manifest: _Manifest) -> tuple[str, int]:
    pieces = manifest.pieces.get(entry.content) if entry.kind == "f" else None
    return pieces[0][:2] if pieces else ("", 0)


def _read_exactly(file: int, size: int) -> bytes:
    """So many bytes, fewer only at the end of the file."""
    data = bytearray()
    while len(data) < size and (piece := os.read(file, size - len(data))):
        data += piece
    return bytes(data)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
