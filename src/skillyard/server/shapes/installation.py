"""The shapes of installing: installed skills and versions, what a skill may do, inspections, results and logs."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from skillyard.plain_json import to_plain_json
from skillyard.registry import InstalledSkill, InstallLog, OperationResult, SkillInspection
from skillyard.registry.model import LogStatus, Operation, PackageState
from skillyard.server.problems import hint_over_http


class FileInventory(BaseModel):
    """The files of a skill, counted and classed, in the API's own spelling."""

    hasSkillMd: bool  # noqa: N815
    hasScripts: bool  # noqa: N815
    hasReferences: bool  # noqa: N815
    scriptFiles: list[str]  # noqa: N815
    referenceFiles: list[str]  # noqa: N815
    templateFiles: list[str]  # noqa: N815
    totalFiles: int  # noqa: N815
    totalSizeBytes: int  # noqa: N815


class Definition(BaseModel):
    """An installed skill in the API's own spelling; `id` is the `skillId`.

    The fields in `edited` have a person's values, and not those of the SKILL.md.
    """

    id: str
    skillId: str  # noqa: N815
    name: str
    description: str
    currentVersion: str | None  # noqa: N815
    isActive: bool  # noqa: N815
    fileInventory: FileInventory | None  # noqa: N815
    skillMdHash: str | None = None  # noqa: N815
    triggerKeywords: list[str] = []  # noqa: N815
    category: str | None = None
    tags: list[str] = []
    author: str | None = None
    license: str | None = None
    homepageUrl: str | None = None  # noqa: N815
    documentationUrl: str | None = None  # noqa: N815
    iconUrl: str | None = None  # noqa: N815
    edited: list[str] = []
    createdAt: str | None = None  # noqa: N815
    updatedAt: str | None = None  # noqa: N815


class Provenance(BaseModel):
    """Where a version came from: the kind of source, its address, and further details."""

    kind: str
    address: str
    path: str | None = None
    ref: str | None = None
    commit: str | None = None
    sha256: str | None = None
    version: str | None = None
    notes: str | None = None


class PowersShape(BaseModel):
    """All that a skill declares or carries that does something; `tools` is null when it does not limit itself to any."""

    scripts: list[str]
    hosts: list[str]
    environment: list[str]
    tools: list[str] | None
    packages: list[str]
    servers: list[str]
    hidden: list[str]
    filesystem: str
    timeout_ms: int
    memory_mb: int


class PowerChangeShape(BaseModel):
    """That a new version may do more: `widened` is what, one sentence each; `consent` names exactly this change."""

    skill_id: str
    name: str
    widened: list[str]
    before: PowersShape
    after: PowersShape
    consent: str


class ScanFinding(BaseModel):
    """One place where the scanner found something; advice, it stops nothing."""

    rule: str
    severity: str
    message: str
    why: str
    file: str
    line: int
    column: int
    evidence: str
    fix: str
    allowed: str | None = None
    expired: str | None = None
    claimed: str | None = None


def _below_home(path: str) -> str:
    """`skills/{skill_id}/{version}`: where a version lies in the home of its organisation, wherever that is."""
    return PurePath("skills", *PurePath(path).parts[-2:]).as_posix()


class VersionDetail(BaseModel):
    """One installed version; `version` is the UTC time it was installed at, `declared_version` that of its SKILL.md.

    `package_path` is the folder of the version below the home that it is installed in.
    """

    skill_id: str
    version: str
    status: PackageState
    current: bool
    digest: str
    size_bytes: int
    package_path: Annotated[str, AfterValidator(_below_home)]
    source_type: str
    declared_version: str | None
    origin: Provenance
    checksum_sha256: str | None
    package_digest: str | None
    signer: str | None
    installed_at: str | None
    installed_by: str | None
    deprecated_reason: str | None
    yanked_reason: str | None
    yanked: bool
    removed: bool


class InstallResult(BaseModel):
    """What became of one skill; `unmet` is what this machine lacks for it, `findings` are the scanner's.

    `power_sentences` are sentences about what the skill may do.
    """

    skill_id: str
    name: str
    status: Literal["installed", "updated", "unchanged", "kept", "rolled back", "uninstalled"]
    version: str | None
    previous: str | None
    digest: str | None
    powers: PowersShape | None
    power_sentences: list[str]
    declared_version: str | None
    signer: str | None
    warnings: list[str]
    unmet: list[str]
    log_id: str | None
    pruned: list[str]
    origin: Provenance | None
    findings: list[ScanFinding]


class InstallSummary(BaseModel):
    """What an install came to: the skills as they are now, and what became of each."""

    operation_id: str
    definitions: list[Definition]
    results: list[InstallResult]


class OperationStarted(BaseModel):
    """An install that goes on in the server; `events` is where to follow it."""

    operation_id: str
    events: str


class InstallStep(BaseModel):
    """One step of an operation; it took `duration_ms`, null while it goes on."""

    name: str
    progress: int
    duration_ms: int | None = None


class InstallLogDetail(BaseModel):
    """What one operation did to one skill; of a refusal, `details` has the members of the problem (`changes`, `consent`, …)."""

    id: str
    operation_id: str
    operation: Operation
    status: LogStatus
    state: PackageState
    step: str | None
    progress: int
    skill_id: str | None
    version: str | None
    message: str | None
    error_code: str | None
    error_message: str | None
    source: str | None
    steps: list[InstallStep]
    details: dict[str, Any] | None
    started_at: str | None
    completed_at: str | None
    duration_ms: int | None


class InstallError(BaseModel):
    """Why an operation failed, with the members of the problem."""

    code: str
    message: str
    details: dict[str, Any] = {}


class OperationDetail(BaseModel):
    """An operation with the log of each skill it is about; when it is over, the skills as they are now, or the error."""

    operation_id: str
    state: Literal["running", "success", "failed"]
    logs: list[InstallLogDetail]
    definitions: list[Definition] = []
    error: InstallError | None = None


class InstallMoved(BaseModel):
    """The operation has come further."""

    event: Literal["progress"] = "progress"
    operation: OperationDetail


class InstallEnded(BaseModel):
    """The operation is over; nothing comes after this."""

    event: Literal["end"] = "end"
    operation: OperationDetail


InstallEvent = Annotated[InstallMoved | InstallEnded, Field(discriminator="event")]
"""The `data` of one server-sent event; each has the whole operation as it is."""


def result_detail(result: OperationResult) -> InstallResult:
    """The shape of what became of a skill; a rollback fetches nothing, so it has no origin."""
    return InstallResult.model_validate({**result.to_dict(), "origin": dict(result.origin) or None})


def log_detail(log: InstallLog) -> InstallLogDetail:
    """The shape of a log."""
    return InstallLogDetail.model_validate(log.to_dict())


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
    """One file that is not the same; `lines` is a unified diff, `unshown` is why there is none, or why it is incomplete."""

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
    `change`, the install needs its `consent`. `difference` and `powers_before` are about the current version.
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


def inspected(skill: SkillInspection) -> InspectedSkill:
    """The shape of what was seen."""
    return InspectedSkill.model_validate(
        to_plain_json(
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
                "refusals": [
                    {"code": one.code, "message": one.message, "hint": hint_over_http(one.code, one.hint)}
                    for one in skill.refusals
                ],
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


def definition_shape(skill: InstalledSkill) -> Definition:
    """The skill in the API's own spelling."""
    return Definition.model_validate({"id": skill.skill_id, **skill.to_dict()})
