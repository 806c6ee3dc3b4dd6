"""`clawhub scan`: what the scanner says of a published version, at once, and as an archive to keep.

A scan of ClawHub is queued and asked for again; here its id says which version is meant, and asking looks. So nothing is kept.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath
from pydantic import BaseModel, Field

from skillyard.errors import InvalidInput, NotOffered
from skillyard.server.callers import UNRECORDED, Asking, Caller, needs
from skillyard.server.clawhub_moderation import evidence, findings, verdict
from skillyard.server.clawhub_shapes import milliseconds, of_owner, tagged
from skillyard.server.dialects import CLAWHUB
from skillyard.server.numbering import Numbered
from skillyard.server.offered import display_name
from skillyard.server.paging import read_token, token_for
from skillyard.server.service import Served, Service

__all__ = ["routes"]

routes: Final = APIRouter(
    prefix="/api/v1/skills/-/scan", tags=["clients: ClawHub"], dependencies=[needs("skills:read")], responses=CLAWHUB
)

_Id = Annotated[str, InPath(max_length=500)]
_ZIP: Final[dict[int | str, dict[str, Any]]] = {200: {"description": "the archive", "content": {"application/zip": {}}}}
_ONLY_PUBLISHED: Final = "publish it, or look at the folder with `skillyard scan FOLDER`"


class Wanted(BaseModel):
    """What is to be scanned."""

    kind: str = Field(max_length=40)
    slug: str = Field(default="", max_length=200)
    ownerHandle: str | None = Field(default=None, max_length=200)  # noqa: N815
    version: str | None = Field(default=None, max_length=100)


class Order(BaseModel):
    """A scan that is wanted."""

    source: Wanted
    update: bool = False


@routes.post("", status_code=202, dependencies=[UNRECORDED])
def submit(service: Served, caller: Asking, body: Order) -> dict[str, Any]:
    """Say which version is to be scanned."""
    if body.source.kind != "published":
        raise NotOffered("only published skills are scanned", hint=_ONLY_PUBLISHED)
    skill = of_owner(service, caller, body.source.slug, body.source.ownerHandle)
    one = tagged(service, skill, body.source.version, None)
    told = {"status": "queued", "sourceKind": "published", "update": body.update}
    return {"ok": True, "scanId": _id(one), "jobId": _id(one), **told}


@routes.get("/download/{slug}", responses=_ZIP, response_class=Response)
def download_of_version(
    service: Served,
    caller: Asking,
    slug: Annotated[str, InPath(max_length=200)],
    version: Annotated[str, Query(max_length=100)],
    kind: Literal["skill", "plugin"] = "skill",
    ownerHandle: Annotated[str | None, Query(max_length=200)] = None,  # noqa: N803
) -> Response:
    """What the scanner says of a version, as an archive."""
    if kind == "plugin":
        raise NotOffered("this server has no plugins for OpenClaw", hint="it gives skills only")
    return _archive(service, tagged(service, of_owner(service, caller, slug, ownerHandle), version, None))


@routes.get("/{scan_id}")
def status(service: Served, caller: Asking, scan_id: _Id) -> dict[str, Any]:
    """What the scanner says."""
    return {"ok": True, **_status(service, _meant(service, caller, scan_id))}


@routes.get("/{scan_id}/download", responses=_ZIP, response_class=Response)
def download(service: Served, caller: Asking, request: Request, scan_id: _Id) -> Response:
    """The same as an archive."""
    return _archive(service, _meant(service, caller, scan_id))


def _id(one: Numbered) -> str:
    return token_for(f"{one.version.skill_id}\n{one.label}")


def _meant(service: Service, caller: Caller, scan_id: str) -> Numbered:
    slug, found, label = read_token(scan_id).partition("\n")
    if not found:
        raise InvalidInput(f"{scan_id[:100]!r} is no scan", hint="take it from the answer to a scan")
    return tagged(service, of_owner(service, caller, slug, None), label, None)


def _status(service: Service, one: Numbered) -> dict[str, Any]:
    skill = service.registry.skill(one.version.skill_id)
    found = findings(service, one.version)
    told, made = verdict(found), milliseconds(one.version.installed_at)
    static = {
        "status": told["verdict"],
        "reasonCodes": told["reasonCodes"],
        "summary": told["summary"],
        "findings": [evidence(finding) for finding in found],
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


def _archive(service: Service, one: Numbered) -> Response:
    told = _status(service, one)
    report = told.pop("report")
    files = {"manifest.json": told, "static-analysis.json": report["staticAnalysis"]}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    name = f"{one.version.skill_id}-{one.label}-scan.zip"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(stream.getvalue(), headers=headers, media_type="application/zip")
