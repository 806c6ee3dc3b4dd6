"""Matches of a search, each with its confidence and its reasons, and the scores that they are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from skillyard.catalog import Skill

SURE: Final = 0.5
"""The confidence from which a match is sure."""


class Scores(NamedTuple):
    """The best skills of one request, best first, as four lists of the same length."""

    numbers: list[int] = []  # noqa: RUF012 - never changed
    """Their numbers in the index."""
    values: list[float] = []  # noqa: RUF012
    covered: list[float] = []  # noqa: RUF012
    """The share of the request's weight that each has, 0 to 1."""
    positions: list[int] = []  # noqa: RUF012
    """The position of each among all skills of all segments."""


class Reason(NamedTuple):
    """One reason for a match: the field, the word or phrase as it is written there, and its share of the request's weight."""

    field: str
    written: str
    weight: float


@dataclass(frozen=True)
class Match:
    """A skill that fits a request, how sure that is (0 to 1), and in `duplicates` the ids of skills with nearly its content."""

    skill: Skill
    confidence: float
    duplicates: tuple[str, ...] = ()
    fitting: float = 1.0
    """How sure it is that any skill of the catalog is meant (0 to 1): one judgement of the whole answer, in each match."""
    _why: Callable[[], list[tuple[str, str]]] = field(default=list, repr=False, compare=False)
    _weigh: Callable[[str], float] = field(default=lambda _: 0.0, repr=False, compare=False)

    @property
    def sure(self) -> bool:
        """Whether it is more likely right than not; the others are only the nearest there are."""
        return self.confidence >= SURE

    @cached_property
    def matched(self) -> tuple[str, ...]:
        """Because of what: at most eight words or phrases that the skill and the request share, each after its field.

        The fields are `name:`, `phrase:`, `keyword:`, `description:` and `text:` (headings, body and names of files).
        """
        return tuple(f"{kind}:{written}" for kind, written in self._why())

    def explain(self) -> tuple[Reason, ...]:
        """The reasons of `matched` with what each weighs in the request (0 to 1), in the same order."""
        return tuple(Reason(kind, written, self._weigh(written)) for kind, written in self._why())

    @property
    def none_may_fit(self) -> bool:
        """Whether the whole answer reads like those for which no skill was meant: they are the nearest, and none may fit."""
        return self.fitting < SURE and not self.sure

    def to_dict(self) -> dict[str, Any]:
        """The match as plain data: `{"id", "name", "confidence", "sure", "matched", "duplicates"?}`."""
        shape: dict[str, Any] = {"id": self.skill.id, "name": self.skill.name, "confidence": self.confidence}
        shape |= {"sure": self.sure, "matched": list(self.matched)}
        return shape | ({"duplicates": list(self.duplicates)} if self.duplicates else {})
