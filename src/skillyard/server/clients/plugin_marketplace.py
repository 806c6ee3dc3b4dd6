"""A plugin marketplace for Claude Code: `/plugin marketplace add http://…/.claude-plugin/marketplace.json`.

Each skill is a plugin in a git repository of its own, made from the current version: one commit, always the same for the
same version, so that the marketplace can name it. The marketplace is such a repository too, with all plugins inside, for
clients that clone its address. No commit has a parent: what was withdrawn is in none that can be fetched. They are cloned by
git's smart HTTP protocol, of which one commit needs little: version 0, which every client understands, is a list of references,
then a pack file (gitprotocol-pack, gitprotocol-http).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath
from starlette.concurrency import run_in_threadpool

from skillyard.errors import ArchiveTooLarge, InvalidInput, VersionNotFound
from skillyard.files import replace_file
from skillyard.interop.agent_plugins import PLUGIN_JSON, skill_plugin_json
from skillyard.registry import InstalledSkill
from skillyard.server.authorization import require_scope
from skillyard.server.clients.published_skills import (
    NumberedVersion,
    collect_shapes,
    current_version,
    metadata_of,
    offered_skill,
    offered_skills,
    package_bytes,
    usable_versions,
)
from skillyard.server.file_transfers import read_body
from skillyard.server.middleware.error_formats import GIT
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS

_KINDS: Final = {"commit": 1, "tree": 2, "blob": 3}
_WHO: Final = "Skillyard <skillyard@localhost>"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit without parents: its id in hex, and a pack file with all its objects."""

    id: str
    pack: bytes = field(repr=False)


@dataclass(slots=True)
class _ObjectStore:
    """The objects of a repository, each once, by id."""

    known: dict[bytes, tuple[str, bytes]] = field(default_factory=dict)

    def add(self, kind: str, data: bytes) -> bytes:
        """Take an object in; its id."""
        name = hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).digest()
        self.known[name] = kind, data
        return name

    def pack(self) -> bytes:
        """All of them as a pack file of version 2."""
        body = b"PACK" + (2).to_bytes(4, "big") + len(self.known).to_bytes(4, "big")
        body += b"".join(_header(kind, len(data)) + zlib.compress(data, 6) for kind, data in self.known.values())
        return body + hashlib.sha1(body, usedforsecurity=False).digest()


def build_commit(files: Iterable[tuple[str, bytes, bool]], *, message: str, seconds: int) -> Commit:
    """The commit of some files (path, content, whether it is executable), made `seconds` after 1970."""
    objects = _ObjectStore()
    top: dict[str, object] = {}
    for path, data, executable in files:
        *folders, name = path.split("/")
        parent = top
        for folder in folders:
            below = parent.setdefault(folder, {})
            assert isinstance(below, dict)  # noqa: S101 # paths of one skill do not collide
            parent = below
        parent[name] = (b"100755" if executable else b"100644", objects.add("blob", data))
    text = f"tree {_tree(objects, top).hex()}\nauthor {_WHO} {seconds} +0000\ncommitter {_WHO} {seconds} +0000\n\n{message}\n"
    return Commit(objects.add("commit", text.encode()).hex(), objects.pack())


def _tree(objects: _ObjectStore, folder: Mapping[str, object]) -> bytes:
    """Write a folder and those below it; entries are sorted as if folders ended in a slash."""
    return objects.add("tree", b"".join(entry for _, entry in sorted(_entries(objects, folder))))


def _entries(objects: _ObjectStore, folder: Mapping[str, object]) -> Iterator[tuple[bytes, bytes]]:
    for name, item in folder.items():
        written = name.encode()
        if isinstance(item, dict):
            yield written + b"/", b"40000 " + written + b"\0" + _tree(objects, item)
        elif isinstance(item, tuple):
            mode, blob = item
            yield written, mode + b" " + written + b"\0" + blob


def _header(kind: str, size: int) -> bytes:
    """Type and size of a packed object: four bits of the size first, then seven at a time."""
    byte, size = _KINDS[kind] << 4 | size & 15, size >> 4
    header = bytearray()
    while size:
        header.append(byte | 128)
        byte, size = size & 127, size >> 7
    header.append(byte)
    return bytes(header)


ADVERTISED: Final = "application/x-git-upload-pack-advertisement"
RESULT: Final = "application/x-git-upload-pack-result"
_BRANCH: Final = "refs/heads/main"
_ABILITIES: Final = " ".join((
    f"symref=HEAD:{_BRANCH}", "shallow", "no-progress", "allow-tip-sha1-in-want", "allow-reachable-sha1-in-want",
    "object-format=sha1", "agent=skillyard",
))  # fmt: skip
_FLUSH: Final = b"0000"
_LENGTH: Final = re.compile(rb"[0-9a-fA-F]{4}")
_LARGEST_DECOMPRESSED: Final = 256 * 1024
"""Of a request: it names one commit, and what the client has."""


def advertisement(commit_id: str) -> bytes:
    """What there is to fetch: the one branch."""
    lines = (f"{commit_id} HEAD\0{_ABILITIES}\n", f"{commit_id} {_BRANCH}\n")
    return _line("# service=git-upload-pack\n") + _FLUSH + b"".join(map(_line, lines)) + _FLUSH


def wanted_commit(request: bytes) -> str:
    """The id of the commit that a client requests.

    Raises:
        InvalidInput: it is no such request, or wants several.
    """
    ids = {line[5:45].decode("latin-1") for line in _lines(request) if line.startswith(b"want ")}
    if len(ids) != 1:
        raise InvalidInput("the request does not name exactly one commit", hint="fetch with git")
    return ids.pop()


def upload_pack_result(commit: Commit, request: bytes) -> bytes:
    """The answer to a client that sends `request` for `commit`.

    A shallow clone is complete here: the commit has no parents. Such a client first requests only that information.
    """
    lines = list(_lines(request))
    shallow = _FLUSH if any(line.startswith(b"deepen") for line in lines) else b""
    if not any(line.strip() == b"done" for line in lines):
        return shallow or _line("NAK\n")
    return shallow + _line("NAK\n") + commit.pack


def decompressed_body(body: bytes, encoding: str) -> bytes:
    """The body of a request, which git may have compressed.

    Raises:
        InvalidInput: it cannot be read, or is too long.
    """
    if encoding not in ("gzip", "x-gzip"):
        return body
    try:
        with gzip.open(io.BytesIO(body)) as stream:
            decompressed = stream.read(_LARGEST_DECOMPRESSED + 1)
    except (OSError, EOFError, zlib.error):
        raise InvalidInput("the request is not compressed as its header says", hint="fetch with git") from None
    if len(decompressed) > _LARGEST_DECOMPRESSED:
        raise InvalidInput("the request is too long", hint="fetch with git")
    return decompressed


def _line(text: str) -> bytes:
    """A line as git sends it: its length in four hex digits, these included, before it."""
    return f"{len(text) + 4:04x}{text}".encode("ascii")


def _lines(data: bytes) -> Iterator[bytes]:
    offset = 0
    while offset < len(data):
        length = data[offset : offset + 4]
        size = int(length, 16) if _LENGTH.fullmatch(length) else 1  # int() alone would read -004 too, and go back for ever
        if 0 < size < 4 or offset + size > len(data):
            raise InvalidInput("this is not a git request", hint="fetch with git")
        if size:
            yield data[offset + 4 : offset + size]
        offset += size or 4


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
    base = _base(request)

    def entry(skill: InstalledSkill) -> dict[str, Any]:
        one = current_version(service, skill.skill_id)
        return _entry(skill, one, _repository(service, one, base))

    return {"name": _NAME, "owner": {"name": "Skillyard"}, "plugins": collect_shapes(offered_skills(service), entry)}


@routes.get("/plugins/{skill}.git/info/refs", responses=_GIT, response_class=Response)
def references(
    service: CurrentServices, skill: _Skill, git_service: Annotated[str, Query(alias="service", max_length=40)] = ""
) -> Response:
    """The references of the git repository of a plugin."""
    _require_fetch(git_service)
    newest = current_version(service, offered_skill(service, skill).skill_id)
    return Response(advertisement(_commit_id(_commit_file(service, newest))), headers=_FRESH, media_type=ADVERTISED)


@routes.post("/plugins/{skill}.git/git-upload-pack", responses=_GIT, response_class=Response)
async def fetch(service: CurrentServices, request: Request, skill: _Skill) -> Response:
    """The content of the repository of a plugin."""
    git_request = await _git_request(request)
    data = await run_in_threadpool(_pack_for, service, skill, git_request)
    return Response(data, headers=_FRESH, media_type=RESULT)


@routes.get("/marketplace.git/info/refs", responses=_GIT, response_class=Response)
@routes.get("/info/refs", responses=_GIT, response_class=Response, include_in_schema=False)
def marketplace_references(
    service: CurrentServices, request: Request, git_service: Annotated[str, Query(alias="service", max_length=40)] = ""
) -> Response:
    """The references of the git repository of the marketplace, also at the server's address."""
    _require_fetch(git_service)
    return Response(
        advertisement(_commit_id(_marketplace_file(service, _base(request)))), headers=_FRESH, media_type=ADVERTISED
    )


@routes.post("/marketplace.git/git-upload-pack", responses=_GIT, response_class=Response)
@routes.post("/git-upload-pack", responses=_GIT, response_class=Response, include_in_schema=False)
async def fetch_marketplace(service: CurrentServices, request: Request) -> Response:
    """The content of the repository of the marketplace: its lists, and every plugin."""
    git_request = await _git_request(request)
    data = await run_in_threadpool(_marketplace_pack, service, _base(request), git_request)
    return Response(data, headers=_FRESH, media_type=RESULT)


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")


def _require_fetch(git_service: str) -> None:
    if git_service != "git-upload-pack":
        raise InvalidInput("the repository is only fetched from, by git's smart protocol", hint="clone it with git")


async def _git_request(request: Request) -> bytes:
    too_large = ArchiveTooLarge("the request is too long", hint="fetch with git", limit=_LARGEST)
    body = await read_body(request, _LARGEST, too_large)
    return decompressed_body(body, request.headers.get("content-encoding", ""))


def _pack_for(service: OrganisationServices, skill: str, git_request: bytes) -> bytes:
    """The answer for the version whose commit is requested; a marketplace that was read before may name an older one."""
    commit_id = wanted_commit(git_request)
    for one in usable_versions(service, offered_skill(service, skill).skill_id):
        if _commit_id(file := _commit_file(service, one)) == commit_id:
            return upload_pack_result(_read_commit(file), git_request)
    raise VersionNotFound(f"{skill} has no commit {commit_id}", hint="update the marketplace")


def _marketplace_pack(service: OrganisationServices, base: str, git_request: bytes) -> bytes:
    """The answer for the marketplace as it is now, and for no earlier one: that may hold what was withdrawn since."""
    commit = _read_commit(_marketplace_file(service, base))
    if (wanted := wanted_commit(git_request)) != commit.id:
        raise VersionNotFound(f"the marketplace is no longer at commit {wanted}", hint="fetch again")
    return upload_pack_result(commit, git_request)


def _entry(skill: InstalledSkill, one: NumberedVersion, source: object) -> dict[str, Any]:
    return {"name": skill.skill_id, "source": source, "description": skill.description, "version": one.label}


def _repository(service: OrganisationServices, one: NumberedVersion, base: str) -> dict[str, str]:
    """Where the repository of a plugin is, and its commit."""
    address = f"{base}/plugins/{one.version.skill_id}.git"
    return {"source": "url", "url": address, "sha": _commit_id(_commit_file(service, one))}


def _commit_id(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(20).hex()


def _read_commit(file: Path) -> Commit:
    data = file.read_bytes()
    return Commit(data[:20].hex(), data[20:])


def _write_commit(file: Path, commit: Commit) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(file, bytes.fromhex(commit.id) + commit.pack)


_MOST_INSIDE: Final = 128 * 1024 * 1024
"""Bytes of the plugins that are inside the repository of the marketplace; the others are repositories beside it."""
_KEPT: Final = 8
"""Repositories of the marketplace that are kept: callers may see different skills."""


def _marketplace_file(service: OrganisationServices, base: str) -> Path:
    """The file with id and pack of the commit of the marketplace that the caller sees, made once."""
    chosen = collect_shapes(offered_skills(service), lambda skill: (skill, current_version(service, skill.skill_id)))
    inside, size = set(), 0
    for skill, one in chosen:
        size += one.version.size_bytes
        if size <= _MOST_INSIDE:
            inside.add(skill.skill_id)
    parts = [[one.version.skill_id, one.version.version, one.label, one.version.digest] for _, one in chosen]
    text = json.dumps([parts, "" if len(inside) == len(chosen) else base])
    folder = Path(service.catalog.data_directory, "cache/plugin-repositories/-marketplace")
    file = folder / f"{hashlib.sha256(text.encode()).hexdigest()}.git"
    if not file.exists():
        seconds = max((one.epoch // 1_000_000 for _, one in chosen), default=0)
        files = _marketplace_files(service, chosen, inside, base)
        _write_commit(file, build_commit(files, message="The skills of this server", seconds=seconds))
        for old in sorted(folder.glob("*.git"), key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT:]:
            old.unlink(missing_ok=True)
    return file


def _marketplace_files(
    service: OrganisationServices, chosen: Sequence[tuple[InstalledSkill, NumberedVersion]], inside: set[str], base: str
) -> Iterator[tuple[str, bytes, bool]]:
    """The lists of plugins that clients look for, and the plugins that are `inside`."""
    entries, for_codex = [], []
    for skill, one in chosen:
        path = f"./plugins/{skill.skill_id}"
        elsewhere = None if skill.skill_id in inside else _repository(service, one, base)
        entries.append(_entry(skill, one, elsewhere or path))
        for_codex.append({
            "name": skill.skill_id,
            "source": elsewhere or {"source": "local", "path": path},
            "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
            "category": "Skills",
        })  # fmt: skip
        if elsewhere is None:
            yield from ((f"plugins/{skill.skill_id}/{name}", data, runs) for name, data, runs in _files(service, one))
    about = {"name": _NAME, "owner": {"name": "Skillyard"}, "plugins": entries}
    for name in (".claude-plugin/marketplace.json", ".github/plugin/marketplace.json"):
        yield name, _json(about), False
    codex = {"name": _NAME, "interface": {"displayName": "Skillyard"}, "plugins": for_codex}
    yield ".agents/plugins/marketplace.json", _json(codex), False


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _commit_file(service: OrganisationServices, one: NumberedVersion) -> Path:
    """The file with id and pack of the commit of a version, made once."""
    folder = Path(service.catalog.data_directory, "cache/plugin-repositories", one.version.skill_id)
    file = folder / f"{one.version.version}-{one.label}.git"
    if not file.exists():
        message, seconds = f"{one.version.skill_id} {one.label}", one.epoch // 1_000_000
        _write_commit(file, build_commit(_files(service, one), message=message, seconds=seconds))
    return file


def _files(service: OrganisationServices, one: NumberedVersion) -> Iterator[tuple[str, bytes, bool]]:
    """The files of a plugin: its description for Claude Code and for clients of Agent Plugins, and the skill in `skills/`."""
    skill_id, metadata = one.version.skill_id, metadata_of(service, one.version)
    about: dict[str, Any] = {"name": skill_id, "version": one.label, "description": metadata.description}
    about |= {"author": {"name": metadata.author}} if metadata.author else {}
    about |= {key: value for key in ("license", "homepage") if (value := getattr(metadata, key))}
    yield ".claude-plugin/plugin.json", _json(about), False
    yield PLUGIN_JSON, skill_plugin_json(skill_id, one.label, metadata), False
    with zipfile.ZipFile(io.BytesIO(package_bytes(service, one.version))) as package:
        for entry in package.infolist():
            if not entry.is_dir():
                yield f"skills/{skill_id}/{entry.filename}", package.read(entry), bool(entry.external_attr >> 16 & 0o111)
