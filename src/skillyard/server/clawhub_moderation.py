"""What the scanner says of a skill, in ClawHub's words: its client asks before it installs what is suspicious.

Suspicious is what the scanner finds gravely wrong and the operator did not suppress. Nothing is blocked: installing goes on
when the user of the client says so.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from fastapi import Path as InPath

from skillyard.registry import SkillVersion
from skillyard.scanner import Finding, at_least, scan_skill
from skillyard.server.callers import Asking, needs
from skillyard.server.clawhub_shapes import milliseconds, of_owner, owner, tagged
from skillyard.server.dialects import CLAWHUB
from skillyard.server.offered import display_name, serving
from skillyard.server.packaged import folder_of, package_digest
from skillyard.server.service import Served, Service

__all__ = ["evidence", "findings", "moderation", "routes", "verdict"]

routes: Final = APIRouter(
    prefix="/api/v1/skills", tags=["clients: ClawHub"], dependencies=[needs("skills:read")], responses=CLAWHUB
)

_Slug = Annotated[str, InPath(max_length=200)]
_Owner = Annotated[str | None, Query(max_length=200)]
_Label = Annotated[str | None, Query(max_length=100)]
_WEIGHTS: Final = {"high": "critical", "medium": "warn"}


@routes.get("/{slug}/moderation")
def moderated(service: Served, caller: Asking, slug: _Slug, ownerHandle: _Owner = None) -> dict[str, Any]:  # noqa: N803
    """What the scanner says of the version that serves, with its evidence."""
    skill = of_owner(service, caller, slug, ownerHandle)
    found = findings(service, serving(service, skill.skill_id).version)
    return {"moderation": {**verdict(found), "legacyReason": None, "evidence": [evidence(one) for one in found]}}


@routes.get("/{slug}/verify")
def verify(
    service: Served,
    caller: Asking,
    slug: _Slug,
    ownerHandle: _Owner = None,  # noqa: N803
    version: _Label = None,
    tag: _Label = None,
) -> dict[str, Any]:
    """Whether a version can be trusted as far as this server knows: its scan, its origin, its signature."""
    skill = of_owner(service, caller, slug, ownerHandle)
    one = tagged(service, skill, version, tag)
    told, publisher = verdict(findings(service, one.version)), owner(caller)
    fine = not told["isSuspicious"]
    scan = {"status": told["verdict"], "reasonCodes": told["reasonCodes"], "summary": told["summary"]}
    return {
        "schema": "clawhub.skill.verify.v1",
        "ok": fine,
        "decision": "pass" if fine else "fail",
        "reasons": told["reasonCodes"],
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
        "security": {"status": told["verdict"], "passed": fine, "signals": {"staticScan": scan}},
        "signature": {"signer": one.version.signer} if one.version.signer else None,
    }


def moderation(service: Service, version: SkillVersion) -> dict[str, Any] | None:
    """What a client is warned of before it installs a version; None when there is nothing."""
    told = verdict(findings(service, version))
    return told if told["isSuspicious"] else None


def findings(service: Service, version: SkillVersion) -> tuple[Finding, ...]:
    """What the scanner says of a version, without what the operator suppressed."""
    report = scan_skill(folder_of(service, version), suppressions=service.catalog.suppressions(user_only=True))
    return at_least(report.open, "low")


def verdict(found: tuple[Finding, ...]) -> dict[str, Any]:
    """What findings come to."""
    grave = at_least(found, "high")
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
    told = {"message": one.message, "evidence": one.evidence}
    return {"code": one.rule, "severity": severity, "file": one.file, "line": one.line, **told}
