"""What is shown of one skill: its entry in an index, with what the text costs, and the stages by how surely it fits.

An entry is a row of pieces. Plain strings are always written; a `Field` may be written whole, cut to an allowance, or left
away. All costs are in quarter tokens. A name that is not unique or not plain gives way to the skill's id.

A token is taken as four characters; a Chinese, Japanese, Korean or other wide character is one by itself. Costs are counted in
quarter tokens, because those add up exactly: the cost of two texts is the sum of their costs.

========== =============================================== ================================
stage      what is shown                                   confidence
========== =============================================== ================================
metadata   name and description                            below 0.15, or unknown
brief      and its parameters                              from 0.15
full       and its instructions                            from 0.7
========== =============================================== ================================

A preference of the session overrides that of the user, and that the confidence. Nothing of a stage is cached: a skill is
read each time, so that an edit is seen at once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast, get_args

from skillyard.errors import InvalidInput, SkillyardError
from skillyard.text import is_label, sanitize, shorten, single_line

if TYPE_CHECKING:
    from skillyard.catalog import Skill


QUARTERS: Final = 4  # quarter tokens in one token
_EXTRA: Final = QUARTERS - 1
# Hangul, CJK with its punctuation, kana, full-width forms, emoji and the supplementary ideographs.
_WIDE: Final = re.compile(
    "[\u1100-\u115f\u2e80-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
    "\U0001f000-\U0001faff\U00020000-\U0003fffd]"
)


def count_tokens(text: str) -> int:
    """The tokens `text` is reckoned at: characters / 4, rounded up, wide characters one each."""
    return -(-quarters(text) // QUARTERS)


def quarters(text: str) -> int:
    """The cost of `text` in quarter tokens: one a character, four a wide one."""
    if text.isascii():
        return len(text)
    return len(text) + _EXTRA * len(_WIDE.findall(text))


def cut(text: str, allowance: int) -> str:
    """`text` at no more than `allowance` quarter tokens, cut at a word boundary and ended with `…` when it is longer."""
    if quarters(text) <= allowance:
        return text
    if text.isascii():
        return shorten(text, allowance)
    if allowance <= 0:
        return ""
    fitting = _fitting(text, allowance - 1)  # one quarter is for the ellipsis
    return shorten(f"{text[: fitting + 1]} ", fitting + 1)  # the space keeps the text longer than the limit


def _fitting(text: str, room: int) -> int:
    """How many leading characters of `text` cost no more than `room`."""
    for wide in _WIDE.finditer(text):
        if wide.start() + QUARTERS > room:
            return max(0, min(wide.start(), room))
        room -= _EXTRA
    return max(0, min(len(text), room))


def cut_list(text: str, allowance: int) -> str:
    """`text`, a list joined by `, `, at no more than `allowance` quarter tokens: whole entries, then `…`."""
    if quarters(text) <= allowance:
        return text
    end = text.rfind(", ", 0, _fitting(text, allowance - len(", …")) + len(", "))
    short = f"{text[:end]}, …" if end > 0 else "…"
    return short if quarters(short) <= allowance else ""


RAW_LIMIT: Final = 16 * 1024  # characters of a description that are read; the Agent Skills specification allows 1024
FIELD_LIMIT: Final = 1024  # characters of any one field shown, whatever the caller allows
LABEL_COST: Final = 120  # quarter tokens of a name or id
FILE_LIMIT: Final = 200  # characters of the name of one file
FOLDER_LIMIT: Final = 1024  # characters of the path of a skill's folder


@dataclass(frozen=True, slots=True)
class ShownSkill:
    """A skill with the label it goes by and the limits of this index."""

    skill: Skill
    label: str
    description_chars: int | None

    @property
    def folder(self) -> str:
        """The skill's folder on one line, ending in a slash."""
        return shorten(single_line(self.skill.location), FOLDER_LIMIT).rstrip("/") + "/"

    def description(self) -> tuple[str, bool]:
        """The description on one line, cut to the limit, and whether it is whole."""
        whole = single_line(self.skill.description[:RAW_LIMIT])
        limit = FIELD_LIMIT if self.description_chars is None else min(self.description_chars, FIELD_LIMIT)
        short = shorten(whole, limit)
        return short, short == whole and len(self.skill.description) <= RAW_LIMIT

    def body(self) -> str:
        """The instructions, trimmed, with their lines but without invisible characters; empty when they cannot be read."""
        try:
            return sanitize(self.skill.document().body).strip()
        except (OSError, SkillyardError):
            return ""

    def top_files(self) -> tuple[str, ...]:
        """`SKILL.md`, the files beside it, then the folders with a slash: `SKILL.md, script.py, templates/`."""
        try:
            names = [_file(file.name) for file in self.skill.files()]
        except (OSError, SkillyardError):
            names = []
        beside = [name for name in names if "/" not in name]
        folders = [f"{name.partition('/')[0]}/" for name in names if "/" in name]
        return tuple(dict.fromkeys(["SKILL.md", *beside, *folders]))

    def classed_files(self) -> tuple[str, ...]:
        """`SKILL.md`, references, scripts and templates; several in one folder as `scripts/(8个脚本)`."""
        try:
            inventory = self.skill.inventory()
        except (OSError, SkillyardError):
            return ("SKILL.md",)
        return (
            "SKILL.md",
            *_grouped(inventory.reference_files, "个文件"),
            *_grouped(inventory.script_files, "个脚本"),
            *_grouped(inventory.template_files, "个文件"),
        )


def _grouped(paths: Sequence[str], unit: str) -> list[str]:
    """Files of the top folder by name, the files of any other folder as one count, or by path when there is only one."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, slash, _ = path.partition("/")
        folders.setdefault(f"{folder}/" if slash else path, []).append(path)
    parts = [inside[0] if len(inside) == 1 else f"{folder}({len(inside)}{unit})" for folder, inside in folders.items()]
    return [_file(part) for part in parts]


def _file(name: str) -> str:
    return shorten(single_line(name), FILE_LIMIT)


def labels(skills: Sequence[Skill]) -> list[str]:
    """The word each skill goes by: its name when that is plain and unique among `skills`, else its id."""
    uses = Counter(skill.name for skill in skills)
    return [
        skill.name
        if uses[skill.name] == 1 and quarters(skill.name) <= LABEL_COST and is_label(skill.name)
        else cut(single_line(skill.reference), LABEL_COST)
        for skill in skills
    ]


Cutter: TypeAlias = Callable[[str, int], str]
BARE: Final = 0  # allowance of an entry that shows its name only
WHOLE: Final = -1  # allowance of an entry that shows everything


class Field:
    """A piece of an entry that may be shortened: `before` + text + `after`.

    `escape` makes the text safe for the style and is applied after the cut, so that no entity is torn. `complete` is false when
    a fixed limit, such as `description_chars`, has already taken something away.
    """

    __slots__ = ("_cutter", "_escape", "_raw", "after", "before", "complete", "frame", "size", "text")

    def __init__(
        self,
        raw: str,
        *,
        before: str = "",
        after: str = "",
        cutter: Cutter = cut,
        escape: Callable[[str], str] | None = None,
        complete: bool = True,
    ) -> None:
        self._raw = raw
        self._cutter = cutter
        self._escape = escape
        self.before = before
        self.after = after
        self.complete = complete
        self.text = escape(raw) if escape else raw
        self.size = quarters(self.text)
        self.frame = quarters(before) + quarters(after)

    def at(self, allowance: int) -> str:
        """The text at no more than `allowance` quarter tokens; whole for `WHOLE`."""
        if allowance == WHOLE or self.size <= allowance:
            return self.text
        room = allowance
        while True:
            short = self._cutter(self._raw, room)
            short = self._escape(short) if self._escape else short
            over = quarters(short) - allowance
            if over <= 0:
                return short
            room -= over


Piece: TypeAlias = str | Field


class IndexEntry:
    """One skill in an index: its id, its cost as a bare name, and its pieces, made when they are first needed."""

    __slots__ = ("_detailed", "_fields", "_pieces", "bare", "bare_text", "id")

    def __init__(self, skill_id: str, bare: str, detailed: Callable[[], Sequence[Piece]]) -> None:
        self.id = skill_id
        self.bare_text = bare
        self.bare = quarters(bare)
        self._detailed = detailed
        self._pieces: tuple[Piece, ...] | None = None
        self._fields: tuple[Field, ...] = ()

    def name_only(self) -> IndexEntry:
        """The entry without its fields, which has nothing more to say."""
        return IndexEntry(self.id, self.bare_text, lambda: (self.bare_text,))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The fixed texts and the fields, in the order in which they are written."""
        if self._pieces is None:
            self._pieces = tuple(self._detailed())
            self._fields = tuple(piece for piece in self._pieces if isinstance(piece, Field))
        return self._pieces

    @property
    def fields(self) -> tuple[Field, ...]:
        """The pieces that may be shortened."""
        return self._fields if self.pieces else ()

    @property
    def frame(self) -> int:
        """What the words around the fields cost, on top of the bare name."""
        return sum(field.frame for field in self.fields)

    def cost(self, allowance: int) -> int:
        """What the entry costs with `allowance` quarter tokens a field."""
        if allowance == BARE:
            return self.bare
        if allowance == WHOLE:
            return self.bare + sum(field.frame + field.size for field in self.fields)
        return self.bare + sum(field.frame + quarters(field.at(allowance)) for field in self.fields)

    def render(self, allowance: int) -> str:
        """The entry's text with `allowance` quarter tokens a field."""
        if allowance == BARE:
            return self.bare_text
        return "".join(
            piece if isinstance(piece, str) else f"{piece.before}{piece.at(allowance)}{piece.after}" for piece in self.pieces
        )

    def is_whole(self, allowance: int) -> bool:
        """Whether nothing of the skill's own words is missing at `allowance`."""
        return allowance != BARE and all(
            field.complete and (allowance == WHOLE or field.size <= allowance) for field in self.fields
        )


Stage = Literal["metadata", "brief", "full"]
"""How much of a skill is shown."""

_BRIEF_FROM: Final = 0.15
_FULL_FROM: Final = 0.7
_DESCRIPTION: Final = 1024  # characters
_PARAMETERS: Final = 40
_PARAMETER: Final = 200  # characters of its description
_WORD: Final = 64  # characters of its name and of its type


def disclosure_stage(confidence: float, *, session: str | None = None, user: str | None = None) -> Stage:
    """The stage for a skill that fits with `confidence`; a preference of the session, else of the user, decides instead.

    Raises:
        InvalidInput: a preference that is no stage.
    """
    if (preferred := user if session is None else session) is not None:
        return _stage(preferred)
    if confidence >= _FULL_FROM:
        return "full"
    return "brief" if confidence >= _BRIEF_FROM else "metadata"


def describe_skill(skill: Skill, stage: Stage) -> str:
    """The text about `skill` at `stage`, without anything invisible; only the metadata of one that cannot be read.

    Raises:
        InvalidInput: no such stage.
    """
    lines = [f"{skill.label} ({skill.reference}): {shorten(single_line(skill.description), _DESCRIPTION)}"]
    if _stage(stage) == "metadata":
        return lines[0]
    try:
        document = skill.document()
    except (OSError, SkillyardError):
        return lines[0]
    if parameters := _parameters(document.metadata.input_schema):
        lines += ["Parameters:", *parameters]
    if stage == "full" and (body := sanitize(document.body).strip()):
        lines += ["", body]
    return "\n".join(lines)


def _stage(text: str) -> Stage:
    if text in get_args(Stage):
        return cast("Stage", text)
    raise InvalidInput(f"no disclosure stage {text!r}", hint=f"choose one of: {', '.join(get_args(Stage))}")


def _parameters(schema: Mapping[str, object] | None) -> list[str]:
    """One line for each parameter that the input schema names."""
    properties = (schema or {}).get("properties")
    required = (schema or {}).get("required")
    if not isinstance(properties, Mapping):
        return []
    needed = set(map(str, required)) if isinstance(required, list) else set()
    return [_parameter(str(name), declared, str(name) in needed) for name, declared in list(properties.items())[:_PARAMETERS]]


def _parameter(name: str, declared: object, needed: bool) -> str:
    details: Mapping[str, object] = declared if isinstance(declared, Mapping) else {}
    kind = shorten(single_line(str(details.get("type", "any"))), _WORD)
    description = shorten(single_line(str(details.get("description", ""))), _PARAMETER)
    line = f"- {shorten(single_line(name), _WORD)} ({kind}{', required' if needed else ''})"
    return f"{line}: {description}" if description else line
