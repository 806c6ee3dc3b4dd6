"""The files in which other programs keep commands, rules and instructions: where they are, and what each says.

Their front matters are not always YAML: a glob such as `*.ts` and a hint such as `[file] [line]` are put in quotes before they
are read. Nothing behind the front matter is touched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from skillyard.document import parse_document, read_front_matter
from skillyard.errors import FileProblem
from skillyard.paths import read_inside, real_path, slug

__all__ = ["INSTRUCTION_FILES", "ForeignFile", "Found", "LinkedFile", "commands", "instructions", "read_foreign", "rules"]

INSTRUCTION_FILES: Final = ("AGENTS.md", "AGENT.md", "CLAUDE.md", "GEMINI.md")
_LIMIT: Final = 1024 * 1024
_COMMANDS: Final = (".claude", "commands")
_SKIPPED: Final = frozenset({".git", "node_modules", ".venv", "__pycache__"})
_VALUE: Final = re.compile(r"^(globs|argument-hint)(:[ \t]+)([^\s\"'|>#][^\n]*)$", re.MULTILINE)
_ITEMS: Final = re.compile(r"^globs:[ \t]*\n((?:[ \t]*-[ \t][^\n]*\n)+)", re.MULTILINE)
_ITEM: Final = re.compile(r"^([ \t]*-[ \t]+)([^\s\"'][^\n]*)$", re.MULTILINE)
_IN_BRACKETS: Final = re.compile(r"(?:\"[^\"]*\"|'[^']*'|\{[^{}]*\}|[^,])+")
_IS_QUOTED: Final = re.compile(r"\"[^\"\\]*\"|'(?:[^']|'')*'")


@dataclass(frozen=True, slots=True)
class Found:
    """A file, the name of the skill that it makes, and its path as the user knows it."""

    file: Path
    name: str
    shown: str


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """What a file says: its fields as they were written and as YAML types them, and its text behind them."""

    found: Found
    texts: Mapping[str, object]
    values: Mapping[str, object]
    body: str


@dataclass(frozen=True, slots=True)
class LinkedFile:
    """A link to `target`, which is one of the files found, or None when it leads elsewhere."""

    found: Found
    target: str | None


def commands(place: Path) -> Iterator[Found]:
    """`.claude/commands/**/*.md` of a project and of its folders: folders become the front of the name."""
    if place.is_file():
        yield Found(place, slug(place.stem), place.name)
        return
    roots = _folders(place, _COMMANDS)
    for root in roots or [below for below in (place, place / "commands") if below.is_dir() and _holds_commands(below)]:
        yield from _below(root, ".md", place, _owner(root, place) if roots else ())


def rules(place: Path) -> Iterator[Found]:
    """`.cursor/rules/**/*.mdc` of a project and of its folders, and the older `.cursorrules`."""
    if place.is_file():
        yield Found(place, slug(place.stem.lstrip(".")), place.name)
        return
    roots = _folders(place, (".cursor", "rules"))
    for root in roots or [place]:
        yield from _below(root, ".mdc", place, _owner(root, place) if roots else ())
    for file in _files(place, ".cursorrules"):
        owner = file.parent.relative_to(place).parts or (Path(real_path(place)).name,)
        yield Found(file, slug("-".join((*owner, "rules"))), str(file.relative_to(place)))


def instructions(place: Path) -> Iterator[Found]:
    """AGENTS.md, CLAUDE.md, GEMINI.md: each folder's own."""
    files = [place] if place.is_file() else [file for file in _files(place, ".md") if file.name in INSTRUCTION_FILES]
    top = place.parent if place.is_file() else place
    for file in files:
        kind = "instructions" if file.name == "AGENTS.md" else f"{file.stem}-instructions"
        inside = file.parent.relative_to(top)
        yield Found(file, slug("-".join((Path(real_path(top)).name, *inside.parts, kind))), str(inside / file.name))


def _folders(place: Path, ending: tuple[str, str]) -> list[Path]:
    return [Path(above) for above, _, _ in _walk(place) if Path(above).parts[-2:] == ending]


def _holds_commands(folder: Path) -> bool:
    """Whether Markdown in it may be taken for commands: any other folder has its README and its docs."""
    parts = Path(real_path(folder)).parts
    return parts[-1:] == ("commands",) or _COMMANDS in pairwise(parts)


def _owner(root: Path, place: Path) -> tuple[str, ...]:
    """The folders between the project and its `.claude` or `.cursor`."""
    return root.parent.parent.relative_to(place).parts if root.parent.parent.is_relative_to(place) else ()


def _below(root: Path, suffix: str, place: Path, owner: tuple[str, ...]) -> Iterator[Found]:
    for file in _files(root, suffix):
        inside = file.relative_to(root).with_suffix("").parts
        yield Found(file, slug("-".join((*owner, *inside))), str(file.relative_to(place)))


def _files(root: Path, suffix: str) -> list[Path]:
    return [Path(above, name) for above, _, names in _walk(root) for name in sorted(names) if name.endswith(suffix)]


def _walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    for above, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - _SKIPPED)
        yield above, folders, names


def read_foreign(found: Found, others: Mapping[str, str]) -> ForeignFile | LinkedFile:
    """Read a file, or say where it leads when it is a link; `others` are the paths shown, by real path.

    Raises:
        FileProblem: it cannot be read, is no UTF-8, has fields that cannot be read, or says nothing.
    """
    if found.file.is_symlink():
        return LinkedFile(found, others.get(real_path(found.file)))
    try:
        text = read_inside(found.file.parent, found.file.name, limit=_LIMIT).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise FileProblem(f"{found.shown} is not UTF-8", hint="save it as UTF-8") from None
    headed = text.startswith("---")
    data = (_fixed(text) if headed else text).encode()
    fields = read_front_matter(data)
    if headed and not fields.values and ":" in text.partition("\n---")[0]:
        raise FileProblem(f"the front matter of {found.shown} cannot be read", hint="put its values in quotes")
    body = (parse_document(data).body if headed else text).strip("\n") + "\n"
    if not body.strip():
        raise FileProblem(f"{found.shown} is empty", hint="a skill needs a text that says what to do")
    return ForeignFile(found, fields.texts if headed else {}, fields.values if headed else {}, body)


def _fixed(text: str) -> str:
    """The text with the values of its front matter in quotes where they need them."""
    lines = text.split("\n")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
    header = "".join(f"{line}\n" for line in lines[:end])
    header = _ITEMS.sub(lambda items: items[0].removesuffix(items[1]) + _ITEM.sub(_quoted_item, items[1]), header)
    return _VALUE.sub(_quoted_value, header) + "\n".join(lines[end:])


def _quoted_item(item: re.Match[str]) -> str:
    return item[1] + _quoted(item[2])


def _quoted_value(field: re.Match[str]) -> str:
    """A hint is one text, whatever brackets it has; globs in brackets are a list."""
    value = field[3].rstrip()
    if field[1] == "globs" and value.startswith("[") and value.endswith("]"):
        words = [word.strip() for word in _IN_BRACKETS.findall(value[1:-1])]
        listed = ", ".join(word if _IS_QUOTED.fullmatch(word) else _quoted(word) for word in words if word)
        return f"{field[1]}{field[2]}[{listed}]"
    return field[1] + field[2] + _quoted(value)


def _quoted(text: str) -> str:
    return "'" + text.rstrip().replace("'", "''") + "'"
