"""A plugin marketplace for Claude Code: `/plugin marketplace add http://…/.claude-plugin/marketplace.json`.

Each skill is a plugin in a git repository of its own, made from the version that serves: one commit, always the same for the
same version, so that the marketplace can name it.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath
from starlette.concurrency import run_in_threadpool

from skillyard.errors import ArchiveTooLarge, InvalidInput, VersionNotFound
from skillyard.files import replace_file
from skillyard.registry import InstalledSkill
from skillyard.server.authorization import require_scope
from skillyard.server.clients.git_protocol import (
    ADVERTISED,
    RESULT,
    Commit,
    advertisement,
    build_commit,
    decompressed_body,
    upload_pack_result,
    wanted_commit,
)
from skillyard.server.clients.published_skills import (
    collect_shapes,
    metadata_of,
    offered_skill,
    offered_skills,
    package_bytes,
    serving_version,
    usable_versions,
)
from skillyard.server.clients.version_numbers import NumberedVersion
from skillyard.server.middleware.error_formats import GIT
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.problems import READ_PROBLEMS

routes: Final = APIRouter(tags=["clients: Claude Code"], dependencies=[require_scope("skills:read")])

_NAME: Final = "skillyard"
_LARGEST: Final = 64 * 1024
_FRESH: Final = {"Cache-Control": "no-cache, max-age=0, must-revalidate"}
_Skill = Annotated[str, InPath(max_length=200)]
_GIT: Final[dict[int | str, dict[str, Any]]] = {200: {"description": "for git", "content": {"*/*": {}}}, **GIT}


@routes.get("/.claude-plugin/marketplace.json", responses=READ_PROBLEMS)
@routes.get("/marketplace.json", responses=READ_PROBLEMS, include_in_schema=False)
def marketplace(service: CurrentServices, request: Request) -> dict[str, Any]:
    """Every skill as a plugin."""
    base = str(request.base_url).rstrip("/")
    plugins = collect_shapes(offered_skills(service), lambda skill: _entry(service, skill, base))
    return {"name": _NAME, "owner": {"name": "Skillyard"}, "plugins": plugins}


@routes.get("/plugins/{skill}.git/info/refs", responses=_GIT, response_class=Response)
def references(
    service: CurrentServices, skill: _Skill, asked: Annotated[str, Query(alias="service", max_length=40)] = ""
) -> Response:
    """What git asks first of the repository of a plugin."""
    if asked != "git-upload-pack":
        raise InvalidInput("the repository is only fetched from, by git's smart protocol", hint="clone it with git")
    newest = serving_version(service, offered_skill(service, skill).skill_id)
    return Response(advertisement(_commit_id(service, newest)), headers=_FRESH, media_type=ADVERTISED)


@routes.post("/plugins/{skill}.git/git-upload-pack", responses=_GIT, response_class=Response)
async def fetch(service: CurrentServices, request: Request, skill: _Skill) -> Response:
    """The content of the repository of a plugin."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _LARGEST:
            raise ArchiveTooLarge("the request is too long", hint="fetch with git", limit=_LARGEST)
    asked = decompressed_body(bytes(body), request.headers.get("content-encoding", ""))
    data = await run_in_threadpool(_pack_for, service, skill, asked)
    return Response(data, headers=_FRESH, media_type=RESULT)


def _pack_for(service: OrganisationServices, skill: str, asked: bytes) -> bytes:
    """The answer for the version whose commit is wanted; a marketplace that was read before may name an older one."""
    commit_id = wanted_commit(asked)
    for one in usable_versions(service, offered_skill(service, skill).skill_id):
        if _commit_id(service, one) == commit_id:
            return upload_pack_result(Commit(commit_id, _commit_file(service, one).read_bytes()[20:]), asked)
    raise VersionNotFound(f"{skill} has no commit {commit_id}", hint="update the marketplace")


def _entry(service: OrganisationServices, skill: InstalledSkill, base: str) -> dict[str, Any]:
    one = serving_version(service, skill.skill_id)
    source = {"source": "url", "url": f"{base}/plugins/{skill.skill_id}.git", "sha": _commit_id(service, one)}
    return {"name": skill.skill_id, "source": source, "description": skill.description, "version": one.label}


def _commit_id(service: OrganisationServices, one: NumberedVersion) -> str:
    with _commit_file(service, one).open("rb") as file:
        return file.read(20).hex()


def _commit_file(service: OrganisationServices, one: NumberedVersion) -> Path:
    """The file with id and pack of the commit of a version, made once."""
    folder = Path(service.catalog.data_directory, "cache/plugins", one.version.skill_id)
    file = folder / f"{one.version.version}-{one.label}.git"
    if not file.exists():
        message, seconds = f"{one.version.skill_id} {one.label}", one.epoch // 1_000_000
        commit = build_commit(_files(service, one), message=message, seconds=seconds)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, bytes.fromhex(commit.id) + commit.pack)
    return file


def _files(service: OrganisationServices, one: NumberedVersion) -> Iterator[tuple[str, bytes, bool]]:
    """The files of a plugin: its description, and the skill in `skills/`."""
    skill_id, metadata = one.version.skill_id, metadata_of(service, one.version)
    about: dict[str, Any] = {"name": skill_id, "version": one.label, "description": metadata.description}
    about |= {"author": {"name": metadata.author}} if metadata.author else {}
    about |= {key: value for key in ("license", "homepage") if (value := getattr(metadata, key))}
    yield ".claude-plugin/plugin.json", (json.dumps(about, indent=2, ensure_ascii=False) + "\n").encode(), False
    with zipfile.ZipFile(io.BytesIO(package_bytes(service, one.version))) as package:
        for entry in package.infolist():
            if not entry.is_dir():
                yield f"skills/{skill_id}/{entry.filename}", package.read(entry), bool(entry.external_attr >> 16 & 0o111)
