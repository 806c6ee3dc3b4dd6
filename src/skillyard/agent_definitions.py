"""Definitions of agents: a system prompt, a model and skills under a name; the exact prompt of each, and what each skill costs.

`AgentStore` keeps them in the records; `write_agent_prompt` also works on a draft that was never kept. What an agent does in a
conversation is the concern of `conversations`.

Stage 1 is the index, in every message. Stage 2 is a SKILL.md, when the model reads it; `skill_md_tokens` is what that costs.
Stage 3 is what the model then does by the skill's instructions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from sqlalchemy import Connection, Row, delete, insert, select, update

from skillyard.database import agent_skills, agents, take_global_lock
from skillyard.errors import InvalidInput, RecordExists, RecordNotFound
from skillyard.prompt import Index, IndexOptions, Style, append_index, count_tokens, entry_costs, write_index
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from skillyard.catalog import PermissionMatch, Skill, SkillCatalog
    from skillyard.database import Database


_NAME: Final = 100
_DESCRIPTION: Final = 2_000
_PROMPT: Final = 200_000
_MODEL: Final = 200
_SKILLS: Final = 500
_PERMISSIONS: Final = ("allow", "ask", "deny")
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "permissions": (dict,),
    "commands": (dict,),
    "tool_permissions": (dict,),
    "workspace": (bool,),
    "pictures": (bool,),
    "pinned": (list, tuple),
    "tools": (bool,),
    "index_tokens": (int,),
    "history_tokens": (int,),
    "temperature": (int, float, type(None)),
}


@dataclass(frozen=True, slots=True)
class AgentSkill(WireForm):
    """A skill of an agent: of an installed one the id in the registry, of another the id in the catalog.

    `version_lock` is an install version, a declared one or a range such as `^1.2.0`; without it the current one is meant.
    `auto_update` says whether the agent follows newer versions inside its lock. `position` counts those of one agent.
    """

    skill_id: str
    version_lock: str | None = None
    auto_update: bool = True
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class AgentDraft:
    """An agent as a person defines it; `skills` are in the order of their positions, none of them means all.

    `settings` may have `permissions` (rules by pattern that can only make those of the configuration stricter, also written as
    `{"skill": {PATTERN: PERMISSION}}`), `commands` (the same about
    tools: lists `allow`, `ask` and `deny` of rules such as `Bash(git:*)`, and `default` for the rest), `tool_permissions` (for
    single tools, such as `{"bash": "deny"}`), `workspace` (false: no shell, code and files), `pinned` (skills that are listed
    first), `tools` (false: the model gets everything as text), `index_tokens` (the budget of the index), `history_tokens` and
    `temperature`.

    Raises:
        InvalidInput: a value cannot be meant.
    """

    name: str
    description: str = ""
    system_prompt: str = ""
    model: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    skills: tuple[AgentSkill, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable() or self.name != self.name.strip():
            raise InvalidInput(f"{self.name[:40]!r} is not a name for an agent", hint="a name that can be seen, on one line")
        limits = {"name": _NAME, "description": _DESCRIPTION, "system_prompt": _PROMPT, "model": _MODEL}
        for name, most in limits.items():
            if len(getattr(self, name) or "") > most:
                raise InvalidInput(f"{name} is over {most:,} characters", hint="shorten it")
        _check_settings(self.settings)
        object.__setattr__(self, "settings", _with_flat_permissions(self.settings))
        ids = [skill.skill_id for skill in self.skills]
        if len(ids) > _SKILLS or len(set(ids)) != len(ids):
            raise InvalidInput("a skill is listed twice, or there are too many", hint=f"each once, at most {_SKILLS}")
        object.__setattr__(self, "skills", tuple(replace(skill, position=at) for at, skill in enumerate(self.skills)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent(AgentDraft, WireForm, times="full"):
    """An agent that is kept."""

    id: str
    created_at: datetime
    updated_at: datetime


def _with_flat_permissions(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings with `{"skill": {PATTERN: PERMISSION}}` of `permissions` as the patterns themselves.

    Raises:
        InvalidInput: a permission is none of the three.
    """
    given = settings.get("permissions")
    if not given:
        return settings
    nested = given.get("skill")
    flat = (
        {**{key: value for key, value in given.items() if key != "skill"}, **nested} if isinstance(nested, Mapping) else given
    )
    for pattern, permission in flat.items():
        if permission not in _PERMISSIONS:
            message = f"permissions: {str(pattern)[:40]!r} cannot be {str(permission)[:40]!r}"
            raise InvalidInput(message, hint="use 'allow', 'ask' or 'deny'")
    return {**settings, "permissions": flat}


def _check_settings(settings: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        if name not in _KINDS:
            raise InvalidInput(f"unknown setting {name[:40]!r}", hint=f"known: {', '.join(_KINDS)}")
        if not isinstance(value, _KINDS[name]) or (isinstance(value, bool) and bool not in _KINDS[name]):
            raise InvalidInput(f"the setting {name} is {value!r}"[:200], hint="see the docs of agents")
    if settings.get("commands"):
        from skillyard.permissions import CommandRules  # only for who has such rules

        CommandRules.of(settings["commands"])
    if settings.get("tool_permissions"):
        from skillyard.permissions import check_tool_permissions

        check_tool_permissions(settings["tool_permissions"])
    for name in ("index_tokens", "history_tokens"):
        if settings.get(name, 0) < 0:
            raise InvalidInput(f"the setting {name} is negative", hint="a whole number from 0")


_INSTALLED: Final = "installed:"


def choose_agent_skill(
    catalog: SkillCatalog, name: str, *, version_lock: str | None = None, auto_update: bool = True
) -> AgentSkill:
    """The skill of the catalog with that id or name, as an agent has it.

    Raises:
        SkillNotFound, AmbiguousSkill: there is none, or more than one.
    """
    return AgentSkill(catalog.get(name).id.removeprefix(_INSTALLED), version_lock, auto_update)


def skill_aliases(skill: Skill) -> frozenset[str]:
    """What an agent may call a skill of the catalog, in small letters."""
    return frozenset((skill.id.casefold(), skill.id.removeprefix(_INSTALLED).casefold(), skill.name.casefold()))


def catalog_for_agent(catalog: SkillCatalog, agent: AgentDraft) -> SkillCatalog:
    """The catalog with only the skills that the agent has, in its order, and without those that its own rules deny."""
    from skillyard.permissions import Rules, without_denied

    positions = {chosen.skill_id.casefold(): at for at, chosen in enumerate(agent.skills)}

    def overlay(skill: Skill) -> tuple[Literal["denied"], str] | None:
        if skill.status != "ok" or not positions or not skill_aliases(skill).isdisjoint(positions):
            return None
        return "denied", "this agent does not have it"

    def position(skill: Skill) -> int:
        return min((positions[name] for name in skill_aliases(skill) if name in positions), default=len(positions))

    rules = Rules.for_catalog(catalog, agent.settings.get("permissions") or {})
    seen = without_denied(catalog.with_statuses(overlay), rules)
    return seen.with_order(position) if positions else seen


_BUDGET: Final = 2000
_DOCUMENT: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SkillPromptShare(WireForm):
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


@dataclass(frozen=True, slots=True)
class AgentPrompt(WireForm):
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


def write_agent_prompt(
    agent: AgentDraft, catalog: SkillCatalog, *, style: Style | None = None, request: str | None = None
) -> AgentPrompt:
    """The system prompt of this agent, before the first message; with a `request` the index is ranked for it.

    Without a `style` it is `compact`, and `direct` for an agent without tools.

    Raises:
        InvalidInput: unknown style.
    """
    seen = catalog_for_agent(catalog, agent)
    settings = agent.settings
    chosen: Style = style or ("compact" if settings.get("tools", True) else "direct")
    index = write_index(
        seen,
        IndexOptions(
            style=chosen,
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
        style=chosen,
        budget=index.budget,
        more=index.more,
        skills=tuple(_shares(agent, seen, index)),
    )


def _shares(agent: AgentDraft, seen: SkillCatalog, index: Index) -> Iterator[SkillPromptShare]:
    """Every skill of the agent in its order; of an agent that has all, those that are listed."""
    skills = seen.all()
    index_costs = _IndexCosts(index, entry_costs(skills, index), {omission.id: omission.reason for omission in index.omitted})
    if not agent.skills:
        by_id = {skill.id: skill for skill in skills}
        yield from (index_costs.share(by_id[skill_id]) for skill_id in index_costs.costs)
        return
    named: dict[str, list[Skill]] = {}
    for skill in skills:
        for name in skill_aliases(skill):
            named.setdefault(name, []).append(skill)
    for chosen in agent.skills:
        matches = named.get(chosen.skill_id.casefold(), [])
        best = next((skill for skill in matches if skill.status == "ok"), matches[0] if matches else None)
        if best is None:
            yield SkillPromptShare(chosen.skill_id, chosen.skill_id, "", "missing", "there is no such skill", 0, 0)
        else:
            yield index_costs.share(best)


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


class AgentStore:
    """Keeps agents in the database that `database` gives when it is first needed; a name is given once.

    `match` says how the rules of the configuration, and so those of agents, are matched: the first or the last decides.
    Its methods block: asynchronous code calls them in a thread.
    """

    def __init__(self, database: Callable[[], Database], *, match: PermissionMatch = "first") -> None:
        self._database, self._match = database, match

    def _check_rules(self, draft: AgentDraft) -> None:
        from skillyard.permissions import Rules  # only for who saves an agent

        Rules(draft.settings.get("permissions"), self._match)

    def list(self) -> tuple[Agent, ...]:
        """Every agent, by name."""
        with self._database().read() as connection:
            rows = connection.execute(select(agents).order_by(agents.c.name)).all()
            chosen = connection.execute(select(agent_skills).order_by(agent_skills.c.position)).all()
        return tuple(_agent(row, [one for one in chosen if one.agent_id == row.id]) for row in rows)

    def get(self, name: str) -> Agent:
        """The agent with that name or id.

        Raises:
            RecordNotFound: there is none.
        """
        with self._database().read() as connection:
            return _get(connection, name)

    def create(self, draft: AgentDraft) -> Agent:
        """Keep a new agent.

        Raises:
            RecordExists: there is one of that name.
            UnreachableRule: one of its permission rules can never apply.
            InvalidInput: one of its permission rules is none.
        """
        self._check_rules(draft)
        agent_id, now = f"agent_{os.urandom(10).hex()}", datetime.now(UTC)
        with self._database().write() as connection:
            _refuse_taken(connection, draft.name, None)
            connection.execute(insert(agents).values(id=agent_id, created_at=now, updated_at=now, **_columns(draft)))
            _write_skills(connection, agent_id, draft.skills)
            return _get(connection, agent_id)

    def update(self, name: str, draft: AgentDraft) -> Agent:
        """Replace the whole agent with that name or id by `draft`.

        Raises:
            RecordNotFound: there is none.
            RecordExists: another one has the new name.
            UnreachableRule, InvalidInput: as `create`.
        """
        self._check_rules(draft)
        with self._database().write() as connection:
            agent_id = _get(connection, name).id
            _refuse_taken(connection, draft.name, agent_id)
            changed = update(agents).where(agents.c.id == agent_id)
            connection.execute(changed.values(updated_at=datetime.now(UTC), **_columns(draft)))
            connection.execute(delete(agent_skills).where(agent_skills.c.agent_id == agent_id))
            _write_skills(connection, agent_id, draft.skills)
            return _get(connection, agent_id)

    def delete(self, name: str) -> Agent:
        """Forget the agent with that name or id, and give it once more.

        Raises:
            RecordNotFound: there is none.
        """
        with self._database().write() as connection:
            agent = _get(connection, name)
            connection.execute(delete(agents).where(agents.c.id == agent.id))
        return agent


def _columns(draft: AgentDraft) -> dict[str, Any]:
    return {
        "name": draft.name,
        "description": draft.description,
        "system_prompt": draft.system_prompt,
        "model": draft.model,
        "settings": dict(draft.settings),
    }


def _refuse_taken(connection: Connection, name: str, agent_id: str | None) -> None:
    """Refuse a name that another agent has; it stays free until this transaction ends."""
    take_global_lock(connection)
    taken = connection.execute(select(agents.c.id).where(agents.c.name == name)).scalar()
    if taken is not None and taken != agent_id:
        raise RecordExists(f"there is an agent {name!r} already", hint="choose another name, or update that one")


def _write_skills(connection: Connection, agent_id: str, skills: Iterable[AgentSkill]) -> None:
    rows = [{"agent_id": agent_id, "position": at, **skill.to_dict()} for at, skill in enumerate(skills)]
    if rows:
        connection.execute(insert(agent_skills), rows)


def _get(connection: Connection, name: str) -> Agent:
    rows = connection.execute(select(agents).where((agents.c.id == name) | (agents.c.name == name))).all()
    row = next((one for one in rows if one.id == name), rows[0] if rows else None)
    if row is None:
        raise RecordNotFound(f"there is no agent {name[:100]!r}", hint="`skillyard agents` lists them")
    chosen = select(agent_skills).where(agent_skills.c.agent_id == row.id).order_by(agent_skills.c.position)
    return _agent(row, connection.execute(chosen).all())


def _agent(row: Row[Any], chosen: Iterable[Row[Any]]) -> Agent:
    return Agent(
        id=row.id,
        name=row.name,
        description=row.description or "",
        system_prompt=row.system_prompt or "",
        model=row.model,
        settings=row.settings,
        skills=tuple(AgentSkill(one.skill_id, one.version_lock, one.auto_update) for one in chosen),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
