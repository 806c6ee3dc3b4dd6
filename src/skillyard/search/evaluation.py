"""Evaluate a catalog: whether the right skill comes out for each of a list of prompts, and which skills would be mixed up.

Prompts come in the shapes that public skills keep them in, as JSON, JSON lines or YAML::

    [{"query" or "prompt" or "input": text, "should_trigger": true or false}]
    [{"query": …, "expected_skill": "name" or "name/SKILL.md" or null}], or "expected_skills": names in a list or with commas
    {"skill_name": name, "evals": […]}, {"skill": name, "triggers" or "trigger": […]}, {"queries": […]}

A prompt for which a skill is expected, or which should trigger the skill the file is about, is a hit at a rank; one that none
is expected for is a false alarm when a skill is found with at least the requested confidence.

A model picks by names and descriptions. Two skills collide when the weight of the words they share there, each word weighted by
how few skills have it, is most of the weight of either. Only skills that share a rare word are compared.

A longer description may be suggested with which a skill is found for its own prompts, and no other skill is found less.
Of the prompts of a skill every second is for finding words; the others are held out and decide. Words come from prompts for
which the skill is not first, and from nothing else: those of most prompts, then the rarest, that its description does not have.
A suggestion stands when more of the held-out prompts find the skill first, and no prompt of another skill that was a hit stops
being one.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from skillyard.errors import InvalidInput, SkillyardError
from skillyard.paths import read_inside
from skillyard.search.pages import DESCRIPTION_LIMIT
from skillyard.search.search_index import SearchIndex
from skillyard.search.words import runs, words
from skillyard.text import single_line
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.search.matches import Match


DEPTHS: Final = (1, 5, 10)
_DEEPEST: Final = 20
_TEXTS: Final = ("query", "prompt", "input", "text", "request")
_LISTS: Final = ("evals", "triggers", "trigger", "queries", "tests", "cases")
_NAMES: Final = ("skill_name", "skill", "name")
_FILES: Final = 20  # of one skill
_LARGEST: Final = 1024 * 1024  # bytes of one of them
_MOST: Final = 500  # prompts of one skill
_PROMPT: Final = 4_000  # characters of one of them


@dataclass(frozen=True, slots=True)
class TriggerCase:
    """One prompt: any of `expected` is right (name or id), `unwanted` must not be found; with neither nothing should be."""

    prompt: str
    expected: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TriggerResult:
    """What came out for one prompt: the matches, best first, and the rank of the right one (from 1, None: not among ten).

    Where nothing, or not one skill, should be found, it `passed` when nothing of that was found with enough confidence.
    """

    case: TriggerCase
    passed: bool
    rank: int | None
    found: tuple[Match, ...]

    @property
    def message(self) -> str:
        """Why it did not pass, empty when it did."""
        if self.passed:
            return ""
        if self.case.expected:
            return f"{' or '.join(self.case.expected)} is not among the first {DEPTHS[-1]}"
        match = self.found[0]
        return f"{match.skill.name} is found with confidence {match.confidence:.2f}, and should not be"


@dataclass(frozen=True, slots=True)
class Evaluation(WireForm, also=("prompts", "hits", "false_alarms", "misses", "alarms")):
    """What came out by prompt: the rank of the right skill (from 1, None: not among ten), or whether it stayed `quiet`.

    Shares are from 0 to 1, None where no prompt covers it.
    """

    ranks: Mapping[str, int | None] = field(metadata=wire(hidden=True))
    quiet: Mapping[str, bool] = field(metadata=wire(hidden=True))

    @property
    def prompts(self) -> int:
        """How many there are."""
        return len(self.ranks) + len(self.quiet)

    @property
    def hits(self) -> Mapping[str, float | None]:
        """The share of prompts whose right skill is among the first, by how many."""
        return {str(depth): self.hit(depth) for depth in DEPTHS}

    @property
    def misses(self) -> tuple[str, ...]:
        """The prompts whose right skill was not found."""
        return tuple(prompt for prompt, rank in self.ranks.items() if rank is None)

    @property
    def alarms(self) -> tuple[str, ...]:
        """The prompts for which something was found that should not have been."""
        return tuple(prompt for prompt, quiet in self.quiet.items() if not quiet)

    def hit(self, depth: int) -> float | None:
        """The share of prompts whose right skill is among the first `depth`."""
        ranks = self.ranks.values()
        return round(sum(rank is not None and rank <= depth for rank in ranks) / len(ranks), 4) if ranks else None

    @property
    def false_alarms(self) -> float | None:
        """The share of prompts for which something was found that should not have been."""
        return round(sum(not quiet for quiet in self.quiet.values()) / len(self.quiet), 4) if self.quiet else None


def evaluate_triggers(
    cases: Iterable[TriggerCase], search: Callable[[str, int], Sequence[Match]], *, min_confidence: float = 0.3
) -> Evaluation:
    """Ask `search(prompt, limit)` for each case; `min_confidence` is what makes a match an alarm."""
    return evaluation_of(try_trigger(case, search, min_confidence=min_confidence) for case in cases)


def try_trigger(
    case: TriggerCase, search: Callable[[str, int], Sequence[Match]], *, min_confidence: float = 0.3
) -> TriggerResult:
    """Ask `search(prompt, limit)` for one case; `min_confidence` is what makes a match an alarm."""
    matches = search(case.prompt, DEPTHS[-1])
    if case.expected:
        rank = next((at for at, match in enumerate(matches, 1) if is_expected(match, case.expected)), None)
        return TriggerResult(case, rank is not None, rank, tuple(matches))
    sure = [match for match in matches if match.confidence >= min_confidence]
    wrong = [match for match in sure[:1] if not case.unwanted or is_expected(match, case.unwanted)]
    return TriggerResult(case, not wrong, None, tuple(matches))


def evaluation_of(results: Iterable[TriggerResult]) -> Evaluation:
    """What the results of single prompts come to."""
    ranks: dict[str, int | None] = {}
    quiet: dict[str, bool] = {}
    for result in results:
        if result.case.expected:
            ranks[result.case.prompt] = result.rank
        else:
            quiet[result.case.prompt] = result.passed
    return Evaluation(ranks, quiet)


def skill_trigger_cases(skill: Skill) -> tuple[list[TriggerCase], list[str]]:
    """The prompts in the files of `evals/` of a skill, at most 500, each once; and what was left out, in sentences."""
    cases: dict[str, TriggerCase] = {}
    notes: list[str] = []
    for name in sorted(file.name for file in skill.files() if _holds_prompts(file.name))[:_FILES]:
        try:
            found = _cases(_parsed(read_inside(skill.directory, name, limit=_LARGEST).decode()), skill.name)
            cases |= {case.prompt[:_PROMPT]: replace(case, prompt=case.prompt[:_PROMPT]) for case in found}
        except UnicodeDecodeError:
            notes.append(f"{name} is not text in UTF-8")
        except (SkillyardError, OSError) as error:
            notes.append(f"{name} cannot be read: {single_line(str(error))}")
    if len(cases) > _MOST:
        notes.append(f"only the first {_MOST} of {len(cases)} prompts are tried")
    return list(cases.values())[:_MOST], notes


def _holds_prompts(name: str) -> bool:
    return name.startswith("evals/") and name.count("/") == 1 and name.lower().endswith((".json", ".jsonl", ".yaml", ".yml"))


def read_trigger_cases(text: str, *, skill: str | None = None) -> list[TriggerCase]:
    """The cases in a file; `skill` is the one that `should_trigger` is about when the file names none.

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
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    with suppress(ValueError, RecursionError):
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return _yaml(text)


def _yaml(text: str) -> object:
    """A YAML document; its events are checked first, because the parser in C crashes on very deep nesting."""
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
    listed = value if isinstance(value, list) else str(value).split(",") if isinstance(value, str) else []
    names = (str(name).strip().removesuffix("/SKILL.md").rpartition("/")[2] for name in listed)
    return tuple(name for name in names if name)


def is_expected(match: Match, names: Sequence[str]) -> bool:
    """Whether the match, or a skill of nearly its content, has one of the names (name, id or slug)."""
    names_of_match = {match.skill.name.casefold(), match.skill.id.casefold(), match.skill.slug}
    names_of_match.update(one.casefold() for one in match.duplicates)
    return any(name.casefold() in names_of_match for name in names)


_ALIKE: Final = 0.5  # share of the weight of both
_COMMON: Final = 0.02  # share of all skills from which a word distinguishes nothing, and
_FEW: Final = 25  # so many skills at least
_SHOWN: Final = 6
_DESCRIPTION: Final = 2_000  # characters


@dataclass(frozen=True, slots=True)
class Collision(WireForm, also=("skills", "advice")):
    """Two skills that a model would mix up.

    `alike` is the share (0 to 1) of the weight of their words that both have; `shared` the rarest of those; `apart` has
    for each of the two, by id, words of its own text that the other does not have anywhere: what a description could say.
    """

    first: Skill = field(metadata=wire(hidden=True))
    second: Skill = field(metadata=wire(hidden=True))
    alike: float
    shared: tuple[str, ...]
    apart: Mapping[str, tuple[str, ...]]

    @property
    def advice(self) -> str:
        """How to make the two distinct."""
        parts = [f"{skill.name!r} that it is for {', '.join(self.apart[skill.id])}" for skill in (self.first, self.second)
                if self.apart[skill.id]]  # fmt: skip
        if not parts:
            return "their texts do not differ: remove one, or disable it"
        return f"say in the description of {', and of '.join(parts)}"

    @property
    def skills(self) -> tuple[str, str]:
        """The ids of the two."""
        return self.first.id, self.second.id


def find_collisions(skills: Iterable[Skill]) -> list[Collision]:
    """The pairs of offered skills that a model would mix up, the most alike first."""
    offered = [skill for skill in skills if skill.offered]
    texts = [Counter(words(f"{skill.name} {skill.description[:_DESCRIPTION]}")) for skill in offered]
    having = Counter(word for one in texts for word in one)
    weight = {word: math.log(1 + len(offered) / count) for word, count in having.items()}
    pairs = [
        (alike, one, two)
        for one, two in _candidates(texts, having)
        if (alike := _alike(texts[one], texts[two], weight)) >= _ALIKE
    ]
    pairs.sort(key=lambda entry: (-entry[0], entry[1], entry[2]))
    return [_collision(offered[one], offered[two], alike, texts[one], texts[two], weight) for alike, one, two in pairs]


def _candidates(texts: Sequence[Counter[str]], having: Counter[str]) -> Iterable[tuple[int, int]]:
    """The pairs that share words few others have, at least a third of those of the shorter one."""
    owners: dict[str, list[int]] = defaultdict(list)
    most = max(_FEW, int(_COMMON * len(texts)))
    for number, one in enumerate(texts):
        for word in one:
            if 1 < having[word] <= most:
                owners[word].append(number)
    shared: Counter[tuple[int, int]] = Counter()
    for numbers in owners.values():
        shared.update((one, two) for at, one in enumerate(numbers) for two in numbers[at + 1 :])
    return [pair for pair, count in shared.items() if 3 * count >= min(len(texts[pair[0]]), len(texts[pair[1]]))]


def _alike(one: Counter[str], two: Counter[str], weight: Mapping[str, float]) -> float:
    both = sum(weight[word] for word in one.keys() & two.keys())
    return round(both / (sum(weight[word] for word in one.keys() | two.keys()) or 1.0), 3)


def _collision(
    first: Skill, second: Skill, alike: float, one: Counter[str], two: Counter[str], weight: Mapping[str, float]
) -> Collision:
    shared = sorted(one.keys() & two.keys(), key=lambda word: (-weight[word], word))[:_SHOWN]
    texts = [_text(first), _text(second)]
    stems = [set(words(text)) for text in texts]
    apart = {first.id: _own(texts[0], stems[1]), second.id: _own(texts[1], stems[0])}
    written = {stem: run.lower() for run in runs(f"{first.name} {first.description}") for stem in words(run)}
    return Collision(first, second, alike, tuple(written.get(word, word) for word in shared), apart)


def _text(skill: Skill) -> str:
    """Name, description and instructions; only the first two when the file cannot be read."""
    texts = f"{skill.name} {skill.description[:_DESCRIPTION]}"
    try:
        return f"{texts}\n{skill.document().body}"
    except (OSError, SkillyardError):
        return texts


def _own(text: str, other: set[str]) -> tuple[str, ...]:
    """The words of `text`, as written, that are most frequent in it and `other` does not have."""
    counts: Counter[str] = Counter()
    for run in runs(text):
        stems = words(run)
        if stems and len(run) > 2 and not run.isdigit() and other.isdisjoint(stems):
            counts[run.lower()] += 1
    return tuple(word for word, _ in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:_SHOWN])


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
        """Plain data, in which `before` and `after` are shares of `held_out`, from 0 to 1."""
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
