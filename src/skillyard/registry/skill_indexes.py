"""Indexes of skills on the web, `.well-known/agent-skills`: the result is one tree with a folder for each skill.

Versions of an index are a proposal (agentskills/agentskills, pull request 380): `versions.json` beside it names them, and
`v1.2.0/index.json` is the index as it was at that version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from skillyard.errors import (
    ArchiveTooLarge,
    DigestMismatch,
    InvalidSource,
    NoSkillInside,
    VersionNotFound,
)
from skillyard.packages import (
    Origin,
    PackageLimits,
    Source,
    digest_of,
    extract,
    find_skills,
    shown_address,
)
from skillyard.paths import slug
from skillyard.plain_json import read_json
from skillyard.registry.requirements import parse_requirement, version_key

_INDEX: Final = ".well-known/agent-skills/index.json"
_INDEX_PATH: Final = re.compile(r"(?:^|/)\.well-known/agent-skills/(?:v[^/]+/)?index\.json$")
_SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
LARGEST_LIST: Final = 4 * 1024 * 1024
_MAX_SKILLS: Final = 500
"""Skills that one list may bring at once."""
_ABSENT: Final = (404, 410)
_INDEX_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,99}")
_RANGE_SIGN: Final = re.compile(r"[\^~<>=]")
_MOST_TRIED: Final = 20
"""Versions of a site that are looked into for one that fits a range and has the requested skills."""
Download = Callable[[str, int], bytes]
"""The content at an address, of at most so many bytes."""


@dataclass(frozen=True, slots=True)
class IndexedSkill:
    """One skill of an index: where it is, and what its bytes must be; `version` is what the index calls it."""

    name: str
    kind: str
    url: str
    digest: str
    version: str = ""


def index_address(address: str) -> str:
    """Where the index of a site is: the address itself when it names one, also that of one version."""
    if _INDEX_PATH.search(urlsplit(address).path):
        return address
    return urljoin(address if address.endswith("/") else f"{address}/", _INDEX)


def fetch_index(source: Source, into: Path, download: Download, limits: PackageLimits) -> tuple[Path, Origin]:
    """The skills of an index of version 0.2.0, all or the requested ones, each verified by its digest.

    Raises:
        InvalidSource: it is no such index.
        NoSkillInside: it has none of a requested name.
        VersionNotFound: the site does not have the requested version.
        DigestMismatch: a skill is not what the index lists.
        ArchiveTooLarge: all of them together are too large.
        ArchiveRefused, NetworkFailed: as for one archive.
    """
    address, listed = _listed_skills(source, download)
    tree = into / "index"
    tree.mkdir()
    allowance = ByteBudget(limits.listed, address)
    for skill in listed:
        data = download(skill.url, limits.archive)
        allowance.take(len(data))
        if digest_of(data) != skill.digest:
            raise DigestMismatch(
                f"{skill.name} is not what {shown_address(address)} says",
                hint="the publisher has to fix the index, or somebody changed the skill on its way",
                expected=skill.digest,
                found=digest_of(data),
            )
        allowance.take(unpack_skill(skill, data, tree / slug(skill.name), into, limits))
        check_name(skill, tree / slug(skill.name), address)
    versions = {slug(skill.name): skill.version for skill in listed if skill.version}
    origin = Origin("well-known", source.address, path=source.path, ref=source.ref, versions=versions)
    return requested_folder(tree, source), origin


def _listed_skills(source: Source, download: Download) -> tuple[str, list[IndexedSkill]]:
    """The address of the index that has the requested version, and the requested skills of it.

    A version that a lock names is looked for and, where the site keeps none, is what it has now: the digest decides.
    """
    latest = index_address(source.address)
    requested = (source.path,) if source.path else source.names
    wanted = source.ref or source.version
    for version in _versions_to_try(latest, wanted, download) if wanted else ():
        address = urljoin(latest, f"v{quote(version, safe='')}/index.json")
        data = _if_there(address, download)
        listed = list(_read_index(data, address)) if data is not None else []
        if listed and set(requested) <= {skill.name for skill in listed}:
            return address, _chosen(listed, requested, address)
    listed = list(_read_index(download(latest, LARGEST_LIST), latest))
    if not source.ref:
        return latest, _chosen(listed, requested, latest)
    range_of = parse_requirement(f"it@{source.ref}")
    now = [skill for skill in _chosen(listed, requested, latest) if skill.version and range_of.holds(skill.version)]
    if not now or (requested and len(now) < len(requested)):
        raise _no_such_version(source, requested, _known_versions(latest, download), listed)
    return latest, now


def _versions_to_try(latest: str, wanted: str, download: Download) -> list[str]:
    """The versions that are meant, the highest first: an exact one itself, of a range those that the site names."""
    if not _RANGE_SIGN.match(wanted):
        return [wanted]
    range_of = parse_requirement(f"it@{wanted}")
    fitting = {version for version in _known_versions(latest, download) if range_of.holds(version)}
    return sorted(fitting, key=version_key, reverse=True)[:_MOST_TRIED]


def _known_versions(latest: str, download: Download) -> tuple[str, ...]:
    """The versions that `versions.json` beside an index names; none where there is no such file.

    Raises:
        InvalidSource: it cannot be understood.
    """
    address = urljoin(latest, "versions.json")
    data = _if_there(address, download)
    if data is None:
        return ()
    try:
        shape = read_json(data.decode("utf-8-sig"))
    except ValueError:
        shape = None
    versions = shape.get("versions") if isinstance(shape, dict) else None
    if not isinstance(versions, list) or not all(isinstance(one, str) and _INDEX_VERSION.fullmatch(one) for one in versions):
        raise InvalidSource(f"{shown_address(address)} is not a list of versions", hint="report it to its publisher")
    return tuple(versions)


def _if_there(address: str, download: Download) -> bytes | None:
    """The bytes at an address; None where the server says that there are none."""
    try:
        return download(address, LARGEST_LIST)
    except InvalidSource as error:
        if error.details.get("answered") not in _ABSENT:
            raise
        return None


def _no_such_version(
    source: Source, requested: tuple[str, ...], known: tuple[str, ...], listed: list[IndexedSkill]
) -> VersionNotFound:
    now = {skill.version for skill in listed if skill.version and (not requested or skill.name in requested)}
    there = sorted({*known, *now}, key=version_key, reverse=True)
    what = f" of {', '.join(requested)}" if requested else ""
    hint = f"it has {', '.join(there[:10])}" if there else "it names no versions: install without one"
    return VersionNotFound(
        f"{shown_address(source.address)} has no version {source.ref}{what}", hint=hint, candidates=there[:100]
    )


def _read_index(data: bytes, address: str) -> Iterator[IndexedSkill]:
    try:
        shape = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        shape = None
    if not isinstance(shape, dict) or not isinstance(shape.get("skills"), list):
        raise InvalidSource(
            f"{shown_address(address)} is not an index of skills", hint="name the address of an archive or of a SKILL.md"
        )
    if shape.get("$schema") != _SCHEMA:
        raise InvalidSource(f"{shown_address(address)} is an index of an unknown version", hint=f"the known one is {_SCHEMA}")
    for item in shape["skills"]:
        fields = [item.get(name) if isinstance(item, dict) else None for name in ("name", "type", "url", "digest")]
        name, kind, url, digest = (field if isinstance(field, str) else "" for field in fields)
        if slug(name) != name or kind not in ("skill-md", "archive") or not url or not digest.startswith("sha256:"):
            raise InvalidSource(
                f"{shown_address(address)} lists {str(name)[:80]!r} in a way that is not known",
                hint="report it to its publisher",
            )
        version = item.get("version")
        known = isinstance(version, str) and _INDEX_VERSION.fullmatch(version) is not None
        yield IndexedSkill(name, kind, urljoin(address, url), digest, version if known else "")


def _chosen(listed: list[IndexedSkill], requested: tuple[str, ...], address: str) -> list[IndexedSkill]:
    names = {skill.name for skill in listed}
    if missing := [name for name in requested if name not in names]:
        few = ", ".join(sorted(names)[:10])
        raise NoSkillInside(
            f"{shown_address(address)} has no skill {missing[0]!r}", hint=f"it has {few}", candidates=sorted(names)
        )
    chosen = [skill for skill in listed if not requested or skill.name in requested]
    check_count(len(chosen), address)
    return chosen


def check_count(count: int, address: str) -> None:
    """Raises InvalidSource: a list has more skills than can be installed at once."""
    if count > _MAX_SKILLS:
        raise InvalidSource(f"{shown_address(address)} lists {count} skills", hint="select skills with --skill")


def unpack_skill(skill: IndexedSkill, data: bytes, target: Path, into: Path, limits: PackageLimits) -> int:
    """Write the skill to `target`; gives its bytes there."""
    if skill.kind == "skill-md":
        target.mkdir()
        return (target / "SKILL.md").write_bytes(data)
    archive = into / f"{target.name}.archive"
    archive.write_bytes(data)
    extracted = extract(archive, into, limits)
    archive.unlink()
    tree = Path(extracted.tree)
    if not (tree / "SKILL.md").is_file():
        raise NoSkillInside(f"the archive of {skill.name} has no SKILL.md in its root", hint="report it to its publisher")
    tree.rename(target)
    return extracted.size


class ByteBudget:
    """How many bytes one list may still bring: each of its skills may be large, all of them together must fit a disk."""

    def __init__(self, most: int, address: str) -> None:
        self._left = self._most = most
        self._address = address

    def take(self, size: int) -> None:
        """Count that many bytes. Raises ArchiveTooLarge: they are more than are left."""
        self._left -= size
        if self._left < 0:
            raise ArchiveTooLarge(
                f"the skills that {shown_address(self._address)} lists are over {self._most >> 20} MB",
                hint="select skills with --skill",
            )


def check_name(skill: IndexedSkill, folder: Path, address: str) -> None:
    """Raises InvalidSource: what is called `pdf` in an index would install as something else."""
    for skill_inside in find_skills(folder):
        if skill_inside.path == "." and skill.name not in (skill_inside.name, skill_inside.skill_id):
            raise InvalidSource(
                f"{shown_address(address)} calls a skill {skill.name}, and its SKILL.md calls it {skill_inside.name!r}",
                hint="report it to its publisher",
            )


def requested_folder(tree: Path, source: Source) -> Path:
    """The requested folder: the whole list, or the one skill that an update is about."""
    return tree / slug(source.path.rpartition("/")[2]) if source.path else tree
