"""The files a run works on: copied in before it starts, and what it changed copied back when no process of it is left.

Only regular files are copied, opened without following links, within fixed caps. Hidden files, control files of other programs
and files that hold secrets do not go back unless the operator allows it.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillyard.errors import FileMissing, FileTooLarge, PathRefused
from skillyard.paths import CLOEXEC, DIRECTORY, NOCTTY, NOFOLLOW, NONBLOCK, is_reserved
from skillyard.sandbox.policy import REDACTED, redact, secret_forms
from skillyard.sandbox.process_launch import Identity
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.sandbox.policy import Policy

HELD_BACK: Final = "file_held_back"
"""The code that begins each sentence about a file that did not go back."""

CONTROL_FILES: Final = frozenset({
    "agent.md", "agents.md", "agents.override.md", "claude.local.md", "claude.md", "crush.json", "gemini.md", "opencode.json",
    "opencode.jsonc", "qwen.md", "skillyard.lock", "skillyard.toml",
})  # fmt: skip
"""Names, in small letters, of files without a dot that programs act on by themselves."""

_GIT: Final = re.compile(r"(?:.*/)?(?:head|git~[0-9]+(?:/.*)?)", re.IGNORECASE | re.DOTALL)
"""A folder with a file `HEAD` can be a repository without a `.git`, whose settings name programs; `GIT~1` is `.git` on NTFS."""
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # control, format (bidi and zero-width), surrogates, line separators
_CHUNK: Final = 1 << 20


def refusal_of_name(relative: str, *, hidden_files: bool, secrets: Iterable[str]) -> str:
    """Why a path may not go back; empty when it may. Names that nobody can read are never allowed."""
    parts = relative.split("/")
    if any(unicodedata.category(letter) in _UNSEEN for letter in relative):
        return "its name has characters that nobody sees or that turn the text around"
    if REDACTED in redact(os.fsencode(relative), secrets):
        return "its name holds a secret"
    if hidden_files:
        return ""
    if any(part.startswith(".") for part in parts):
        return "it is hidden (hidden-files = true in your own [sandbox] settings allows it)"
    if any(part.casefold() in CONTROL_FILES for part in parts) or _GIT.fullmatch(relative):
        return "programs act on it by themselves (hidden-files = true in your own [sandbox] settings allows it)"
    return ""


def refusal_of_content(file: int, secrets: Sequence[str]) -> str:
    """Why the content of an open file may not go back; empty when it may. One pass over it, and it is left at its beginning.

    Found are secrets in the forms that are removed from output: as they are, as hexadecimal digits, base64, quoted for a URL,
    or inside JSON.
    """
    forms = secret_forms(secrets)
    overlap = max(map(len, forms), default=1) - 1
    kept, offset = b"", 0
    while forms and (data := os.pread(file, _CHUNK, offset)):
        offset += len(data)
        window = kept + data
        if any(form in window for form in forms):
            return "it holds a secret"
        kept = window[-overlap:] if overlap else b""
    return ""


def held_back_message(relative: str, reason: str, secrets: Iterable[str]) -> str:
    """The sentence for the outcome, with a name that can be shown."""
    name = redact(os.fsencode(relative), secrets).decode("utf-8", "backslashreplace")
    return f"{HELD_BACK}: {single_line(name)} was not copied back: {reason}"


MAXIMUM_FILE_BYTES: Final = 50 * 1024 * 1024
MAXIMUM_DEPTH: Final = 8
"""Levels of folders of files that travel with a request, or are put into a conversation."""
_MEBIBYTE: Final = 1024 * 1024
_FILE: Final = os.O_RDONLY | NOFOLLOW | NONBLOCK | NOCTTY | CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | CLOEXEC
_FOLDER: Final = os.O_RDONLY | DIRECTORY | NOFOLLOW | CLOEXEC
_NAMED: Final = 20
_Mark = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class WorkFilesSnapshot:
    """What was copied in: a mark of each file, by which a change shows, and the bytes of all."""

    marks: Mapping[str, _Mark]
    size: int


@dataclass(frozen=True, slots=True)
class WorkFilesChanges:
    """What came back: the names of new and changed files, and a sentence for each that could not."""

    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def copy_files_in(folder: str, into: str, owner: Identity | None, policy: Policy) -> WorkFilesSnapshot:
    """Copy the files of `folder` into the empty folder `into`, for its run to read and change; as much as the policy allows.

    Raises:
        FileMissing: there is no such folder.
        FileTooLarge: there are too many files, or they are too large.
        PathRefused: folders are nested too deep.
    """
    marks: dict[str, _Mark] = {}
    total = 0
    if not os.path.isdir(folder) or os.path.islink(folder):
        raise FileMissing(f"there is no folder {folder!r} to work in")
    for relative, names, folders, descriptor in _walk(folder):
        if names and relative.count("/") > policy.work_levels:
            message = f"{relative!r} is more than {policy.work_levels} levels of folders below the folder to work in"
            raise PathRefused(message, hint=_more("work-levels", "work in a folder nearer to the files"))
        for name in folders:
            _make_folder(f"{into}/{relative}{name}", owner)
        for name in names:
            source = _open(name, descriptor)
            if source is None:
                continue
            total += os.fstat(source).st_size
            if len(marks) >= policy.work_files:
                os.close(source)
                message = f"the folder to work in has more than {policy.work_files:,} files"
                raise FileTooLarge(message, hint=_more("work-files", "work in a folder with what the run needs"))
            if total > policy.work_mb * _MEBIBYTE:
                os.close(source)
                message = f"the files of the folder to work in are more than {policy.work_mb:,} MiB"
                raise FileTooLarge(message, hint=_more("work-mb", "work in a folder with what the run needs"))
            marks[f"{relative}{name}"] = _copy_in(source, f"{into}/{relative}{name}", owner)
    return WorkFilesSnapshot(marks, total)


def _more(setting: str, otherwise: str) -> str:
    return f"{otherwise}, or raise `{setting}` in the [sandbox] table of your own skillyard.toml"


def copy_changes_back(made: str, before: WorkFilesSnapshot, folder: str, policy: Policy) -> WorkFilesChanges:
    """Copy what is new or changed in `made` back into `folder`; no process of the run may be left.

    Hidden and control files stay behind unless the policy has `hidden_files`, and so do files with its secrets in them.
    """
    files: list[str] = []
    warnings: list[str] = []
    total = 0
    hidden_files, secrets = policy.hidden_files, policy.secret_values
    for relative, names, folders, descriptor in _walk(made):
        if relative.count("/") > policy.work_levels:
            warnings.append(f"{relative} is over {policy.work_levels} levels deep (`work-levels`) and was not copied")
            folders.clear()
            continue
        for name in names:
            shown = f"{relative}{name}"
            source = _open(name, descriptor)
            if source is None:
                warnings.append(f"{shown} is not a regular file and was not copied")
                continue
            state = os.fstat(source)
            if before.marks.get(shown) == _mark(state):
                os.close(source)
                continue
            reason = refusal_of_name(shown, hidden_files=hidden_files, secrets=secrets)
            if state.st_size <= MAXIMUM_FILE_BYTES:
                reason = reason or refusal_of_content(source, secrets)
            if reason:
                os.close(source)
                warnings.append(held_back_message(shown, reason, secrets))
                continue
            total += state.st_size
            if over := _over(len(files), state.st_size, total, policy):
                os.close(source)
                warnings.append(f"{shown} was not copied: {over}")
            elif _copy_back(source, folder, shown):
                files.append(shown)
            else:
                warnings.append(f"{shown} could not be kept under that name")
    more = len(warnings) - _NAMED
    return WorkFilesChanges(tuple(files), (*warnings[:_NAMED], *((f"and {more} more",) if more > 0 else ())))


def _over(files: int, size: int, total: int, policy: Policy) -> str:
    """Why one more file of this size cannot be copied back; empty when it can."""
    if size > MAXIMUM_FILE_BYTES:
        return f"it is over {MAXIMUM_FILE_BYTES // _MEBIBYTE} MiB"
    if files >= policy.work_files:
        return f"more than {policy.work_files:,} files have changed (`work-files`)"
    return f"what has changed is over {policy.work_mb:,} MiB (`work-mb`)" if total > policy.work_mb * _MEBIBYTE else ""


def _walk(folder: str) -> Iterator[tuple[str, list[str], list[str], int]]:
    """Each folder, from the top: its path with a slash at the end, its files, its folders, and the folder itself, open."""
    for path, folders, names, descriptor in os.fwalk(folder, follow_symlinks=False):
        folders[:] = sorted(name for name in folders if _is_folder(name, descriptor))
        relative = "" if path == folder else path[len(folder.rstrip("/")) + 1 :] + "/"
        yield relative, sorted(names), folders, descriptor


def _is_folder(name: str, folder: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _open(name: str, folder: int) -> int | None:
    """The file, open; None when it is no regular file, has a second name, may not be read, or holds the records in use."""
    if is_reserved(name, within=folder):
        return None
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return None
    state = os.fstat(file)
    if stat.S_ISREG(state.st_mode) and state.st_nlink == 1:
        return file
    os.close(file)
    return None


def _mark(state: os.stat_result) -> _Mark:
    return state.st_ino, state.st_size, state.st_ctime_ns


def _make_folder(path: str, owner: Identity | None) -> None:
    os.mkdir(path, 0o700)
    if owner:
        os.chown(path, owner.uid, owner.gid, follow_symlinks=False)


def _copy_in(source: int, target: str, owner: Identity | None) -> _Mark:
    state = os.fstat(source)
    copy = os.open(target, _NEW, 0o700 if state.st_mode & stat.S_IXUSR else 0o600)
    with os.fdopen(source, "rb"), os.fdopen(copy, "wb"):
        pour(source, copy, state.st_size)
        if owner:
            os.fchown(copy, owner.uid, owner.gid)
        return _mark(os.fstat(copy))


def _copy_back(source: int, folder: str, relative: str) -> bool:
    """Put the open file into the folder, in one step; False where something that is no file or folder has that name."""
    *parents, name = relative.split("/")
    opened = [source]
    try:
        at = os.open(folder, _FOLDER)
        opened.append(at)
        for parent in parents:
            at = _below(at, parent)
            opened.append(at)
        beside = f".{os.urandom(8).hex()}"
        copy = os.open(beside, _NEW, 0o600, dir_fd=at)
        try:
            pour(source, copy, os.fstat(source).st_size)
            _give_as(at, copy)
        finally:
            os.close(copy)
        try:
            if is_reserved(name, within=at):
                raise PermissionError
            os.rename(beside, name, src_dir_fd=at, dst_dir_fd=at)
        except OSError:
            os.unlink(beside, dir_fd=at)
            return False
    except OSError:
        return False
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return True


def _below(folder: int, name: str) -> int:
    """The folder of that name in `folder`, made when it is missing."""
    made = False
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
        made = True
    opened = os.open(name, _FOLDER, dir_fd=folder)
    if made:
        _give_as(folder, opened)
    return opened


def _give_as(folder: int, made: int) -> None:
    """Give what root has made in a folder to who the folder belongs to: the session of a workspace may be working there."""
    if os.geteuid() == 0:
        owner = os.fstat(folder)
        os.fchown(made, owner.st_uid, owner.st_gid)


def pour(source: int, target: int, size: int) -> None:
    """Copy at most the bytes that were counted; a file that grows meanwhile is cut."""
    left = size
    while left > 0 and (data := os.read(source, min(left, _CHUNK))):
        left -= len(data)
        view = memoryview(data)
        while view:
            view = view[os.write(target, view) :]
