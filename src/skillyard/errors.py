"""Every error a user of Skillyard can meet, in one tree.

::

    SkillyardError                      internal_error            500
    ├── InvalidInput                    invalid_input             400   a value given by the caller
    │   ├── InvalidConfiguration        invalid_configuration     400   a settings file
    │   ├── InvalidManifest             invalid_manifest          422   a manifest.json; carries `problems`
    │   ├── InvalidPolicy               invalid_policy            422   a `security:` block or an operator's ceiling
    │   └── UnreachableRule             unreachable_rule          400   a permission rule that can never apply
    ├── SkillNotFound                   skill_not_found           404   carries `candidates`
    ├── AmbiguousSkill                  ambiguous_skill           409   carries `candidates`
    ├── SkillUnusable                   skill_unusable            409   broken, shadowed or disabled
    ├── InvalidSkill                    invalid_skill             422   carries `diagnostics`
    ├── SkillExists                     skill_exists              409
    ├── DeleteRefused                   delete_refused            403
    ├── PermissionDenied                permission_denied         403
    │   └── ApprovalRejected            approval_rejected         403
    ├── SignInRequired                  sign_in_required          401   no key, or one that does not hold
    ├── TooManyRequests                 too_many_requests         429   carries `retry_after`, in seconds
    ├── FileProblem                     file_problem              400   a file inside a skill
    │   ├── PathRefused                 path_refused              403   leaves the skill, or a denied name
    │   ├── FileMissing                 file_not_found            404   carries `candidates`
    │   ├── FileTooLarge                file_too_large            413
    │   └── BinaryFile                  binary_file               415
    ├── PackageProblem                  package_problem           422   an archive, a source or a store
    │   ├── ArchiveRefused              archive_refused           422   an archive or a tree; carries `entry`
    │   │   ├── MalformedArchive        malformed_archive         422   damaged, encrypted, or two things at once
    │   │   ├── UnsafePath              unsafe_path               422   a name that is not safe on every machine
    │   │   ├── PathTooLong             path_too_long             422
    │   │   ├── PathCollision           path_collision            422   two names for one place
    │   │   ├── LinkNotAllowed          link_not_allowed          422
    │   │   ├── SpecialNotAllowed       special_not_allowed       422   devices, pipes, sparse files
    │   │   ├── ArchiveTooLarge         archive_too_large         413
    │   │   └── TooManyFiles            too_many_files            413
    │   ├── NoSkillInside               no_skill_inside           422   carries `candidates`
    │   ├── InvalidSource               invalid_source            400   an address that cannot be fetched
    │   ├── DigestMismatch              digest_mismatch           422   other content than was promised
    │   ├── SignatureInvalid            signature_invalid         422   a signature that does not hold
    │   ├── PackageMissing              package_not_found         404   the store has no such package
    │   └── StoreFailed                 store_failed              503   the store cannot be read or written
    ├── InstallProblem              install_problem           409   what is installed does not allow it
    │   ├── ConsentRequired         consent_required          403   carries `changes`: what the new version may do
    │   ├── SignerChanged           signer_changed            403   another signer than before, or none any more
    │   ├── LocalEdits              local_edits               409   an installed version was changed by hand
    │   ├── VersionNotFound         version_not_found         404   carries `candidates`
    │   └── VersionUnusable         version_unusable          409   failed, deprecated, yanked, or its files are gone
    ├── ConversationBusy                conversation_busy         409   a turn is open: it works, or waits for an answer
    ├── ModelFailed                     model_failed              502   the service of a model said no, or nothing
    ├── DatabaseUnavailable             database_unavailable      503   the records cannot be opened, read or written
    ├── RecordNotFound                  record_not_found          404   no run, memory or agent with that id
    ├── RecordExists                    record_exists             409   one with that id or name is there already
    └── ExecutionProblem                execution_failed          500
        ├── NetworkRefused              network_refused           403   a host or an address that may not be reached
        ├── NetworkFailed               network_failed            502   a host that may be reached did not answer properly
        ├── NotExecutable               not_executable            422   the skill has no entry that can run
        ├── RuntimeUnavailable          runtime_unavailable       503   no interpreter for the entry
        ├── DependenciesUnavailable     dependencies_unavailable  503   carries `dependencies`
        └── SandboxUnavailable          sandbox_unavailable       503   carries `unmet` and `remedies`

Each error says what happened in its message and how to mend it in `hint`. `code` is stable: programs may match on it. `status`
is the HTTP status that fits. The same error becomes one line in the CLI, one problem+json, one tool result.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AmbiguousSkill",
    "ApprovalRejected",
    "ArchiveRefused",
    "ArchiveTooLarge",
    "BinaryFile",
    "ConsentRequired",
    "ConversationBusy",
    "DatabaseUnavailable",
    "DeleteRefused",
    "DependenciesUnavailable",
    "DigestMismatch",
    "ExecutionProblem",
    "FileMissing",
    "FileProblem",
    "FileTooLarge",
    "InstallProblem",
    "InvalidConfiguration",
    "InvalidInput",
    "InvalidManifest",
    "InvalidPolicy",
    "InvalidSkill",
    "InvalidSource",
    "LinkNotAllowed",
    "LocalEdits",
    "MalformedArchive",
    "ModelFailed",
    "NetworkFailed",
    "NetworkRefused",
    "NoSkillInside",
    "NotExecutable",
    "PackageMissing",
    "PackageProblem",
    "PathCollision",
    "PathRefused",
    "PathTooLong",
    "PermissionDenied",
    "RecordExists",
    "RecordNotFound",
    "RuntimeUnavailable",
    "SandboxUnavailable",
    "SignInRequired",
    "SignatureInvalid",
    "SignerChanged",
    "SkillExists",
    "SkillNotFound",
    "SkillUnusable",
    "SkillyardError",
    "SpecialNotAllowed",
    "StoreFailed",
    "TooManyFiles",
    "TooManyRequests",
    "UnreachableRule",
    "UnsafePath",
    "VersionNotFound",
    "VersionUnusable",
]


class SkillyardError(Exception):
    """The root of the tree: a message, a `hint` that tells how to mend it, and `details` for programs."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str | None = None, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def to_dict(self) -> dict[str, object]:
        """The error as plain data: `{"code", "message", "hint"?, ...details}`."""
        shape: dict[str, object] = {"code": self.code, "message": self.message}
        if self.hint:
            shape["hint"] = self.hint
        return shape | self.details


class InvalidInput(SkillyardError):
    """A value the caller gave cannot be used."""

    code = "invalid_input"
    status = 400


class InvalidConfiguration(InvalidInput):
    """A settings file cannot be read or says something that cannot be meant."""

    code = "invalid_configuration"


class InvalidManifest(InvalidInput):
    """A package's manifest breaks a rule; `details["problems"]` lists every one."""

    code = "invalid_manifest"
    status = 422


class InvalidPolicy(InvalidInput):
    """A sandbox policy is contradictory, unknown or out of range."""

    code = "invalid_policy"
    status = 422


class UnreachableRule(InvalidInput):
    """A permission rule can never apply because an earlier one always matches first."""

    code = "unreachable_rule"


class SkillNotFound(SkillyardError):
    """No skill has that id or name."""

    code = "skill_not_found"
    status = 404


class AmbiguousSkill(SkillyardError):
    """More than one skill fits; `details["candidates"]` lists their ids."""

    code = "ambiguous_skill"
    status = 409


class SkillUnusable(SkillyardError):
    """The skill is there but broken, shadowed or disabled."""

    code = "skill_unusable"
    status = 409


class InvalidSkill(SkillyardError):
    """A SKILL.md does not meet the profile asked for."""

    code = "invalid_skill"
    status = 422


class SkillExists(SkillyardError):
    """A skill of that name is already in that place."""

    code = "skill_exists"
    status = 409


class DeleteRefused(SkillyardError):
    """The skill may not be deleted from here."""

    code = "delete_refused"
    status = 403


class PermissionDenied(SkillyardError):
    """A rule forbids this skill."""

    code = "permission_denied"
    status = 403


class ApprovalRejected(PermissionDenied):
    """Someone was asked and said no, or nobody could be asked."""

    code = "approval_rejected"


class SignInRequired(SkillyardError):
    """The server does not know who asks: there is no key, or it is unknown, expired or revoked."""

    code = "sign_in_required"
    status = 401


class TooManyRequests(SkillyardError):
    """Somebody asks faster than the server lets them; `details["retry_after"]` is how many seconds to wait."""

    code = "too_many_requests"
    status = 429


class FileProblem(SkillyardError):
    """A file inside a skill cannot be given."""

    code = "file_problem"
    status = 400


class PathRefused(FileProblem):
    """The path leaves the skill's folder, passes through a link out of it, or has a denied name."""

    code = "path_refused"
    status = 403


class FileMissing(FileProblem):
    """The skill has no such file; `details["candidates"]` lists near names."""

    code = "file_not_found"
    status = 404


class FileTooLarge(FileProblem):
    """The file is over the size that may be read."""

    code = "file_too_large"
    status = 413


class BinaryFile(FileProblem):
    """The file is not text."""

    code = "binary_file"
    status = 415


class PackageProblem(SkillyardError):
    """A package cannot be read, fetched, trusted or kept."""

    code = "package_problem"
    status = 422


class ArchiveRefused(PackageProblem):
    """An archive or a tree breaks a rule; `details["entry"]` names the entry. The whole archive is refused."""

    code = "archive_refused"


class MalformedArchive(ArchiveRefused):
    """The archive is damaged, encrypted, of an unknown format, or could be read in two ways."""

    code = "malformed_archive"


class UnsafePath(ArchiveRefused):
    """A name leaves the package or is not safe on every machine."""

    code = "unsafe_path"


class PathTooLong(ArchiveRefused):
    """A path is too long or too deep."""

    code = "path_too_long"


class PathCollision(ArchiveRefused):
    """Two entries are the same file on some machine."""

    code = "path_collision"


class LinkNotAllowed(ArchiveRefused):
    """An entry is a symbolic or hard link."""

    code = "link_not_allowed"


class SpecialNotAllowed(ArchiveRefused):
    """An entry is neither a regular file nor a folder."""

    code = "special_not_allowed"


class ArchiveTooLarge(ArchiveRefused):
    """The archive, a file in it, or all files together are over the limit."""

    code = "archive_too_large"
    status = 413


class TooManyFiles(ArchiveRefused):
    """The archive has more entries than the limit."""

    code = "too_many_files"
    status = 413


class NoSkillInside(PackageProblem):
    """There is no skill there, or not the one that was asked for; `details["candidates"]` lists those there are."""

    code = "no_skill_inside"


class InvalidSource(PackageProblem):
    """The address of a package cannot be understood or may not be used."""

    code = "invalid_source"
    status = 400


class DigestMismatch(PackageProblem):
    """The content is not the one that was promised."""

    code = "digest_mismatch"


class SignatureInvalid(PackageProblem):
    """A skill carries a signature that does not hold for its content."""

    code = "signature_invalid"


class PackageMissing(PackageProblem):
    """The store has no package with that digest."""

    code = "package_not_found"
    status = 404


class StoreFailed(PackageProblem):
    """The store cannot be read or written."""

    code = "store_failed"
    status = 503


class InstallProblem(SkillyardError):
    """What is installed does not allow what was asked for."""

    code = "install_problem"
    status = 409


class ConsentRequired(InstallProblem):
    """The new version may do more than the installed one; `details["changes"]` says exactly what."""

    code = "consent_required"
    status = 403


class SignerChanged(InstallProblem):
    """The new version is signed by somebody else than the versions before, or by nobody; `details` has both keys."""

    code = "signer_changed"
    status = 403


class LocalEdits(InstallProblem):
    """An installed version is not what was installed: somebody changed its files."""

    code = "local_edits"


class VersionNotFound(InstallProblem):
    """The skill has no such version; `details["candidates"]` lists those it has."""

    code = "version_not_found"
    status = 404


class VersionUnusable(InstallProblem):
    """The version is there and may not be used: failed, deprecated or yanked, or its files are gone."""

    code = "version_unusable"


class ConversationBusy(SkillyardError):
    """A conversation has an open turn: it is being worked on, or waits for an answer."""

    code = "conversation_busy"
    status = 409


class ModelFailed(SkillyardError):
    """The service of a model refused a request, or could not be reached."""

    code = "model_failed"
    status = 502


class DatabaseUnavailable(SkillyardError):
    """The records of runs and memories cannot be opened, read or written."""

    code = "database_unavailable"
    status = 503


class RecordNotFound(SkillyardError):
    """There is no run, memory or agent with that id."""

    code = "record_not_found"
    status = 404


class RecordExists(SkillyardError):
    """A run, an agent or another record with that id or name is there already."""

    code = "record_exists"
    status = 409


class ExecutionProblem(SkillyardError):
    """A skill could not be started."""

    code = "execution_failed"


class NetworkRefused(ExecutionProblem):
    """The host is not on the allow-list, or its address may not be reached."""

    code = "network_refused"
    status = 403


class NetworkFailed(ExecutionProblem):
    """A host that may be reached could not be found, did not answer, or answered with what cannot be used."""

    code = "network_failed"
    status = 502


class NotExecutable(ExecutionProblem):
    """The skill declares nothing that can run."""

    code = "not_executable"
    status = 422


class RuntimeUnavailable(ExecutionProblem):
    """This machine has no interpreter for the skill's entry."""

    code = "runtime_unavailable"
    status = 503


class DependenciesUnavailable(ExecutionProblem):
    """Packages the entry asks for are not installed; `details["dependencies"]` lists them."""

    code = "dependencies_unavailable"
    status = 503


class SandboxUnavailable(ExecutionProblem):
    """No sandbox here can enforce the policy; `details` carries `unmet` and `remedies`."""

    code = "sandbox_unavailable"
    status = 503
