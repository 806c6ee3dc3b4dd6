"""The file of a backup, a compressed tar whose last member is its manifest, and the homes whose data go into it."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple, Protocol, Self

from skillyard.database import Database
from skillyard.errors import DigestMismatch, InvalidInput, MalformedArchive, PathRefused
from skillyard.paths import CLOEXEC, NOFOLLOW, NONBLOCK, is_reserved, safe_relative
from skillyard.registry.version_store import VersionStore

_MANIFEST: Final = "manifest.json"
_FORMAT: Final = "skillyard backup 1"
_CHUNK: Final = 1 << 20
_MOST_MANIFEST: Final = 1 << 30
_READ: Final = os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC
_BROKEN: Final = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, OSError, ValueError, KeyError, TypeError)


class BackupEntry(NamedTuple):
    """One file (`f`, with digest and size), link (`l`, with its target) or empty folder (`d`)."""

    kind: Literal["f", "l", "d"]
    mode: int = 0o600
    sha256: str = ""
    size: int = 0
    target: str = ""


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """What a backup holds: its entries by name, and `facts` about when and by what it was made."""

    entries: Mapping[str, BackupEntry]
    facts: Mapping[str, Any]


class ArchiveWriter:
    """Writes a backup beside its target and moves it there when it is complete; an interrupted one leaves nothing there."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._beside = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}")
        self._entries: dict[str, BackupEntry] = {}

    def __enter__(self) -> Self:
        descriptor = os.open(self._beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._gzip = gzip.GzipFile("", "wb", 1, self._file, mtime=0)
        self._tar = tarfile.open(fileobj=self._gzip, mode="w|", format=tarfile.PAX_FORMAT)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):
            self._gzip.close()
        self._file.close()
        self._beside.unlink(missing_ok=True)

    def add_file(self, name: str, path: Path) -> None:
        """Put a file in as it is now; one that grows meanwhile is taken up to where it ended.

        Raises:
            OSError: it cannot be read, or became shorter.
        """
        with open(os.open(path, _READ), "rb") as file:  # noqa: PTH123 # by its descriptor
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(f"{path} is not a file")
            mode, counted = stat.S_IMODE(status.st_mode), _Hashing(file)
            self._tar.addfile(_member(name, status.st_size, mode), counted)
            self._entries[name] = BackupEntry("f", mode, counted.digest.hexdigest(), status.st_size)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def add_data(self, name: str, data: bytes) -> None:
        """Put in a file with these bytes."""
        self._tar.addfile(_member(name, len(data), 0o600), io.BytesIO(data))
        self._entries[name] = BackupEntry("f", 0o600, hashlib.sha256(data).hexdigest(), len(data))

    def add_link(self, name: str, target: str) -> None:
        """Note a link; it is no member of the archive."""
        self._entries[name] = BackupEntry("l", target=target)

    def add_folder(self, name: str) -> None:
        """Note an empty folder."""
        self._entries[name] = BackupEntry("d")

    def finish(self, facts: Mapping[str, Any]) -> int:
        """Write the manifest, wait for the disk, and move the file to its target; gives its size in bytes."""
        data = json.dumps({"format": _FORMAT, **facts, "entries": self._entries}).encode()
        self._tar.addfile(_member(_MANIFEST, len(data), 0o600), io.BytesIO(data))
        self._tar.close()
        self._gzip.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        size = os.fstat(self._file.fileno()).st_size
        self._beside.replace(self._target)
        return size


@dataclass(slots=True)
class _Hashing:
    """A file that knows the digest of what was read from it."""

    file: IO[bytes]
    digest: Any = field(default_factory=hashlib.sha256)

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.digest.update(data)
        return data


def check_backup(path: Path) -> BackupManifest:
    """Read a backup to its end and verify every file in it against the manifest.

    Raises:
        MalformedArchive: it is none, or not whole.
        DigestMismatch: a file in it is not the one that was put in.
    """
    actual: dict[str, tuple[str, int]] = {}
    manifest = None
    for name, file, size in members(path):
        if name == _MANIFEST:
            manifest = _manifest(path, file, size)
            continue
        digest = hashlib.sha256()
        while data := _read_chunk(path, file):
            digest.update(data)
        actual[name] = digest.hexdigest(), size
    if manifest is None:
        raise _broken(path, "it ends too early")
    expected = {name: (entry.sha256, entry.size) for name, entry in manifest.entries.items() if entry.kind == "f"}
    if wrong := sorted(name for name in expected | actual if expected.get(name) != actual.get(name)):
        raise DigestMismatch(f"{path}: {wrong[0][:200]} is not what was put in", hint="use another backup")
    return manifest


def members(path: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    """Every file in a backup: its name, which is safe, its content and its size.

    Raises:
        InvalidInput: it cannot be opened.
        MalformedArchive: it cannot be read.
    """
    try:
        opened = path.open("rb")
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}", hint="name a file that `skillyard backup` wrote"
        ) from None
    with opened, _archive_errors(path), tarfile.open(fileobj=opened, mode="r|gz") as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isreg() else None
            if file is None or safe_relative(member.name) != member.name:
                raise _broken(path, f"{member.name[:200]!r} has no place in a backup")
            yield member.name, file, member.size


@contextlib.contextmanager
def _archive_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (MalformedArchive, DigestMismatch):
        raise
    except PathRefused as error:
        raise _broken(path, error.message) from None
    except _BROKEN as error:
        raise _broken(path, str(error)) from error


def _read_chunk(path: Path, file: IO[bytes]) -> bytes:
    with _archive_errors(path):
        return file.read(_CHUNK)


def _manifest(path: Path, file: IO[bytes], size: int) -> BackupManifest:
    with _archive_errors(path):
        if size > _MOST_MANIFEST:
            raise _broken(path, "its manifest is too large")
        written = json.loads(file.read())
        if written.pop("format") != _FORMAT:
            raise _broken(path, "it was made by another version")
        entries = {
            name: BackupEntry(kind, int(mode), str(sha256), int(count), str(target))
            for name, (kind, mode, sha256, count, target) in written.pop("entries").items()
        }
        for name, entry in entries.items():
            if safe_relative(name) != name or entry.kind not in ("f", "l", "d"):
                raise _broken(path, f"{name[:200]!r} has no place in a backup")
        return BackupManifest(entries, written)


def _broken(path: Path, reason: str) -> MalformedArchive:
    return MalformedArchive(f"{path} is not a complete backup: {reason}", hint="use another one; this one is cut off")


def _member(name: str, size: int, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, mode
    return member


class StoredContents(Protocol):
    """Contents that records refer to and that lie in a store: those of conversations' workspaces, by workspace and digest."""

    @property
    def stays(self) -> str:
        """Where they stay, when a backup is not to hold them; empty when it is."""

    def of(self, records: Database) -> Iterator[tuple[str, str]]:
        """Each workspace with each digest that the records name; an empty digest stands for what cannot be known."""

    def read(self, workspace: str, digest: str) -> bytes | None:
        """One content; None when it is not there any more."""

    def write(self, workspace: str, digest: str, data: bytes) -> None:
        """Put one content there."""


RECORDS: Final = "records.db"
CONTENTS: Final = "contents"
SKILLS: Final = "skills"
STAGING: Final = ".restore"
_LEFT_OUT: Final = frozenset({"cache", SKILLS, "organisations"})
_SNAPSHOT: Final = ("conversations", "files.snapshot")  # what a folder had, also hidden files: after a restore it has others
_DATABASE: Final = (".db", ".db-wal", ".db-shm", ".db-journal", ".lock")


@dataclass(frozen=True, slots=True)
class BackupHome:
    """One home: its name in a backup, its folder, and where its records are (None: in the folder).

    `contents` is where the contents of its conversations' workspaces are (None: there is no store).
    """

    name: str
    home: Path
    database_url: str | None = None
    contents: StoredContents | None = None

    @property
    def versions(self) -> VersionStore:
        """Its installed skills."""
        return VersionStore(self.home / SKILLS)

    def database(self) -> Database:
        """Its records, opened; the caller closes them. Raises DatabaseUnavailable: they cannot be used."""
        return Database.open(str(self.home), self.database_url)

    def files(self) -> Iterator[tuple[str, Path]]:
        """Its other files by their path in it: settings and keys, but nothing that is made again by itself."""
        for folder, names, files in os.walk(self.home):
            inside = Path(folder).relative_to(self.home)
            if inside == Path():
                names[:] = [name for name in names if name not in _LEFT_OUT]
            names[:] = sorted(name for name in names if not name.startswith("."))
            for name in sorted(files):
                path = Path(folder, name)
                if name.startswith(".") or name.endswith(_DATABASE) or is_reserved(path):
                    continue
                if len(inside.parts) == 2 and (inside.parts[0], name) == _SNAPSHOT:
                    continue
                if path.is_file() and not path.is_symlink():
                    yield (inside / name).as_posix(), path
