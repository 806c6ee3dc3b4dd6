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
from skillyard.server.callers import needs
from skillyard.server.dialects import GIT
from skillyard.server.git_objects import Commit, commit_of
from skillyard.server.git_protocol import ADVERTISED, RESULT, advertisement, answer, unpacked, wanted
from skillyard.server.numbering import Numbered
from skillyard.server.offered import listed, metadata_of, offered, one_offered, serving, usable_versions
from skillyard.server.packaged import package_of
from skillyard.server.problems import READING
from skillyard.server.service import Served, Service

__all__ = ["routes"]

routes: Final = APIRouter(tags=["clients: Claude Code"], dependencies=[needs("skills:read")])

_NAME: Final = "skillyard"
_LARGEST: Final = 64 * 1024
_FRESH: Final = {"Cache-Control": "no-cache, max-age=0, must-revalidate"}
_Skill = Annotated[str, InPath(max_length=200)]
_GIT: Final[dict[int | str, dict[str, Any]]] = {200: {"description": "for git", "content": {"*/*": {}}}, **GIT}


@routes.get("/.claude-plugin/marketplace.json", responses=READING)
@routes.get("/marketplace.json", responses=READING, include_in_schema=False)
def marketplace(service: Served, request: Request) -> dict[str, Any]:
    """Every skill as a plugin."""
    base = str(request.base_url).rstrip("/")
    plugins = listed(offered(service), lambda skill: _entry(service, skill, base))
    return {"name": _NAME, "owner": {"name": "Skillyard"}, "plugins": plugins}


@routes.get("/plugins/{skill}.git/info/refs", responses=_GIT, response_class=Response)
def references(service: Served, skill: _Skill, asked: Annotated[str, Query(alias="service", max_length=40)] = "") -> Response:
    """What git asks first of the repository of a plugin."""
    if asked != "git-upload-pack":
        raise InvalidInput("the repository is only fetched from, by git's smart protocol", hint="clone it with git")
    newest = serving(service, one_offered(service, skill).skill_id)
    return Response(advertisement(_commit_id(service, newest)), headers=_FRESH, media_type=ADVERTISED)


@routes.post("/plugins/{skill}.git/git-upload-pack", responses=_GIT, response_class=Response)
async def fetch(service: Served, request: Request, skill: _Skill) -> Response:
    """The content of the repository of a plugin."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _LARGEST:
            raise ArchiveTooLarge("the request is too long", hint="fetch with git", limit=_LARGEST)
    asked = unpacked(bytes(body), request.headers.get("content-encoding", ""))
    data = await run_in_threadpool(_packed, service, skill, asked)
    return Response(data, headers=_FRESH, media_type=RESULT)


def _packed(service: Service, skill: str, asked: bytes) -> bytes:
    """The answer for the version whose commit is wanted; a marketplace that was read before may name an older one."""
    commit_id = wanted(asked)
    for one in usable_versions(service, one_offered(service, skill).skill_id):
        if _commit_id(service, one) == commit_id:
            return answer(Commit(commit_id, _kept(service, one).read_bytes()[20:]), asked)
    raise VersionNotFound(f"{skill} has no commit {commit_id}", hint="update the marketplace")


def _entry(service: Service, skill: InstalledSkill, base: str) -> dict[str, Any]:
    one = serving(service, skill.skill_id)
    source = {"source": "url", "url": f"{base}/plugins/{skill.skill_id}.git", "sha": _commit_id(service, one)}
    return {"name": skill.skill_id, "source": source, "description": skill.description, "version": one.label}


def _commit_id(service: Service, one: Numbered) -> str:
    with _kept(service, one).open("rb") as file:
        return file.read(20).hex()


def _kept(service: Service, one: Numbered) -> Path:
    """The file with id and pack of the commit of a version, made once."""
    folder = Path(service.catalog.data_directory, "cache/plugins", one.version.skill_id)
    file = folder / f"{one.version.version}-{one.label}.git"
    if not file.exists():
        message, seconds = f"{one.version.skill_id} {one.label}", one.epoch // 1_000_000
        commit = commit_of(_files(service, one), message=message, seconds=seconds)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, bytes.fromhex(commit.id) + commit.pack)
    return file


def _files(service: Service, one: Numbered) -> Iterator[tuple[str, bytes, bool]]:
    """The files of a plugin: its description, and the skill in `skills/`."""
    skill_id, metadata = one.version.skill_id, metadata_of(service, one.version)
    about: dict[str, Any] = {"name": skill_id, "version": one.label, "description": metadata.description}
    about |= {"author": {"name": metadata.author}} if metadata.author else {}
    about |= {key: value for key in ("license", "homepage") if (value := getattr(metadata, key))}
    yield ".claude-plugin/plugin.json", (json.dumps(about, indent=2, ensure_ascii=False) + "\n").encode(), False
    with zipfile.ZipFile(io.BytesIO(package_of(service, one.version))) as package:
        for entry in package.infolist():
            if not entry.is_dir():
                yield f"skills/{skill_id}/{entry.filename}", package.read(entry), bool(entry.external_attr >> 16 & 0o111)
