"""The skills of the catalog as answers: list entries, filters and their counts, search matches, and one skill in detail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pydantic import BaseModel, Field

from skillyard.catalog import FileType, Permission, Skill, SkillState, Source, Status, Withdrawal
from skillyard.catalog.skill_files import KeptLink
from skillyard.document import Diagnostic
from skillyard.environments import ProposedItem, SkillGrant
from skillyard.permissions import Rules
from skillyard.registry import Powers
from skillyard.scanner import Finding, Severity, Skipped, WatchReport
from skillyard.search import Match
from skillyard.server.shapes import ResponseShape


class ListedSkill(ResponseShape):
    """One skill of the catalog: the shape of `skillyard list --json`, and what a list of skills shows beside it.

    `asks_first` says that a rule requires an approval before an agent uses it.
    """

    id: str
    name: str
    description: str
    source: Source
    directory: str
    status: Status
    reason: str | None
    state: SkillState
    diagnostics: list[Diagnostic]
    display_name: str | None
    version: str | None
    kind: str
    tags: list[str]
    has_entry: bool
    model_invocable: bool
    asks_first: bool


class SearchMatch(BaseModel):
    """A skill that may fit a request: how sure that is (0 to 1; `sure` from 0.5), and the words that both share, by field."""

    id: str
    name: str
    confidence: float
    sure: bool
    matched: list[str]
    duplicates: list[str] = []
    skill: ListedSkill


_BESIDE: Final = ("display_name", "version", "kind", "tags", "has_entry", "model_invocable")


class Facets(BaseModel):
    """How many skills there are of each source, status and state, and the hundred most frequent tags."""

    source: dict[str, int]
    status: dict[str, int]
    state: dict[str, int]
    tag: dict[str, int]


def entry(skill: Skill, rules: Rules) -> ListedSkill:
    """The skill as an answer, under the rules that hold."""
    beside = {name: getattr(skill, name) for name in _BESIDE} | {"asks_first": rules.decide(skill) == "ask"}
    return ListedSkill.model_validate(skill.to_dict() | beside)


def fit(match: Match, rules: Rules) -> SearchMatch:
    """The match as an answer, under the rules that hold."""
    return SearchMatch.model_validate({**match.to_dict(), "skill": entry(match.skill, rules)})


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


class CatalogFilter(BaseModel):
    """Which page of which skills a list shall hold; `text` is part of an id, a name or a description."""

    source: Source | None = None
    status: Status | None = None
    state: SkillState | None = None
    tag: str | None = Field(default=None, max_length=200)
    text: str = Field(default="", max_length=200)
    page: int = Field(default=1, ge=1, le=1_000_000)
    limit: int = Field(default=20, ge=1, le=200)

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


class RootShape(BaseModel):
    """The folder that a skill was found below."""

    path: str
    source: str
    status: str
    variable: str | None = None
    reason: str | None = None


class FileShape(BaseModel):
    """One file of a skill; `size` in bytes."""

    name: str
    type: FileType
    size: int


class NamesakeShape(BaseModel):
    """Another skill of the same name."""

    id: str
    status: Status
    directory: str


class RulingShape(BaseModel):
    """The decision of the rules for a skill, and the pattern of the one that decides."""

    decision: Permission
    pattern: str | None


class Runnability(BaseModel):
    """Whether a skill can run, by which script, and one sentence about it."""

    possible: bool
    entry: str | None
    story: str


class SkillNeedsShape(BaseModel):
    """The packages and programs a skill needs, each with its state: granted, missing on this machine, or only proposed.

    `granted` and `proposed` are what it has and what it would take; `command` grants that, empty when nothing is missing.
    """

    name: str
    items: list[ProposedItem]
    granted: SkillGrant
    ignored: list[str] = []
    proposed: SkillGrant
    command: str


class SkillDetailShape(ListedSkill):
    """Everything about one skill."""

    path: str
    root: RootShape
    allowed_tools: list[str]
    front_matter: dict[str, Any]
    input_schema: dict[str, Any] | None
    files: list[FileShape]
    inventory: dict[str, Any]
    digest: str
    namesakes: list[NamesakeShape]
    permission: RulingShape
    run: Runnability
    environment: SkillNeedsShape
    powers: Powers | None
    withdrawal: Withdrawal | None
    """Whether its version should not be used any more; `withdrawn` says why and what to do."""
    withdrawn: str | None
    copy_of: str | None
    """The installed skill of which this is a copy that was edited in a folder of coding agents."""
    links: list[KeptLink]
    """What its text tells to fetch and nothing there pins; what was kept at its installation has a `sha256`."""


class ModelText(BaseModel):
    """What a model reads of a skill that it loads and how many tokens that is; `description_tokens` it reads in any case."""

    text: str
    tokens: int
    description_tokens: int


class SkillRisk(BaseModel):
    """The gravest severity that the scanner found in a skill and nobody suppressed, and how many findings are open.

    While it is not `scanned` nothing is known. `withdrawal` says that its version should not be used any more, `withdrawn` why.
    """

    skill: str
    scanned: bool
    worst: Severity | None
    findings: int
    withdrawal: Withdrawal | None = None
    withdrawn: str | None = None


class ScanReportShape(ResponseShape):
    """What the scanner found, the gravest first: advice, nothing is blocked or allowed by it."""

    worst: Severity | None
    findings: list[Finding]
    files: list[str]
    skipped: list[Skipped]
    watched: WatchReport | None = None
