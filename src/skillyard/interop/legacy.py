"""An old skill as it stands on the disk: its fields from SKILL.md and METADATA.yml together, and its text.

SKILL.md counts before METADATA.yml, and that before METADATA.yaml, field by field; where they differ, that is told, and nothing
is dropped (defect D-22).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skillyard.document import parse_document, read_front_matter
from skillyard.document.spelling import SPELLINGS
from skillyard.errors import FileProblem
from skillyard.paths import read_inside

__all__ = ["METADATA_FILES", "LegacySkill", "read_legacy"]

METADATA_FILES: Final = ("METADATA.yml", "METADATA.yaml")
_LIMIT: Final = 1024 * 1024
_TEXTS: Final = frozenset({
    "name", "description", "display_name", "version", "type", "domain", "category", "protocol", "license", "author", "skill_id",
})  # fmt: skip
"""Fields that are text whatever they look like: a version `1.10` is no number."""
_OPENING: Final = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*---[ \t]*(?:\n|$)")
_CLOSING: Final = re.compile(r"(?:^|\n)(?:---|\.\.\.)\s*\Z")
_COMMENT: Final = re.compile(r"^\s*#|^[^\"']*\s#")
_LINE: Final = re.compile(r"\bline (\d+)")
_COMMENTS: Final = "comments between the fields of {} are only in its backup"


@dataclass(frozen=True, slots=True)
class LegacySkill:
    """What was read: `fields` by their one name, or as they were written where nobody knows them; `body` behind the fence.

    `original` are the bytes of SKILL.md, `metadata_files` the names of the METADATA files that are there, `doubts` what could
    not be carried over or is doubtful, one sentence each. `lossy` names the files that say something `fields` do not.
    """

    folder: Path
    original: bytes
    fields: Mapping[str, object]
    body: str
    metadata_files: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    lossy: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Reading:
    """The fields so far, and from which file each came."""

    fields: dict[str, object] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    lossy: set[str] = field(default_factory=set)

    def doubt(self, file: str, sentence: str) -> None:
        """Note what is not carried over from `file`."""
        self.doubts.append(sentence)
        self.lossy.add(file)

    def add(self, file: str, key: str, value: object) -> None:
        """Take a field over, unless an earlier file, or this one, says something else."""
        if key not in self.fields:
            self.fields[key], self.origins[key] = value, file
        elif self.fields[key] != value and (first := self.origins[key]) == file:
            self.doubt(file, f"{key} is written twice in {file}; the first counts")
        elif self.fields[key] != value:
            self.doubt(file, f"{key}: {first} and {file} differ; what {first} says was kept")


def read_legacy(folder: Path) -> LegacySkill:
    """Read the skill in `folder`.

    Raises:
        FileProblem: SKILL.md or a METADATA file cannot be read, is no text, or has fields that no reader understands.
    """
    original = read_inside(folder, "SKILL.md", limit=_LIMIT)
    text, reading = _text(original, "SKILL.md"), _Reading()
    headed = text.startswith("---")
    if headed:
        _add_fields(reading, "SKILL.md", original, lines_before=0)
    names = tuple(name for name in METADATA_FILES if (folder / name).exists())
    for name in names:
        _add_metadata(reading, name, _text(read_inside(folder, name, limit=_LIMIT), name))
    body = parse_document(original, directory_name=folder.name).body if headed else text
    return LegacySkill(folder, original, reading.fields, body, names, tuple(reading.doubts), frozenset(reading.lossy))


def _add_metadata(reading: _Reading, name: str, text: str) -> None:
    """A METADATA file is one YAML document, perhaps between the fences of a front matter."""
    opening = _OPENING.match(text)
    header = _CLOSING.sub("", text[opening.end() if opening else 0 :]).rstrip()
    if opening and "#" in opening[0]:
        reading.doubt(name, _COMMENTS.format(name))
    before = text[: opening.end()].count("\n") if opening else 0
    lines = header.splitlines()
    if all(not line.strip() or line.lstrip().startswith("#") for line in lines):
        reading.lossy |= {name} if header else set()
        return
    if (second := next((number for number, line in enumerate(lines, before + 1) if line.rstrip() in ("---", "...")), 0)) > 0:
        raise FileProblem(f"{name}, line {second}: a second YAML document begins", hint="make one document of them")
    _add_fields(reading, name, f"---\n{header}\n---\n".encode(), lines_before=before - 1)


def _add_fields(reading: _Reading, name: str, data: bytes, *, lines_before: int) -> None:
    """The fields of a front matter; `lines_before` is what a line in `data` lacks to its line in the file."""
    found = read_front_matter(data)
    if not found.values and not found.exact:
        raise FileProblem(_why_unreadable(name, data, lines_before), hint="fix the line, then migrate again")
    if not found.exact:
        reading.doubt(name, f"{name} is not proper YAML; its fields were recovered")
    if any(_COMMENT.search(line) for line in _header_lines(data)):
        reading.doubt(name, _COMMENTS.format(name))
    for key, value in _named(found.texts, found.values):
        reading.add(name, key, value)


def _why_unreadable(name: str, data: bytes, lines_before: int) -> str:
    """The reader's own words, with the line of the file."""
    found = next((one for one in parse_document(data).diagnostics if one.severity == "error"), None)
    if found is None:
        return f"the fields of {name} cannot be read"
    message = _LINE.sub(lambda line: f"line {int(line[1]) + lines_before}", found.message)
    return f"{name}, line {max(found.line + lines_before, 1)}: {message}"


def _named(texts: Mapping[str, object], values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for written, value in values.items():
        name = SPELLINGS.get(written, written)
        chosen = texts[written] if name in _TEXTS else value
        if chosen is not None and chosen != "":
            yield name, chosen


def _header_lines(data: bytes) -> list[str]:
    text = data.decode("utf-8-sig").replace("\r\n", "\n")
    return text.removeprefix("---").partition("\n---")[0].splitlines()


def _text(data: bytes, name: str) -> str:
    """The text of a file, whatever its line ends.

    Raises:
        FileProblem: it is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileProblem(f"{name}, line {line}: the file is not UTF-8", hint="save it as UTF-8") from None
