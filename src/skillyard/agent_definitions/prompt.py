"""The exact system prompt of an agent, and what each of its skills costs in it.

Stage 1 is the index, in every message. Stage 2 is a SKILL.md, when the model reads it; `skill_md_tokens` is what that costs.
Stage 3 is what the model then does by the skill's instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal

from skillyard.agent_definitions.model import AgentDraft, catalog_for_agent, skill_aliases
from skillyard.prompt import Index, IndexOptions, Style, append_index, count_tokens, entry_costs, write_index

if TYPE_CHECKING:
    from skillyard.catalog import Skill, SkillCatalog


_BUDGET: Final = 2000
_DOCUMENT: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SkillPromptShare:
    """One skill in the prompt of an agent: how it is `shown`, why it is not, and its `tokens` there.

    `skill_md_tokens` is what its SKILL.md costs when the model reads it.
    """

    id: str
    name: str
    description: str
    shown: Literal["whole", "shortened", "omitted", "missing"]
    reason: str | None
    tokens: int
    skill_md_tokens: int

    def to_dict(self) -> dict[str, object]:
        """The share as plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class AgentPrompt:
    """The whole `text` and its `tokens`: those of the agent's own prompt, and those of the index with the words around it.

    `more` skills could be used and had no room in the index.
    """

    text: str
    tokens: int
    own_tokens: int
    index_tokens: int
    style: Style
    budget: int | None
    more: int
    skills: tuple[SkillPromptShare, ...]

    def to_dict(self) -> dict[str, object]:
        """The prompt as plain data."""
        return asdict(self) | {"skills": [share.to_dict() for share in self.skills]}


def write_agent_prompt(
    agent: AgentDraft, catalog: SkillCatalog, *, style: Style | None = None, request: str | None = None
) -> AgentPrompt:
    """What the model of this agent is told before the first message; with a `request` the index is ranked for it.

    Without a `style` it is `compact`, and `direct` for an agent without tools.

    Raises:
        InvalidInput: unknown style.
    """
    seen = catalog_for_agent(catalog, agent)
    settings = agent.settings
    index = write_index(
        seen,
        IndexOptions(
            style=style or ("compact" if settings.get("tools", True) else "direct"),
            budget=settings.get("index_tokens", _BUDGET),
            pinned=settings.get("pinned") or (),
        ),
        request=request,
    )
    text = append_index(agent.system_prompt, index)
    return AgentPrompt(
        text=text,
        tokens=count_tokens(text),
        own_tokens=count_tokens(agent.system_prompt),
        index_tokens=index.tokens,
        style=index.style,
        budget=index.budget,
        more=index.more,
        skills=tuple(_shares(agent, seen, index)),
    )


def _shares(agent: AgentDraft, seen: SkillCatalog, index: Index) -> Iterator[SkillPromptShare]:
    """Every skill of the agent in its order; of an agent that has all, those that are listed."""
    known = seen.all()
    ledger = _IndexCosts(index, entry_costs(known, index), {omission.id: omission.reason for omission in index.omitted})
    if not agent.skills:
        by_id = {skill.id: skill for skill in known}
        yield from (ledger.share(by_id[skill_id]) for skill_id in ledger.costs)
        return
    named: dict[str, list[Skill]] = {}
    for skill in known:
        for name in skill_aliases(skill):
            named.setdefault(name, []).append(skill)
    for chosen in agent.skills:
        found = named.get(chosen.skill_id.casefold(), [])
        best = next((skill for skill in found if skill.status == "ok"), found[0] if found else None)
        if best is None:
            yield SkillPromptShare(chosen.skill_id, chosen.skill_id, "", "missing", "there is no such skill", 0, 0)
        else:
            yield ledger.share(best)


@dataclass(frozen=True, slots=True)
class _IndexCosts:
    """What an index says of each skill: its cost, or why it is not there."""

    index: Index
    costs: Mapping[str, int]
    reasons: Mapping[str, str]

    def share(self, skill: Skill) -> SkillPromptShare:
        shown: Literal["whole", "shortened", "omitted"] = "omitted"
        if skill.id in self.costs:
            shown = "whole" if skill.id in self.index.kept else "shortened"
        return SkillPromptShare(
            id=skill.id,
            name=skill.name,
            description=skill.description,
            shown=shown,
            reason=self.reasons.get(skill.id),
            tokens=self.costs.get(skill.id, 0),
            skill_md_tokens=_skill_md_tokens(skill),
        )


def _skill_md_tokens(skill: Skill) -> int:
    from skillyard.errors import SkillyardError

    try:
        return count_tokens(skill.read_file("SKILL.md", limit=_DOCUMENT).text or "")
    except (SkillyardError, OSError):
        return 0
