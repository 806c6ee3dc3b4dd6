"""The owners of a user's folder while a session of a service that is root works in it, and that they come back.

Root owns everything, so a session is a user who owns nothing else, and the folder is given to that user. Before that, who owned
what is recorded in Skillyard's own home, never in the folder. Whoever has the folder holds a lock that the kernel releases with
the process; when nobody has it any more, everything is given back: at the end of the last session, by the next session, or when
a command or server starts. No link is followed, mode bits stay.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import stat
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from skillyard.errors import InvalidInput, SandboxUnavailable
from skillyard.files import locked, replace_file
from skillyard.plain_json import read_json
from skillyard.sandbox.process_launch import Identity, is_own_number, pick_identity

_log = logging.getLogger(__name__)
_RECORDS: Final = "folder-owners"
_DEEPEST: Final = 200  # folders in folders; what is nested deeper was made by a session
_MOST_ENTRIES: Final = 1_000_000
_MOST_DIFFERENT: Final = 100_000  # entries with another owner than the folder
_KEPT_SECONDS: Final = 30 * 24 * 3600.0  # a record of a folder that is not there
_SAME: Final = ("st_dev", "st_ino", "st_uid", "st_nlink")
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)


@dataclass(frozen=True, slots=True)
class _OwnedEntry:
    """A folder (`name` is None, `at` is itself) or another entry of the open folder `at`; `path` is below the walked folder."""

    path: str
    state: os.stat_result
    at: int
    name: str | None

    def give(self, uid: int, gid: int) -> None:
        """Give it to a user; not what has its name now, if that is something else."""
        if self.name is None:
            os.fchown(self.at, uid, gid)
            return
        with contextlib.suppress(FileNotFoundError), _opened(self.name, os.O_PATH, self.at) as itself:
            now = os.fstat(itself)
            if _identity(now) == _identity(self.state) and (now.st_uid, now.st_nlink) == (
                self.state.st_uid,
                self.state.st_nlink,
            ):
                os.chown(f"/proc/self/fd/{itself}", uid, gid)  # a link too: it is open itself


@dataclass(frozen=True, slots=True)
class _OwnersRecord:
    """Who owned a folder (`uid`, `gid`), to whom it was given, and by path what in it had another owner.

    `others` are inode, user, group and time of the last change of content in nanoseconds.
    """

    folder: str
    inode: int
    uid: int
    gid: int
    identity: Identity
    others: Mapping[str, tuple[int, int, int, int]] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """What is written to the disk; names that are no text are kept as they are."""
        who = {"uid": self.identity.uid, "gid": self.identity.gid, "single": self.identity.single}
        owner = {"folder": self.folder, "inode": self.inode, "uid": self.uid, "gid": self.gid}
        return json.dumps({**owner, "session": who, "others": dict(self.others)}).encode("ascii")

    @classmethod
    def read(cls, path: Path) -> _OwnersRecord | None:
        """The record in a file of this process's user; None for anything else."""
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                if os.fstat(file.fileno()).st_uid != os.geteuid():
                    return None
                values: Any = read_json(file.read().decode("ascii"))
            who = values["session"]
            identity = Identity(int(who["uid"]), int(who["gid"]), single=bool(who["single"]))
            others = {str(name): (int(a), int(b), int(c), int(d)) for name, (a, b, c, d) in values["others"].items()}
            found = cls(str(values["folder"]), int(values["inode"]), int(values["uid"]), int(values["gid"]), identity, others)
        except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError):
            return None
        return found if identity.uid > 0 and os.path.isabs(found.folder) else None

    def with_entries_of(self, folder: str, *, lent: bool) -> _OwnersRecord:
        """The record with what in `folder`, which is this one's or below it, has another owner than this one's.

        Where it is `lent` already, what belongs to the session's user was given by it, or is new.

        Raises:
            InvalidInput: there is too much in it.
        """
        others = dict(self.others)
        below = folder[len(self.folder) :].strip("/")
        with _opened(folder) as opened:
            for count, entry in enumerate(_walk(opened)):
                path, state = f"{below}/{entry.path}".strip("/"), entry.state
                owner, given = (state.st_uid, state.st_gid), lent and state.st_uid == self.identity.uid
                if not given and owner != (self.uid, self.gid) and path not in others:
                    others[path] = (state.st_ino, *owner, state.st_mtime_ns)
                if count >= _MOST_ENTRIES or len(others) > _MOST_DIFFERENT:
                    most = f"{_MOST_ENTRIES:,} files, or {_MOST_DIFFERENT:,} with another owner than the folder"
                    raise InvalidInput(f"{folder} has over {most}", hint="work in a folder below it")
        return replace(self, others=others)

    def give_back(self) -> bool:
        """Give what the session's user owns to who owned it before, what is new to the folder's owner; whether it is done.

        What was moved is known by its inode and its time; an inode alone may have come to a new file.
        """
        moved = {(inode, changed): (uid, gid) for inode, uid, gid, changed in self.others.values()}
        failed = 0
        try:
            with _opened(self.folder) as opened:
                if os.path.realpath(self.folder) != self.folder or os.fstat(opened).st_ino != self.inode:
                    _log.warning("another folder is at %s now: its owners were left as they are", self.folder)
                    return True
                for entry in _walk(opened):
                    if entry.state.st_uid != self.identity.uid:
                        continue
                    row = self.others.get(entry.path)
                    uid, gid = (
                        row[1:3] if row else moved.get((entry.state.st_ino, entry.state.st_mtime_ns), (self.uid, self.gid))
                    )
                    if (uid, gid) == (entry.state.st_uid, entry.state.st_gid):
                        continue
                    try:
                        entry.give(uid, gid)
                    except OSError:
                        failed += 1
        except NotADirectoryError:
            _log.warning("%s is not a folder now: its owners were not given back", self.folder)
            return True
        except FileNotFoundError:
            _log.info("%s is not there: its owners are kept, because its disk may come back", self.folder)
            return False
        except OSError as error:
            _log.warning("the owners of %s were not given back: %s", self.folder, error)
            return False
        if failed:
            _log.warning("%d files in %s have not got their owners back", failed, self.folder)
        return not failed


class FolderLoan:
    """The right of one session to a user's folder; `give_back` ends it. Several may have the same folder at once."""

    def __init__(self, records: Path, held: Mapping[str, int]) -> None:
        self._records: Final = records
        self._held = dict(held)

    def give_back(self) -> None:
        """End it; where nobody else has the folder, its files have their owners again. Blocks; may be called again."""
        held, self._held = self._held, {}
        if not held:
            return
        with locked(self._records / "mutex"):
            for key, lock in held.items():
                os.close(lock)
                _settle(self._records, key)


def lend_folder(folder: str, home: str) -> tuple[Identity, FolderLoan]:
    """Give a user's folder, by its real path, to the user of a session. Blocks.

    Who owned what is recorded below `home`. A second session over the same folder, or one below, is the same user.

    Raises:
        SandboxUnavailable: it cannot be recorded; nothing was given then.
        InvalidInput: there is too much in it.
    """
    records = Path(home, _RECORDS)
    held: dict[str, int] = {}
    problem = f"who owns it cannot be recorded in {records}"
    try:
        _make_private(records)
        with locked(records / "mutex"):
            used = [one for key in _keys(records) if _settle(records, key) and (one := _read(records, key))]
            covering = [one for one in used if folder == one.folder or folder.startswith(f"{one.folder}/")]
            state = os.stat(folder)
            fitting = [one for one in covering if state.st_uid in (0, one.identity.uid)]
            if fitting:
                record = max(fitting, key=lambda one: len(one.folder))
            else:
                record = _OwnersRecord(folder, state.st_ino, state.st_uid, state.st_gid, session_identity(state))
            grown = record.with_entries_of(folder, lent=bool(fitting))
            if not fitting or grown != record:
                replace_file(records / f"{_key(record.folder)}.json", grown.to_json())
            try:
                for one in (*covering, record):
                    if (key := _key(one.folder)) not in held:
                        held[key] = _lock(records, key, exclusive=False)
                problem = "it cannot be given to the session's user"
                give_to(folder, record.identity)
            except BaseException:
                for key, lock in held.items():
                    os.close(lock)
                    _settle(records, key)
                raise
    except OSError as error:
        raise SandboxUnavailable(
            f"{folder} was left as it is: {problem}: {error.strerror or error}",
            hint="make the folder of SKILLYARD_HOME writable, or start Skillyard as the user who owns the project",
        ) from error
    return record.identity, FolderLoan(records, held)


def give_back_folders(home: str | os.PathLike[str]) -> None:
    """Give back what sessions have left that did not end: their processes were killed, or the machine stopped. Blocks."""
    records = Path(home, _RECORDS)
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not _is_private(records):
        return
    with contextlib.suppress(OSError), locked(records / "mutex"):
        for key in _keys(records):
            _settle(records, key)


def session_identity(state: os.stat_result) -> Identity:
    """Who the session is over a folder with that state: who owns it, or a new user where root does. This process is root."""
    if state.st_uid != 0:
        return Identity(state.st_uid, state.st_gid or state.st_uid, single=is_own_number(state.st_uid))
    identity = pick_identity()
    assert identity is not None  # noqa: S101 # this process is root
    return identity


def give_to(folder: str, identity: Identity) -> None:
    """Give what belongs to root in a folder, and the folder itself, to a user. No link is followed.

    What is nested deeper than people nest folders was made by the session, and belongs to it. A file that runs as its owner
    is not given, because the kernel would take that from it, nor is one that has another name outside of the folder.
    """
    names: Counter[tuple[int, int]] = Counter()  # of files that have several
    with _opened(folder) as opened:
        for entry in _walk(opened):
            if entry.state.st_uid != 0 or _runs_as_owner(entry.state.st_mode):
                continue
            if entry.name is not None and entry.state.st_nlink > 1:
                names[_identity(entry.state)] += 1
            else:
                entry.give(identity.uid, identity.gid)
        if not names:
            return
        for entry in _walk(opened):
            if entry.state.st_uid == 0 and names.get(_identity(entry.state)) == entry.state.st_nlink:
                entry.give(identity.uid, identity.gid)


def _identity(state: os.stat_result) -> tuple[int, int]:
    return state.st_dev, state.st_ino


def _runs_as_owner(mode: int) -> bool:
    return stat.S_ISREG(mode) and bool(mode & (stat.S_ISUID | stat.S_ISGID))


@contextlib.contextmanager
def _opened(path: str, how: int = _FOLDER, at: int | None = None) -> Iterator[int]:
    opened = os.open(path, how | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        yield opened
    finally:
        os.close(opened)


def _walk(opened: int) -> Iterator[_OwnedEntry]:
    """An open folder and everything in it, links themselves and not what they lead to."""
    for base, folders, files, at in os.fwalk(".", dir_fd=opened, follow_symlinks=False):
        if base.count("/") >= _DEEPEST:
            folders.clear()
        prefix = f"{base[2:]}/" if base != "." else ""
        yield _OwnedEntry(base[2:], os.fstat(at), at, None)
        for name in (*files, *folders):
            with contextlib.suppress(FileNotFoundError):
                state = os.stat(name, dir_fd=at, follow_symlinks=False)
                if not stat.S_ISDIR(state.st_mode):
                    yield _OwnedEntry(f"{prefix}{name}", state, at, name)


def _key(folder: str) -> str:
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]


def _keys(records: Path) -> list[str]:
    return sorted(path.stem for path in records.glob("*.json"))


def _read(records: Path, key: str) -> _OwnersRecord | None:
    return _OwnersRecord.read(records / f"{key}.json")


def _lock(records: Path, key: str, *, exclusive: bool) -> int:
    """A descriptor that holds the lock of a folder until it is closed.

    Raises:
        BlockingIOError: a session has the folder, and it is to be exclusive.
    """
    import fcntl  # only Linux has sessions; the module is imported everywhere

    lock = os.open(records / f"{key}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _settle(records: Path, key: str) -> bool:
    """Give a folder back that no session has; whether one has it. Who calls holds the mutex."""
    try:
        lock = _lock(records, key, exclusive=True)
    except BlockingIOError:
        return True
    try:
        path, record = records / f"{key}.json", _read(records, key)
        if record is None or record.give_back() or (not os.path.lexists(record.folder) and _age(path) > _KEPT_SECONDS):
            path.unlink(missing_ok=True)
            (records / f"{key}.lock").unlink(missing_ok=True)
    finally:
        os.close(lock)
    return False


def _age(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def _make_private(records: Path) -> None:
    records.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_private(records):
        raise PermissionError(1, "another user can write it")


def _is_private(records: Path) -> bool:
    """Whether it is a folder that only this process's user can write: what is recorded there, root does."""
    try:
        state = records.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o022
