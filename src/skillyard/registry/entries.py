"""What the records say of installed skills, their versions and what was done to them; nothing here changes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import RowMapping, Select, select

from skillyard.database import agent_skills, install_logs, skill_definitions, skill_versions
from skillyard.registry.model import InstalledSkill, InstallLog, SkillVersion
from skillyard.registry.rows import log_of, skill_of, version_of

if TYPE_CHECKING:
    from skillyard.database import Database

__all__ = ["Entries"]


class Entries:
    """The entries in one database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def skills(self, *, all_: bool = False) -> tuple[InstalledSkill, ...]:
        """The installed skills by id; with `all_` also those that were uninstalled."""
        query = select(skill_definitions).order_by(skill_definitions.c.skill_id)
        if not all_:
            query = query.where(skill_definitions.c.is_active)
        return tuple(map(skill_of, self._rows(query)))

    def skill(self, skill_id: str) -> InstalledSkill | None:
        """One skill, uninstalled ones too."""
        rows = self._rows(select(skill_definitions).where(skill_definitions.c.skill_id == skill_id))
        return skill_of(rows[0]) if rows else None

    def versions(self, skill_id: str) -> tuple[SkillVersion, ...]:
        """The versions of a skill, the newest first; those that never were whole are not among them."""
        query = (
            select(skill_versions, skill_definitions.c.current_version)
            .join(skill_definitions, skill_definitions.c.skill_id == skill_versions.c.skill_id)
            .where(skill_versions.c.skill_id == skill_id, skill_versions.c.status.in_(("active", "deprecated")))
            .order_by(skill_versions.c.installed_at.desc(), skill_versions.c.version.desc())
        )
        return tuple(map(version_of, self._rows(query)))

    def serving(self) -> tuple[SkillVersion, ...]:
        """The version that serves of each skill that is installed."""
        definitions = skill_definitions.c
        query = (
            select(skill_versions, definitions.current_version)
            .join(skill_definitions, definitions.skill_id == skill_versions.c.skill_id)
            .where(definitions.is_active, definitions.current_version == skill_versions.c.version)
        )
        return tuple(map(version_of, self._rows(query)))

    def package_of(self, skill_id: str, digest: str) -> str | None:
        """The package in the store that has this content of a skill."""
        table = skill_versions.c
        query = select(table.package_digest).where(
            table.skill_id == skill_id, table.digest == digest, table.package_digest.is_not(None)
        )
        rows = self._rows(query)
        return rows[0]["package_digest"] if rows else None

    def version_names(self, skill_id: str) -> set[str]:
        """Every name of a version that was ever given."""
        query = select(skill_versions.c.version).where(skill_versions.c.skill_id == skill_id)
        return {row["version"] for row in self._rows(query)}

    def locks(self, skill_id: str) -> tuple[str, ...]:
        """The version locks that agents have on a skill."""
        query = select(agent_skills.c.version_lock).where(
            agent_skills.c.skill_id == skill_id, agent_skills.c.version_lock.is_not(None)
        )
        return tuple(sorted({row["version_lock"] for row in self._rows(query)}))

    def history(
        self, skill_id: str | None = None, *, limit: int = 50, operation_id: str | None = None
    ) -> tuple[InstallLog, ...]:
        """What was done, the newest first."""
        query = select(install_logs).order_by(install_logs.c.started_at.desc(), install_logs.c.id.desc()).limit(limit)
        if skill_id is not None:
            query = query.where(install_logs.c.skill_id == skill_id)
        if operation_id is not None:
            query = query.where(install_logs.c.operation_id == operation_id)
        return tuple(map(log_of, self._rows(query)))

    def touched(self, operation_id: str) -> tuple[str, ...]:
        """The skills an operation has begun to change."""
        query = select(install_logs.c.skill_id).where(install_logs.c.operation_id == operation_id)
        return tuple(sorted({row["skill_id"] for row in self._rows(query) if row["skill_id"]}))

    def installing(self, operation_id: str, skill_id: str) -> tuple[str, ...]:
        """The versions an operation was about to install."""
        query = select(skill_versions.c.version).where(
            skill_versions.c.operation_id == operation_id,
            skill_versions.c.skill_id == skill_id,
            skill_versions.c.status == "installing",
        )
        return tuple(row["version"] for row in self._rows(query))

    def _rows(self, query: Select[Any]) -> Sequence[RowMapping]:
        with self.database.read() as connection:
            return connection.execute(query).mappings().all()
