"""Where a mirror is (a folder, an S3 bucket, a web address), its index, and the fetcher that installs from one.

A mirror holds packages by the digest of their bytes, and the index `skillyard-mirror.json`: one list of skills with their
versions, each named by the digests of its content and package; sorted and without the time it was made, so that the same skills
give the same bytes. A mirror proves nothing by itself: every package is checked against its digest, and who signed a skill is
in the skill. A mirror folder may be served by any web server as it is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self
from urllib.parse import urljoin

from skillyard.catalog.skill_files import KeptLink
from skillyard.errors import (
    DigestMismatch,
    FileTooLarge,
    InvalidConfiguration,
    InvalidInput,
    InvalidSource,
    NoSkillInside,
    VersionUnusable,
)
from skillyard.packages import (
    Origin,
    PackageLimits,
    Source,
    Store,
    extract,
    find_skills,
    open_store,
    shown_address,
    tree_digest,
)
from skillyard.packages.digest import check_content, digest_hex
from skillyard.registry.registry_values import FetchedTree
from skillyard.registry.requirements import parse_requirement, version_key
from skillyard.text import single_line
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.registry.logins import Logins

INDEX_FILE: Final = "skillyard-mirror.json"
INDEX_LIMIT: Final = 256 * 1024 * 1024
"""Bytes that a list may have: 100,000 skills with ten versions each are half of it."""
_FORMAT: Final = "skillyard mirror 1"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_ID: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,99}")
_LONGEST: Final = 2000
_MOST_LINKS: Final = 200
_LARGEST_LINK: Final = 1024 * 1024
_LARGEST: Final = 1 << 40  # bytes of a package: what is fetched has limits of its own

_IF_KNOWN: Final = wire(omit_none=True)


@dataclass(frozen=True, slots=True)
class MirroredVersion(WireForm, camel_case=True, times="full"):
    """One version: `digest` names its content, `package` the archive of it in the mirror, `size` is that archive's, in bytes.

    `declared_version` is that of its SKILL.md, `label` what its publisher calls it where that is something else.
    `deprecated` and `yanked` are the reasons, empty text when none was given, None for a version that is neither; that was
    `withdrawn_at`, and `withdrawn_by` somebody with a key.
    """

    version: str
    digest: str
    package: str
    size: int
    installed_at: datetime
    declared_version: str | None = field(default=None, metadata=_IF_KNOWN)
    signer: str | None = field(default=None, metadata=_IF_KNOWN)
    deprecated: str | None = field(default=None, metadata=_IF_KNOWN)
    yanked: str | None = field(default=None, metadata=_IF_KNOWN)
    label: str | None = field(default=None, metadata=_IF_KNOWN)
    withdrawn_at: datetime | None = field(default=None, metadata=_IF_KNOWN)
    withdrawn_by: str | None = field(default=None, metadata=_IF_KNOWN)
    links: tuple[KeptLink, ...] = field(default=(), metadata=wire(omit_empty=True))
    """What is kept of the addresses that it tells to fetch; the mirror holds the contents by their SHA-256, as packages."""

    @property
    def called(self) -> str:
        """The version as its publisher calls it, else its name in the mirror."""
        return self.label or self.declared_version or self.version

    @property
    def withdrawal(self) -> str | None:
        """That it was withdrawn or deprecated, why, by whom and when; None for others."""
        word, reason = ("deprecated", self.deprecated) if self.yanked is None else ("withdrawn", self.yanked)
        if reason is None:
            return None
        when = f"{self.withdrawn_at:%Y-%m-%d}" if self.withdrawn_at else ""
        who = ", ".join(single_line(one) for one in (self.withdrawn_by, when) if one)
        return f"{word} by its publisher" + (f": {single_line(reason)}" if reason else "") + (f" ({who})" if who else "")

    def fits(self, name: str) -> bool:
        """Whether a person may mean it by `name`: what its publisher calls it, or a range in which that is."""
        return name in (self.called, self.declared_version) or parse_requirement(f"it@{name}").holds(self.called)

    @classmethod
    def read(cls, shape: Mapping[str, object]) -> Self:
        """The version that an entry describes. Raises ValueError: it describes none."""
        moment = datetime.fromisoformat(_text(shape, "installedAt"))
        size = shape.get("size")
        if moment.tzinfo is None or type(size) is not int or not 0 <= size <= _LARGEST:
            raise ValueError("a version has no size or no time zone")
        return cls(
            version=_text(shape, "version", _VERSION),
            digest=_text(shape, "digest", _DIGEST),
            package=_text(shape, "package", _DIGEST),
            size=size,
            installed_at=_in_utc(moment),
            declared_version=_optional(shape, "declaredVersion"),
            signer=_optional(shape, "signer"),
            deprecated=_optional(shape, "deprecated"),
            yanked=_optional(shape, "yanked"),
            label=_optional(shape, "label"),
            withdrawn_at=_in_utc(datetime.fromisoformat(when)) if (when := _optional(shape, "withdrawnAt")) else None,
            withdrawn_by=_optional(shape, "withdrawnBy"),
            links=tuple(_kept_link(one) for one in _link_list(shape)),
        )

    def link_digests(self) -> dict[str, int]:
        """The digest and size of what is kept of each address."""
        return {f"sha256:{one.sha256}": one.size for one in self.links if one.sha256}


def _link_list(shape: Mapping[str, object]) -> list[Mapping[str, object]]:
    listed = shape.get("links", [])
    if not isinstance(listed, list) or len(listed) > _MOST_LINKS or not all(isinstance(one, dict) for one in listed):
        raise ValueError("the links of a version are not a list")
    return listed


def _kept_link(shape: Mapping[str, object]) -> KeptLink:
    line, size, sha256 = shape.get("line"), shape.get("size"), shape.get("sha256", "")
    if type(line) is not int or type(size) is not int or not 0 <= size <= _LARGEST_LINK:
        raise ValueError("a link of a version has no line or no size")
    if not isinstance(sha256, str) or (sha256 and not _DIGEST.fullmatch(f"sha256:{sha256}")):
        raise ValueError("a link of a version has no SHA-256")
    words = (_text(shape, "kind"), _text(shape, "address"), _text(shape, "file"))
    return KeptLink(*words, line, sha256, size, _optional(shape, "problem") or "")


@dataclass(frozen=True, slots=True)
class MirroredSkill(WireForm, camel_case=True):
    """One skill: `current` is the current version where the mirror was made, None when it was uninstalled there."""

    skill_id: str
    name: str
    description: str
    current: str | None
    versions: tuple[MirroredVersion, ...]

    def version(self, name: str = "") -> MirroredVersion:
        """The version with this name, by default the current one; else the highest that its publisher calls so, or in a range.

        Raises:
            NoSkillInside: there is none.
            VersionUnusable: its publisher withdrew the one that is called so.
        """
        requested = name or self.current
        version = next((one for one in self.versions if one.version == requested), None)
        if version is not None:
            return version
        called = [one for one in self.versions if name and one.fits(name)]
        called.sort(key=lambda one: (one.yanked is None, version_key(one.called), one.installed_at), reverse=True)
        if not called:
            what = f"no version {name!r}" if name else "no current version"
            raise NoSkillInside(f"the mirror has {what} of {self.skill_id}", hint="`skillyard mirror list` shows what it has")
        if called[0].yanked is not None:
            raise _withdrawn(self.skill_id, called[0])
        return called[0]

    @classmethod
    def read(cls, shape: Mapping[str, object]) -> Self:
        """The skill that an entry describes. Raises ValueError: it describes none."""
        listed = shape.get("versions")
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            raise ValueError("a skill has no list of versions")
        versions = tuple(MirroredVersion.read(one) for one in listed)
        current = _optional(shape, "current")
        if len({one.version for one in versions}) != len(versions):
            raise ValueError("a version is listed twice")
        if current is not None and current not in {one.version for one in versions}:
            raise ValueError("the current version is not listed")
        return cls(_text(shape, "skillId", _ID), _text(shape, "name"), _text(shape, "description"), current, versions)


@dataclass(frozen=True, slots=True)
class MirrorIndex:
    """The skills of a mirror, by id."""

    skills: tuple[MirroredSkill, ...] = ()

    def serving(self) -> tuple[MirroredSkill, ...]:
        """The skills that have a current version."""
        return tuple(skill for skill in self.skills if skill.current)

    def select(self, names: tuple[str, ...]) -> MirrorIndex:
        """Only the skills with these ids or names; all when none is given. Raises NoSkillInside: there is none of a name."""
        listed = {name for skill in self.skills for name in (skill.skill_id, skill.name)}
        if missing := [name for name in names if name not in listed]:
            some = [skill.skill_id for skill in self.skills][:10]
            raise NoSkillInside(f"the mirror has no skill {missing[0]!r}", hint=f"it has {', '.join(some) or 'none'}")
        requested = set(names)
        return MirrorIndex(tuple(skill for skill in self.skills if not requested or requested & {skill.skill_id, skill.name}))

    def packages(self) -> Iterator[tuple[str, int]]:
        """The digest and size in bytes of every package, each once."""
        versions = [one for skill in self.skills for one in skill.versions]
        contents = {digest: size for one in versions for digest, size in one.link_digests().items()}
        yield from sorted((contents | {one.package: one.size for one in versions}).items())

    def to_bytes(self) -> bytes:
        """The list as it is written."""
        skills = [skill.to_dict() for skill in sorted(self.skills, key=lambda skill: skill.skill_id)]
        return (json.dumps({"format": _FORMAT, "skills": skills}, indent=1, ensure_ascii=False) + "\n").encode()

    @classmethod
    def read(cls, data: bytes, location: str) -> Self:
        """The list at `location`. Raises InvalidSource: it is none, or of an unknown form."""
        try:
            shape = json.loads(data)
            if not isinstance(shape, dict) or shape.get("format") != _FORMAT:
                raise ValueError(f"its format is not {_FORMAT!r}")
            if not isinstance(shape.get("skills"), list) or not all(isinstance(one, dict) for one in shape["skills"]):
                raise ValueError("it has no list of skills")
            skills = tuple(MirroredSkill.read(one) for one in shape["skills"])
            if len({skill.skill_id for skill in skills}) != len(skills):
                raise ValueError("a skill is listed twice")
        except (ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
            raise InvalidSource(
                f"{location} is not a mirror: {INDEX_FILE}: {why}", hint="make it again with `skillyard mirror export`"
            ) from None
        return cls(tuple(sorted(skills, key=lambda skill: skill.skill_id)))


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a version was installed at an impossible time") from None


def _text(shape: Mapping[str, object], name: str, form: re.Pattern[str] | None = None) -> str:
    value = shape.get(name)
    if not isinstance(value, str) or len(value) > _LONGEST or (form is not None and not form.fullmatch(value)):
        raise ValueError(f"an entry has no proper {name}")
    return value


def _optional(shape: Mapping[str, object], name: str) -> str | None:
    return _text(shape, name) if shape.get(name) is not None else None


_PACKAGES: Final = "packages"
_TOKEN: Final = "SKILLYARD_MIRROR_TOKEN"  # noqa: S105 # the name of a variable
Download = Callable[[str, int], bytes]
"""What is at an address, at most so many bytes."""


class MirrorSource(Protocol):
    """A mirror that can be read."""

    def index(self) -> MirrorIndex:
        """What it holds.

        Raises:
            InvalidSource: it is not a mirror.
            StoreFailed, NetworkFailed, NetworkRefused: it cannot be read.
        """

    def package(self, digest: str) -> bytes:
        """The package with this digest, verified.

        Raises:
            PackageMissing, DigestMismatch: it is not there, or is another.
            StoreFailed, NetworkFailed, NetworkRefused: it cannot be read.
        """


class StoredMirror:
    """A mirror in a folder or a bucket, given by its address: a path, or `s3://bucket/prefix`.

    Raises:
        StoreFailed: it cannot be read or written.
    """

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._packages: Store = open_store(f"{self.address}/{_PACKAGES}")
        self._files: Store = open_store(self.address)

    def index(self) -> MirrorIndex:
        """As `MirrorSource.index`."""
        index = self.find()
        if index is None:
            raise InvalidSource(
                f"{shown_address(self.address)} is not a mirror: it has no {INDEX_FILE}",
                hint="`skillyard mirror export` makes one",
            )
        return index

    def find(self) -> MirrorIndex | None:
        """As `index`; None when there is no mirror yet."""
        try:
            data = self._files.read_file(INDEX_FILE, INDEX_LIMIT)
        except FileTooLarge as error:
            raise InvalidSource(
                f"{shown_address(self.address)} is not a mirror: {error.message}", hint="check the path"
            ) from None
        return None if data is None else MirrorIndex.read(data, shown_address(self.address))

    def package(self, digest: str) -> bytes:
        """As `MirrorSource.package`."""
        return self._packages.get(digest)

    def has(self, digest: str) -> bool:
        """Whether there is a package with this digest."""
        return self._packages.has(digest)

    def put(self, digest: str, data: bytes) -> None:
        """Keep a package."""
        self._packages.put(data, digest)

    def write_index(self, index: MirrorIndex) -> None:
        """Write what it holds, in one step."""
        self._files.write_file(INDEX_FILE, index.to_bytes())


class WebMirror:
    """A mirror that a web server gives out below `address`; `open_mirror` gives it the token of its host."""

    def __init__(self, address: str, download: Download) -> None:
        self.address = address.rstrip("/") + "/"
        self._download = download

    def index(self) -> MirrorIndex:
        """As `MirrorSource.index`."""
        return MirrorIndex.read(self._download(urljoin(self.address, INDEX_FILE), INDEX_LIMIT), shown_address(self.address))

    def package(self, digest: str) -> bytes:
        """As `MirrorSource.package`."""
        name = digest_hex(digest)
        data = self._download(urljoin(self.address, f"{_PACKAGES}/{name[:2]}/{name[2:]}"), PackageLimits().total)
        check_content(data, digest)
        return data


def open_mirror(address: str, *, allow_private: bool = False, logins: Logins | None = None) -> MirrorSource:
    """The mirror at a path, at `s3://…` or at an address of the web.

    To an address of the web the token that `$SKILLYARD_MIRROR_TOKEN` names for its host is sent as a bearer token, else the
    key of the login for it; a server that one is logged in to may have a private address.

    Raises:
        InvalidConfiguration: it is another kind of address, or the variable names a token without its host.
    """
    if address.startswith(("https://", "http://")):
        from skillyard.registry.source_host_policy import download

        login = logins.find(address) if logins is not None else None
        token = _token_of(address, os.environ.get(_TOKEN, "")) or (login.key if login else None)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        options: dict[str, Any] = {"allow_private": allow_private, "allow_origin": login is not None, "headers": headers}
        return WebMirror(address, lambda url, limit: download(url, limit=limit, **options))
    return StoredMirror(address)


def open_mirror_target(address: str) -> StoredMirror:
    """The mirror at a path or at `s3://…`, to be written. Raises InvalidSource: nothing can be written there."""
    if address.startswith(("https://", "http://")):
        raise InvalidSource(f"nothing can be written to {shown_address(address)}", hint="name a folder, or s3://bucket/prefix")
    return StoredMirror(address)


def _token_of(address: str, tokens: str) -> str | None:
    """The token for the host of `address`, of those in `tokens`: `HOST[:PORT]=TOKEN`, separated by blanks.

    Requests to a host use https; `http://HOST:PORT=TOKEN` sends a token without encryption.

    Raises:
        InvalidConfiguration: a token has no host; the message does not repeat it.
    """
    from skillyard.network.hosts import read_destination

    destination = read_destination(address)
    match = None
    for entry in tokens.split():
        host, _, token = entry.partition("=")
        try:
            given = read_destination(host if "://" in host else f"https://{host}")
        except InvalidInput:
            given = None
        if given is None or given.target != "/" or not token or not (token.isascii() and token.isprintable()):
            raise InvalidConfiguration(
                f"{_TOKEN} has a token that names no host", hint=f"{_TOKEN}=HOST=TOKEN, several separated by blanks"
            )
        if (given.scheme, given.authority) == (destination.scheme, destination.authority):
            match = token
    return match


def _refuse_withdrawn(skill: MirroredSkill) -> None:
    """Refuse a skill whose current or, where none is current, newest version was yanked where the mirror was made.

    Raises:
        VersionUnusable: it was.
    """
    newest = max(skill.versions, key=lambda version: version.installed_at, default=None)
    version = next((one for one in skill.versions if one.version == skill.current), newest)
    if version is not None and version.yanked is not None:
        raise _withdrawn(skill.skill_id, version)


def _withdrawn(skill_id: str, version: MirroredVersion) -> VersionUnusable:
    return VersionUnusable(
        f"{skill_id} {version.called} was {version.withdrawal}",
        hint="wait for another version, or install a file of it that you have",
    )


def _content(mirror: MirrorSource, link: KeptLink) -> bytes:
    """What a mirror holds of an address. Raises DigestMismatch: it is something else than it lists."""
    data = mirror.package(f"sha256:{link.sha256}")
    check_content(data, f"sha256:{link.sha256}")
    return data


@dataclass(frozen=True, slots=True)
class MirrorFetcher:
    """Fetches from mirrors: `address` is the mirror's, `path` one skill's id, `ref` a version, else the current one."""

    open: Callable[[str], MirrorSource]
    limits: PackageLimits

    def fetch(self, source: Source, into: Path) -> FetchedTree:
        """As `Fetcher.fetch`; of several skills each is a folder of the tree, named by its id."""
        mirror = self.open(source.address)
        names = (source.path,) if source.path else source.names
        skills = mirror.index().select(names)
        tree = into / f"mirror-{os.urandom(4).hex()}"
        tree.mkdir()
        kept: dict[str, tuple[tuple[KeptLink, ...], Mapping[str, bytes]]] = {}
        called: dict[str, str] = {}
        for skill in skills.skills if names else _with_version(skills, source.ref):
            if not source.ref:
                _refuse_withdrawn(skill)
            listed = skill.version(source.ref)
            self._unpack(mirror, skill, listed, tree / skill.skill_id, into)
            called[skill.skill_id] = listed.label or ""
            if links := listed.links:
                kept[skill.skill_id] = links, {one.sha256: _content(mirror, one) for one in links if one.sha256}
        chosen = tree / source.path if source.path else tree
        exact = any(source.ref == one.version for skill in skills.skills for one in skill.versions)
        origin = Origin("mirror", source.address, path=source.path, ref="" if exact else source.ref, versions=called)
        return FetchedTree(chosen, origin, owned=True, chosen=True, links=kept)

    def _unpack(self, source: MirrorSource, skill: MirroredSkill, listed: MirroredVersion, target: Path, into: Path) -> None:
        archive = into / f"{target.name}.package.zip"
        archive.write_bytes(source.package(listed.package))
        tree = Path(extract(archive, into, self.limits).tree)
        archive.unlink()
        digest = tree_digest(tree) if (tree / "SKILL.md").is_file() else None
        if digest is None:
            raise InvalidSource(f"the package of {skill.skill_id} in the mirror is not a skill", hint="make the mirror again")
        if digest != listed.digest:
            raise DigestMismatch(
                f"{skill.skill_id} {listed.version} is not what the mirror lists",
                hint="write the mirror again; `skillyard mirror export` checks existing packages",
                expected=listed.digest,
                found=digest,
            )
        if (found := _declared(tree)) != listed.declared_version:
            raise DigestMismatch(
                f"the mirror lists {skill.skill_id} {listed.version} as version {listed.declared_version or '(none)'},"
                f" and its SKILL.md says {found or '(none)'}",
                hint="nothing was installed; make the mirror again, or ask who runs it",
                expected=listed.declared_version,
                found=found,
            )
        tree.rename(target)


def _with_version(index: MirrorIndex, ref: str) -> tuple[MirroredSkill, ...]:
    """The skills that serve; with a version those that have it. Raises NoSkillInside: none has."""
    if not ref:
        return index.serving()
    having = tuple(skill for skill in index.serving() if any(ref == one.version or one.fits(ref) for one in skill.versions))
    if not having:
        raise NoSkillInside(f"no skill of the mirror has a version {ref}", hint="`skillyard mirror list` shows what it has")
    return having


def _declared(tree: Path) -> str | None:
    """The version that the SKILL.md in a folder declares."""
    return next((skill.version for skill in find_skills(tree) if skill.path == "."), None)
