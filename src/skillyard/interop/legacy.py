"""An old skill as it stands on the disk: its fields from SKILL.md and METADATA.yml together, and its text.

SKILL.md counts before METADATA.yml, field by field; where they differ, that is told, and nothing is dropped (defect D-22).
"""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class LegacySkill:
    """What was read: `fields` by their one name, or as they were written where nobody knows them; `body` behind the fence.

    `original` are the bytes of SKILL.md, `metadata_file` the name of the METADATA file when there is one, `doubts` what could
    not be carried over or is doubtful, one sentence each.
    """

    folder: Path
    original: bytes
    fields: Mapping[str, object]
    body: str
    metadata_file: str | None = None
    conflicts: tuple[str, ...] = ()
    doubts: tuple[str, ...] = field(default=())


def read_legacy(folder: Path) -> LegacySkill:
    """Read the skill in `folder`.

    Raises:
        FileProblem: SKILL.md or the METADATA file cannot be read, is no text, or has a front matter that no reader understands.
    """
    original = read_inside(folder, "SKILL.md", limit=_LIMIT)
    fields, doubts = _fields(original, "SKILL.md")
    body = parse_document(original, directory_name=folder.name).body if _has_header(original) else _text(original)
    name = next((name for name in METADATA_FILES if (folder / name).exists()), None)
    conflicts: list[str] = []
    if name is not None:
        data = read_inside(folder, name, limit=_LIMIT)
        header = _text(data).strip().removeprefix("---").strip("\n")
        more, told = _fields(f"---\n{header}\n---\n".encode(), name)
        doubts += told
        for key, value in more.items():
            if key not in fields:
                fields[key] = value
            elif fields[key] != value:
                conflicts.append(key)
                doubts.append(f"{key}: SKILL.md and {name} differ; what SKILL.md says was kept")
    return LegacySkill(folder, original, fields, body, name, tuple(conflicts), tuple(doubts))


def _fields(data: bytes, name: str) -> tuple[dict[str, object], list[str]]:
    """The fields under their one name, and what is doubtful."""
    if not _has_header(data):
        return {}, []
    found = read_front_matter(data)
    if not found.values:
        raise FileProblem(f"the fields of {name} cannot be read", hint="`skillyard check` shows what is wrong with them")
    doubts = [] if found.exact else [f"{name} is not proper YAML; its fields were recovered"]
    if any(line.lstrip().startswith("#") for line in _header_lines(data)):
        doubts.append(f"comments between the fields of {name} are only in its backup")
    fields: dict[str, object] = {}
    for key, value in _named(found.texts, found.values):
        if key in fields and fields[key] != value:
            doubts.append(f"{key} is written twice in {name}; the first counts")
        fields.setdefault(key, value)
    return fields, doubts


def _named(texts: Mapping[str, object], values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for written, value in values.items():
        name = SPELLINGS.get(written, written)
        chosen = texts[written] if name in _TEXTS else value
        if chosen is not None and chosen != "":
            yield name, chosen


def _has_header(data: bytes) -> bool:
    return _text(data).startswith("---")


def _header_lines(data: bytes) -> list[str]:
    return _text(data).removeprefix("---").partition("\n---")[0].splitlines()


def _text(data: bytes) -> str:
    """The text of a file, whatever its line ends.

    Raises:
        FileProblem: it is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise FileProblem("the file is not UTF-8", hint="save it as UTF-8") from None
