"""The files of a folder as text to look into: bounded in number, size and depth; no link is followed, nothing blocks."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillyard.errors import SkillyardError
from skillyard.packages import IGNORED
from skillyard.paths import open_inside
from skillyard.scanner.finding import Skipped

__all__ = ["LARGEST_TEXT", "TOO_LARGE", "ScannedFile", "read_files"]

_MOST_FILES: Final = 5_000
_MOST_BYTES: Final = 8 * 1024 * 1024
_DEEPEST: Final = 32
_RUNS: Final = (
    ".py",
    ".sh",
    ".bash",
    ".zsh",
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".mts",
    ".ps1",
    ".bat",
    ".cmd",
    ".rb",
    ".pl",
    ".php",
)
TOO_LARGE: Final = "beyond what is read of one skill"
"""Why files are left out when there are too many, or too much is in them."""
LARGEST_TEXT: Final = 1024 * 1024
"""How many bytes of one file are looked into."""


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """The beginning of one regular file; `name` is its path in the folder, `whole` whether that is all of it."""

    name: str
    data: bytes
    executable: bool
    whole: bool


def read_files(folder: str | os.PathLike[str], skipped: list[Skipped]) -> Iterator[ScannedFile]:
    """Every regular file: SKILL.md, what may run, what is read, then the rest; what cannot be looked into joins `skipped`."""
    entries = sorted(_walk(Path(folder), "", 0, skipped), key=lambda entry: (_rank(entry[0]), entry[0]))
    budget = _MOST_BYTES
    for number, (name, mode) in enumerate(entries):
        if number == _MOST_FILES or budget <= 0:
            skipped.append(Skipped(name, f"{TOO_LARGE}, as are {len(entries) - number - 1} more files"))
            return
        try:
            with os.fdopen(open_inside(folder, name), "rb") as file:
                data = file.read(LARGEST_TEXT + 1)
        except SkillyardError as error:
            skipped.append(Skipped(name, error.message))
            continue
        except OSError as error:
            skipped.append(Skipped(name, f"it cannot be read: {error.strerror}"))
            continue
        budget -= 0 if b"\0" in data[:8192] else len(data)
        yield ScannedFile(name, data[:LARGEST_TEXT], bool(mode & 0o111), len(data) <= LARGEST_TEXT)


def _rank(name: str) -> int:
    low = name.lower()
    if low == "skill.md":
        return 0
    if low.endswith(_RUNS):
        return 1
    return 2 if low.endswith((".md", ".txt", ".markdown")) or "." not in low.rpartition("/")[2] else 3


def _walk(folder: Path, prefix: str, depth: int, skipped: list[Skipped]) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(folder / prefix) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        skipped.append(Skipped(prefix or ".", f"it cannot be read: {error.strerror}"))
        return
    for entry in entries:
        name = prefix + entry.name
        mode = entry.stat(follow_symlinks=False).st_mode
        if entry.name in IGNORED:
            skipped.append(Skipped(name, "never part of a package"))
        elif stat.S_ISLNK(mode):
            skipped.append(Skipped(name, "a link, which is not followed"))
        elif stat.S_ISREG(mode):
            yield name, mode
        elif not stat.S_ISDIR(mode):
            skipped.append(Skipped(name, "neither a file nor a folder"))
        elif depth == _DEEPEST:
            skipped.append(Skipped(name, "too many folders deep"))
        else:
            yield from _walk(folder, f"{name}/", depth + 1, skipped)
