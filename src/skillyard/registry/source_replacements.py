"""Whether a version comes from another publisher than the one before: its source and its signer, and who agrees to a change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from skillyard.errors import SignerChanged, SourceChanged
from skillyard.packages import Source, read_signature, shown_address
from skillyard.registry.registry_values import SkillVersion, SourceReplacement

if TYPE_CHECKING:
    from skillyard.registry.candidate import Candidate, InstallRequest
    from skillyard.registry.registry_records import RegistryRecords
    from skillyard.registry.registry_values import AgreeReplacement
    from skillyard.registry.version_store import VersionStore

_VERSION: Final = re.compile(r"[-_.]?v?[0-9][0-9A-Za-z.+_-]{0,60}$")
_SUFFIXES: Final = (".tar.gz", ".tgz", ".tar", ".zip", ".skill")


def publisher_of_address(address: str) -> tuple[str, ...]:
    """Who publishes at an address: the host, and where paths are long, as on sites that many share, their first two parts.

    Users of ssh are left out, so that one repository is the same by ssh and by https; http is apart, for it proves nobody.
    """
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2].lower()
    path = [part for part in parts.path.removesuffix(".git").split("/") if part]
    file_in_root = len(path) < 2 or (len(path) == 2 and "." in path[1])
    plain = ("http:",) if parts.scheme.lower() == "http" else ()
    return (*plain, host, *(() if file_in_root else path[:2]))


def source_identity(origin: Mapping[str, object]) -> tuple[str, ...]:
    """What identifies a source: two origins of the same identity are of one publisher; empty when the origin is unknown.

    On this machine that is the folder, or the archive without the version in its name. All uploads are one source.
    """
    kind, address = str(origin.get("kind", "")), str(origin.get("address", ""))
    if kind in ("", "upload"):
        return (kind,) if kind else ()
    if kind == "archive":
        path = PurePath(address)
        return ("archive", str(path.parent), _without_version(path.name))
    if kind == "extension":
        return (kind, address)
    if "://" not in address:
        return ("local", str(PurePath(address) / str(origin.get("path", ""))) if kind == "folder" else address)
    if kind == "mirror":
        return ("mirror", *(publisher_of_address(address) if address.startswith("http") else (address,)))
    return publisher_of_address(address)


def shown_origin(origin: Mapping[str, object]) -> str:
    """An origin for people to read."""
    kind, address = str(origin.get("kind", "")), str(origin.get("address", ""))
    if not kind:
        return "an unrecorded source"
    if kind == "upload":
        return "an upload"
    return shown_source(Source("folder" if kind == "folder" else "address", address, str(origin.get("path", ""))))


def shown_source(source: Source) -> str:
    """A source for people to read; of an upload, the name of the file."""
    if source.kind == "upload":
        return f"{PurePath(source.address).name} (uploaded)"
    return (
        shown_address(source.address) + (f" {source.path}" if source.path else "") + (f" @{source.ref}" if source.ref else "")
    )


def _without_version(name: str) -> str:
    stem = next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)
    return _VERSION.sub("", stem) or stem


def accept_replacements(
    versions: VersionStore, records: RegistryRecords, candidates: Sequence[Candidate], request: InstallRequest
) -> tuple[list[Candidate], Mapping[str, frozenset[str]]]:
    """The candidates, with a warning for each change of source or signer that was agreed to, and the sentences of these by id.

    Raises:
        SignerChanged, SourceChanged: nobody agreed to one of them.
    """
    replacements = {
        candidate.skill_id: tuple(find_replacements(versions, records, candidate, request)) for candidate in candidates
    }
    changes = [change for candidate in candidates for change in replacements[candidate.skill_id]]
    refuse_replacements(
        changes, accept_signer=request.accept_signer, accept_source=request.accept_source, agree=request.replacing
    )
    warned = [
        replace(candidate, warnings=(*candidate.warnings, *(change.sentence for change in replacements[candidate.skill_id])))
        for candidate in candidates
    ]
    return warned, {skill_id: frozenset(change.sentence for change in own) for skill_id, own in replacements.items()}


def refuse_replacements(
    changes: Sequence[SourceReplacement], *, accept_signer: bool, accept_source: bool, agree: AgreeReplacement | None = None
) -> None:
    """Return when every change was accepted beforehand, or `agree` accepts those that were not.

    Raises:
        SignerChanged: one of them is another signer.
        SourceChanged: they are from another source.
    """
    accepted = {"signer": accept_signer, "source": accept_source}
    unaccepted = [change for change in changes if not accepted[change.kind]]
    if not unaccepted or (agree is not None and agree(unaccepted)):
        return
    kinds = {change.kind for change in unaccepted}
    options = " and ".join(f"--accept-{kind}" for kind in ("signer", "source") if kind in kinds)
    error = SignerChanged if "signer" in kinds else SourceChanged
    raise error(
        "; ".join(f"{change.skill_id}: {change.sentence}" for change in unaccepted),
        hint=f"nothing was changed; ask who publishes it whether that is right, then use {options}",
        before=unaccepted[0].before,
        now=unaccepted[0].now,
        replacements=[change.to_dict() for change in unaccepted],
        consent=",".join(change.consent for change in unaccepted),
    )


def find_replacements(
    versions: VersionStore, records: RegistryRecords, candidate: Candidate, request: InstallRequest
) -> Iterator[SourceReplacement]:
    """What would be another signer or another source than before if the candidate were installed."""
    recorded = records.read.versions(candidate.skill_id)
    current = next((version for version in recorded if version.current), None)
    if request.operation == "update" and current is not None and (edited := edited_version(current, recorded)) is not current:
        recorded, current = (edited,), edited  # what is followed is the source of what was edited
    promised = request.signers.get(candidate.skill_id) or None
    if promised is not None and candidate.signer != promised:
        yield _signer_replacement(candidate, promised, f"the lock names {promised} as its signer")
    if recorded and recorded[0].signer is not None:
        yield from _signer_change(versions, candidate, recorded[0], older=request.installed_at is not None)
    if current is not None and request.activate and current.digest != candidate.digest:
        now = candidate.origin.to_dict()
        yield from _source_change(candidate.skill_id, candidate.name, current, now, candidate.signer, candidate.digest)


def rollback_replacements(
    name: str, current: SkillVersion, target: SkillVersion, recorded: Sequence[SkillVersion]
) -> Iterator[SourceReplacement]:
    """The same for an installed version that would become current again in place of `current`; `recorded` are all of the skill.

    Back from an edit that was adopted, nothing is another source or signer that the edited version has, too.
    """
    edited = edited_version(current, recorded)
    identity = source_identity(edited.origin)
    if edited is not current and identity and (identity, edited.signer) == (source_identity(target.origin), target.signer):
        return
    if current.signer is not None and current.signer != target.signer:
        sentence = f"it is signed by {current.signer} now, and {target.version} is {_signer_text(target.signer)}"
        yield SourceReplacement(target.skill_id, name, "signer", current.signer, target.signer, sentence, target.digest)
    yield from _source_change(target.skill_id, name, current, target.origin, target.signer, target.digest)


def edited_version(version: SkillVersion, recorded: Sequence[SkillVersion]) -> SkillVersion:
    """The version that an adopted edit, or an edit of an edit, was made of; of any other version itself."""
    older = {one.version: one for one in recorded}
    while version.origin.get("kind") == "upload" and (edited := older.pop(str(version.origin.get("edits", "")), None)):
        version = edited
    return version


def _signer_change(
    versions: VersionStore, candidate: Candidate, newest: SkillVersion, *, older: bool
) -> Iterator[SourceReplacement]:
    """Another signer than that of the newest version; or the same, who signed this before what is installed."""
    if candidate.signer != newest.signer:
        yield _signer_replacement(candidate, newest.signer, f"it was signed by {newest.signer} until now")
        return
    path = versions.path(candidate.skill_id, newest.version)
    if older or candidate.digest == newest.digest or not path.is_dir():  # an older version does not become current
        return
    before = read_signature(path)
    if before is not None and (candidate.signed_at or "") < before.signed_at:
        why = f"it was signed at {candidate.signed_at}, before the version that is installed ({before.signed_at})"
        yield SourceReplacement(
            candidate.skill_id, candidate.name, "signer", newest.signer, candidate.signer, why, candidate.digest
        )


def _source_change(
    skill_id: str, name: str, current: SkillVersion, now: Mapping[str, object], signer: str | None, digest: str
) -> Iterator[SourceReplacement]:
    """Another source than that of the current version; the signer of that one may publish anywhere."""
    identity = source_identity(current.origin)
    if (identity and identity == source_identity(now)) or (signer is not None and signer == current.signer):
        return
    before, after = shown_origin(current.origin), shown_origin(now)
    yield SourceReplacement(
        skill_id, name, "source", before, after, f"it comes from {after}, and no longer from {before}", digest
    )


def _signer_replacement(candidate: Candidate, before: str | None, why: str) -> SourceReplacement:
    sentence = f"{why}, and this is {_signer_text(candidate.signer)}"
    return SourceReplacement(candidate.skill_id, candidate.name, "signer", before, candidate.signer, sentence, candidate.digest)


def _signer_text(signer: str | None) -> str:
    return f"signed by {signer}" if signer else "not signed"
