"""Suggest what a description could say so that a skill is found for its own prompts, and no other skill is found less.

Of the prompts of a skill every second is for finding words; the others are held out and decide. Words come from prompts for
which the skill is not first, and from nothing else: those of most prompts, then the rarest, that its description does not have.
A suggestion stands when more of the held-out prompts find the skill first, and no prompt of another skill that was a hit stops
being one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from skillyard.search.evaluation import TriggerCase, is_expected
from skillyard.search.index import SearchIndex
from skillyard.search.pages import DESCRIPTION_LIMIT
from skillyard.search.words import runs, words

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.search.matches import Match


_SIZES: Final = (4, 8, 14)  # words that a suggestion adds; the fewest that help most
_FEWEST: Final = 4  # prompts of a skill, so that two are held out
_WORDS: Final = 60  # of all that the prompts say, the most telling ones
_LETTERS: Final = 3

Search = Callable[[SearchIndex, str], "Sequence[Match]"]


@dataclass(frozen=True, slots=True)
class DescriptionChange:
    """A longer description for one skill, with how many of its `held_out` prompts find it first `before` and `after`.

    `neighbours` are the prompts of other skills that were asked as well; none of them lost its hit.
    """

    skill: str
    added: tuple[str, ...]
    description: str
    held_out: int
    before: int
    after: int
    neighbours: int

    def to_dict(self) -> dict[str, Any]:
        """The suggestion as plain data; `before` and `after` are shares from 0 to 1."""
        return {
            "skill": self.skill,
            "added": list(self.added),
            "description": self.description,
            "held_out": self.held_out,
            "before": round(self.before / self.held_out, 4),
            "after": round(self.after / self.held_out, 4),
            "neighbours": self.neighbours,
        }


class _Described:
    """A skill with another description."""

    __slots__ = ("_skill", "description")

    def __init__(self, skill: Skill, description: str) -> None:
        self._skill, self.description = skill, description

    def __getattr__(self, name: str) -> object:
        return getattr(self._skill, name)


def suggest_descriptions(
    cases: Iterable[TriggerCase],
    skills: Sequence[Skill],
    search: Search,
    *,
    index: SearchIndex | None = None,
    only: str | None = None,
) -> list[DescriptionChange]:
    """Suggestions for the skills among `skills` that are not first for one of their prompts, in the order of `cases`.

    `search(index, prompt)` gives the matches, best first. `index` is one of `skills`, where there is one already. With `only`,
    the id of a skill, just for that: prompts of others say what must not get worse.
    """
    index = index or SearchIndex(skills)
    expected = [case for case in dict.fromkeys(cases) if case.expected]
    first = {case.prompt: _is_first(search(index, case.prompt), case) for case in expected}
    result = []
    for number, own in _by_skill(expected, index.skills).items():
        skill, tried, held = index.skills[number], own[::2], own[1::2]
        if only is not None and skill.id != only:
            continue
        failing = [case.prompt for case in tried if not first[case.prompt]]
        if len(own) < _FEWEST or not failing or len(skill.description) >= DESCRIPTION_LIMIT:
            continue
        others = [case for case in expected if case not in own]
        before = sum(first[case.prompt] for case in held)
        best: DescriptionChange | None = None
        for size in _SIZES:
            added = _telling(failing, skill.description, index)[:size]
            if not added or (best and len(added) == len(best.added)):
                break
            description = _extended(skill.description, added)
            changed = SearchIndex(
                [cast("Skill", _Described(one, description)) if one is skill else one for one in index.skills],
                before=index,
                everyone=True,
            )
            after = sum(_is_first(search(changed, case.prompt), case) for case in held)
            if after <= (best.after if best else before):
                continue
            if all(_is_first(search(changed, case.prompt), case) for case in others if first[case.prompt]):
                best = DescriptionChange(skill.name, tuple(added), description, len(held), before, after, len(others))
        if best:
            result.append(best)
    return result


def _by_skill(cases: Sequence[TriggerCase], skills: Sequence[Skill]) -> Mapping[int, list[TriggerCase]]:
    """The cases by the number of the one skill that each expects."""
    named: dict[str, list[int]] = {}
    for number, skill in enumerate(skills):
        for name in {skill.name.casefold(), skill.slug, skill.id.casefold()}:
            named.setdefault(name, []).append(number)
    result: dict[int, list[TriggerCase]] = {}
    for case in cases:
        numbers = {number for name in case.expected for number in named.get(name.casefold(), ())}
        if len(numbers) == 1:
            result.setdefault(numbers.pop(), []).append(case)
    return result


def _is_first(matches: Sequence[Match], case: TriggerCase) -> bool:
    return bool(matches) and is_expected(matches[0], case.expected)


def _telling(prompts: Sequence[str], description: str, index: SearchIndex) -> list[str]:
    """The words of the prompts, as written, that the description lacks: those of most prompts first, then the rarest."""
    from skillyard.search.scoring import counted_words

    has = set(words(description))
    said: Counter[str] = Counter()
    written: dict[str, str] = {}
    for prompt in prompts:
        for run in dict.fromkeys(run.lower() for run in runs(prompt)):
            stems = words(run)
            if len(stems) == 1 and len(run) >= _LETTERS and not run.isdigit() and stems[0] not in has:
                said[stems[0]] += 1
                written.setdefault(stems[0], run)
    stems = [stem for stem, _ in said.most_common(_WORDS)]
    having = dict(zip(stems, counted_words(index, stems), strict=True))
    return [written[stem] for stem in sorted(stems, key=lambda stem: (-said[stem], having[stem], stem))]


def _extended(description: str, added: Sequence[str]) -> str:
    end = "" if description.rstrip().endswith((".", "!", "?", "。")) else "."
    return f"{description.rstrip()}{end} Also for: {', '.join(added)}."
