"""An agent, as it is kept with the registry: a system prompt, a model, skills in versions, and what it may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from skillyard.agent.conversation import ChatSettings
from skillyard.catalog import Skill
from skillyard.database import agent_skills, agents
from skillyard.errors import RecordNotFound
from skillyard.permissions import Rules
from skillyard.permissions.rules import Ruling

if TYPE_CHECKING:
    from skillyard.catalog import PermissionMatch
    from skillyard.database import Database

__all__ = ["Agent", "StricterRules", "read_agent"]

_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
_OURS = ("permissions", "pinned", "tools", "index_tokens", "history_tokens", "temperature")


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent; `versions` are those that it is locked to, by skill."""

    name: str
    model: str | None
    settings: ChatSettings
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)


def read_agent(database: Database, name: str) -> Agent:
    """The agent with that name or id.

    Of its settings only those that a chat knows count here.

    Raises:
        RecordNotFound: there is none.
        InvalidInput: a setting cannot be meant.
    """
    with database.read() as connection:
        row = connection.execute(select(agents).where((agents.c.name == name) | (agents.c.id == name))).first()
        if row is None:
            raise RecordNotFound(f"there is no agent {name!r}", hint="look at the list of agents")
        query = select(agent_skills).where(agent_skills.c.agent_id == row.id).order_by(agent_skills.c.position)
        chosen = connection.execute(query).all()
    given: dict[str, Any] = {key: value for key, value in (row.settings or {}).items() if key in _OURS}
    skills = [skill.skill_id for skill in chosen]
    settings = ChatSettings.read(given | {"system_prompt": row.system_prompt or "", "skills": skills})
    versions = {skill.skill_id: skill.version_lock for skill in chosen if skill.version_lock}
    return Agent(row.name, row.model, settings, versions)


class StricterRules(Rules):
    """Two sets of rules at once: of each skill the stricter word holds."""

    __slots__ = ("_base",)

    def __init__(self, base: Rules, own: Mapping[str, str], match: PermissionMatch = "first") -> None:
        super().__init__(own, match=match)
        self._base = base
        self.patterns = {**self.patterns, **base.patterns}

    def rule(self, skill: str | Skill) -> Ruling:
        """The stricter of the two."""
        rulings = (super().rule(skill), self._base.rule(skill))
        return max(rulings, key=lambda ruling: _STRICTNESS[ruling.permission])
