"""The shapes of installing: versions, what skills may do, results and logs."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from skillyard.registry import InstallLog, Result
from skillyard.registry.model import LogStatus, Operation, PackageState
from skillyard.server.shapes import Definition

__all__ = [
    "InstallEnded",
    "InstallError",
    "InstallEvent",
    "InstallLogDetail",
    "InstallMoved",
    "InstallResult",
    "InstallStep",
    "Installed",
    "OperationDetail",
    "OperationStarted",
    "PowerChangeShape",
    "PowersShape",
    "ScanFinding",
    "VersionDetail",
    "log_detail",
    "result_detail",
]


class Provenance(BaseModel):
    """Where a version came from: the kind of source, its address, and what is known beside it."""

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
    """That a new version may do more: `widened` says what, one sentence each; `consent` names exactly this change."""

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
    """One installed version; `version` is the UTC time it was installed at, `declared_version` what its SKILL.md says.

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
    """What became of one skill; `unmet` is what this machine lacks for it, `findings` what the scanner says.

    `power_sentences` says in sentences what the skill may do.
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


class Installed(BaseModel):
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
"""The `data` of one server-sent event; each tells the whole operation as it is."""


def result_detail(result: Result) -> InstallResult:
    """The shape of what became of a skill; a rollback fetches nothing, so it has no origin."""
    return InstallResult.model_validate({**result.to_dict(), "origin": dict(result.origin) or None})


def log_detail(log: InstallLog) -> InstallLogDetail:
    """The shape of a log."""
    return InstallLogDetail.model_validate(log.to_dict())
