"""Reading the registry's tables: rows as values, all records of a skill, and indexed searches among many skills."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import RowMapping, Select, and_, func, or_, select

from skillyard.database import (
    agent_skills,
    audit_events,
    containing_substring,
    install_logs,
    skill_definitions,
    skill_versions,
    version_approvals,
)
from skillyard.registry.registry_values import EDITABLE, InstalledSkill, InstallLog, SkillVersion, VersionApproval

if TYPE_CHECKING:
    from skillyard.database import Database
    from skillyard.document import Document
    from skillyard.registry.candidate import Candidate


_TABLE: Final = skill_definitions
_COMPARED: Final = 5000  # ids that a misspelt name is compared with


def definition_columns(document: Document) -> dict[str, Any]:
    """The columns of a definition that its SKILL.md fills."""
    metadata = document.metadata
    return {
        "name": metadata.name,
        "description": metadata.description,
        "trigger_keywords": list(metadata.search_words),
        "category": metadata.category,
        "tags": list(metadata.tags),
        "author": metadata.author,
        "license": metadata.license,
        "homepage_url": metadata.homepage,
        "documentation_url": metadata.documentation,
        "icon_url": metadata.icon_url,
    }


def definition_columns_from_text(text: str, skill_id: str) -> dict[str, Any]:
    """The same from the text of a SKILL.md that was kept."""
    from skillyard.document import parse_document

    return definition_columns(parse_document(text.encode("utf-8", "surrogatepass"), directory_name=skill_id))


def version_columns(candidate: Candidate) -> dict[str, Any]:
    """The columns of a version that its files fill."""
    return {
        "declared_version": candidate.document.metadata.version,
        "source_type": "anthropic" if candidate.origin.manifest else candidate.origin.kind,
        "origin": candidate.origin.to_dict(),
        "digest": candidate.digest,
        "checksum_sha256": candidate.origin.sha256 or None,
        "size_bytes": candidate.size,
        "skill_md_content": candidate.document.text,
        "skill_md_hash": candidate.skill_md_hash,
        "file_inventory": candidate.inventory.to_dict(),
        "powers": candidate.powers.to_dict(),
        "findings": list(candidate.findings),
        "signer": candidate.signer,
        "package_digest": candidate.package_digest,
    }


def skill_from_row(row: RowMapping | Mapping[str, Any]) -> InstalledSkill:
    """A row of `skill_definitions`; edits by people replace what its SKILL.md declares."""
    edits = {name: value for name, value in (row["edits"] or {}).items() if name in EDITABLE}
    values = {name: row[name] for name in InstalledSkill.__dataclass_fields__ if name in row} | edits
    values |= {name: tuple(values[name] or ()) for name in ("trigger_keywords", "tags")}
    return InstalledSkill(**values, active=row["is_active"], edited=tuple(name for name in EDITABLE if name in edits))


def _versions_with_approval() -> Select[Any]:
    """The rows of `skill_versions`, with the `current_version` of the definition and the result of the approval."""
    approval = version_approvals.c
    same = and_(approval.skill_id == skill_versions.c.skill_id, approval.digest == skill_versions.c.digest)
    return (
        select(
            skill_versions,
            skill_definitions.c.current_version,
            approval.state.label("approval"),
            approval.decided_by.label("approval_by"),
            approval.reason.label("approval_reason"),
        )
        .join(skill_definitions, skill_definitions.c.skill_id == skill_versions.c.skill_id)
        .outerjoin(version_approvals, same)
    )


def version_from_row(row: RowMapping) -> SkillVersion:
    """A row of `_versions_with_approval`."""
    values = {name: row[name] for name in SkillVersion.__dataclass_fields__ if name in row}
    return SkillVersion(
        **values,
        current=row["current_version"] == row["version"],
        yanked=row["yanked_at"] is not None,
        removed=row["removed_at"] is not None,
    )


def log_from_row(row: RowMapping) -> InstallLog:
    """A row of `install_logs`."""
    values = {name: row[name] for name in InstallLog.__dataclass_fields__ if name != "steps"}
    return InstallLog(**values, steps=tuple(row["steps"]))


class RecordReader:
    """The entries in one database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def skills(self, *, all_: bool = False) -> tuple[InstalledSkill, ...]:
        """The installed skills by id; with `all_` also those that were uninstalled."""
        query = select(skill_definitions).order_by(skill_definitions.c.skill_id)
        if not all_:
            query = query.where(skill_definitions.c.is_active)
        return tuple(map(skill_from_row, self._rows(query)))

    def skill(self, skill_id: str) -> InstalledSkill | None:
        """One skill, uninstalled ones too."""
        rows = self._rows(select(skill_definitions).where(skill_definitions.c.skill_id == skill_id))
        return skill_from_row(rows[0]) if rows else None

    def versions(self, skill_id: str | None = None) -> tuple[SkillVersion, ...]:
        """The versions of a skill, or of every one, the newest first; those that never were whole are not among them."""
        query = (
            _versions_with_approval()
            .where(skill_versions.c.status.in_(("active", "deprecated")))
            .order_by(skill_versions.c.installed_at.desc(), skill_versions.c.version.desc())
        )
        if skill_id is not None:
            query = query.where(skill_versions.c.skill_id == skill_id)
        return tuple(map(version_from_row, self._rows(query)))

    def findings(self, skill_id: str) -> tuple[Mapping[str, Any], ...]:
        """What the scanner found in the current version of a skill when it was installed; none when it is not installed."""
        definitions = skill_definitions.c
        query = (
            select(skill_versions.c.findings)
            .join(skill_definitions, definitions.skill_id == skill_versions.c.skill_id)
            .where(skill_versions.c.skill_id == skill_id, definitions.current_version == skill_versions.c.version)
        )
        rows = self._rows(query)
        return tuple(rows[0]["findings"] or ()) if rows else ()

    def serving(self) -> tuple[SkillVersion, ...]:
        """The current version of each installed skill."""
        definitions = skill_definitions.c
        query = _versions_with_approval().where(definitions.is_active, definitions.current_version == skill_versions.c.version)
        return tuple(map(version_from_row, self._rows(query)))

    def withdrawn(self) -> tuple[SkillVersion, ...]:
        """The current versions that were deprecated or yanked, or lost their approval."""
        definitions, versions = skill_definitions.c, skill_versions.c
        lost = version_approvals.c.state == "withdrawn"
        query = (
            _versions_with_approval()
            .where(definitions.is_active, definitions.current_version == versions.version)
            .where(or_(versions.status == "deprecated", versions.yanked_at.is_not(None), lost))
        )
        return tuple(map(version_from_row, self._rows(query)))

    def approvals(self, skill_id: str | None = None) -> tuple[VersionApproval, ...]:
        """What waits for approval, has it or lost it, the longest waiting first; of one skill when its id is given."""
        table = version_approvals.c
        query = select(version_approvals).order_by(table.asked_at, table.skill_id, table.digest)
        if skill_id is not None:
            query = query.where(table.skill_id == skill_id)
        names = VersionApproval.__dataclass_fields__
        return tuple(
            VersionApproval(**{name: row[name] for name in names if name != "reasons"}, reasons=tuple(row["reasons"]))
            for row in self._rows(query)
        )

    def package_of(self, skill_id: str, digest: str) -> str | None:
        """The package in the store that has this content of a skill."""
        table = skill_versions.c
        query = select(table.package_digest).where(
            table.skill_id == skill_id, table.digest == digest, table.package_digest.is_not(None)
        )
        rows = self._rows(query)
        return rows[0]["package_digest"] if rows else None

    def withdrawn_by(self, skill_id: str, version: str, action: str) -> str | None:
        """Who marked a version last by `yank` or `deprecate` in a request, by the audit log; never the user of the machine."""
        table = audit_events.c
        query = (
            select(table.actor)
            .where(table.subject == f"{skill_id}@{version}", table.action == action, table.request_id.is_not(None))
            .order_by(table.at.desc(), table.id.desc())
            .limit(1)
        )
        rows = self._rows(query)
        return rows[0]["actor"] if rows else None

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
        return tuple(map(log_from_row, self._rows(query)))

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

    def find(self, name: str) -> InstalledSkill | None:
        """The skill with this id, else the first with this name; uninstalled ones too."""
        for column in (_TABLE.c.skill_id, _TABLE.c.name):
            if rows := self._rows(select(_TABLE).where(column == name).order_by(_TABLE.c.skill_id).limit(1)):
                return skill_from_row(rows[0])
        return None

    def named(self, names: Collection[str]) -> tuple[InstalledSkill, ...]:
        """The active skills that have one of these ids or names."""
        if not names:
            return ()
        either = or_(_TABLE.c.skill_id.in_(names), _TABLE.c.name.in_(names))
        query = select(_TABLE).where(either, _TABLE.c.is_active).order_by(_TABLE.c.skill_id)
        return tuple(map(skill_from_row, self._rows(query)))

    def required_by(self, skill_id: str) -> tuple[str, ...]:
        """Why a skill was installed as a dependency; none where a person named it, then or later."""
        query = (
            select(install_logs.c.details)
            .where(install_logs.c.skill_id == skill_id, install_logs.c.status == "success", install_logs.c.details.is_not(None))
            .order_by(install_logs.c.started_at.desc(), install_logs.c.id.desc())
        )
        said = (row["details"].get("required_by") for row in self._rows(query) if row["details"])
        return tuple(next((one for one in said if one is not None), ()))

    def requiring(self) -> tuple[InstalledSkill, ...]:
        """The active skills whose SKILL.md has the word by which requirements begin."""
        query = select(_TABLE).where(_TABLE.c.is_active, _TABLE.c.skill_md_content.contains("requires"))
        return tuple(map(skill_from_row, self._rows(query.order_by(_TABLE.c.skill_id))))

    def _rows(self, query: Select[Any]) -> Sequence[RowMapping]:
        with self.database.read() as connection:
            return connection.execute(query).mappings().all()


def similar_ids(database: Database, name: str) -> list[str]:
    """Ids of active skills that may have been meant: all of a few, of many those that begin with the same letter."""
    ids = select(_TABLE.c.skill_id).where(_TABLE.c.is_active).order_by(_TABLE.c.skill_id).limit(_COMPARED + 1)
    first = name[:1].lower()
    with database.read() as connection:
        names = list(connection.execute(ids).scalars())
        if len(names) > _COMPARED and first.isascii() and first.isalnum():
            names = list(connection.execute(ids.where(_TABLE.c.skill_id >= first)).scalars())
    return names[:_COMPARED]


def page_of_skills(
    database: Database, *, text: str = "", active: bool | None = None, limit: int = 20, offset: int = 0
) -> tuple[tuple[InstalledSkill, ...], int]:
    """So many skills by id, without their SKILL.md, and how many there are; `text` is in id, name or description."""
    columns = [column for column in _TABLE.c if column.name != "skill_md_content"]
    with database.read() as connection:
        conditions = [_TABLE.c.is_active == active] if active is not None else []
        matches = containing_substring(connection, words) if (words := text.strip()) else []
        total = connection.execute(select(func.count()).select_from(_TABLE).where(*conditions, *matches)).scalar_one()
        page = select(*columns).where(*conditions, *matches).order_by(_TABLE.c.skill_id).limit(limit).offset(offset)
        rows = connection.execute(page).mappings().all()
    return tuple(skill_from_row({**row, "skill_md_content": None}) for row in rows), total
