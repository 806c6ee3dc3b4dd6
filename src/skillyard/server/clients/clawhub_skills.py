"""ClawHub's protocol about single skills: their shapes (owners, labels, tags, versions), and what the scanner says of them.

Its client requests moderation before an install, and `clawhub scan`. Suspicious is what the scanner rates high and the operator
did not suppress. Nothing is blocked. The id of a scan names the version, and asking for it scans: nothing is kept.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi import Path as InPath
from pydantic import BaseModel, Field

from skillyard.errors import InvalidInput, NotOffered, SkillNotFound, VersionNotFound
from skillyard.paths import slug as slug_of
from skillyard.registry import LATEST, InstalledSkill, PopularityCounts, SkillVersion
from skillyard.scanner import Finding, at_least_severity
from skillyard.server.authorization import UNRECORDED, Caller, CurrentCaller, require_scope
from skillyard.server.clients.published_skills import (
    NumberedVersion,
    current_version,
    decode_cursor,
    display_name,
    encode_cursor,
    find_version,
    installed_version,
    offered_skill,
    package_digest,
    usable_versions,
    version_folder,
)
from skillyard.server.middleware.error_formats import CLAWHUB
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import ZIP_RESPONSES, zip_response

SlugPath = Annotated[str, InPath(max_length=200)]
OwnerQuery = Annotated[str | None, Query(max_length=200)]
LabelQuery = Annotated[str | None, Query(max_length=100)]
_COLLATED: Final = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
"""The order of characters in ICU's root collation, which is that of JavaScript's `localeCompare` for English."""
_ORDER: Final = {character: number for number, character in enumerate(_COLLATED, 1)}


def owner_shape(caller: Caller) -> dict[str, Any]:
    """The caller's organisation as the owner of what is published here."""
    return {"handle": slug_of(caller.organisation), "displayName": caller.organisation, "image": None}


def owned_skill(
    service: OrganisationServices, caller: Caller, skill_id: str, handle: str | None, *, installed: bool = True
) -> InstalledSkill:
    """The skill of that slug, when `handle` is the caller's own or not given.

    Raises:
        SkillNotFound: there is none.
        PermissionDenied: a rule denies it.
    """
    if handle is not None and handle.removeprefix("@") != owner_shape(caller)["handle"]:
        raise SkillNotFound(
            f"{handle} publishes nothing here", hint=f"the owner of all skills is {owner_shape(caller)['handle']}"
        )
    return offered_skill(service, skill_id, installed=installed)


def _owned_skill(
    service: CurrentServices,
    caller: CurrentCaller,
    slug: SlugPath,
    ownerHandle: OwnerQuery = None,  # noqa: N803 # the protocol's own spelling
) -> InstalledSkill:
    return owned_skill(service, caller, slug, ownerHandle)


OwnedSkill = Annotated[InstalledSkill, Depends(_owned_skill)]
"""The skill that the path names by its slug, and perhaps the query by its owner."""


def version_of_label(service: OrganisationServices, skill: InstalledSkill, label: str) -> NumberedVersion:
    """The usable version of that label.

    Raises:
        VersionNotFound: there is none.
    """
    return find_version(service, skill.skill_id, lambda one: one.label == label, label)


def version_of_tag(service: OrganisationServices, skill: InstalledSkill, label: str | None, tag: str | None) -> NumberedVersion:
    """The version of a label, or of a tag; `latest` is the current version.

    Raises:
        VersionNotFound: there is none.
    """
    if label is not None:
        return version_of_label(service, skill, label)
    if tag in (None, LATEST):
        return current_version(service, skill.skill_id)
    version = service.registry.tags.of(skill.skill_id).get(tag)
    if version is None:
        raise VersionNotFound(f"{skill.skill_id} has no tag {tag!r}", hint=f"the current one is {LATEST}")
    return installed_version(service, skill.skill_id, version)


class SkillShapes:
    """Skills as lists show them, with the counts and tags of the moment it was made."""

    def __init__(self, service: OrganisationServices) -> None:
        self._service = service
        self._counts = service.registry.popularity.counts()
        self._tags = service.registry.tags.all()

    def counts(self, skill: InstalledSkill) -> PopularityCounts:
        """How often it was starred, fetched and installed."""
        return self._counts.get(skill.skill_id, PopularityCounts())

    def tags(self, skill: InstalledSkill) -> dict[str, str]:
        """The labels of the versions of tags."""
        given = self._tags.get(skill.skill_id, {})
        if not given:
            return {}
        labels = {one.version.version: one.label for one in usable_versions(self._service, skill.skill_id)}
        return {tag: labels[version] for tag, version in given.items() if version in labels}

    def skill(self, skill: InstalledSkill) -> dict[str, Any]:
        """One skill."""
        return _skill_shape(skill, current_version(self._service, skill.skill_id), self.tags(skill), self.counts(skill))


def _skill_shape(
    skill: InstalledSkill, latest: NumberedVersion, tags: dict[str, str], counts: PopularityCounts
) -> dict[str, Any]:
    return {
        "slug": skill.skill_id,
        "displayName": display_name(skill),
        "summary": skill.description,
        "topics": list(skill.tags),
        "tags": {LATEST: latest.label, **tags},
        "stats": {"stars": counts.stars, "downloads": counts.downloads, "installsAllTime": counts.installs},
        "createdAt": milliseconds(skill.created_at),
        "updatedAt": milliseconds(skill.updated_at),
        "latestVersion": version_shape(latest),
        "metadata": None,
    }


def version_shape(one: NumberedVersion) -> dict[str, Any]:
    """A version as lists show it, with what its publisher said is new."""
    return {
        "version": one.label,
        "createdAt": milliseconds(one.version.installed_at),
        "changelog": str(one.version.origin.get("notes") or ""),
        "license": None,
    }


def fingerprint(files: Iterable[tuple[str, int, str]]) -> str:
    """The name that the client gives to the content of a folder: over path and SHA-256 of each file that is not hidden."""
    seen = [(path, digest) for path, _, digest in files if not any(part.startswith(".") for part in path.split("/"))]
    seen.sort(key=lambda file: _collation_key(file[0]))
    return hashlib.sha256("\n".join(f"{path}:{digest}" for path, digest in seen).encode()).hexdigest()


def _collation_key(path: str) -> tuple[list[int], list[bool], str]:
    """Letters before their case, as `localeCompare` sorts; other scripts come after, by their code."""
    return (
        [_ORDER.get(letter, 1000 + ord(letter)) for letter in path.lower()],
        [letter.isupper() for letter in path],
        path,
    )


def milliseconds(moment: datetime | None) -> int:
    """A moment in milliseconds since 1970."""
    return int((moment or datetime.fromtimestamp(0, UTC)).timestamp() * 1000)


moderation_routes: Final = APIRouter(
    prefix="/api/v1/skills", tags=["clients: ClawHub"], dependencies=[require_scope("skills:read")], responses=CLAWHUB
)

_WEIGHTS: Final = {"high": "critical", "medium": "warn"}


@moderation_routes.get("/{slug}/moderation")
def moderated(service: CurrentServices, skill: OwnedSkill) -> dict[str, Any]:
    """The scanner's findings for the current version, with their evidence."""
    reported = findings(service, current_version(service, skill.skill_id).version)
    return {"moderation": {**verdict(reported), "legacyReason": None, "evidence": [evidence(one) for one in reported]}}


@moderation_routes.get("/{slug}/verify")
def verify(
    service: CurrentServices,
    caller: CurrentCaller,
    skill: OwnedSkill,
    version: LabelQuery = None,
    tag: LabelQuery = None,
) -> dict[str, Any]:
    """Whether a version can be trusted as far as this server knows: its scan, its origin, its signature."""
    one = version_of_tag(service, skill, version, tag)
    rating, publisher = verdict(findings(service, one.version)), owner_shape(caller)
    fine = not rating["isSuspicious"]
    scan = {"status": rating["verdict"], "reasonCodes": rating["reasonCodes"], "summary": rating["summary"]}
    return {
        "schema": "clawhub.skill.verify.v1",
        "ok": fine,
        "decision": "pass" if fine else "fail",
        "reasons": rating["reasonCodes"],
        "slug": skill.skill_id,
        "displayName": display_name(skill),
        "pageUrl": "",
        "publisherHandle": publisher["handle"],
        "publisherDisplayName": publisher["displayName"],
        "publisherProfileUrl": None,
        "version": one.label,
        "resolvedFrom": "version" if version else "tag" if tag else "latest",
        "tag": tag,
        "createdAt": milliseconds(one.version.installed_at),
        "card": {"available": False},
        "artifact": {"sha256": package_digest(service, one.version).removeprefix("sha256:"), "digest": one.version.digest},
        "provenance": dict(one.version.origin),
        "security": {"status": rating["verdict"], "passed": fine, "signals": {"staticScan": scan}},
        "signature": {"signer": one.version.signer} if one.version.signer else None,
    }


def moderation(service: OrganisationServices, version: SkillVersion) -> dict[str, Any] | None:
    """What a client is warned of before it installs a version; None when there is nothing."""
    rating = verdict(findings(service, version))
    return rating if rating["isSuspicious"] else None


def findings(service: OrganisationServices, version: SkillVersion) -> tuple[Finding, ...]:
    """The scanner's findings for a version, without those that the operator suppressed."""
    from skillyard.scanner import scan_skill  # its rules take longer to load than any route

    report = scan_skill(version_folder(service, version), suppressions=service.catalog.suppressions(user_only=True))
    return at_least_severity(report.open, "low")


def verdict(reported: tuple[Finding, ...]) -> dict[str, Any]:
    """What findings come to."""
    grave = at_least_severity(reported, "high")
    return {
        "isSuspicious": bool(grave),
        "isMalwareBlocked": False,
        "verdict": "suspicious" if grave else "clean",
        "reasonCodes": sorted({f"suspicious.{one.rule}" for one in grave}),
        "summary": "; ".join(f"{one.file}:{one.line}: {one.message}" for one in grave[:3]) or None,
        "engineVersion": None,
        "updatedAt": None,
    }


def evidence(one: Finding) -> dict[str, Any]:
    """One finding."""
    severity = _WEIGHTS.get(one.severity, "info")
    details = {"message": one.message, "evidence": one.evidence}
    return {"code": one.rule, "severity": severity, "file": one.file, "line": one.line, **details}


scan_routes: Final = APIRouter(
    prefix="/api/v1/skills/-/scan", tags=["clients: ClawHub"], dependencies=[require_scope("skills:read")], responses=CLAWHUB
)

_Id = Annotated[str, InPath(max_length=500)]
_ONLY_PUBLISHED: Final = "publish it, or look at the folder with `skillyard scan FOLDER`"


class ScanSource(BaseModel):
    """What is to be scanned."""

    kind: str = Field(max_length=40)
    slug: str = Field(default="", max_length=200)
    ownerHandle: str | None = Field(default=None, max_length=200)  # noqa: N815
    version: str | None = Field(default=None, max_length=100)


class ScanRequest(BaseModel):
    """A requested scan."""

    source: ScanSource
    update: bool = False


@scan_routes.post("", status_code=202, dependencies=[UNRECORDED])
def submit(service: CurrentServices, caller: CurrentCaller, body: ScanRequest) -> dict[str, Any]:
    """Request a scan of a version."""
    if body.source.kind != "published":
        raise NotOffered("only published skills are scanned", hint=_ONLY_PUBLISHED)
    skill = owned_skill(service, caller, body.source.slug, body.source.ownerHandle)
    one = version_of_tag(service, skill, body.source.version, None)
    state = {"status": "queued", "sourceKind": "published", "update": body.update}
    return {"ok": True, "scanId": _id(one), "jobId": _id(one), **state}


@scan_routes.get("/download/{slug}", responses=ZIP_RESPONSES, response_class=Response)
def download_of_version(
    service: CurrentServices,
    caller: CurrentCaller,
    slug: SlugPath,
    version: Annotated[str, Query(max_length=100)],
    kind: Literal["skill", "plugin"] = "skill",
    ownerHandle: OwnerQuery = None,  # noqa: N803
) -> Response:
    """The scanner's report on a version, as an archive."""
    if kind == "plugin":
        raise NotOffered("this server has no plugins for OpenClaw", hint="it gives skills only")
    return _archive(service, version_of_tag(service, owned_skill(service, caller, slug, ownerHandle), version, None))


@scan_routes.get("/{scan_id}")
def status(service: CurrentServices, caller: CurrentCaller, scan_id: _Id) -> dict[str, Any]:
    """The scanner's verdict."""
    return {"ok": True, **_status(service, _scanned_version(service, caller, scan_id))}


@scan_routes.get("/{scan_id}/download", responses=ZIP_RESPONSES, response_class=Response)
def download(service: CurrentServices, caller: CurrentCaller, request: Request, scan_id: _Id) -> Response:
    """The same as an archive."""
    return _archive(service, _scanned_version(service, caller, scan_id))


def _id(one: NumberedVersion) -> str:
    return encode_cursor(f"{one.version.skill_id}\n{one.label}")


def _scanned_version(service: OrganisationServices, caller: Caller, scan_id: str) -> NumberedVersion:
    slug, separator, label = decode_cursor(scan_id).partition("\n")
    if not separator:
        raise InvalidInput(f"{scan_id[:100]!r} is not a valid scan id", hint="take it from the answer to a scan")
    return version_of_tag(service, owned_skill(service, caller, slug, None), label, None)


def _status(service: OrganisationServices, one: NumberedVersion) -> dict[str, Any]:
    skill = service.registry.installed.skill(one.version.skill_id)
    reported = findings(service, one.version)
    rating, made = verdict(reported), milliseconds(one.version.installed_at)
    static = {
        "status": rating["verdict"],
        "reasonCodes": rating["reasonCodes"],
        "summary": rating["summary"],
        "findings": [evidence(finding) for finding in reported],
    }
    return {
        "scanId": _id(one),
        "status": "succeeded",
        "sourceKind": "published",
        "update": False,
        "writtenBack": False,
        "artifact": {"slug": skill.skill_id, "displayName": display_name(skill), "version": one.label},
        "report": {"clawscan": None, "skillspector": None, "staticAnalysis": static, "virustotal": None},
        "createdAt": made,
        "updatedAt": made,
        "completedAt": made,
    }


def _archive(service: OrganisationServices, one: NumberedVersion) -> Response:
    manifest = _status(service, one)
    report = manifest.pop("report")
    files = {"manifest.json": manifest, "static-analysis.json": report["staticAnalysis"]}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    name = f"{one.version.skill_id}-{one.label}-scan.zip"
    return zip_response(stream.getvalue(), name)
