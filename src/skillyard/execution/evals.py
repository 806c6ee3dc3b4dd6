"""The parts of a skill's `evals/evals.json` that can be checked without a model: its form, its names and its files.

The file is the skills guide's: `{"skill_name", "evals": [{"id", "prompt", "expected_output", "files", "assertions"}]}`. What a
model makes of a prompt is not judged here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from skillyard.errors import FileMissing, SkillyardError
from skillyard.paths import open_inside, read_inside

__all__ = ["EVALS_FILE", "check_evals"]

EVALS_FILE: Final = "evals/evals.json"

_LIMIT: Final = 1024 * 1024
_LISTS: Final = ("assertions", "expectations")


def check_evals(directory: str, name: str) -> list[tuple[str, str]]:
    """What was checked and what is wrong with it (empty: nothing), in the file's order; nothing without such a file."""
    try:
        value = json.loads(read_inside(directory, EVALS_FILE, limit=_LIMIT))
    except FileMissing:
        return []
    except (SkillyardError, ValueError, RecursionError) as error:
        return [(EVALS_FILE, f"it cannot be read: {error}")]
    evals = value.get("evals") if isinstance(value, dict) else None
    if not isinstance(evals, list):
        return [(EVALS_FILE, "it must be an object with a list `evals`")]
    declared = value.get("skill_name")
    wrong_name = "" if declared in (None, name) else f"skill_name is {declared!r}, the skill is {name!r}"
    return [(EVALS_FILE, wrong_name), *_each(directory, evals)]


def _each(directory: str, evals: list[object]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for index, item in enumerate(evals):
        if not isinstance(item, Mapping):
            yield f"{EVALS_FILE} #{index + 1}", "it is not an object"
            continue
        identity = str(item.get("id", index + 1))
        problems = [*_problems(directory, item), *(["its id is used twice"] if identity in seen else [])]
        seen.add(identity)
        yield f"{EVALS_FILE} #{identity}", "; ".join(problems)


def _problems(directory: str, item: Mapping[str, object]) -> Iterator[str]:
    if not _is_text(item.get("prompt")):
        yield "it has no prompt"
    expectations = [item.get(name) for name in _LISTS if item.get(name)]
    if not _is_text(item.get("expected_output")) and not expectations:
        yield "it says neither expected_output nor assertions"
    yield from (f"{name} must be a list" for name in _LISTS if not isinstance(item.get(name, []), list))
    files = item.get("files", [])
    if not isinstance(files, list):
        yield "files must be a list"
        return
    yield from (problem for file in files if (problem := _file_problem(directory, file)))


def _file_problem(directory: str, file: object) -> str:
    import os  # only for files that are named

    if not isinstance(file, str):
        return f"{file!r} is not a path"
    try:
        os.close(open_inside(directory, file))
    except SkillyardError as error:
        return error.message
    return ""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
