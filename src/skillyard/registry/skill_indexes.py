"""Lists of skills on the web: `.well-known/agent-skills` indexes, ARD catalogs (`ai-catalog.json`), catalogs and manifests.

A list names what it publishes, and each item is fetched by its own rules. The result is one tree with a folder for each skill.
Versions of an index are a proposal (agentskills/agentskills, pull request 380): `versions.json` beside it names them, and
`v1.2.0/index.json` is the index as it was at that version.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from skillyard.errors import (
    ArchiveTooLarge,
    DigestMismatch,
    InvalidManifest,
    InvalidSource,
    NoSkillInside,
    VersionNotFound,
)
from skillyard.interop import (
    CatalogEntry,
    convert_anthropic_to_semibot,
    read_anthropic_manifest,
    read_catalog,
    validate_manifest,
)
from skillyard.packages import (
    Origin,
    PackageLimits,
    Source,
    digest_of,
    extract,
    find_skills,
    resolve,
    shown_address,
    sniff,
    tree_digest,
    tree_size,
)
from skillyard.paths import slug
from skillyard.plain_json import read_json
from skillyard.registry.requirements import parse_requirement, version_key
from skillyard.registry.source_host_policy import joined_address
from skillyard.text import single_line
from skillyard.wire import WireForm, wire

_INDEX: Final = ".well-known/agent-skills/index.json"
_INDEX_PATH: Final = re.compile(r"(?:^|/)\.well-known/agent-skills/(?:v[^/]+/)?index\.json$")
_SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_LARGEST_LIST: Final = 4 * 1024 * 1024
_MAX_SKILLS: Final = 500
"""Skills that one list may bring at once."""
_PACKAGES: Final = ("package_url", "download_url", "archive_url", "package", "source", "repository")
_RELATIVE: Final = ("package_url", "download_url", "archive_url")
"""Those that may be written relative to the manifest."""
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_LATEST: Final = "latest"
_ABSENT: Final = (404, 410)
_INDEX_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,99}")
_RANGE_SIGN: Final = re.compile(r"[\^~<>=]")
_MOST_TRIED: Final = 20
"""Versions of a site that are looked into for one that fits a range and has the requested skills."""
Download = Callable[[str, int], bytes]
"""The content at an address, of at most so many bytes."""
FetchInto = Callable[[Source, Path], Path]
"""Fetch another source below a folder; gives its tree."""


@dataclass(frozen=True, slots=True)
class _Listed:
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
    allowance = _ByteBudget(limits.listed, address)
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
        allowance.take(_unpack(skill, data, tree / slug(skill.name), into, limits))
        _check_name(skill, tree / slug(skill.name), address)
    versions = {slug(skill.name): skill.version for skill in listed if skill.version}
    origin = Origin("well-known", source.address, path=source.path, ref=source.ref, versions=versions)
    return _requested_folder(tree, source), origin


def _listed_skills(source: Source, download: Download) -> tuple[str, list[_Listed]]:
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
    listed = list(_read_index(download(latest, _LARGEST_LIST), latest))
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
        raise InvalidSource(f"{shown_address(address)} is no list of versions", hint="report it to its publisher")
    return tuple(versions)


def _if_there(address: str, download: Download) -> bytes | None:
    """The bytes at an address; None where the server says that there are none."""
    try:
        return download(address, _LARGEST_LIST)
    except InvalidSource as error:
        if error.details.get("answered") not in _ABSENT:
            raise
        return None


def _no_such_version(
    source: Source, requested: tuple[str, ...], known: tuple[str, ...], listed: list[_Listed]
) -> VersionNotFound:
    now = {skill.version for skill in listed if skill.version and (not requested or skill.name in requested)}
    there = sorted({*known, *now}, key=version_key, reverse=True)
    what = f" of {', '.join(requested)}" if requested else ""
    hint = f"it has {', '.join(there[:10])}" if there else "it names no versions: install without one"
    return VersionNotFound(
        f"{shown_address(source.address)} has no version {source.ref}{what}", hint=hint, candidates=there[:100]
    )


def _read_index(data: bytes, address: str) -> Iterator[_Listed]:
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
        yield _Listed(name, kind, urljoin(address, url), digest, version if known else "")


def _chosen(listed: list[_Listed], requested: tuple[str, ...], address: str) -> list[_Listed]:
    names = {skill.name for skill in listed}
    if missing := [name for name in requested if name not in names]:
        few = ", ".join(sorted(names)[:10])
        raise NoSkillInside(
            f"{shown_address(address)} has no skill {missing[0]!r}", hint=f"it has {few}", candidates=sorted(names)
        )
    chosen = [skill for skill in listed if not requested or skill.name in requested]
    _check_count(len(chosen), address)
    return chosen


def _check_count(count: int, address: str) -> None:
    if count > _MAX_SKILLS:
        raise InvalidSource(f"{shown_address(address)} lists {count} skills", hint="select skills with --skill")


def _unpack(skill: _Listed, data: bytes, target: Path, into: Path, limits: PackageLimits) -> int:
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


class _ByteBudget:
    """How many bytes one list may still bring: each of its skills may be large, all of them together must fit a disk."""

    def __init__(self, most: int, address: str) -> None:
        self._left = self._most = most
        self._address = address

    def take(self, size: int) -> None:
        """Count that many bytes. Raises ArchiveTooLarge: they are more than are left."""
        self._left -= size
        if self._left < 0:
            raise ArchiveTooLarge(
                f"the skills that {shown_address(self._address)} lists come to over {self._most >> 20} MB",
                hint="select skills with --skill",
            )


def _check_name(skill: _Listed, folder: Path, address: str) -> None:
    """What is called `pdf` in an index must not install as something else."""
    for skill_inside in find_skills(folder):
        if skill_inside.path == "." and skill.name not in (skill_inside.name, skill_inside.skill_id):
            raise InvalidSource(
                f"{shown_address(address)} calls a skill {skill.name}, and its SKILL.md calls it {skill_inside.name!r}",
                hint="report it to its publisher",
            )


def fetch_listed(
    source: Source, data: bytes, into: Path, download: Download, fetch: FetchInto, limits: PackageLimits
) -> tuple[Path, Origin] | None:
    """The skills of a catalog or of one manifest whose text is `data`; None when it is neither.

    A manifest leads to its package by an address in it, or by the git repository it names.

    Of an ARD catalog its skills are taken, as `fetch_resources` does.

    Raises:
        InvalidSource: a manifest names no package.
        InvalidManifest: a manifest cannot be understood, or is not valid: then nothing of the list is installed.
        NoSkillInside: there is none of a requested name, or no skill in a package.
        ArchiveTooLarge: all of them together are too large.
    """
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        return None
    if (resources := read_resources(data, source.address)) is not None:
        return fetch_resources(source, source.address, resources, into, download, limits), Origin(
            "address", source.address, path=source.path
        )
    tree = into / "listed"
    tree.mkdir()
    allowance = _ByteBudget(limits.listed, source.address)
    listed: dict[str, tuple[str, Mapping[str, object]]] = {}
    for entry in _entries(source, data):
        scratch = into / f"fetch-{slug(entry.skill_id, 'skill')}"
        scratch.mkdir()
        manifest, where = data, entry.manifest_url or source.address
        if entry.manifest_url is not None:
            manifest = download(entry.manifest_url, _LARGEST_LIST)
            allowance.take(len(manifest))
        listed[_folder_name(entry)] = where, _fetch_entry(entry, where, manifest, scratch, fetch, tree / _folder_name(entry))
        allowance.take(tree_size(scratch) + tree_size(tree / _folder_name(entry)))
    return _requested_folder(tree, source), Origin("address", source.address, path=source.path, listed=listed)


_CATALOG: Final = ".well-known/ai-catalog.json"
_SKILL_TYPES: Final = ("application/agent-skill", "application/agent-skills")
_SEARCH_TYPE: Final = "application/ai-registry+json"
_URN: Final = re.compile(r"urn:air:[^:\s]{1,253}:([^:\s]{1,60}):([^\s]{1,300})")
_SHOWN: Final = 2000


@dataclass(frozen=True, slots=True)
class ListedResource(WireForm):
    """One skill of an ARD catalog: `digest` is what its entry promises, of its bytes or of its files; `score` is 0 to 100.

    `url` is where it is; empty where the entry holds the `text` of its SKILL.md.
    """

    identifier: str
    name: str
    description: str
    url: str
    digest: str = ""
    version: str = ""
    score: int | None = None
    text: str = field(default="", repr=False, metadata=wire(hidden=True))

    @property
    def key(self) -> str:
        """The last part of its identifier."""
        match = _URN.fullmatch(self.identifier)
        return match[2].rpartition(":")[2] if match else self.name


@dataclass(frozen=True, slots=True)
class ResourceList:
    """The skills of an ARD catalog, and the address at which it can be searched; empty without one."""

    skills: tuple[ListedResource, ...]
    search: str = ""


def catalog_address(address: str) -> str:
    """Where the ARD catalog of a site is: the address itself when it names a JSON file."""
    if urlsplit(address).path.endswith(".json"):
        return address
    return urljoin(address if address.endswith("/") else f"{address}/", _CATALOG)


def read_resources(data: bytes, address: str, *, found: bool = False) -> ResourceList | None:
    """The skills in an ARD catalog, or with `found` in the answer to its search; None when it is none, or over 4 MiB.

    Entries of other types are left out.

    Raises:
        InvalidSource: a skill's entry cannot be meant.
    """
    try:
        shape = read_json(data.decode("utf-8-sig")) if len(data) <= _LARGEST_LIST else None
    except ValueError:
        return None
    if not isinstance(shape, dict) or not shape.keys() >= ({"results"} if found else {"specVersion", "entries"}):
        return None
    entries = shape["results" if found else "entries"]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise _odd_resource(address, "its entries are no list of objects")
    search = next((_address(entry, address) for entry in entries if _word(entry, "type") == _SEARCH_TYPE), "")
    skills = tuple(_resource(entry, address) for entry in entries if _is_skill(entry))
    return ResourceList(skills, search and urljoin(search if search.endswith("/") else f"{search}/", "search"))


def _is_skill(entry: Mapping[str, object]) -> bool:
    if _word(entry, "type").partition("+")[0] in _SKILL_TYPES:
        return True
    match = _URN.fullmatch(_word(entry, "identifier"))
    return match is not None and match[1] == "skill"


def _resource(entry: Mapping[str, object], address: str) -> ListedResource:
    metadata, text, score = entry.get("metadata"), entry.get("data"), entry.get("score")
    found = ListedResource(
        identifier=_word(entry, "identifier"),
        name=single_line(_word(entry, "displayName")),
        description=single_line(_word(entry, "description")),
        url=_address(entry, address),
        digest=_word(metadata, "digest") if isinstance(metadata, dict) else "",
        version=single_line(_word(entry, "version")),
        score=score if isinstance(score, int) and not isinstance(score, bool) else None,
        text=text if isinstance(text, str) else "",
    )
    if not found.identifier or not (found.url or found.text) or (found.digest and not found.digest.startswith("sha256:")):
        raise _odd_resource(address, f"the entry {found.identifier[:80]!r} lacks an identifier, an address, or a known digest")
    return found


def _word(entry: Mapping[str, object], name: str) -> str:
    value = entry.get(name)
    return value[:_SHOWN] if isinstance(value, str) else ""


def _address(entry: Mapping[str, object], address: str) -> str:
    url = _word(entry, "url")
    return joined_address(address, url) if url else ""


def _odd_resource(address: str, why: str) -> InvalidSource:
    return InvalidSource(f"{shown_address(address)} is no ARD catalog: {why}", hint="report it to its publisher")


def fetch_resources(
    source: Source, address: str, listed: ResourceList, into: Path, download: Download, limits: PackageLimits
) -> Path:
    """The skills of an ARD catalog, all or the requested ones, each verified where its entry promises a digest.

    Raises:
        InvalidSource: two skills have one name, or one is something else than an archive or a SKILL.md.
        NoSkillInside: it has none of a requested name.
        DigestMismatch: a skill is not what its entry promises.
        ArchiveTooLarge: all of them together are too large.
    """
    requested = (source.path,) if source.path else source.names
    named = [one for one in listed.skills if {one.identifier, one.key, one.name, slug(one.key)} & set(requested)]
    known = {word for one in named for word in (one.identifier, one.key, one.name, slug(one.key))}
    if missing := [name for name in requested if name not in known] or (not requested and not listed.skills and ["a skill"]):
        names = sorted(one.key for one in listed.skills)
        raise NoSkillInside(
            f"{shown_address(address)} has no skill {missing[0]!r}",
            hint=f"it has {', '.join(names[:10]) or 'none'}",
            candidates=names,
        )
    chosen = named if requested else list(listed.skills)
    _check_count(len(chosen), address)
    tree = into / "catalog"
    tree.mkdir()
    allowance = _ByteBudget(limits.listed, address)
    for one in chosen:
        folder = tree / slug(one.key, "skill")
        if folder.exists():
            raise _odd_resource(address, f"two of its skills are called {folder.name}")
        data = one.text.encode() if one.text else download(one.url, limits.archive)
        allowance.take(len(data))
        kind = "archive" if sniff(data[:512]) is not None else "skill-md"
        if kind == "skill-md" and not data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"---"):
            raise _odd_resource(address, f"{one.key} is neither an archive nor a SKILL.md")
        allowance.take(_unpack(_Listed(one.key, kind, one.url, one.digest), data, folder, into, limits))
        if one.digest and one.digest not in (digest_of(data), tree_digest(folder)):
            raise DigestMismatch(
                f"{one.key} is not what {shown_address(address)} says",
                hint="the publisher has to fix the catalog, or somebody changed the skill on its way",
                expected=one.digest,
                found=digest_of(data),
            )
        _check_name(_Listed(slug(one.key), kind, one.url, one.digest), folder, address)
    return _requested_folder(tree, source)


Post = Callable[[str, bytes], bytes]
"""The answer to a POST of JSON to an address."""


def search_resources(address: str, text: str, limit: int, download: Download, post: Post) -> tuple[ListedResource, ...]:
    """What an ARD catalog finds for words, the best first.

    Raises:
        InvalidSource: it is no such catalog, or offers no search.
        NetworkRefused, NetworkFailed: it cannot be reached.
    """
    where = catalog_address(address)
    listed = read_resources(download(where, _LARGEST_LIST), where)
    if listed is None:
        raise _odd_resource(where, "it has no specVersion and entries")
    if not listed.search:
        raise InvalidSource(f"{shown_address(where)} offers no search", hint="`skillyard install ADDRESS --list` shows it all")
    asked = {"query": {"text": text, "filter": {}}, "federation": "none", "pageSize": limit}
    found = read_resources(post(listed.search, json.dumps(asked).encode()), listed.search, found=True)
    if found is None:
        raise _odd_resource(listed.search, "its search gives no results")
    return found.skills[:limit]


def _entries(source: Source, data: bytes) -> list[CatalogEntry]:
    """What a catalog lists, or the one manifest that it is."""
    try:
        shape = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidManifest(
            f"{shown_address(source.address)} is not JSON: {error}", hint="check the address", problems=[]
        ) from None
    if isinstance(shape, Mapping) and (shape.get("skill_id") or shape.get("id")):
        manifest = read_anthropic_manifest(data)
        return [CatalogEntry(str(manifest["skill_id"]), str(manifest["name"]))]
    entries = [entry for entry in read_catalog(data, source.address) if entry.manifest_url]
    requested = (source.path,) if source.path else source.names
    chosen = [entry for entry in entries if not requested or {entry.skill_id, entry.name, _folder_name(entry)} & set(requested)]
    if not chosen:
        names = sorted(entry.skill_id for entry in entries)
        raise NoSkillInside(
            f"{shown_address(source.address)} leads to none of the requested skills",
            hint=f"it has {', '.join(names[:10]) or 'none with a manifest'}",
            candidates=names,
        )
    _check_count(len(chosen), source.address)
    return chosen


def _folder_name(entry: CatalogEntry) -> str:
    """The last part of an id such as `acme/text-editor`."""
    return slug(entry.skill_id.rpartition("/")[2], "skill")


def _fetch_entry(
    entry: CatalogEntry, where: str, data: bytes, scratch: Path, fetch: FetchInto, target: Path
) -> Mapping[str, object]:
    """Bring the skill that the manifest at `where` describes to `target`, and give the manifest as Semibot would have it.

    A manifest in Markdown is the skill itself.
    """
    if data.lstrip(b"\xef\xbb\xbf").startswith(b"---"):
        target.mkdir()
        (target / "SKILL.md").write_bytes(data)
        return {}
    manifest = read_anthropic_manifest(data)
    converted = _valid(manifest)
    skills = find_skills(fetch(_package(entry, where, manifest), scratch))
    names = {entry.skill_id, entry.skill_id.rpartition("/")[2], str(manifest["name"]), slug(str(manifest["name"]))}
    fitting = [skill for skill in skills if names & {skill.name, skill.skill_id, skill.path}] or list(skills)
    if len(fitting) != 1:
        raise NoSkillInside(
            f"the package of {entry.skill_id} has {len(skills)} skills, none of that name",
            hint="install from the package itself",
            candidates=sorted(skill.name for skill in skills),
        )
    shutil.copytree(fitting[0].directory, target, symlinks=True)
    return converted


def _valid(manifest: Mapping[str, object]) -> Mapping[str, object]:
    """The manifest in the form of Semibot.

    Raises:
        InvalidManifest: a field is missing, has another form, or is too long. A manifest may leave its version out.
    """
    converted = convert_anthropic_to_semibot(manifest)
    if converted.get("version") != _LATEST:
        return validate_manifest(converted)
    checked = validate_manifest({**converted, "version": "0.0.0"})
    return {name: value for name, value in checked.items() if name not in ("version", "anthropic")}


def _package(entry: CatalogEntry, where: str, manifest: Mapping[str, object]) -> Source:
    for name in _PACKAGES:
        value = manifest.get(name)
        if not isinstance(value, str) or not value.strip():
            continue
        if value.startswith(("https://", "http://", "ssh://", "git+")):
            return resolve(f"git+{value}" if name == "repository" and not value.startswith(("git+", "ssh")) else value)
        if name in _RELATIVE and not _SCHEME.match(value):
            return resolve(urljoin(where, value))
    raise InvalidSource(
        f"the manifest of {entry.skill_id} names no package",
        hint=f"its publisher has to add one of {', '.join(_PACKAGES)}",
    )


def _requested_folder(tree: Path, source: Source) -> Path:
    """The requested folder: the whole list, or the one skill that an update is about."""
    return tree / slug(source.path.rpartition("/")[2]) if source.path else tree
