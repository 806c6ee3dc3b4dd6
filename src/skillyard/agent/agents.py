"""How an agent of the registry comes into a conversation: its prompt and settings, its skills and versions, stricter rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from skillyard.agent.conversation import ChatSettings
from skillyard.agents import AgentDraft, AgentSkill, limited
from skillyard.catalog import Skill
from skillyard.errors import VersionNotFound
from skillyard.permissions import Rules
from skillyard.permissions.rules import Ruling
from skillyard.registry import locked_to

if TYPE_CHECKING:
    from skillyard.catalog import Catalog, PermissionMatch
    from skillyard.registry import Registry

__all__ = ["StricterRules", "held_versions", "seen_by", "settings_of"]

_STRICTNESS: Final = {"allow": 0, "ask": 1, "deny": 2}


def settings_of(agent: AgentDraft) -> ChatSettings:
    """The agent as the settings of a conversation."""
    skills = [chosen.skill_id for chosen in agent.skills]
    return ChatSettings.read({**agent.settings, "system_prompt": agent.system_prompt, "skills": skills})


def held_versions(agent: AgentDraft, registry: Registry) -> dict[str, str]:
    """The install versions that an agent is locked to, by the ids of skills in the catalog. Blocks.

    Raises:
        VersionNotFound: one of them is not installed.
    """
    held = {}
    for chosen in agent.skills:
        if chosen.version_lock is None:
            continue
        found = locked_to(registry.versions(chosen.skill_id), [chosen.version_lock])
        if not found:
            raise VersionNotFound(
                f"the agent {agent.name!r} is locked to {chosen.skill_id} {chosen.version_lock}, which is not installed",
                hint="install it, or change the agent",
            )
        held[f"installed:{chosen.skill_id}"] = next(iter(found))
    return held


def seen_by(catalog: Catalog, settings: ChatSettings) -> Catalog:
    """The catalog as a conversation with these settings sees it; a view of its own, that may be looked at again."""
    skills = tuple(AgentSkill(name) for name in dict.fromkeys(settings.skills))
    return limited(catalog, AgentDraft("conversation", settings={"permissions": dict(settings.permissions)}, skills=skills))


class StricterRules(Rules):
    """Two sets of rules at once: of each skill the stricter word holds."""

    __slots__ = ("_base",)

    def __init__(self, base: Rules, own: Mapping[str, str], match: PermissionMatch = "first") -> None:
        super().__init__(own, match=match, origins=base.origins)
        self._base = base
        self.patterns = {**self.patterns, **base.patterns}

    def rule(self, skill: str | Skill) -> Ruling:
        """The stricter of the two."""
        rulings = (super().rule(skill), self._base.rule(skill))
        return max(rulings, key=lambda ruling: _STRICTNESS[ruling.permission])

    def rule_installed(self, names: Sequence[str], directory: str) -> Ruling:
        """The stricter of the two."""
        rulings = (super().rule_installed(names, directory), self._base.rule_installed(names, directory))
        return max(rulings, key=lambda ruling: _STRICTNESS[ruling.permission])
