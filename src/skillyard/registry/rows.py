"""Between rows of the tables and the values the registry tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skillyard.registry.editing import EDITABLE
from skillyard.registry.model import InstalledSkill, InstallLog, SkillVersion

if TYPE_CHECKING:
    from sqlalchemy import RowMapping

    from skillyard.document import Document
    from skillyard.registry.candidate import Candidate

__all__ = ["content_of", "log_of", "skill_of", "told_by", "told_by_text", "version_of"]


def told_by(document: Document) -> dict[str, Any]:
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


def told_by_text(text: str, skill_id: str) -> dict[str, Any]:
    """The same from the text of a SKILL.md that was kept."""
    from skillyard.document import parse_document

    return told_by(parse_document(text.encode("utf-8", "surrogatepass"), directory_name=skill_id))


def content_of(candidate: Candidate) -> dict[str, Any]:
    """The columns of a version that its files fill."""
    return {
        "declared_version": candidate.document.metadata.version,
        "source_type": candidate.origin.kind,
        "origin": candidate.origin.to_dict(),
        "digest": candidate.digest,
        "checksum_sha256": candidate.origin.sha256 or None,
        "size_bytes": candidate.size,
        "skill_md_content": candidate.document.text,
        "skill_md_hash": candidate.skill_md_hash,
        "file_inventory": candidate.inventory,
        "powers": candidate.powers.to_dict(),
        "findings": list(candidate.findings),
        "signer": candidate.signer,
        "package_digest": candidate.package_digest,
    }


def skill_of(row: RowMapping | Mapping[str, Any]) -> InstalledSkill:
    """A row of `skill_definitions`; what a person says of the skill stands in place of what its SKILL.md says."""
    edits = row["edits"] or {}
    told = {name: edits.get(name, row[name]) for name in EDITABLE}
    return InstalledSkill(
        skill_id=row["skill_id"],
        name=row["name"],
        description=row["description"],
        active=row["is_active"],
        current_version=row["current_version"],
        file_inventory=row["file_inventory"],
        skill_md_hash=row["skill_md_hash"],
        skill_md_content=row["skill_md_content"],
        trigger_keywords=tuple(row["trigger_keywords"] or ()),
        category=told["category"],
        tags=tuple(told["tags"] or ()),
        author=told["author"],
        license=row["license"],
        homepage_url=told["homepage_url"],
        documentation_url=told["documentation_url"],
        icon_url=told["icon_url"],
        edited=tuple(name for name in EDITABLE if name in edits),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def version_of(row: RowMapping) -> SkillVersion:
    """A row of `skill_versions` with the `current_version` of its definition."""
    return SkillVersion(
        skill_id=row["skill_id"],
        version=row["version"],
        status=row["status"],
        current=row["current_version"] == row["version"],
        digest=row["digest"],
        size_bytes=row["size_bytes"],
        package_path=row["package_path"],
        source_type=row["source_type"],
        declared_version=row["declared_version"],
        origin=row["origin"],
        checksum_sha256=row["checksum_sha256"],
        package_digest=row["package_digest"],
        signer=row["signer"],
        installed_at=row["installed_at"],
        installed_by=row["installed_by"],
        created_at=row["created_at"],
        deprecated_reason=row["deprecated_reason"],
        yanked_reason=row["yanked_reason"],
        yanked=row["yanked_at"] is not None,
        removed=row["removed_at"] is not None,
    )


def log_of(row: RowMapping) -> InstallLog:
    """A row of `install_logs`."""
    values = {name: row[name] for name in InstallLog.__dataclass_fields__ if name != "steps"}
    return InstallLog(**values, steps=tuple(row["steps"]))
