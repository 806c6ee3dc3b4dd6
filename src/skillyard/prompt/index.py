"""The index: the short text about all skills that goes into a system prompt, and the report of what it left unsaid."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypedDict

from skillyard.errors import InvalidInput
from skillyard.paths import relative_to
from skillyard.prompt.budget import Plan, plan
from skillyard.prompt.entry import WHOLE, Entry
from skillyard.prompt.forms import FORMS, Form, Overview, Style
from skillyard.prompt.shown import ShownSkill, labels
from skillyard.prompt.tokens import QUARTERS, count_tokens, quarters
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.catalog import Skill

__all__ = ["Index", "IndexShape", "Omission", "append_index", "build_index"]

DEFAULT_BUDGET: Final = 2000  # tokens: fifty skills or 8000 characters (C-29)
DEFAULT_DESCRIPTION: Final = 200  # characters of a description (C-29)


class OmissionShape(TypedDict):
    """An omission as plain data."""

    id: str
    reason: str


class IndexShape(TypedDict):
    """An index as plain data: the answer of `skillyard prompt --json`."""

    text: str
    tokens: int
    kept: list[str]
    shortened: list[str]
    omitted: list[OmissionShape]


@dataclass(frozen=True, slots=True)
class Omission:
    """A skill that the index does not mention, and why."""

    id: str
    reason: str

    def to_dict(self) -> OmissionShape:
        """The omission as plain data."""
        return {"id": self.id, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Index:
    """The text for a system prompt, what it costs, and what became of each skill.

    Every skill is in exactly one of `kept` (all its words are there), `shortened` (listed with a cut description or by name
    only) and `omitted`. `more` of the omitted ones could be used but had no room: the text tells the model how to find them.
    """

    text: str
    tokens: int
    kept: tuple[str, ...] = ()
    shortened: tuple[str, ...] = ()
    omitted: tuple[Omission, ...] = ()
    more: int = 0

    def to_dict(self) -> IndexShape:
        """The index as plain data: `{"text", "tokens", "kept", "shortened", "omitted": [{"id", "reason"}]}`."""
        return {
            "text": self.text,
            "tokens": self.tokens,
            "kept": list(self.kept),
            "shortened": list(self.shortened),
            "omitted": [omission.to_dict() for omission in self.omitted],
        }


def build_index(
    skills: Iterable[Skill],
    *,
    style: Style = "compact",
    budget: int | None = DEFAULT_BUDGET,
    description_chars: int | None = DEFAULT_DESCRIPTION,
    named: Collection[str] = (),
    pinned: Collection[str] = (),
    ranked: bool = False,
    roots: Sequence[str] = (),
    project_root: str | None = None,
    show_empty: bool = False,
) -> Index:
    """Write the index of `skills`, in the order given, within `budget` tokens (None: no limit).

    Only skills with status `ok` that models may call are listed; the others are reported in `omitted`. No skills: empty text.
    When not all fits, `named` skills (by name or id: those the user spoke of) are served first, then `pinned` ones, then the
    rest in order. `ranked` says that the order is a ranking for a known request: then the first keep whole descriptions and
    the last only names. `description_chars` limits every description beforehand.

    Style `section` shows `roots`, the folders that were scanned, relative to `project_root` where they are below it, and with
    `show_empty` says `Found: (none)` instead of nothing.

    Raises:
        InvalidInput: unknown style, or a negative limit.
    """
    form = _form(style, budget, description_chars)
    everyone = list(skills)
    offered = [skill for skill in everyone if skill.offered]
    hidden = [_hidden(skill) for skill in everyone if not skill.offered]
    shown_roots = (
        single_line(relative_to(root, project_root) if project_root else root) for root in roots if style == "section"
    )
    overview = Overview(len(offered), tuple(shown_roots))
    if not offered:
        text = form.header(overview) if show_empty and style == "section" else ""
        return _fitting(text, budget, hidden)
    entries = [
        form.entry(ShownSkill(skill, label, description_chars)) for skill, label in zip(offered, labels(offered), strict=True)
    ]
    tiers = _tiers(offered, entries, named, pinned)
    return _Builder(form, overview, style, budget).build(entries, tiers, hidden, ranked=ranked)


def append_index(prompt: str, index: Index, *, enabled: bool = True) -> str:
    """`prompt` with the index after it, set off by a `---` line (row 004-13); `prompt` alone when disabled or empty (C-21)."""
    if not enabled or not index.text:
        return prompt
    return f"{prompt.rstrip()}\n\n---\n\n{index.text}" if prompt.strip() else index.text


@dataclass(frozen=True, slots=True)
class _Builder:
    """One index being written: the form, what its header speaks of, and the budget in tokens."""

    form: Form
    overview: Overview
    style: Style
    budget: int | None

    def build(
        self, entries: Sequence[Entry], tiers: Sequence[Sequence[Entry]], hidden: Sequence[Omission], *, ranked: bool
    ) -> Index:
        header, footer = self.form.header(self.overview), self.form.footer
        room = None if self.budget is None else self.budget * QUARTERS - quarters(header) - quarters(footer)
        if self._all_fit(entries, room):
            return self._write(Plan(tuple((entry, WHOLE) for entry in entries), (), 0), hidden)
        capped, over = _first(tiers, self.form.most)
        result = plan(capped, room, ranked=ranked) if room is not None else _everything(capped)
        if room is not None and (result.left_out or over or room < 0):
            room -= quarters(self.form.more(len(entries)))
            if room < 0:
                return self._nothing(entries, hidden)
            result = plan(capped, room, ranked=ranked)
        return self._write(result, hidden, over)

    def _all_fit(self, entries: Sequence[Entry], room: int | None) -> bool:
        if self.form.most is not None and len(entries) > self.form.most:
            return False
        if room is None:
            return True
        return sum(entry.bare for entry in entries) <= room and sum(entry.cost(WHOLE) for entry in entries) <= room

    def _write(self, result: Plan, hidden: Sequence[Omission], over: Sequence[Entry] = ()) -> Index:
        more = len(result.left_out) + len(over)
        parts = [self.form.header(self.overview), *(entry.render(allowance) for entry, allowance in result.shown)]
        # The line about the others ends the list; where a footer closes the list it comes after that.
        parts += [self.form.footer, self.form.more(more) if more else ""]
        text = "".join(parts)
        whole = [entry.is_whole(allowance) for entry, allowance in result.shown]
        no_room = [Omission(entry.id, f"no room within {self.budget} tokens") for entry in result.left_out]
        too_many = [Omission(entry.id, f"style {self.style} lists at most {self.form.most} skills") for entry in over]
        return Index(
            text=text,
            tokens=count_tokens(text),
            kept=tuple(entry.id for (entry, _), is_whole in zip(result.shown, whole, strict=True) if is_whole),
            shortened=tuple(entry.id for (entry, _), is_whole in zip(result.shown, whole, strict=True) if not is_whole),
            omitted=(*no_room, *too_many, *hidden),
            more=more,
        )

    def _nothing(self, entries: Sequence[Entry], hidden: Sequence[Omission]) -> Index:
        needed = count_tokens(self.form.header(self.overview) + self.form.footer + self.form.more(len(entries)))
        reason = f"the words around the list alone need {needed} tokens, the budget is {self.budget}"
        return Index("", 0, omitted=(*(Omission(entry.id, reason) for entry in entries), *hidden), more=len(entries))


def _form(style: Style, budget: int | None, description_chars: int | None) -> Form:
    if style not in FORMS:
        raise InvalidInput(f"there is no index style {style!r}", hint=f"use one of {', '.join(FORMS)}")
    for name, limit in {"budget": budget, "description_chars": description_chars}.items():
        if limit is not None and limit < 0:
            raise InvalidInput(f"{name} is {limit}", hint=f"give {name} as zero or more, or None for no limit")
    return FORMS[style]


def _fitting(text: str, budget: int | None, hidden: Sequence[Omission]) -> Index:
    tokens = count_tokens(text)
    if budget is not None and tokens > budget:
        text, tokens = "", 0
    return Index(text, tokens, omitted=tuple(hidden))


def _hidden(skill: Skill) -> Omission:
    if skill.status != "ok":
        return Omission(skill.id, f"{skill.status}: {skill.reason}" if skill.reason else skill.status)
    return Omission(skill.id, "its author keeps it away from models")


def _tiers(
    skills: Sequence[Skill], entries: Sequence[Entry], named: Collection[str], pinned: Collection[str]
) -> tuple[list[Entry], list[Entry], list[Entry]]:
    """The entries of named, pinned and other skills, each in the order given; names are compared without regard to case."""
    tiers: tuple[list[Entry], list[Entry], list[Entry]] = ([], [], [])
    if not named and not pinned:
        return [], [], list(entries)
    first = {word.casefold() for word in named}
    second = {word.casefold() for word in pinned}
    for skill, entry in zip(skills, entries, strict=True):
        known_as = {skill.id.casefold(), skill.name.casefold()}
        tiers[0 if known_as & first else 1 if known_as & second else 2].append(entry)
    return tiers


def _first(tiers: Sequence[Sequence[Entry]], most: int | None) -> tuple[list[Sequence[Entry]], list[Entry]]:
    """The first `most` entries of all tiers, and the others."""
    if most is None:
        return list(tiers), []
    kept: list[Sequence[Entry]] = []
    over: list[Entry] = []
    for tier in tiers:
        kept.append(tier[:most])
        over += tier[most:]
        most -= len(kept[-1])
    return kept, over


def _everything(tiers: Sequence[Sequence[Entry]]) -> Plan:
    return Plan(tuple((entry, WHOLE) for tier in tiers for entry in tier), (), 0)
