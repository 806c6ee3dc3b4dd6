"""Every error a user of Skillyard can meet, in one tree.

::

    SkillyardError                      internal_error            500
    ├── InvalidInput                    invalid_input             400   a value given by the caller
    │   ├── InvalidConfiguration        invalid_configuration     400   a settings file
    │   ├── InvalidManifest             invalid_manifest          422   a manifest.json; carries `problems`
    │   ├── InvalidPolicy               invalid_policy            422   a `security:` block or an operator's ceiling
    │   ├── UnreachableRule             unreachable_rule          400   a permission rule that can never apply
    │   └── ValueRefused                value_refused             422   the records do not take it: too long, too large
    ├── SkillNotFound                   skill_not_found           404   carries `candidates`
    ├── AmbiguousSkill                  ambiguous_skill           409   carries `candidates`
    ├── SkillUnusable                   skill_unusable            409   broken, shadowed or disabled
    ├── InvalidSkill                    invalid_skill             422   carries `diagnostics`
    ├── SkillExists                     skill_exists              409
    ├── DeleteRefused                   delete_refused            403
    ├── PermissionDenied                permission_denied         403
    │   ├── ApprovalRejected            approval_rejected         403
    │   └── NotYours                    not_yours                 403   of somebody else in the organisation
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
    │   ├── SignerChanged           signer_changed            409   another signer than before, or none any more
    │   ├── SourceChanged           source_changed            409   another source than that of the version that serves
    │   ├── LocalEdits              local_edits               409   an installed version was changed by hand
    │   ├── VersionNotFound         version_not_found         404   carries `candidates`
    │   └── VersionUnusable         version_unusable          409   failed, deprecated, yanked, or its files are gone
    ├── ConversationBusy                conversation_busy         409   a turn is open: it works, or waits for an answer
    ├── ModelFailed                     model_failed              502   the service of a model said no, or nothing
    │   ├── ModelKeyRefused             model_key_refused         502   carries `said`, as all of these may
    │   ├── ModelUnknown                model_unknown             502   the service has no model of that name
    │   ├── ModelLimited                model_limited             502   a rate or a quota is used up
    │   └── ModelUnreachable            model_unreachable         502   no connection to the service
    ├── DatabaseUnavailable             database_unavailable      503   the records cannot be opened, read or written
    │   └── DatabaseDamaged             database_damaged          500   what is stored does not hold together
    ├── DiskFull                        disk_full                 503   the disk, or a quota on it, is used up
    ├── RecordNotFound                  record_not_found          404   no run, memory or agent with that id
    ├── RecordExists                    record_exists             409   one with that id or name is there already
    ├── NotOffered                      not_offered               404   others of the kind do it, this server does not
    ├── ServerStopping                  server_stopping           503   the server takes nothing new any more
    ├── WorkProblem                     work_failed               500   a helper process did not finish its work
    │   ├── WorkTimedOut                work_timeout              422   carries `limit_seconds`
    │   ├── WorkMemoryExceeded          work_memory_exceeded      422   carries `limit_mb`
    │   ├── HelperFailed                helper_failed             503   it could not be started, or broke
    │   └── HelpersBusy                 busy                      503   carries `retry_after`, in seconds
    └── ExecutionProblem                execution_failed          500
        ├── NetworkRefused              network_refused           403   a host or an address that may not be reached
        ├── NetworkFailed               network_failed            502   a host that may be reached did not answer properly
        ├── NotExecutable               not_executable            422   the skill has no entry that can run
        ├── RuntimeUnavailable          runtime_unavailable       503   no interpreter for the entry
        ├── DependenciesUnavailable     dependencies_unavailable  503   carries `dependencies`
        └── SandboxUnavailable          sandbox_unavailable       503   carries `unmet` and `remedies`

Each error says what happened in its message and how to fix it in `hint`. `code` is stable: programs may match on it. `status`
is the HTTP status that fits. The same error becomes one line in the CLI, one problem+json, one tool result.
"""

from __future__ import annotations

from skillyard.errors.base import SkillyardError
from skillyard.errors.execution import (
    DependenciesUnavailable,
    ExecutionProblem,
    HelperFailed,
    HelpersBusy,
    NetworkFailed,
    NetworkRefused,
    NotExecutable,
    RuntimeUnavailable,
    SandboxUnavailable,
    WorkMemoryExceeded,
    WorkProblem,
    WorkTimedOut,
)
from skillyard.errors.inputs import InvalidConfiguration, InvalidInput, InvalidManifest, InvalidPolicy, UnreachableRule
from skillyard.errors.packages import (
    ArchiveRefused,
    ArchiveTooLarge,
    ConsentRequired,
    DigestMismatch,
    InstallProblem,
    InvalidSource,
    LinkNotAllowed,
    LocalEdits,
    MalformedArchive,
    NoSkillInside,
    PackageMissing,
    PackageProblem,
    PathCollision,
    PathTooLong,
    SignatureInvalid,
    SignerChanged,
    SourceChanged,
    SpecialNotAllowed,
    StoreFailed,
    TooManyFiles,
    UnsafePath,
    VersionNotFound,
    VersionUnusable,
)
from skillyard.errors.services import (
    ConversationBusy,
    DatabaseDamaged,
    DatabaseUnavailable,
    DiskFull,
    ModelFailed,
    ModelKeyRefused,
    ModelLimited,
    ModelUnknown,
    ModelUnreachable,
    NotOffered,
    RecordExists,
    RecordNotFound,
    ServerStopping,
    SignInRequired,
    TooManyRequests,
    ValueRefused,
)
from skillyard.errors.skills import (
    AmbiguousSkill,
    ApprovalRejected,
    BinaryFile,
    DeleteRefused,
    FileMissing,
    FileProblem,
    FileTooLarge,
    InvalidSkill,
    NotYours,
    PathRefused,
    PermissionDenied,
    SkillExists,
    SkillNotFound,
    SkillUnusable,
)

__all__ = [
    "AmbiguousSkill",
    "ApprovalRejected",
    "ArchiveRefused",
    "ArchiveTooLarge",
    "BinaryFile",
    "ConsentRequired",
    "ConversationBusy",
    "DatabaseDamaged",
    "DatabaseUnavailable",
    "DeleteRefused",
    "DependenciesUnavailable",
    "DigestMismatch",
    "DiskFull",
    "ExecutionProblem",
    "FileMissing",
    "FileProblem",
    "FileTooLarge",
    "HelperFailed",
    "HelpersBusy",
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
    "ModelKeyRefused",
    "ModelLimited",
    "ModelUnknown",
    "ModelUnreachable",
    "NetworkFailed",
    "NetworkRefused",
    "NoSkillInside",
    "NotExecutable",
    "NotOffered",
    "NotYours",
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
    "ServerStopping",
    "SignInRequired",
    "SignatureInvalid",
    "SignerChanged",
    "SkillExists",
    "SkillNotFound",
    "SkillUnusable",
    "SkillyardError",
    "SourceChanged",
    "SpecialNotAllowed",
    "StoreFailed",
    "TooManyFiles",
    "TooManyRequests",
    "UnreachableRule",
    "UnsafePath",
    "ValueRefused",
    "VersionNotFound",
    "VersionUnusable",
    "WorkMemoryExceeded",
    "WorkProblem",
    "WorkTimedOut",
]
