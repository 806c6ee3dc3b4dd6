"""The definitions of agents, in the database of the records."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from skillyard.agent_definitions.model import Agent, AgentDraft, AgentSkill
from skillyard.database import agent_skills, agents, take_global_lock
from skillyard.errors import RecordExists, RecordNotFound

if TYPE_CHECKING:
    from skillyard.catalog import PermissionMatch
    from skillyard.database import Database


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
