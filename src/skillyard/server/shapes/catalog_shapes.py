"""The skills of the catalog as answers: list entries, filters and their counts, search matches, and one skill in detail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Final, Literal, Self

from fastapi import Query
from pydantic import BaseModel, Field

from skillyard.catalog import Skill, SkillState, Source, Status, Withdrawal, withdrawal
from skillyard.insights import SkillUse
from skillyard.permissions import Rules
from skillyard.prompt import count_tokens
from skillyard.registry import Powers
from skillyard.scanner import SEVERITIES, Finding, Severity, Skipped, WatchReport
from skillyard.search import Match
from skillyard.server.shapes import Answer, Meta, RequestBody, ResponseShape
from skillyard.skill_detail import SkillDetail
from skillyard.wire import WireForm, wire

_BESIDE: Final = ("display_name", "version", "kind", "tags", "has_entry", "model_invocable")


@dataclass(frozen=True, slots=True)
class ListedSkill(WireForm):
    """One skill of the catalog: the shape of `skillyard list --json`, and what a list of skills shows beside it.

    `requires_approval` says that a rule requires an approval before an agent uses it. `description_tokens` are those of its
    description, which a model reads in any case; `instruction_tokens` about those it reads when it loads the skill, by the size
    of SKILL.md.
    """

    skill: Skill = field(metadata=wire(inline=True))
    display_name: str | None
    version: str | None
    kind: str
    tags: list[str]
    has_entry: bool
    model_invocable: bool
    requires_approval: bool
    description_tokens: int
    instruction_tokens: int

    @classmethod
    def of(cls, skill: Skill, rules: Rules) -> Self:
        """The skill under the rules that hold."""
        return cls(
            skill,
            **{name: getattr(skill, name) for name in _BESIDE},
            requires_approval=rules.decide(skill) == "ask",
            description_tokens=count_tokens(skill.description),
            instruction_tokens=_instruction_tokens(skill),
        )


class SearchMatch(BaseModel):
    """A skill that may fit a request: how sure that is (0 to 1; `sure` from 0.5), and the words that both share, by field."""

    id: str
    name: str
    confidence: float
    sure: bool
    matched: list[str]
    duplicates: list[str] = []
    skill: ListedSkill


class Facets(BaseModel):
    """How many skills there are of each source, status and state, and the hundred most frequent tags."""

    source: dict[str, int]
    status: dict[str, int]
    state: dict[str, int]
    tag: dict[str, int]


def _instruction_tokens(skill: Skill) -> int:
    """About the tokens of a SKILL.md: its bytes / 4. Of a folder that cannot be read 0."""
    return -(-max(0, skill.stamp[1]) // 4)


def fit(match: Match, rules: Rules) -> SearchMatch:
    """The match as an answer, under the rules that hold."""
    return SearchMatch.model_validate({**match.to_dict(), "skill": ListedSkill.of(match.skill, rules)})


def facets(skills: Iterable[Skill]) -> Facets:
    """Count the skills."""
    listed = list(skills)
    tags = Counter(tag for skill in listed for tag in skill.tags)
    return Facets(
        source=dict(Counter(skill.source for skill in listed)),
        status=dict(Counter(skill.status for skill in listed)),
        state=dict(Counter(skill.state for skill in listed)),
        tag=dict(tags.most_common(100)),
    )


CatalogOrder = Literal["name", "used", "last_used", "tokens", "risk"]
"""By name; or what was used most, was used last, takes most tokens or was found gravest first, then by name."""
_ByRank = Callable[[Skill], float]


class CatalogFilter(BaseModel):
    """Which page of which skills a list shall hold, and in which order; without one the catalog's own.

    `text` is part of an id, a name or a description, `starred` and `collection` are the caller's own.
    """

    source: Source | None = None
    status: Status | None = None
    state: SkillState | None = None
    tag: str | None = Field(default=None, max_length=200)
    text: str = Field(default="", max_length=200)
    starred: bool = False
    collection: str | None = Field(default=None, min_length=1, max_length=200)
    sort: CatalogOrder | None = None
    page: int = Field(default=1, ge=1, le=1_000_000)
    limit: int = Field(default=20, ge=1, le=200)

    @property
    def changes_by_itself(self) -> bool:
        """Whether the answer may be another one although the skills are the same, or is one for each caller."""
        return self.starred or self.collection is not None or self.sort in ("used", "last_used", "risk")

    def of(self, skills: Sequence[Skill]) -> Sequence[Skill]:
        """Those of the skills that are meant, in their order."""
        if self.source is None and self.status is None and self.state is None and self.tag is None and not self.text:
            return skills
        return [skill for skill in skills if self._holds(skill)]

    def _holds(self, skill: Skill) -> bool:
        folded = self.text.casefold().strip()
        return (
            self.source in (None, skill.source)
            and self.status in (None, skill.status)
            and self.state in (None, skill.state)
            and (self.tag is None or self.tag in skill.tags)
            and (not folded or folded in f"{skill.id}\n{skill.name}\n{skill.description}".casefold())
        )


def in_order(skills: Iterable[Skill], rank: _ByRank | None = None) -> list[Skill]:
    """The skills by the names they are shown under, with a `rank` those of the highest first."""
    named = sorted(skills, key=lambda skill: ((skill.display_name or skill.name).casefold(), skill.id))
    return named if rank is None else sorted(named, key=lambda skill: -rank(skill))


def by_tokens(skill: Skill) -> float:
    """The rank of a skill by what loading it takes."""
    return _instruction_tokens(skill)


def by_use(uses: Mapping[str, SkillUse], *, last: bool) -> _ByRank:
    """Ranks by how often skills were used, or when last."""
    never = SkillUse("")

    def rank(skill: Skill) -> float:
        use = uses.get(skill.id, never)
        return (use.last_used.toordinal() if use.last_used else 0) if last else use.uses

    return rank


def by_risk(worst: Mapping[str, Severity | None], withdrawn: Collection[str]) -> _ByRank:
    """Ranks by what is known against skills: a version that was taken back, then findings; what is not scanned before clean."""
    ranks: dict[Severity | None, int] = {severity: number for number, severity in enumerate(reversed(SEVERITIES), 2)}
    ranks[None] = 0

    def rank(skill: Skill) -> float:
        if skill.source == "installed" and skill.slug in withdrawn:
            return len(ranks) + 2
        return ranks[worst[skill.id]] if skill.id in worst else 1

    return rank


class CatalogMeta(Meta):
    """Where in the list a page is; `unscanned` is how many of its skills wait for a scan, where it is in the order of risk."""

    unscanned: int = 0


class CatalogPage(Answer[list[ListedSkill]]):
    """One page of the catalog."""

    meta: CatalogMeta


SkillName = Annotated[str, Query(min_length=1, max_length=300, description="an id, a name, or a unique part of a name")]
SkillsOfScreen = Annotated[list[Annotated[str, Field(min_length=1, max_length=300)]], Query(min_length=1, max_length=50)]
"""The skills of a request that asks about many: as many as a screen shows."""


class SkillReference(RequestBody):
    """Which skill is meant."""

    skill: str = Field(min_length=1, max_length=300)


class SkillStar(ResponseShape):
    """Whether a skill has the caller's star."""

    skill: str
    starred: bool


class SkillCollection(ResponseShape):
    """The skills that the caller put together under a name, by their ids; those that are no longer there are not in it."""

    name: str
    skills: list[str]


class CollectionName(RequestBody):
    """A name for a collection or a saved search."""

    name: str = Field(min_length=1, max_length=80, pattern=r"\S")


class CatalogSearch(RequestBody):
    """Words and filters of the catalog, as its page has them; what is not said holds for all skills."""

    q: str | None = Field(default=None, min_length=1, max_length=2000)
    source: Source | None = None
    status: Status | None = None
    state: SkillState | None = None
    tag: str | None = Field(default=None, min_length=1, max_length=200)
    starred: Literal[True] | None = None
    collection: str | None = Field(default=None, min_length=1, max_length=200)
    min_confidence: float | None = Field(default=None, ge=0, le=1)
    sort: CatalogOrder | None = None


class SavedSearchShape(ResponseShape):
    """A search under a name of the caller's."""

    name: str
    search: CatalogSearch
    saved_at: datetime


@dataclass(frozen=True, slots=True)
class DetailedSkill(WireForm, also=("input_schema", "powers", "withdrawal")):
    """Everything about one skill.

    `withdrawal` says whether its version should not be used any more, `withdrawn` why and what to do. `links` are what its text
    tells to fetch and nothing there pins; what was kept at its installation has a `sha256`.
    """

    listed: ListedSkill = field(metadata=wire(inline=True))
    detail: SkillDetail = field(metadata=wire(inline=True))

    @property
    def input_schema(self) -> Mapping[str, object] | None:
        """The JSON Schema of what it takes."""
        return self.detail.input_schema

    @property
    def powers(self) -> Powers | None:
        """What it may do."""
        return self.detail.powers

    @property
    def withdrawal(self) -> Withdrawal | None:
        """Whether it was deprecated or yanked."""
        return withdrawal(self.detail.withdrawn) if self.detail.withdrawn else None


class ModelText(BaseModel):
    """What a model reads of a skill that it loads and how many tokens that is; `description_tokens` it reads in any case."""

    text: str
    tokens: int
    description_tokens: int


class SkillRisk(BaseModel):
    """The highest severity of open findings in a skill, and their number.

    While it is not `scanned` nothing is known. `withdrawal` says that its version should not be used any more, `withdrawn` why.
    """

    skill: str
    scanned: bool
    worst: Severity | None
    findings: int
    withdrawal: Withdrawal | None = None
    withdrawn: str | None = None


class ScanReportShape(ResponseShape):
    """The scanner's findings, the most severe first: advice, nothing is blocked or allowed by it."""

    worst: Severity | None
    findings: list[Finding]
    files: list[str]
    skipped: list[Skipped]
    watched: WatchReport | None = None
