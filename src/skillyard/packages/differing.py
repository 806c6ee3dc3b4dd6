"""What is different between two folders of a skill: files added, removed and changed, and the lines of those that are text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from skillyard.errors import WorkMemoryExceeded, WorkTimedOut
from skillyard.packages.digest import file_digests
from skillyard.packages.line_matching import unified
from skillyard.paths import read_inside

__all__ = ["Difference", "FileDifference", "compare_trees"]

_LARGEST: Final = 256 * 1024  # bytes of a file whose lines are compared
_MOST_LINES: Final = 5_000  # of a file that is compared
_SHOWN: Final = 64 * 1024  # characters of the lines of one file
_ALL_SHOWN: Final = 512 * 1024  # characters of all files together

_GOES_ON: Final = "the lines go on; read the files themselves"
_TOO_LONG: Final = "comparing its lines took too long; read the files themselves"
_AT_ONCE: Final = 64 * 1024
"""Of changed files, in bytes: less is compared in this process, in the bounded steps of `line_matching`."""
_SECONDS: Final = 10.0
_MEMORY_MB: Final = 512


@dataclass(frozen=True, slots=True)
class FileDifference:
    """One file that is not the same: its sizes in bytes (None where it is not there), and what its `lines` are now and were.

    `lines` are a unified diff; `unshown` says why there are none, or not all.
    """

    path: str
    change: Literal["added", "removed", "changed"]
    before: int | None
    after: int | None
    lines: str = ""
    unshown: str | None = None

    def to_dict(self) -> dict[str, object]:
        """The file as plain data."""
        return {
            "path": self.path,
            "change": self.change,
            "before": self.before,
            "after": self.after,
            "lines": self.lines,
            "unshown": self.unshown,
        }


@dataclass(frozen=True, slots=True)
class Difference:
    """Every file that is not the same, by path, and how many are."""

    files: tuple[FileDifference, ...]
    unchanged: int

    def to_dict(self) -> dict[str, object]:
        """The difference as plain data."""
        return {"files": [file.to_dict() for file in self.files], "unchanged": self.unchanged}


def compare_trees(before: str | os.PathLike[str], after: str | os.PathLike[str]) -> Difference:
    """What became of the files of the folder `before` in the folder `after`; the right to execute counts as content.

    Raises:
        OSError: a folder cannot be read.
    """
    old, new = file_digests(before), file_digests(after)
    same = sum(digest == new.get(path) for path, digest in old.items())
    told = (Path(before).absolute(), Path(after).absolute(), old, new)
    plain = files_compared(*told, room=0)
    if sum((file.before or 0) + (file.after or 0) for file in plain) <= _AT_ONCE:
        return Difference(files_compared(*told), same)
    from skillyard.offload import WorkLimits, run_in_helper

    try:
        limits = WorkLimits(seconds=_SECONDS, memory_mb=_MEMORY_MB)
        return Difference(run_in_helper(files_compared, *told, subject="a comparison", limits=limits), same)
    except (WorkTimedOut, WorkMemoryExceeded):
        return Difference(tuple(replace(file, unshown=_TOO_LONG) for file in plain), same)


def files_compared(
    before: Path, after: Path, old: Mapping[str, str], new: Mapping[str, str], room: int = _ALL_SHOWN
) -> tuple[FileDifference, ...]:
    """The files of two folders whose digests are not the same, with at most `room` characters of their lines."""
    return tuple(_files(before, after, old, new, room))


def _files(before: Path, after: Path, old: Mapping[str, str], new: Mapping[str, str], room: int) -> Iterator[FileDifference]:
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) == new.get(path):
            continue
        change: Literal["added", "removed", "changed"] = (
            "added" if path not in old else "removed" if path not in new else "changed"
        )
        was = _size(before, path) if path in old else None
        now = _size(after, path) if path in new else None
        lines, unshown = _lines(before, after, path, (was, now)) if room > 0 else ("", _GOES_ON)
        if len(lines) > min(_SHOWN, room):
            lines, unshown = lines[: min(_SHOWN, room)], _GOES_ON
        room -= len(lines)
        yield FileDifference(path, change, was, now, lines, unshown)


def _lines(before: Path, after: Path, path: str, sizes: tuple[int | None, int | None]) -> tuple[str, str | None]:
    """The unified diff of one file, or why there is none."""
    if any(size is not None and size > _LARGEST for size in sizes):
        return "", f"it is over {_LARGEST >> 10} kB"
    texts = [_text(root, path) if size is not None else [] for root, size in zip((before, after), sizes, strict=True)]
    if None in texts:
        return "", "it is no text"
    old, new = (text or [] for text in texts)
    if max(len(old), len(new)) > _MOST_LINES:
        return "", f"it has over {_MOST_LINES:,} lines"
    if old == new:
        return "", "only the right to execute it is another" if None not in sizes else None
    marked = unified(old, new, f"a/{path}", f"b/{path}")
    return "\n".join(marked) + "\n", None


def _text(root: Path, path: str) -> list[str] | None:
    """The lines of a file; None when it is no text."""
    data = read_inside(root, path, limit=_LARGEST)
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None


def _size(root: Path, path: str) -> int:
    return (root / path).lstat().st_size
