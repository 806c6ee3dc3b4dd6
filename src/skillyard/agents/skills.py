"""Between the skills of an agent and those of the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from skillyard.agents.model import AgentDraft, AgentSkill

if TYPE_CHECKING:
    from skillyard.catalog import Catalog, Skill

__all__ = ["choose_skill", "limited", "names_of"]

_INSTALLED: Final = "installed:"


def choose_skill(catalog: Catalog, name: str, *, version_lock: str | None = None, auto_update: bool = True) -> AgentSkill:
    """The skill of the catalog with that id or name, as an agent has it.

    Raises:
        SkillNotFound, AmbiguousSkill: there is none, or more than one.
    """
    return AgentSkill(catalog.get(name).id.removeprefix(_INSTALLED), version_lock, auto_update)


def names_of(skill: Skill) -> frozenset[str]:
    """What an agent may call a skill of the catalog, in small letters."""
    return frozenset((skill.id.casefold(), skill.id.removeprefix(_INSTALLED).casefold(), skill.name.casefold()))


def limited(catalog: Catalog, agent: AgentDraft) -> Catalog:
    """The catalog with only the skills that the agent has, in its order, and without those that its own rules deny."""
    from skillyard.permissions import Rules, visible

    wanted = {chosen.skill_id.casefold(): at for at, chosen in enumerate(agent.skills)}

    def overlay(skill: Skill) -> tuple[Literal["denied"], str] | None:
        if skill.status != "ok" or not wanted or not names_of(skill).isdisjoint(wanted):
            return None
        return "denied", "this agent does not have it"

    def place(skill: Skill) -> int:
        return min((wanted[name] for name in names_of(skill) if name in wanted), default=len(wanted))

    rules = Rules.for_catalog(catalog, agent.settings.get("permissions") or {})
    seen = visible(catalog.with_statuses(overlay), rules)
    return seen.with_order(place) if wanted else seen
