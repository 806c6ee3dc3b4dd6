"""The registry's values: installed skills, versions, pending updates, operations, reports, metadata edits, fetched trees.

Edits replace what the SKILL.md declares: category, tags, author, addresses, icon. They are kept in the database,
never in the folder, so content, digest and signature stay what they are; they outlive new versions. Name, description
and instructions can only be set by the SKILL.md. `Fetcher` is the port of everything that fetches a source.

A pinned version stays current until the pin, the tag `pinned`, is taken away. Content that a rollback left, or that was
deprecated, is no pending update either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypedDict
from urllib.parse import urlsplit

from skillyard.errors import InvalidInput, SkillyardError
from skillyard.packages import Origin, Source
from skillyard.registry.powers import PowerChange, Powers
from skillyard.text import single_line
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillyard.catalog.skill_files import KeptLink
    from skillyard.packages import FolderDifference


Operation = Literal["install", "update", "rollback", "uninstall"]
LogStatus = Literal["pending", "in_progress", "success", "failed"]
ApprovalState = Literal["waiting", "approved", "withdrawn"]
PackageState = Literal["pending", "downloading", "validating", "installing", "active", "deprecated", "failed"]

_STATE_OF_STEP: Final[Mapping[str, PackageState]] = {
    "download": "downloading",
    "checksum": "validating",
    "dependencies": "validating",
    "validate_structure": "validating",
    "scan": "validating",
    "consent": "validating",
    "store": "installing",
    "save_db": "installing",
    "activate": "installing",
}


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """A step began: `percent` of the whole is done when it ends. `skill_id` is None until the package has been read."""

    step: str
    percent: int
    skill_id: str | None = None


Progress = Callable[[ProgressEvent], object]
Consent = Callable[[Sequence[PowerChange]], bool]
"""Asks whether skills may be given more power; the answer is about all of them."""


@dataclass(frozen=True, slots=True)
class SourceReplacement(WireForm, also=("consent",)):
    """That content from another source, or signed by another key (None: by nobody), would replace the current version.

    `digest` is that of the new content, `sentence` describes the difference.
    """

    skill_id: str
    name: str
    kind: Literal["source", "signer"]
    before: str | None
    now: str | None
    sentence: str
    digest: str

    @property
    def consent(self) -> str:
        """A name for exactly this replacement: who agrees to it agrees to no other."""
        text = json.dumps([getattr(self, item.name) for item in fields(self)])
        return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


AgreeReplacement = Callable[[Sequence[SourceReplacement]], bool]
"""Asks whether skills may come from another source, or be signed by another key; the answer is about all of them."""


class RollbackOptions(TypedDict, total=False):
    """How another version may become current.

    `force` installs over local edits and yanked content, and installs the same content again. The next version of a skill comes
    from the same source, unless `accept_source`, and has the signer of the one before, unless `accept_signer`;
    `replacing` is called for what these two do not accept. `progress` is called for every step. What a skill requires comes
    along, and what others require stays as they require it, unless `dependencies` is false.
    """

    force: bool
    accept_signer: bool
    accept_source: bool
    replacing: AgreeReplacement | None
    progress: Progress | None
    dependencies: bool


class InstallOptions(RollbackOptions, total=False):
    """How skills may be installed: as `RollbackOptions`.

    `consent` is called when an installed skill would be allowed more than before, or a dependency is installed; without it that
    is refused. `accept` are the rules of the scanner whose findings do not stop it. `required_by` are the skills, by id, of
    which a lock says that they are only dependencies, and why.
    """

    consent: Consent | None
    accept: Collection[str]
    required_by: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class SkillVersion(WireForm, times="full"):
    """One installed version; `version` is the install version, a UTC time, `declared_version` that in SKILL.md.

    It was recorded here at `created_at`; `installed_at` may be earlier, when it was taken over from another registry.
    `approval` is the result of the approval of its content; None where none was ever requested.
    """

    skill_id: str
    version: str
    status: PackageState
    current: bool
    digest: str
    size_bytes: int
    package_path: str
    source_type: str
    declared_version: str | None = None
    origin: Mapping[str, object] = field(default_factory=dict)
    checksum_sha256: str | None = None
    package_digest: str | None = None
    signer: str | None = None
    installed_at: datetime | None = None
    installed_by: str | None = None
    created_at: datetime | None = None
    deprecated_at: datetime | None = None
    deprecated_reason: str | None = None
    yanked_at: datetime | None = None
    yanked_reason: str | None = None
    yanked: bool = False
    removed: bool = False
    approval: ApprovalState | None = None
    approval_by: str | None = None
    approval_reason: str | None = None

    @property
    def label(self) -> str:
        """The version as its publisher calls it: what they gave with it, else what its SKILL.md declares."""
        return str(self.origin.get("version") or self.declared_version or "")

    @property
    def withdrawn(self) -> str | None:
        """That it was yanked or deprecated, or lost its approval, why, and behind `: ` the way out; None for others."""
        if self.yanked:
            word, reason = "was yanked", self.yanked_reason
        elif self.approval == "withdrawn":
            word, reason = "is no longer approved", self.approval_reason
        elif self.status == "deprecated":
            word, reason = "was deprecated", self.deprecated_reason
        else:
            return None
        why = f" ({reason.replace(': ', ', ')})" if reason else ""
        return f"its version {self.version} {word}{why}: `skillyard update {self.skill_id}`, or `skillyard rollback`"

    @property
    def refusal(self) -> str | None:
        """Why nobody is given this version any more, or yet; None for those that may be had."""
        if self.yanked:
            return "was yanked" + (f": {self.yanked_reason}" if self.yanked_reason else "")
        if self.approval == "withdrawn":
            return "is no longer approved" + (f": {self.approval_reason}" if self.approval_reason else "")
        return "waits for approval" if self.approval == "waiting" else None


@dataclass(frozen=True, slots=True)
class VersionApproval(WireForm, times="full"):
    """The approval of one content of a skill: requested, given or withdrawn.

    `reasons` say why it needs one. `asked_by` installed or published it: the name of a key when `asked_by_member`, else the
    user of the machine. `decided_by` approved or withdrew it, for the `reason`.
    """

    skill_id: str
    digest: str
    state: ApprovalState
    reasons: tuple[str, ...]
    asked_by: str
    asked_by_member: bool
    asked_at: datetime
    decided_by: str | None = None
    decided_at: datetime | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class InstalledSkill(WireForm, camel_case=True, times="full"):
    """One skill of the registry, on the wire as clients of the HTTP interface read it.

    One that was uninstalled is not `active` and keeps its history.
    `edited` are the fields that were edited and differ from the SKILL.md; `display_name` is None where it was not.
    """

    skill_id: str
    name: str
    description: str
    active: bool = field(metadata=wire(name="isActive"))
    current_version: str | None
    file_inventory: Mapping[str, object] | None = None
    skill_md_hash: str | None = None
    skill_md_content: str | None = field(default=None, repr=False, metadata=wire(hidden=True))
    trigger_keywords: tuple[str, ...] = ()
    display_name: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    author: str | None = None
    license: str | None = None
    homepage_url: str | None = None
    documentation_url: str | None = None
    icon_url: str | None = None
    edited: tuple[str, ...] = field(default=(), metadata=wire(write=lambda names: [_camel(name) for name in names]))
    created_at: datetime | None = None
    updated_at: datetime | None = None


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


@dataclass(frozen=True, slots=True)
class InstallLog(WireForm, also=("state",), times="full"):
    """What one operation did to one skill; `steps` are its steps with their `duration_ms`."""

    id: str
    operation_id: str
    operation: Operation
    status: LogStatus
    step: str | None
    progress: int
    skill_id: str | None = None
    version: str | None = None
    message: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    source: str | None = None
    steps: tuple[Mapping[str, object], ...] = ()
    details: Mapping[str, object] | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    duration_ms: int | None = None

    @property
    def state(self) -> PackageState:
        """Where the package is on its way: pending, downloading, validating, installing, then active or failed."""
        if self.status == "failed":
            return "failed"
        if self.status == "success":
            return "active"
        return _STATE_OF_STEP.get(self.step or "", "pending")


@dataclass(frozen=True, slots=True)
class ListedApproval(WireForm, times="full"):
    """A `VersionApproval` for who decides: `version` is the newest with that content, `label` what its publisher calls it.

    `power_sentences` say what it may do, and `widened` what beyond the `current` version. `refusal` is why the asking person
    may not approve it; None for who may.
    """

    skill_id: str
    version: str
    label: str
    digest: str
    state: ApprovalState
    reasons: tuple[str, ...]
    asked_by: str
    asked_at: datetime
    decided_by: str | None
    decided_at: datetime | None
    reason: str | None
    current: str | None
    power_sentences: tuple[str, ...]
    widened: tuple[str, ...]
    refusal: str | None


ResultStatus = Literal["installed", "updated", "unchanged", "kept", "waiting", "rolled back", "uninstalled"]
"""The result for a skill; one that is `waiting` was installed and becomes current when its version is approved."""


@dataclass(frozen=True, slots=True)
class OperationResult(WireForm, also=("power_sentences",)):
    """The result of an operation for one skill.

    `unmet` are requirements this machine lacks, `findings` the findings of a scanner, as plain data. `required_by` says of a
    skill that nobody named why it was installed.
    """

    skill_id: str
    name: str
    status: ResultStatus
    version: str | None
    previous: str | None
    digest: str | None
    powers: Powers | None = None
    declared_version: str | None = None
    signer: str | None = None
    warnings: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    log_id: str | None = None
    pruned: tuple[str, ...] = ()
    origin: Mapping[str, object] = field(default_factory=dict)
    findings: tuple[Mapping[str, object], ...] = ()
    required_by: tuple[str, ...] = ()

    @property
    def power_sentences(self) -> tuple[str, ...]:
        """What the skill may do, as sentences."""
        return self.powers.sentences() if self.powers else ()


@dataclass(frozen=True, slots=True)
class InstallRefusal(WireForm):
    """Why an installation would be, or was, refused."""

    code: str
    message: str
    hint: str | None

    @classmethod
    def of(cls, error: SkillyardError) -> InstallRefusal:
        """What was raised."""
        return cls(error.code, error.message, error.hint)


@dataclass(frozen=True, slots=True)
class InstallReport(WireForm):
    """The result of each skill of an operation; `refused` are those of its source that were left out, where that was wanted."""

    operation_id: str
    results: tuple[OperationResult, ...]
    refused: tuple[InstallRefusal, ...] = ()


EditValue = str | tuple[str, ...] | None
"""What a field is edited to; None removes the edit, and the SKILL.md counts again."""

EDITABLE: Final = ("display_name", "category", "tags", "author", "homepage_url", "documentation_url", "icon_url")
_WORDS: Final = 200
_DISPLAY_NAME: Final = 255
_TAGS: Final = 50
_ADDRESS: Final = 2000


def check_edits(edits: Mapping[str, EditValue]) -> dict[str, str | list[str] | None]:
    """The edits as they are kept. Raises InvalidInput: a field cannot be edited, or cannot be meant so."""
    return {name: _checked(name, value) for name, value in edits.items()}


def _checked(name: str, value: EditValue) -> str | list[str] | None:
    if name not in EDITABLE:
        raise InvalidInput(f"{name} cannot be edited", hint=f"only {', '.join(EDITABLE)}: the rest is set by its SKILL.md")
    if value is None:
        return None
    if name == "tags":
        return _tags(value)
    if not isinstance(value, str):
        raise InvalidInput(f"the {_field_label(name)} is not text", hint="give one line of text")
    if name.endswith("_url") and value:
        return _address(name, value)
    return _line(name, value, _DISPLAY_NAME if name == "display_name" else _WORDS)


def _tags(value: Collection[str]) -> list[str]:
    if isinstance(value, str) or len(value) > _TAGS:
        raise InvalidInput("tags are a list of at most fifty", hint="leave some out")
    lines = (_line("tags", tag) for tag in value)
    return list(dict.fromkeys(line for line in lines if line))


def _line(name: str, value: str, most: int = _WORDS) -> str:
    line = single_line(value).strip()
    if len(line) > most:
        raise InvalidInput(f"{_field_label(name)}: over {most} characters", hint="shorten it")
    return line


def _address(name: str, value: str) -> str:
    try:
        parts = urlsplit(value)
    except ValueError:
        parts = urlsplit("")
    if len(value) > _ADDRESS or not value.isprintable() or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"the {_field_label(name)} is not the address of a page", hint="as in https://example.org/skill")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(
            f"the {_field_label(name)} holds a user's name or password", hint="leave it out: all see the address"
        )
    return value


def _field_label(name: str) -> str:
    return name.removesuffix("_url").replace("_", " ")


@dataclass(frozen=True, slots=True)
class FetchedTree:
    """What a source held: the folder `tree`, and where it came from.

    An `owned` tree was made for the caller to move; one that is `chosen` has only the skills that were requested of a list.
    `links` are what the source keeps of the addresses that its skills tell to fetch, with the bytes by SHA-256, by skill.
    """

    tree: Path
    origin: Origin
    owned: bool
    chosen: bool = False
    links: Mapping[str, tuple[tuple[KeptLink, ...], Mapping[str, bytes]]] = field(default_factory=dict)


class Fetcher(Protocol):
    """Fetches one source."""

    def fetch(self, source: Source, into: Path) -> FetchedTree:
        """Fetch `source`; everything that is written goes below `into`, which the caller removes.

        Raises:
            InvalidSource: such a source cannot be fetched, or is not what it should be.
            ArchiveRefused: what came breaks a rule.
            NetworkFailed, NetworkRefused: the network.
        """


PINNED: Final = "pinned"
"""The tag of a pinned version."""


@dataclass(frozen=True, slots=True)
class DependencyInstall(WireForm, also=("sentence",)):
    """A dependency that would be installed: its version and source, what requires it, and its powers."""

    skill_id: str
    version: str | None
    source: str
    required_by: tuple[str, ...]
    powers: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """For people, without the powers."""
        version = f" {self.version}" if self.version else ""
        return f"{self.skill_id}{version} would be installed as a dependency from {self.source}: {'; '.join(self.required_by)}"


PendingState = Literal["current", "update", "diverged", "deprecated", "pinned", "withdrawn", "unknown"]


@dataclass(frozen=True, slots=True)
class PendingUpdate(WireForm):
    """Whether there is something else where an installed skill came from, and what an update would change.

    `current`: the same content; `update`: other content, with its `available` declared version and the `difference`;
    `diverged`: the same, where what is here is an adopted edit, which `update` keeps unless an option says otherwise;
    `deprecated`: content that was rolled back from or deprecated, which no update brings back; `pinned`: no update is
    wanted; `withdrawn`: its publisher withdrew it, and nothing takes its place yet; `unknown`: nobody can tell, for the
    `reason`. `notice` is what its publisher says against the current version, who and when, and what replaces it;
    `widened` and `narrowed` say what the available one may do more, and less.
    """

    skill_id: str
    state: PendingState
    version: str
    declared_version: str | None = None
    available: str | None = None
    reason: str | None = None
    difference: FolderDifference | None = None
    notice: str | None = None
    widened: tuple[str, ...] = ()
    narrowed: tuple[str, ...] = ()


PUBLISHER: Final = "its publisher: "
"""How the reasons of marks begin that were taken over from where a skill came from, and go when they go there."""


def deprecated_version(recorded: Iterable[SkillVersion], digest: str) -> SkillVersion | None:
    """The version with this content that was rolled back from or deprecated here; None when there is none."""
    marked = (one for one in recorded if one.digest == digest and one.status == "deprecated")
    return next((one for one in marked if not (one.deprecated_reason or "").startswith(PUBLISHER)), None)
