"""Evaluate triggers: whether the right skill comes out for each of a list of prompts.

Prompts come in the shapes that public skills keep them in, as JSON, JSON lines or YAML::

    [{"query" or "prompt" or "input": text, "should_trigger": true or false}]
    [{"query": …, "expected_skill": "name" or "name/SKILL.md" or null}], or "expected_skills": names in a list or with commas
    {"skill_name": name, "evals": […]}, {"skill": name, "triggers" or "trigger": […]}, {"queries": […]}

A prompt for which a skill is expected, or which should trigger the skill the file speaks of, is a hit at a rank; one that none
is expected for is a false alarm when a skill is found with at least the confidence asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypedDict

from skillyard.errors import InvalidInput

if TYPE_CHECKING:
    from skillyard.search.match import Match


DEPTHS: Final = (1, 5, 10)
_DEEPEST: Final = 20
_TEXTS: Final = ("query", "prompt", "input", "text", "request")
_LISTS: Final = ("evals", "triggers", "trigger", "queries", "tests", "cases")
_NAMES: Final = ("skill_name", "skill", "name")


@dataclass(frozen=True, slots=True)
class TriggerCase:
    """One prompt: any of `expected` is right (name or id), `unwanted` must not be found; with neither nothing should be."""

    prompt: str
    expected: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()


class EvaluationShape(TypedDict):
    """An evaluation as plain data: shares from 0 to 1, None where no prompt asks for it."""

    prompts: int
    hits: dict[str, float | None]
    false_alarms: float | None
    misses: list[str]
    alarms: list[str]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came out by prompt: the rank of the right skill (from 1, None: not among ten), or whether it stayed `quiet`."""

    ranks: Mapping[str, int | None]
    quiet: Mapping[str, bool]

    def hit(self, depth: int) -> float | None:
        """The share of prompts whose right skill is among the first `depth`."""
        ranks = self.ranks.values()
        return round(sum(rank is not None and rank <= depth for rank in ranks) / len(ranks), 4) if ranks else None

    @property
    def false_alarms(self) -> float | None:
        """The share of prompts for which something was found that should not have been."""
        return round(sum(not quiet for quiet in self.quiet.values()) / len(self.quiet), 4) if self.quiet else None

    def to_dict(self) -> EvaluationShape:
        """The evaluation as plain data."""
        return {
            "prompts": len(self.ranks) + len(self.quiet),
            "hits": {str(depth): self.hit(depth) for depth in DEPTHS},
            "false_alarms": self.false_alarms,
            "misses": [prompt for prompt, rank in self.ranks.items() if rank is None],
            "alarms": [prompt for prompt, quiet in self.quiet.items() if not quiet],
        }


def evaluate_triggers(
    cases: Iterable[TriggerCase], search: Callable[[str, int], Sequence[Match]], *, min_confidence: float = 0.3
) -> Evaluation:
    """Ask `search(prompt, limit)` for each case; `min_confidence` is what makes a match an alarm."""
    ranks: dict[str, int | None] = {}
    quiet: dict[str, bool] = {}
    for case in cases:
        matches = search(case.prompt, DEPTHS[-1])
        if case.expected:
            ranks[case.prompt] = next((at for at, match in enumerate(matches, 1) if _is_one(match, case.expected)), None)
        else:
            sure = [match for match in matches if match.confidence >= min_confidence]
            wrong = [match for match in sure[:1] if not case.unwanted or _is_one(match, case.unwanted)]
            quiet[case.prompt] = not wrong
    return Evaluation(ranks, quiet)


def read_trigger_cases(text: str, *, skill: str | None = None) -> list[TriggerCase]:
    """The cases in a file; `skill` is the one that `should_trigger` speaks of when the file names none.

    Raises:
        InvalidInput: it is neither JSON, JSON lines nor YAML, or has no prompts of a known shape.
    """
    cases = list(_cases(_parsed(text), skill))
    if not cases:
        raise InvalidInput(
            "there are no prompts in that file",
            hint='give a list such as [{"query": "merge two PDFs", "expected_skill": "pdf"}]',
        )
    return cases


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        return [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        pass
    return _yaml(text)


def _yaml(text: str) -> object:
    """A YAML document; its events are looked at first, for the parser in C dies of what is nested without end."""
    import yaml

    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST or isinstance(event, yaml.AliasEvent):
                raise InvalidInput("the prompts are nested too deeply or use aliases", hint="write them as a plain list")
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidInput(
            f"the prompts cannot be read: {str(error).splitlines()[0]}", hint="write them as JSON, JSON lines or YAML"
        ) from None


def _cases(value: object, skill: str | None) -> Iterable[TriggerCase]:
    if isinstance(value, Mapping):
        named = next((name for key in _NAMES if isinstance(name := value.get(key), str)), skill)
        for key in _LISTS:
            if isinstance(value.get(key), list):
                yield from _cases(value[key], named)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, Mapping):
                yield from _case(item, skill)
            elif isinstance(item, str) and item.strip() and skill:
                yield TriggerCase(item, (skill,))


def _case(item: Mapping[object, object], skill: str | None) -> Iterable[TriggerCase]:
    """The case of one entry; an entry that holds a list of cases gives all of them."""
    prompt = next((text for key in _TEXTS if isinstance(text := item.get(key), str) and text.strip()), None)
    if prompt is None:
        yield from _cases(item, skill)
        return
    for key in ("expected_skill", "expected_skills", "expected"):
        if key in item:
            yield TriggerCase(prompt, _names(item[key]))
            return
    own = (skill,) if skill else ()
    should = item.get("should_trigger", True)
    if should is True and own:
        yield TriggerCase(prompt, own)
    elif should is False:
        yield TriggerCase(prompt, (), own)


def _names(value: object) -> tuple[str, ...]:
    found = value if isinstance(value, list) else str(value).split(",") if isinstance(value, str) else []
    names = (str(name).strip().removesuffix("/SKILL.md").rpartition("/")[2] for name in found)
    return tuple(name for name in names if name)


def _is_one(match: Match, names: Sequence[str]) -> bool:
    known = {match.skill.name.casefold(), match.skill.id.casefold(), match.skill.slug}
    known.update(one.casefold() for one in match.duplicates)
    return any(name.casefold() in known for name in names)
