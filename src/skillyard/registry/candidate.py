"""What is to be installed: the request, and each skill of the source, staged, read, checked and measured."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

from skillyard.environments.declared import Requirements, read_requirements
from skillyard.errors import (
    AmbiguousSkill,
    DigestMismatch,
    InvalidSkill,
    NoSkillInside,
    SignatureMissing,
    SignerRefused,
    SkillyardError,
)
from skillyard.interop import manifest_differences, read_manifest_file
from skillyard.packages import (
    FoundSkill,
    Origin,
    PackageLimits,
    Source,
    copy_tree,
    is_never_packed,
    is_signer,
    tree_digest,
    tree_size,
    verify_tree,
)
from skillyard.packages.model_signature import OMS_FILE, PinnedKey, verify_model
from skillyard.registry.powers import POWER_LISTS, Powers, read_powers
from skillyard.registry.registry_values import AgreeReplacement, Consent, FetchedTree, InstallRefusal, Progress
from skillyard.registry.skills_lock import SKILLS_LOCK_FILE, folder_hash
from skillyard.settings_reader import Settings, SettingsReader, texts
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.catalog.skill_files import Inventory, KeptLink
    from skillyard.document import Document


_NAMED: Final = 5
_MANIFEST: Final = "manifest.json"
_MANIFEST_IGNORED: Final = (
    f"{_MANIFEST} is ignored: SKILL.md alone says what the skill is; `skillyard check --package` shows what the manifest adds"
)


class ScannerFinding(Protocol):
    """The findings of a scanner: advice, but for the severities that the operator lets stop an install."""

    def to_dict(self) -> Mapping[str, object]:
        """The finding as plain data, with at least `rule`, `severity`, `message`, `file`, `line` and `evidence`."""


class Scanner(Protocol):
    """Checks the folder of one skill for harm."""

    def __call__(self, directory: Path) -> Sequence[ScannerFinding]:
        """The findings, none when there are no problems."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One skill in `tree`; `digest` names its content, `size` is the sum of its files in bytes.

    `signer` is the public key of its signer, `package_digest` names its package in the store.
    """

    skill_id: str
    name: str
    tree: Path
    origin: Origin
    digest: str
    size: int
    document: Document
    powers: Powers
    requirements: Requirements
    inventory: Inventory
    skill_md_hash: str
    signer: str | None = None
    signed_at: str | None = None
    package_digest: str | None = None
    warnings: tuple[str, ...] = ()
    findings: tuple[Mapping[str, object], ...] = ()
    required_by: tuple[str, ...] = ()
    """Why it is installed as a dependency: `NAME requires TEXT`, one for each skill that requires it."""
    links: tuple[KeptLink, ...] = ()
    """What its text tells to fetch, where that was looked at; `link_contents` are the bytes by SHA-256."""
    link_contents: Mapping[str, bytes] = field(default_factory=dict)
    accepted: tuple[Mapping[str, object], ...] = ()
    """The findings that would have stopped it, and that whoever installs it accepts."""

    @property
    def link_digests(self) -> dict[str, str]:
        """The digest of each address that is kept."""
        return {one.address: one.sha256 for one in self.links if one.sha256}


def stage_skill(skill: FoundSkill, fetched: FetchedTree, within: Path, limits: PackageLimits) -> tuple[Path, Origin]:
    """The skill's own folder below `within`, and its own origin: moved there when it was unpacked for us, else copied.

    A copy keeps the rules of archives: no links, no devices, safe names, the same limits; what is never packed is left out.

    Raises:
        ArchiveRefused: the folder breaks one of them.
    """
    path = "" if skill.path == "." else skill.path
    below = "/".join(part for part in (fetched.origin.path, path) if part)
    folder = below.partition("/")[0]
    manifest_url, manifest = fetched.origin.listed.get(folder, ("", {}))
    version = fetched.origin.versions.get(folder) or fetched.origin.version
    origin = replace(
        fetched.origin, path=below, version=version, manifest_url=manifest_url, manifest=manifest, listed={}, versions={}
    )
    if fetched.owned:
        target = within / f"skill-{os.urandom(6).hex()}"
        skill.directory.rename(target)
        return target, origin
    copy = copy_tree(skill.directory, within, without=is_never_packed, limits=limits, exact_names=False, durable=True)
    return copy, origin


def read_candidate(
    tree: Path, origin: Origin, *, folder_name: str, skill_id: str | None = None, readable: bool = True
) -> Candidate:
    """What is in `tree`: SKILL.md is the only truth about it.

    `folder_name` is the name of the folder it came in, `skill_id` the id it has when it is installed already. A SKILL.md that
    is not `readable` counts as an empty one.
    """
    from skillyard.catalog.skill_files import take_inventory
    from skillyard.document import DOCUMENT_LIMIT, parse_document
    from skillyard.paths import read_inside

    data = read_inside(tree, "SKILL.md", limit=DOCUMENT_LIMIT) if readable else b""
    document = parse_document(data, directory_name=folder_name)
    return Candidate(
        skill_id=skill_id or document.skill_id,
        name=document.metadata.name,
        tree=tree,
        origin=origin,
        digest=tree_digest(tree),
        size=tree_size(tree),
        document=document,
        powers=read_powers(tree, document),
        requirements=read_requirements(document),
        inventory=take_inventory(tree.as_posix()),
        skill_md_hash=hashlib.sha256(data).hexdigest(),
        warnings=tuple(_manifest_warnings(tree, origin, document)),
    )


def with_mirrored_links(candidate: Candidate, fetched: FetchedTree) -> Candidate:
    """The candidate with what its source, a mirror, keeps of the addresses that its text tells to fetch, and of no others."""
    from skillyard.scanner.late_links import find_late_links

    links, contents = fetched.links.get(candidate.skill_id, ((), {}))
    if not links:
        return candidate
    addresses = {link.address for link in find_late_links(candidate.tree)}
    kept = tuple(one for one in links if one.address in addresses)
    named = {one.sha256: contents[one.sha256] for one in kept if one.sha256}
    return replace(candidate, links=kept, link_contents=named)


def staged_candidate(
    skill: FoundSkill, fetched: FetchedTree, within: Path, limits: PackageLimits, source: Source
) -> tuple[Candidate, str]:
    """A skill of a fetched tree in a folder of its own, and the name of the folder it came in.

    Raises:
        ArchiveRefused, FileProblem: as `stage_skill` and `read_candidate`.
    """
    folder = source_folder_name(skill.path, source)
    tree, origin = stage_skill(skill, fetched, within, limits)
    return with_mirrored_links(read_candidate(tree, origin, folder_name=folder), fetched), folder


def _manifest_warnings(tree: Path, origin: Origin, document: Document) -> Iterator[str]:
    """What a manifest beside or above the SKILL.md says otherwise; SKILL.md counts."""
    if origin.manifest:
        yield from manifest_differences("the published manifest", origin.manifest, document.metadata)
    if (tree / _MANIFEST).is_file():
        yield _MANIFEST_IGNORED
        with contextlib.suppress(SkillyardError):  # that it cannot be read is for `check --package`
            yield from manifest_differences(_MANIFEST, read_manifest_file(tree), document.metadata)


@dataclass(frozen=True, slots=True)
class SignerPolicy:
    """Who must have signed what comes from a source: `rules` of the user's settings, files in them relative to `folder`.

    A rule is a source as permission rules write it, or `*`, and the signers of which one is enough: `ed25519:…` for
    `skillyard.sig`, a PEM file with a public key or a certificate for `skill.oms.sig`. Of several rules the most exact counts.
    """

    rules: Mapping[str, Sequence[str]] = field(default_factory=dict)
    folder: Path = field(default_factory=Path)

    def signed(self, candidate: Candidate) -> Candidate:
        """The candidate with its signer, and a warning for a model signature that nobody pinned.

        Raises:
            SignatureInvalid: it has a signature that does not hold.
            SignatureMissing, SignerRefused: signers are pinned for its source, and none of them signed it.
            InvalidInput: a file of the rule is no key and no certificate.
        """
        rule = self._rule(candidate.origin)
        pinned = self.rules[rule] if rule is not None else ()
        keys = [one for one in pinned if is_signer(one)]
        pins = [PinnedKey.read(self.folder / Path(one).expanduser()) for one in pinned if not is_signer(one)]
        signature, model = verify_tree(candidate.tree), verify_model(candidate.tree, pins)
        if rule is not None and signature is None and model is None:
            raise SignatureMissing(
                f"{candidate.skill_id} is not signed, and {rule!r} has pinned signers",
                hint="ask who publishes it for a signed version; [packages.signers] of your own skillyard.toml pins them",
                pinned=list(pinned),
            )
        if signature is not None and (rule is None or signature.key in keys):
            candidate = replace(candidate, signer=signature.key, signed_at=signature.signed_at)
        elif model is not None and model.signer is not None:
            candidate = replace(candidate, signer=model.signer)
        elif rule is not None:
            by = signature.key if signature is not None else model.by if model is not None else ""
            raise SignerRefused(
                f"{candidate.skill_id} is signed by {by}, who is not pinned for {rule!r}",
                hint="ask who publishes it whether that is right; [packages.signers] of your own skillyard.toml pins signers",
                pinned=list(pinned),
                signer=by,
            )
        if model is None or model.signer is not None:
            return candidate
        warning = f"{OMS_FILE} fits the content and is by {model.by}: nobody is pinned who would prove it"
        return replace(candidate, warnings=(*candidate.warnings, warning))

    def _rule(self, origin: Origin) -> str | None:
        """The most exact rule for a source, None without one."""
        return exact_rule(self.rules, {"kind": origin.kind, "address": origin.address, "path": origin.path})


def exact_rule(rules: Collection[str], origin: Mapping[str, str]) -> str | None:
    """The most exact of rules for sources (`*`, or as permission rules write them) that fits an origin; None without one."""
    from skillyard.permissions.origins import source_parts

    here = source_parts(origin)
    parts = {rule: () if rule == "*" else source_parts(rule) for rule in rules}
    fitting = [rule for rule, own in parts.items() if here[: len(own)] == own]
    return max(fitting, key=lambda rule: len(parts[rule]), default=None)


ANY: Final = "*"
_APPROVERS: Final = ("skills:approve",)
_APPROVAL: Final[Settings] = {
    "sources": texts('a list of sources, such as ["upload", "github.com/acme"]'),
    "by": texts('a list of scopes and names of keys, such as ["skills:approve"]'),
    "second-person": texts('a list of powers, such as ["scripts", "hosts"]'),
}


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Which versions wait for a person before they become current: the operator's `[packages.approval]`.

    `sources` are as permission rules write them, or `*`: what comes from there waits. `second_person` are powers (the lists of
    `Powers`), or `*`: a version with one of them waits wherever it comes from, and whoever installed it may not approve it.
    `by` are the scopes and the names of keys of which one is enough to approve.
    """

    sources: tuple[str, ...] = ()
    by: tuple[str, ...] = _APPROVERS
    second_person: tuple[str, ...] = ()

    @classmethod
    def read(cls, table: Mapping[str, object], file: str) -> ApprovalPolicy:
        """The policy of a table in a settings file. Raises InvalidConfiguration: it says what cannot be meant."""
        reader, path = SettingsReader(file), "packages.approval"
        values = reader.read(_APPROVAL, table, path)
        for power in values.get("second_person", ()):
            if power not in (ANY, *POWER_LISTS):
                raise reader.wrong(f"{path}.second-person", f"powers, each one of {', '.join((ANY, *POWER_LISTS))}", power)
        from skillyard.access import SCOPES  # with the database behind it: only where there is a policy

        by = values.get("by", _APPROVERS)
        if not by or (unknown := [one for one in by if ":" in one and one not in SCOPES]):
            raise reader.wrong(f"{path}.by", f"names of keys and scopes ({', '.join(SCOPES)})", unknown[0] if by else [])
        return cls(**values)

    def reasons(self, origin: Mapping[str, str], powers: Powers | None) -> tuple[str, ...]:
        """Why a version waits, a sentence each; none when it need not. Of unknown `powers` every one is assumed."""
        rule = exact_rule(self.sources, origin) if self.sources else None
        return (*((f"what comes from {rule} is approved first",) if rule is not None else ()), *self.second_reasons(powers))

    def second_reasons(self, powers: Powers | None) -> tuple[str, ...]:
        """Why it takes a second person to approve a version; none when it need not."""
        if ANY in self.second_person:
            return ("a second person approves every version",)
        held = [one for one in self.second_person if powers is None or getattr(powers, one)]
        return (f"a second person approves what has {', '.join(held)}",) if held else ()


def check_candidate(candidate: Candidate, folder_name: str, signers: SignerPolicy) -> Candidate:
    """The candidate with its warnings and its signer.

    Raises:
        SignatureInvalid, SignatureMissing, SignerRefused: as `SignerPolicy.signed`.
        InvalidSkill: as `require_valid`.
    """
    require_valid(candidate, folder_name)
    warnings = tuple(
        f"SKILL.md:{diagnostic.line}: {diagnostic.message}"
        for diagnostic in candidate.document.diagnostics
        if diagnostic.severity != "info"
    )
    return signers.signed(replace(candidate, warnings=(*candidate.warnings, *warnings)))


def require_valid(candidate: Candidate, folder_name: str) -> None:
    """Return when a candidate has what every skill must have.

    Raises:
        InvalidSkill: its SKILL.md lacks a name or a description, or cannot be read.
    """
    document = candidate.document
    if document.install_refusal is not None:
        error = next((one for one in document.diagnostics if one.severity == "error"), None)
        hint = (error.fix if error else None) or "`skillyard check` shows everything that is wrong with it"
        if document.usable:
            hint = "`skillyard check --fix` in its folder writes what a catalog infers; then install it from there"
        raise InvalidSkill(
            f"{folder_name or candidate.name}: {document.install_refusal}",
            hint=hint,
            diagnostics=[diagnostic.to_dict() for diagnostic in document.diagnostics],
        )


_SUFFIXES: Final = (".tar.gz", ".tgz", ".tar", ".zip", ".skill", ".git")


@dataclass(frozen=True, slots=True)
class InstallRequest:
    """What is to be installed, and how.

    `names` are the requested skills of the source, all when empty; `only` ids that it must have; `expected` the digests that it
    must have (or `skills-lock.json:` and a hash of that file), `signers` the keys of the signers in a lock. Without
    `activate` a version is put beside the current one, as if it had been installed at the moment `installed_at`. With `new`
    none may be installed already. `operation_id` was made by `new_operation_id`. `required_by` are the skills, by id, that
    are only dependencies according to a lock. `edit_of` is the digest of which the current version is an edit that stays: what
    the source has is only compared. With `skip_refused` skills that cannot be installed from anywhere are left out, unless none
    is left. The others are as in `InstallOptions`.
    """

    source: Source
    names: tuple[str, ...] = ()
    only: Collection[str] = ()
    expected: Mapping[str, str] = field(default_factory=dict)
    signers: Mapping[str, str] = field(default_factory=dict)
    operation: Literal["install", "update"] = "install"
    consent: Consent | None = None
    force: bool = False
    accept_signer: bool = False
    accept_source: bool = False
    accept: Collection[str] = ()
    replacing: AgreeReplacement | None = None
    activate: bool = True
    new: bool = False
    progress: Progress | None = None
    operation_id: str | None = None
    installed_at: datetime | None = None
    dependencies: bool = True
    required_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    edit_of: str = ""
    skip_refused: bool = False


def select_candidates(
    pairs: list[tuple[Candidate, str]], request: InstallRequest, refused: list[InstallRefusal]
) -> list[tuple[Candidate, str]]:
    """The candidates the request is about, each id once, with the digests that were promised; each beside its folder's name.

    With `skip_refused` those that have one id go to `refused`, unless there are no others.

    Raises:
        NoSkillInside: one that it must have is not there.
        AmbiguousSkill: several have one id.
        DigestMismatch: one has other content than was promised.
    """
    if request.only:
        pairs = [pair for pair in pairs if pair[0].skill_id in request.only]
    ids = [candidate.skill_id for candidate, _ in pairs]
    if missing := sorted(set(request.only) - set(ids)):
        raise NoSkillInside(f"the source no longer has {', '.join(missing)}", hint="install it from where it is now")
    if twice := sorted({skill_id for skill_id in ids if ids.count(skill_id) > 1}):
        paths = [candidate.origin.path for candidate, _ in pairs if candidate.skill_id in twice]
        ways = " or ".join(f"--skill {single_line(path)}" for path in paths[:_NAMED]) + (" ..." if len(paths) > _NAMED else "")
        error = AmbiguousSkill(
            f"the source has several skills called {', '.join(twice)}",
            hint=f"choose one by its path: {ways}",
            candidates=paths,
        )
        if not request.skip_refused or set(ids) == set(twice):
            raise error
        refused.append(InstallRefusal.of(error))
        pairs = [pair for pair in pairs if pair[0].skill_id not in twice]
    for candidate, _ in pairs:
        promised = request.expected.get(candidate.skill_id)
        if promised is not None and not _has_content(candidate, promised):
            raise DigestMismatch(
                f"{candidate.skill_id} is not the content that is locked",
                hint="`skillyard update` takes the new content and writes the lock again",
                expected=promised,
                found=candidate.digest,
            )
    return pairs


def _has_content(candidate: Candidate, promised: str) -> bool:
    """Whether it is the content of a digest, or of a hash that is promised as `skills-lock.json:…`."""
    file, colon, content = promised.partition(":")
    if file == SKILLS_LOCK_FILE and colon:
        return folder_hash(candidate.tree) == content
    return candidate.digest == promised


def source_folder_name(path: str, source: Source) -> str:
    """The name of the folder a skill came in, a fallback for a name without Latin letters."""
    name = (path if path != "." else source.path or source.address).rstrip("/").rpartition("/")[2]
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name
