"""Catalogs of skills on the web: Agentic Resource Discovery (ARD 0.9, `ai-catalog.json`), lists of manifests, manifests.

A list names what it publishes, and each item is fetched by its own rules. The result is one tree with a folder for each skill.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

from skillyard.errors import DigestMismatch, InvalidManifest, InvalidSource, NoSkillInside
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
    find_skills,
    resolve,
    shown_address,
    sniff,
    tree_digest,
    tree_size,
)
from skillyard.paths import slug
from skillyard.plain_json import read_json
from skillyard.registry.skill_indexes import (
    LARGEST_LIST,
    ByteBudget,
    Download,
    IndexedSkill,
    check_count,
    check_name,
    requested_folder,
    unpack_skill,
)
from skillyard.registry.source_host_policy import joined_address
from skillyard.text import single_line
from skillyard.wire import WireForm, wire

_PACKAGES: Final = ("package_url", "download_url", "archive_url", "package", "source", "repository")
_RELATIVE: Final = ("package_url", "download_url", "archive_url")
"""Those that may be written relative to the manifest."""
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
FetchInto = Callable[[Source, Path], Path]
"""Fetch another source below a folder; gives its tree."""
_CATALOG: Final = ".well-known/ai-catalog.json"
_SKILL_TYPES: Final = ("application/agent-skill", "application/agent-skills")
_SEARCH_TYPE: Final = "application/ai-registry+json"
_LATEST: Final = "latest"
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
        shape = read_json(data.decode("utf-8-sig")) if len(data) <= LARGEST_LIST else None
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
    return InvalidSource(f"{shown_address(address)} is not an ARD catalog: {why}", hint="report it to its publisher")


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
    check_count(len(chosen), address)
    tree = into / "catalog"
    tree.mkdir()
    allowance = ByteBudget(limits.listed, address)
    for one in chosen:
        folder = tree / slug(one.key, "skill")
        if folder.exists():
            raise _odd_resource(address, f"two of its skills are called {folder.name}")
        data = one.text.encode() if one.text else download(one.url, limits.archive)
        allowance.take(len(data))
        kind = "archive" if sniff(data[:512]) is not None else "skill-md"
        if kind == "skill-md" and not data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"---"):
            raise _odd_resource(address, f"{one.key} is neither an archive nor a SKILL.md")
        allowance.take(unpack_skill(IndexedSkill(one.key, kind, one.url, one.digest), data, folder, into, limits))
        if one.digest and one.digest not in (digest_of(data), tree_digest(folder)):
            raise DigestMismatch(
                f"{one.key} is not what {shown_address(address)} says",
                hint="the publisher has to fix the catalog, or somebody changed the skill on its way",
                expected=one.digest,
                found=digest_of(data),
            )
        check_name(IndexedSkill(slug(one.key), kind, one.url, one.digest), folder, address)
    return requested_folder(tree, source)


Post = Callable[[str, bytes], bytes]
"""The answer to a POST of JSON to an address."""


def search_resources(address: str, text: str, limit: int, download: Download, post: Post) -> tuple[ListedResource, ...]:
    """What an ARD catalog finds for words, the best first.

    Raises:
        InvalidSource: it is no such catalog, or offers no search.
        NetworkRefused, NetworkFailed: it cannot be reached.
    """
    where = catalog_address(address)
    listed = read_resources(download(where, LARGEST_LIST), where)
    if listed is None:
        raise _odd_resource(where, "it has no specVersion and entries")
    if not listed.search:
        raise InvalidSource(f"{shown_address(where)} offers no search", hint="`skillyard install ADDRESS --list` shows it all")
    asked = {"query": {"text": text, "filter": {}}, "federation": "none", "pageSize": limit}
    found = read_resources(post(listed.search, json.dumps(asked).encode()), listed.search, found=True)
    if found is None:
        raise _odd_resource(listed.search, "its search gives no results")
    return found.skills[:limit]


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
    allowance = ByteBudget(limits.listed, source.address)
    listed: dict[str, tuple[str, Mapping[str, object]]] = {}
    for entry in _entries(source, data):
        scratch = into / f"fetch-{slug(entry.skill_id, 'skill')}"
        scratch.mkdir()
        manifest, where = data, entry.manifest_url or source.address
        if entry.manifest_url is not None:
            manifest = download(entry.manifest_url, LARGEST_LIST)
            allowance.take(len(manifest))
        listed[_folder_name(entry)] = where, _fetch_entry(entry, where, manifest, scratch, fetch, tree / _folder_name(entry))
        allowance.take(tree_size(scratch) + tree_size(tree / _folder_name(entry)))
    return requested_folder(tree, source), Origin("address", source.address, path=source.path, listed=listed)


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
    check_count(len(chosen), source.address)
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
