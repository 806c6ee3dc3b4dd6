"""Where a package may come from, as a person writes it (`resolve` fetches nothing), and addresses without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote, unquote

from skillyard.errors import InvalidInput, InvalidSource
from skillyard.wire import WireForm, wire

_SECRET: Final = re.compile(
    r"token|secret|passw|pwd|auth|credential|signature|session|jwt|(?:^|[^a-z])(?:sig|key|pass|apikey)(?:[^a-z]|$)",
    re.IGNORECASE,
)
_REVISION: Final = re.compile(r"(?:at|ref|sha|rev|revision|commit|version|v|id)", re.IGNORECASE)
_IF_ANY: Final = wire(omit_empty=True)
_LOOKS_RANDOM: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+=~-]{20,}|eyJ[A-Za-z0-9_.-]+")


def shown_address(text: str) -> str:
    """An address as it may be shown: without its query, and without a user's name and password; other text as it is.

    >>> shown_address("https://me:word@example.com/a.zip?token=x")
    'https://example.com/a.zip'
    """
    scheme, mark, rest = text.partition("://")
    if not mark:
        return text
    authority, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    host = authority if scheme == "ssh" and ":" not in authority.rpartition("@")[0] else authority.rpartition("@")[2]
    return f"{scheme}://{host}{slash}{path}"


def without_secrets(address: str) -> str:
    """An address as it may be kept: what in its query is called or looks like a secret is taken out, the rest stays.

    >>> without_secrets("https://example.com/get?id=5&token=abc")
    'https://example.com/get?id=5'
    """
    bare, mark, query = address.partition("?")
    if not mark or "://" not in bare:
        return address
    kept = [part for part in query.split("&") if not _is_secret(part)]
    return bare + (f"?{'&'.join(kept)}" if kept else "")


def _is_secret(part: str) -> bool:
    name, _, value = part.partition("=")
    if _SECRET.search(name):
        return True
    return bool(_LOOKS_RANDOM.fullmatch(value or name)) and not _REVISION.fullmatch(name)


SourceKind = Literal["folder", "archive", "git", "address", "well-known", "mirror", "upload", "extension", "oci"]
"""`address`: something on the web that shows what it is when it is read: an archive, a SKILL.md, a manifest or a catalog.
`upload`: an archive that was sent and is deleted afterwards; its origin only has the name of the file.
`extension`: what an extension of that name fetches, `NAME:REFERENCE`.
`oci`: a repository of an OCI registry, `oci://HOST/REPOSITORY` (`oci+http://`: unencrypted); `ref` is a tag or a digest."""


@dataclass(frozen=True, slots=True)
class Source(WireForm):
    """Where to fetch from.

    `address` is a path, a URL or a git remote; `path` a folder in it; `ref` a branch, tag or commit, of a site with an index
    a version or a range of versions, empty for the usual one; `names` the requested skills, all when empty. Its publisher may
    give it a `version`, which a lock keeps of a site with an index, and describe what is new in `notes`. `edits` is the
    install version that an adopted edit of this machine was made of.
    """

    kind: SourceKind
    address: str
    path: str = field(default="", metadata=_IF_ANY)
    ref: str = field(default="", metadata=_IF_ANY)
    names: tuple[str, ...] = field(default=(), metadata=wire(hidden=True))
    version: str = field(default="", metadata=_IF_ANY)
    notes: str = field(default="", metadata=wire(hidden=True))
    edits: str = field(default="", metadata=wire(hidden=True))


@dataclass(frozen=True, slots=True)
class Origin(WireForm):
    """Where a package came from: enough to fetch the same again.

    `sha256` is `sha256:…` of the archive or file that was downloaded, `commit` the full id of a git commit or the digest of the
    manifest in an OCI registry, `version` what an
    index, a manifest or the publisher gives, `notes` what is new in it, `edits` as in `Source`.
    `manifest` is what a published manifest says of it, and
    `manifest_url` where that is; `listed` has both for each folder of a tree that a list led to, and `versions` what it calls
    the version of each, until its skills are staged.
    What in the query of `address` may be a secret is not kept.
    """

    kind: SourceKind
    address: str
    path: str = field(default="", metadata=_IF_ANY)
    ref: str = field(default="", metadata=_IF_ANY)
    commit: str = field(default="", metadata=_IF_ANY)
    sha256: str = field(default="", metadata=_IF_ANY)
    version: str = field(default="", metadata=_IF_ANY)
    notes: str = field(default="", metadata=_IF_ANY)
    edits: str = field(default="", metadata=_IF_ANY)
    manifest_url: str = field(default="", metadata=_IF_ANY)
    manifest: Mapping[str, object] = field(default_factory=dict, hash=False, metadata=_IF_ANY)
    listed: Mapping[str, tuple[str, Mapping[str, object]]] = field(
        default_factory=dict, hash=False, compare=False, repr=False, metadata=wire(hidden=True)
    )
    versions: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False, repr=False, metadata=wire(hidden=True))

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", without_secrets(self.address))
        object.__setattr__(self, "manifest_url", without_secrets(self.manifest_url) if self.manifest_url else "")


_SHORT: Final = re.compile(
    r"(?P<owner>[A-Za-z0-9][A-Za-z0-9-]{0,38})/(?P<repo>[A-Za-z0-9._-]{1,100})(?P<path>(?:/[^@\s:]+)?)(?:@(?P<ref>[^\s:]+))?"
)
_SCP: Final = re.compile(r"(?P<user>[A-Za-z0-9._-]+)@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?P<path>[^\s:][^\s]*)")
_TREE: Final = re.compile(
    r"https://(?P<host>[^/?#@]+)/(?P<repo>[^?#]+?)(?:/-)?/(?:tree|blob)/(?P<ref>[^/?#]+)(?:/(?P<path>[^?#]*))?"
)
SHARED_SITES: Final = ("github.com", "gitlab.com", "codeberg.org", "bitbucket.org")
"""Sites on which many people have repositories, each below a name of their own."""
_REF: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+-]{0,199}")
_INDEX_PATH: Final = r"(?:[^?#@]*/)?\.well-known/agent-skills/(?:v[^/?#@]+/)?index\.json"
_SITE: Final = re.compile(rf"(?:@[^/?#@]+)?/?|{_INDEX_PATH}")
"""The paths, without their first slash, at which a site publishes: its root, that of one skill (`@NAME`), or an index."""
_SITE_VERSION: Final = re.compile(
    rf"(?P<site>https?://[A-Za-z0-9.-]+(?::[0-9]{{1,5}})?(?:/(?:@[^/?#@]+|{_INDEX_PATH})?)?)"
    r"@(?P<version>v?[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]{1,80})?|[\^~<>=][\^~<>=0-9A-Za-z.,*+-]{1,80})",
    re.IGNORECASE,
)
_OCI: Final = re.compile(
    r"(?P<scheme>oci(?:\+http)?)://(?P<host>[A-Za-z0-9.-]+)(?P<port>:[0-9]{1,5})?"
    r"/(?P<repository>[a-z0-9._-]+(?:/[a-z0-9._-]+)*)(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_OCI_NAME: Final = re.compile(r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*")
_OCI_HINT: Final = "as in oci://registry.example.com/team/skill:1.0, or @sha256: and 64 hex digits in place of the tag"
_SOURCE_FORMS: Final = (
    "a folder, an archive, owner/repo[/path][@ref], a git address, an https address, or oci://host/repository:tag"
)


def resolve(source: str | Source, *, names: Sequence[str] = ()) -> Source:
    """Read what a person wrote; a path that exists is taken before a shorthand of the same form. A `Source` stays as it is.

    Raises:
        InvalidSource: it cannot be understood, or names a way that is closed (`ext::`, `file://`, options).
    """
    if isinstance(source, Source):
        return source
    text = source.strip()
    if not text or text.startswith("-") or not text.isprintable():
        raise InvalidSource(f"{source[:100]!r} is not a source", hint=f"a source is {_SOURCE_FORMS}")
    readers = (_local_source, _web_source, _oci_source, _extended_source, _ssh_source, _shorthand)
    parsed = next((found for read in readers if (found := read(text)) is not None), None)
    if parsed is None:
        raise InvalidSource(
            f"{_without_secret(text)!r} is neither an existing path nor an address", hint=f"a source is {_SOURCE_FORMS}"
        )
    return replace(parsed, names=tuple(names))


def is_shorthand(source: str) -> bool:
    """Whether it is written as owner/repo, which may also be meant as a folder that is not there."""
    return _SHORT.fullmatch(source.strip()) is not None


def _local_source(text: str) -> Source | None:
    path = Path(text).expanduser()
    if "::" in text or text.lower().startswith("file:"):
        raise InvalidSource(
            f"{shown_address(text)[:100]!r} is not fetched", hint="name the folder itself, or an https or ssh address"
        )
    if "://" in text:
        return None
    if path.is_dir():
        return Source("folder", str(path.resolve()))
    if path.is_file():
        return Source("archive", str(path.resolve()))
    if path.exists():
        raise InvalidSource(
            f"{text!r} is a pipe or a device, which cannot be read again for an update",
            hint="save what it gives to a file, or name the address that it comes from",
        )
    _refuse_ref(text)
    if text.startswith(("/", "./", "../", "~")):
        raise InvalidSource(f"there is no {text!r}", hint="check the path")
    return None


def _refuse_ref(text: str) -> None:
    """A folder of this machine has no versions to choose from. Raises InvalidSource: it is `folder@ref`."""
    folder, _, ref = text.rpartition("@")
    if folder and ":" not in ref and Path(folder).expanduser().is_dir():
        raise InvalidSource(
            f"{folder!r} is a folder on this machine: it is installed as it is, without looking for {ref!r}",
            hint=f"have that version in a folder of its own, and install that: git -C {folder} worktree add FOLDER {ref}",
        )


def _web_source(text: str) -> Source | None:
    git = text.startswith("git+")
    address = text.removeprefix("git+")
    if not re.match(r"https?://", address, re.IGNORECASE):
        return None
    address, _, fragment = address.partition("#")
    if not git and (versioned := _SITE_VERSION.fullmatch(address)):
        _check_address(versioned["site"])
        return Source("well-known", versioned["site"], ref=versioned["version"].removeprefix("v"))
    _check_address(address)
    if tree := _TREE.fullmatch(address):
        if not tree["host"].endswith(SHARED_SITES) and not git:
            return Source("address", address)
        return _in_repository(f"https://{tree['host']}/{tree['repo']}", tree["path"] or "", tree["ref"])
    host, _, path = address.partition("://")[2].partition("/")
    ref_at = re.fullmatch(r"(.+\.git)@([^/]+)", address)
    if ref_at:
        return _git(ref_at[1], "", ref_at[2])
    parts = [part for part in path.split("/") if part]
    if git or path.endswith(".git") or (host.lower() in SHARED_SITES and len(parts) == 2):
        return _git(address.rstrip("/"), "", fragment)
    if _SITE.fullmatch(path):
        return Source("well-known", address)
    return Source("address", address)


def _oci_source(text: str) -> Source | None:
    """A digest is more exact than the tag before it, which is left out then."""
    if not re.match(r"oci(?:\+[a-z]+)?://", text, re.IGNORECASE):
        return None
    match = _OCI.fullmatch(text)
    if match is None or len(match["repository"]) > 255 or not all(map(_OCI_NAME.fullmatch, match["repository"].split("/"))):
        raise InvalidSource(f"{_without_secret(text)!r} does not name a repository of an OCI registry", hint=_OCI_HINT)
    authority = match["host"].lower() + (match["port"] or "")
    _check_address(f"https://{authority}/")
    return Source("oci", f"{match['scheme']}://{authority}/{match['repository']}", ref=match["digest"] or match["tag"] or "")


def _extended_source(text: str) -> Source | None:
    """`NAME:REFERENCE`, where an installed extension reads sources of that name."""
    name, colon, reference = text.partition(":")
    if not colon or not reference or reference.startswith("//"):
        return None
    from skillyard.extensions import Extensions  # only for what looks like one

    if not any(one.kind == "source" and one.name == name for one in Extensions.every()):
        return None
    return Source("extension", text)


def _in_repository(repository: str, path: str, ref: str) -> Source:
    path = unquote(path).strip("/")
    if path == "SKILL.md" or path.endswith("/SKILL.md"):
        path = path.removesuffix("SKILL.md").rstrip("/")
    return _git(repository, path, unquote(ref))


def _ssh_source(text: str) -> Source | None:
    address = text.removeprefix("git+")
    if re.match(r"ssh://", address, re.IGNORECASE):
        address, _, ref = address.partition("#")
        if not re.fullmatch(
            r"ssh://(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?/[^\s?#:]+", address, re.IGNORECASE
        ):
            raise InvalidSource(
                f"{_without_secret(address)!r} is not an ssh address", hint="as in ssh://git@host/owner/repo.git"
            )
        return _git(address, "", ref)
    if match := _SCP.fullmatch(address):
        path, _, ref = match["path"].partition("#")
        return _git(f"ssh://{match['user']}@{match['host']}/{path.lstrip('/')}", "", ref)
    if "://" in text:
        scheme = text.partition("://")[0][:20]
        raise InvalidSource(f"addresses of the kind {scheme}:// are not fetched", hint="use https:// or ssh://")
    return None


def _shorthand(text: str) -> Source | None:
    match = _SHORT.fullmatch(text)
    if not match:
        return None
    return _git(
        f"https://github.com/{match['owner']}/{match['repo'].removesuffix('.git')}",
        match["path"].strip("/"),
        match["ref"] or "",
    )


def _git(address: str, path: str, ref: str) -> Source:
    if ref and (not _REF.fullmatch(ref) or ".." in ref or ref.endswith((".lock", "/", ".")) or "//" in ref):
        raise InvalidSource(f"{ref[:100]!r} is not a branch, a tag or a commit", hint="as in owner/repo@v1.2")
    if path:
        from skillyard.errors import PathRefused
        from skillyard.paths import safe_relative

        try:
            path = safe_relative(path)
        except PathRefused as error:
            raise InvalidSource(error.message, hint="name a folder in the repository") from None
    return Source("git", address, path, ref)


def _check_address(address: str) -> None:
    from skillyard.network.hosts import read_destination

    if "@" in address.partition("://")[2].partition("/")[0]:
        raise InvalidSource(
            "a user name or password in an address is not used", hint="leave it out; private repositories go by ssh"
        )
    try:
        read_destination(address)
    except InvalidInput as error:
        raise InvalidSource(error.message, hint=error.hint) from None


def _without_secret(text: str) -> str:
    return quote(re.sub(r"//[^/@]*@", "//", text.partition("?")[0])[:200], safe="/:@._-~+ ")
