"""Results of the steps of a measurement, kept in a folder, so that a run that was stopped goes on, and a second one is quick.

A result is used again only if everything that it was made from is the same: options, the skills that were read, and the code.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")


class Kept:
    """The results that were made from the same things; without a folder nothing is kept.

    `made_from` is anything that says what it is by its `repr`.
    """

    def __init__(self, folder: Path | None, *made_from: object) -> None:
        self._folder = folder
        self._mark = hashlib.sha256(repr(made_from).encode()).hexdigest()

    def after(self, *code: Path) -> Kept:
        """The results of a step that these files, or all Python files of these folders, decide as well."""
        files = sorted(file for one in code for file in (one.rglob("*.py") if one.is_dir() else [one]))
        return Kept(self._folder, self._mark, [hashlib.sha256(file.read_bytes()).hexdigest() for file in files])

    def beside(self, other: Kept) -> Kept:
        """The results that were made from what both were made from."""
        return Kept(self._folder, self._mark, other._mark)

    def get(self, name: str, make: Callable[[], Result]) -> Result:
        """The result of that name, made now if it is not kept."""
        if self._folder is None:
            return make()
        file = self._folder / f"{name.replace('/', '+')}-{self._mark[:16]}.pickle"
        if file.is_file():
            result: Result = pickle.loads(file.read_bytes())
            return result
        result = make()
        self._folder.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        with part.open("wb") as stream:
            pickle.dump(result, stream, protocol=5)
        part.replace(file)
        return result


def state_of(folders: Iterable[str], files: Iterable[Path | None]) -> str:
    """A mark of the skills below the folders, with the names of their files, and of the other files."""
    digest = hashlib.sha256()
    for folder in folders:
        for directory, below, names in os.walk(folder):
            below.sort()
            if not {"SKILL.md", "skill.md"}.isdisjoint(names):
                sizes = [Path(directory, name).stat() for name in sorted(names) if name.lower() == "skill.md"]
                digest.update(repr((directory, sorted(names), [(one.st_size, one.st_mtime_ns) for one in sizes])).encode())
    for file in files:
        if file is not None:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
