"""The shapes of what is seen before anything is installed."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from skillyard.engine.plain import plain
from skillyard.registry import Inspected
from skillyard.server.install_shapes import PowerChangeShape, PowersShape, ScanFinding, VersionDetail
from skillyard.server.shapes import FileInventory

__all__ = ["ClientLoading", "Diagnosis", "InspectedSkill", "SkillFileEntry", "TreeDifference", "inspected"]


class ClientLoading(BaseModel):
    """What one client makes of a skill; with `problems` it does not load it."""

    client: str
    loads: bool
    name: str
    description: str
    problems: list[str]
    notes: list[str]


class SkillFileEntry(BaseModel):
    """One file of a skill, its class and its size in bytes."""

    path: str
    type: Literal["markdown", "script", "template", "other"]
    size: int


class Diagnosis(BaseModel):
    """One remark about a SKILL.md."""

    rule: str
    severity: Literal["error", "warning", "info"]
    message: str
    file: str
    line: int
    fix: str | None


class RefusalShape(BaseModel):
    """Why an install would be refused."""

    code: str
    message: str
    hint: str | None


class FileChange(BaseModel):
    """One file that is not the same; `lines` is a unified diff, `unshown` says why there is none, or why it is not whole."""

    path: str
    change: Literal["added", "removed", "changed"]
    before: int | None
    after: int | None
    lines: str
    unshown: str | None


class TreeDifference(BaseModel):
    """Every file that is not the same, and how many are."""

    files: list[FileChange]
    unchanged: int


class InspectedSkill(BaseModel):
    """One skill of a source, as it would be installed; nothing was.

    `refusals` would stop it, `findings` of the scanner are advice, `unmet` is what this machine lacks. When there is a
    `change`, the install needs its `consent`. `difference` and `powers_before` are about the version that serves now.
    """

    skill_id: str
    name: str
    description: str
    declared_version: str | None
    digest: str
    size_bytes: int
    front_matter: dict[str, Any]
    skill_md: str
    files: list[SkillFileEntry]
    file_inventory: FileInventory
    powers: PowersShape
    power_sentences: list[str]
    diagnostics: list[Diagnosis]
    refusals: list[RefusalShape]
    findings: list[ScanFinding]
    clients: list[ClientLoading]
    unmet: list[str]
    warnings: list[str]
    signer: str | None
    unchanged: bool
    installed: VersionDetail | None
    powers_before: PowersShape | None
    difference: TreeDifference | None
    change: PowerChangeShape | None


def inspected(skill: Inspected) -> InspectedSkill:
    """The shape of what was seen."""
    return InspectedSkill.model_validate(
        plain(
            {
                "skill_id": skill.skill_id,
                "name": skill.name,
                "description": skill.description,
                "declared_version": skill.declared_version,
                "digest": skill.digest,
                "size_bytes": skill.size_bytes,
                "front_matter": dict(skill.front_matter),
                "skill_md": skill.skill_md,
                "files": [{"path": file.name, "type": file.type, "size": file.size} for file in skill.files],
                "file_inventory": skill.inventory,
                "powers": skill.powers.to_dict(),
                "power_sentences": list(skill.powers.sentences()),
                "diagnostics": [found.to_dict() for found in skill.diagnostics],
                "refusals": [{"code": one.code, "message": one.message, "hint": one.hint} for one in skill.refusals],
                "findings": list(skill.findings),
                "clients": [client.to_dict() for client in skill.clients],
                "unmet": list(skill.unmet),
                "warnings": list(skill.warnings),
                "signer": skill.signer,
                "unchanged": skill.unchanged,
                "installed": skill.installed and skill.installed.to_dict(),
                "powers_before": skill.powers_before and skill.powers_before.to_dict(),
                "difference": skill.difference and skill.difference.to_dict(),
                "change": skill.change and skill.change.to_dict(),
            }
        )
    )
