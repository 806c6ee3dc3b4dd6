"""The shapes of installing: installed skills and versions, what a skill may do, inspections, results and logs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from skillyard.catalog import FileType, Inventory
from skillyard.packages import FileDifference
from skillyard.registry import InstallRefusal, Powers, SkillInspection
from skillyard.registry.registry_values import ApprovalState, LogStatus, Operation, PackageState, ResultStatus
from skillyard.scanner import Effect, Finding
from skillyard.server.responses import hint_over_http
from skillyard.server.shapes import ResponseShape
from skillyard.wire import WireForm, wire


class Definition(ResponseShape):
    """An installed skill in the API's own spelling; `id` is the `skillId`.

    The fields in `edited` have a person's values, and not those of the SKILL.md. `displayName`
    is null where nobody gave one.
    """

    id: str = Field(validation_alias="skillId")
    skillId: str  # noqa: N815
    name: str
    description: str
    currentVersion: str | None  # noqa: N815
    isActive: bool  # noqa: N815
    fileInventory: Inventory | None  # noqa: N815
    skillMdHash: str | None = None  # noqa: N815
    triggerKeywords: list[str]  # noqa: N815
    displayName: str | None = None  # noqa: N815
    category: str | None = None
    tags: list[str]
    author: str | None = None
    license: str | None = None
    homepageUrl: str | None = None  # noqa: N815
    documentationUrl: str | None = None  # noqa: N815
    iconUrl: str | None = None  # noqa: N815
    edited: list[str]
    createdAt: str | None = None  # noqa: N815
    updatedAt: str | None = None  # noqa: N815


class Provenance(BaseModel):
    """Where a version came from: the kind of source, its address, and further details.

    Of a skill that a published manifest led to, `manifest_url` and what the `manifest` says, in the form of Semibot.
    """

    kind: str
    address: str
    path: str | None = None
    ref: str | None = None
    commit: str | None = None
    sha256: str | None = None
    version: str | None = None
    notes: str | None = None
    manifest_url: str | None = None
    manifest: dict[str, Any] | None = None


def _below_home(path: str) -> str:
    """`skills/{skill_id}/{version}`: where a version lies in the home of its organisation, wherever that is."""
    return PurePath("skills", *PurePath(path).parts[-2:]).as_posix()


class VersionDetail(ResponseShape):
    """One installed version; `version` is the UTC time it was installed at, `declared_version` that of its SKILL.md.

    `package_path` is the folder of the version below the home that it is installed in. `approval` is the result of the
    approval of its content; null where none was asked for.
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
    approval: ApprovalState | None
    approval_by: str | None
    approval_reason: str | None


class VersionContent(BaseModel):
    """What a version comes to: its powers, and the tokens of its description and instructions; None when it cannot be read."""

    version: str
    declared_version: str | None
    size_bytes: int
    powers: Powers | None
    description_tokens: int | None
    instruction_tokens: int | None


class VersionComparison(BaseModel):
    """Two versions: every file that is not the same by path, how many are, and what each comes to.

    `widened` has a sentence for each power that the second has and the first has not, `narrowed` one for each that went.
    `added_effects` and `removed_effects` are what only the second and only the first did when they were watched; None unless
    both were watched here.
    """

    files: list[FileDifference]
    unchanged: int
    before: VersionContent
    after: VersionContent
    widened: list[str]
    narrowed: list[str]
    added_effects: list[Effect] | None
    removed_effects: list[Effect] | None


class InstallResult(ResponseShape):
    """The result for one skill; `unmet` is what this machine lacks for it, `findings` are the scanner's.

    `power_sentences` are sentences about what the skill may do. `required_by` says why one that nobody named was installed.
    """

    skill_id: str
    name: str
    status: ResultStatus
    version: str | None
    previous: str | None
    digest: str | None
    powers: Powers | None
    power_sentences: list[str]
    declared_version: str | None
    signer: str | None
    warnings: list[str]
    unmet: list[str]
    log_id: str | None
    pruned: list[str]
    origin: Annotated[Provenance | None, BeforeValidator(lambda origin: origin or None)]  # a rollback fetches nothing
    findings: list[Finding]
    required_by: list[str]


class InstallSummary(BaseModel):
    """The result of an install: the skills as they are now, and the result of each."""

    operation_id: str
    definitions: list[Definition]
    results: list[InstallResult]


class OperationStarted(BaseModel):
    """An install in the background; `events` is the address to follow it."""

    operation_id: str
    events: str


class InstallStep(BaseModel):
    """One step of an operation; it took `duration_ms`, null while it is running."""

    name: str
    progress: int
    duration_ms: int | None = None


class InstallLogDetail(ResponseShape):
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


class InstallProgressed(BaseModel):
    """The operation has come further."""

    event: Literal["progress"] = "progress"
    operation: OperationDetail


class InstallEnded(BaseModel):
    """The operation is over; nothing comes after this."""

    event: Literal["end"] = "end"
    operation: OperationDetail


InstallEvent = Annotated[InstallProgressed | InstallEnded, Field(discriminator="event")]
"""The `data` of one server-sent event; each has the whole operation as it is."""


@dataclass(frozen=True, slots=True)
class SkillFileEntry(WireForm):
    """One file of a skill, its class and its size in bytes."""

    path: str
    type: FileType
    size: int


@dataclass(frozen=True, slots=True)
class InspectedSkill(WireForm):
    """One skill of a source, as it would be installed; nothing was.

    `refusals` would stop it, also findings of the scanner that the operator lets stop it; `unmet` is what this machine lacks.
    When there is a `change`, the install needs its `consent`. `difference` and `powers_before` are about the current version.
    """

    inspection: SkillInspection = field(metadata=wire(inline=True))
    files: tuple[SkillFileEntry, ...]
    refusals: tuple[InstallRefusal, ...]
    findings: tuple[Finding, ...]
    installed: VersionDetail | None

    @classmethod
    def of(cls, inspection: SkillInspection) -> Self:
        """The inspection, with hints in the terms of a request, and of the current version what may be shown."""
        return cls(
            inspection,
            tuple(SkillFileEntry(file.name, file.type, file.size) for file in inspection.files),
            tuple(replace(one, hint=hint_over_http(one.code, one.hint)) for one in inspection.refusals),
            cast("tuple[Finding, ...]", inspection.findings),  # the plain form of findings
            VersionDetail.of(inspection.installed) if inspection.installed else None,
        )
