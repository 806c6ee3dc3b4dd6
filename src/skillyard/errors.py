"""Every error a user of Skillyard can meet, in one table: class, kind, code, HTTP status, and what it means.

Each error says what happened in its message and how to fix it in `hint`. `code` is stable: programs may match on it. `status`
is the HTTP status that fits, that of its kind where none is given. `details` has more for programs. The same error becomes one
line in the CLI, one problem+json, one tool result.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from copy import copy
from typing import ClassVar, Self


class SkillyardError(Exception):
    """The root of the tree: a message, a `hint` that says how to fix it, and `details` for programs."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500

    def __init_subclass__(cls, *, code: str = "", status: int = 0) -> None:
        """A kind of error: what is not given is that of the class above."""
        super().__init_subclass__()
        cls.code = code or cls.code
        cls.status = status or cls.status

    def __init__(self, message: str, *, hint: str | None = None, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    @property
    def sentence(self) -> str:
        """What happened and, in brackets, how to fix it: where there is one line for both."""
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def with_texts(self, change: Callable[[str], str]) -> Self:
        """A copy of the error with every text of it, in the details too, replaced by what `change` makes of it."""
        other = copy(self)
        other.message, other.hint = change(self.message), self.hint and change(self.hint)
        other.details = {name: _with_texts(value, change) for name, value in self.details.items()}
        other.args = (other.message,)
        return other

    def to_dict(self) -> dict[str, object]:
        """The error as plain data: `{"code", "message", "hint"?, ...details}`; by hand, as details are no fields."""
        shape: dict[str, object] = {"code": self.code, "message": self.message}
        if self.hint:
            shape["hint"] = self.hint
        return shape | self.details


def _with_texts(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _with_texts(one, change) for name, one in value.items()}
    return [_with_texts(one, change) for one in value] if isinstance(value, list | tuple) else value


class InvalidInput(SkillyardError, code="invalid_input", status=400):
    """A value the caller gave cannot be used."""


class UsageProblem(InvalidInput, code="usage"):
    """The command line itself cannot be understood."""


class InvalidConfiguration(InvalidInput, code="invalid_configuration"):
    """A settings file cannot be read or says something that cannot be meant."""


class InvalidManifest(InvalidInput, code="invalid_manifest", status=422):
    """A package's manifest breaks a rule; `details["problems"]` lists every one."""


class InvalidPolicy(InvalidInput, code="invalid_policy", status=422):
    """A sandbox policy is contradictory, unknown or out of range."""


class NotConfigured(SkillyardError, code="not_configured", status=409):
    """The request is valid, and the settings of this server have not what it needs; the hint names the setting."""


class UnreachableRule(InvalidInput, code="unreachable_rule"):
    """A permission rule can never apply because an earlier one always matches first."""


class ValueRefused(InvalidInput, code="value_refused", status=422):
    """The records do not take a value: it is too long, too large, or against a rule of their tables."""


class SkillNotFound(SkillyardError, code="skill_not_found", status=404):
    """No skill has that id or name; `details["candidates"]` lists ids of near names."""


class AmbiguousSkill(SkillyardError, code="ambiguous_skill", status=409):
    """More than one skill fits; `details["candidates"]` lists their ids."""


class SkillUnusable(SkillyardError, code="skill_unusable", status=409):
    """The skill is there but broken, shadowed or disabled."""


class InvalidSkill(SkillyardError, code="invalid_skill", status=422):
    """A SKILL.md does not meet the requested profile; `details["diagnostics"]` says why."""


class SkillExists(SkillyardError, code="skill_exists", status=409):
    """A skill of that name is already in that folder."""


class DeleteRefused(SkillyardError, code="delete_refused", status=403):
    """The skill may not be deleted from here."""


class PermissionDenied(SkillyardError, code="permission_denied", status=403):
    """A rule forbids this skill."""


class ApprovalRejected(PermissionDenied, code="approval_rejected"):
    """The approver refused, or there was none to ask."""


class NotYours(PermissionDenied, code="not_yours"):
    """It belongs to another member of the organisation, and only they or an admin may change it."""


class SecondPersonRequired(PermissionDenied, code="second_person_required"):
    """Who installed or published a version may not approve it: the operator's policy wants a second person."""


class SignInRequired(SkillyardError, code="sign_in_required", status=401):
    """The server does not know the caller: there is no key, or it is unknown, expired or revoked."""


class AuthorizationRefused(SkillyardError, code="authorization_refused", status=400):
    """A client of OAuth is not let sign in; `details["oauth_error"]` is the code of its protocol, such as `invalid_grant`."""


class TooManyRequests(SkillyardError, code="too_many_requests", status=429):
    """A caller sends requests faster than allowed; `details["retry_after"]` is how many seconds to wait."""


class TooManySessions(SkillyardError, code="too_many_sessions", status=429):
    """So many sessions of workspaces work that no more are begun; one has to end first."""


class TooManyWorkspaces(SkillyardError, code="too_many_workspaces", status=409):
    """The caller has as many workspaces as are kept; one has to be deleted first."""


class FileProblem(SkillyardError, code="file_problem", status=400):
    """A file inside a skill cannot be given."""


class PathRefused(FileProblem, code="path_refused", status=403):
    """The path leaves the skill's folder, passes through a link out of it, or has a denied name."""


class PlaceHeldBack(FileProblem, code="held_back", status=403):
    """A session of a workspace may not write files that programs outside would execute; `paths` lists them."""


class FileMissing(FileProblem, code="file_not_found", status=404):
    """The skill has no such file; `details["candidates"]` lists near names."""


class FileTooLarge(FileProblem, code="file_too_large", status=413):
    """The file is over the size that may be read."""


class BinaryFile(FileProblem, code="binary_file", status=415):
    """The file is not text."""


class PackageProblem(SkillyardError, code="package_problem", status=422):
    """A package cannot be read, fetched, trusted or kept."""


class ArchiveRefused(PackageProblem, code="archive_refused"):
    """An archive or a tree breaks a rule; `details["entry"]` names the entry. The whole archive is refused."""


class MalformedArchive(ArchiveRefused, code="malformed_archive"):
    """The archive is damaged, encrypted, of an unknown format, or could be read in two ways."""


class UnsafePath(ArchiveRefused, code="unsafe_path"):
    """A name leaves the package or is not safe on every machine."""


class PathTooLong(ArchiveRefused, code="path_too_long"):
    """A path is too long or too deep."""


class PathCollision(ArchiveRefused, code="path_collision"):
    """Two entries are the same file on some machine."""


class LinkNotAllowed(ArchiveRefused, code="link_not_allowed"):
    """An entry is a symbolic or hard link."""


class SpecialNotAllowed(ArchiveRefused, code="special_not_allowed"):
    """An entry is neither a regular file nor a folder."""


class ArchiveTooLarge(ArchiveRefused, code="archive_too_large", status=413):
    """The archive, a file in it, or all files together are over the limit."""


class TooManyFiles(ArchiveRefused, code="too_many_files", status=413):
    """The archive has more entries than the limit."""


class NoSkillInside(PackageProblem, code="no_skill_inside"):
    """There is no skill there, or not the requested one; `details["candidates"]` lists those there are."""


class InvalidSource(PackageProblem, code="invalid_source", status=400):
    """The address of a package cannot be understood or may not be used."""


class DigestMismatch(PackageProblem, code="digest_mismatch"):
    """The content is not the one that was promised."""


class SignatureInvalid(PackageProblem, code="signature_invalid"):
    """A skill has a signature that does not hold for its content."""


class SignatureMissing(PackageProblem, code="signature_missing"):
    """A skill from a source with pinned signers has no signature."""


class SignerRefused(PackageProblem, code="signer_refused"):
    """A skill is signed, and not by one of those that are pinned for its source; `details["pinned"]` are these."""


class PackageMissing(PackageProblem, code="package_not_found", status=404):
    """The store has no package with that digest."""


class StoreFailed(PackageProblem, code="store_failed", status=503):
    """The store cannot be read or written."""


class InstallProblem(SkillyardError, code="install_problem", status=409):
    """What is installed does not allow the request."""


class ConsentRequired(InstallProblem, code="consent_required", status=403):
    """The new version may do more than the installed one; `details["changes"]` says exactly what."""


class GraveFindings(InstallProblem, code="grave_findings", status=403):
    """The scanner found harm that the operator's policy stops; `details["findings"]` has each, `rules` what to accept."""


class SignerChanged(InstallProblem, code="signer_changed"):
    """The new version is signed with another key than the versions before, or not at all; `details` has both keys.

    `details["replacements"]` says it of each skill, and `consent` names exactly these.
    """


class SourceChanged(InstallProblem, code="source_changed"):
    """The new version comes from another source than the current one; `details` as of `SignerChanged`."""


class LocalEdits(InstallProblem, code="local_edits"):
    """An installed version is not what was installed: its files were changed."""


class VersionNotFound(InstallProblem, code="version_not_found", status=404):
    """The skill has no such version; `details["candidates"]` lists those it has."""


class VersionUnusable(InstallProblem, code="version_unusable"):
    """The version is there and may not be used: failed, deprecated or yanked, or its files are missing."""


class VersionNotApproved(InstallProblem, code="version_not_approved", status=403):
    """The version waits for an approval that the operator's policy wants, or lost it."""


class VersionPinned(InstallProblem, code="version_pinned"):
    """The current version is pinned: updates leave it as it is until the pin is taken away."""


class DependencyConflict(InstallProblem, code="dependency_conflict"):
    """No version of a skill is what all who require it ask for; `details["required"]` says who asked for what."""


class DependencyCycle(InstallProblem, code="dependency_cycle"):
    """Skills require each other in a cycle; `details["cycle"]` has their names, the first again at the end."""


class SkillRequired(InstallProblem, code="skill_required"):
    """Other skills need what would be taken away; `details["required_by"]` has one sentence for each."""


class ConversationBusy(SkillyardError, code="conversation_busy", status=409):
    """A conversation has an open turn: it is being worked on, or waits for an answer."""


class ModelFailed(SkillyardError, code="model_failed", status=502):
    """The service of a model refused a request, or could not be reached; `details["said"]` is its answer, if any."""


class TurnLimitExceeded(ModelFailed, code="turn_limit", status=422):
    """A model went on for longer than a turn may be."""


class ModelKeyRefused(ModelFailed, code="model_key_refused"):
    """The service of a model does not accept the key, or gives it no such model."""


class ModelUnknown(ModelFailed, code="model_unknown"):
    """The service knows no model of that name, or its address is another one."""


class ModelLimited(ModelFailed, code="model_limited"):
    """What may be requested or spent with a key is used up, for the moment or for good."""


class ModelUnreachable(ModelFailed, code="model_unreachable"):
    """No connection to the service of a model comes about, or it breaks off."""


class DatabaseUnavailable(SkillyardError, code="database_unavailable", status=503):
    """The records of runs and memories cannot be opened, read or written."""


class DatabaseDamaged(DatabaseUnavailable, code="database_damaged", status=500):
    """The file or the pages of the database do not hold together; it stays so until it is repaired or replaced."""


class DiskFull(SkillyardError, code="disk_full", status=503):
    """The disk takes nothing any more, or the quota on it is used up; nothing was kept of what was begun."""

    @classmethod
    def of(cls, error: BaseException) -> Self | None:
        """An error of the system as this one; None when it says something else."""
        if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return None
        return cls("there is no room on the disk", hint="free some, or give the user more; nothing was changed")


class RecordNotFound(SkillyardError, code="record_not_found", status=404):
    """There is no run, memory or agent with that id."""


class RecordExists(SkillyardError, code="record_exists", status=409):
    """A run, an agent or another record with that id or name is there already."""


class NotOffered(SkillyardError, code="not_offered", status=404):
    """A client requests what services of its kind do elsewhere, and this server does not."""


class ServerStopping(SkillyardError, code="server_stopping", status=503):
    """The server is stopping and takes nothing new."""


class WorkProblem(SkillyardError, code="work_failed"):
    """A helper process did not finish what it was given; `details["at"]` is what it last reported to work on, if anything."""


class WorkTimedOut(WorkProblem, code="work_timeout", status=422):
    """It took longer than its deadline; `details["limit_seconds"]` is that deadline."""


class WorkMemoryExceeded(WorkProblem, code="work_memory_exceeded", status=422):
    """It needed more memory, or a deeper stack, than it may have; `details["limit_mb"]` is the limit in MiB."""


class HelperFailed(WorkProblem, code="helper_failed", status=503):
    """The helper process could not be started, or ended by itself."""


class HelpersBusy(WorkProblem, code="busy", status=503):
    """Every helper process is at work and too many callers wait; `details["retry_after"]` is how many seconds to wait."""


class ExtensionFailed(SkillyardError, code="extension_failed", status=502):
    """An extension of another package cannot be imported or failed; `details["extension"]` is its kind and name."""


class ExecutionProblem(SkillyardError, code="execution_failed"):
    """A skill could not be started."""


class NetworkRefused(ExecutionProblem, code="network_refused", status=403):
    """The host is not on the allow-list, or its address may not be reached."""


class NetworkFailed(ExecutionProblem, code="network_failed", status=502):
    """An allowed host could not be resolved, did not answer, or answered with what cannot be used."""


class NotExecutable(ExecutionProblem, code="not_executable", status=422):
    """The skill declares nothing that can run."""


class RuntimeUnavailable(ExecutionProblem, code="runtime_unavailable", status=503):
    """This machine has no interpreter for the skill's entry."""


class DependenciesUnavailable(ExecutionProblem, code="dependencies_unavailable", status=503):
    """Packages the entry requires are not installed; `details["dependencies"]` lists them."""


class SandboxUnavailable(ExecutionProblem, code="sandbox_unavailable", status=503):
    """No sandbox here can enforce the policy; `details` has `unmet` and `remedies`."""
