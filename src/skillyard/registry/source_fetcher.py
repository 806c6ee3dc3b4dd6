"""Fetch a source: a folder, an archive, a git repository, a file on the web, an index, a mirror, an OCI registry.

A `Fetcher` takes a `Source` and gives a tree to look for skills in. Network failures are retried, refusals are not.
Of a git repository one commit is read, without history, hooks, links, submodules, filters or the user's settings. Nothing is
checked out: it is read object by object and written by the rules of packages, so that attributes and filters have no effect.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, cast

from skillyard.errors import ArchiveTooLarge, InvalidSource, LinkNotAllowed, NetworkFailed, SkillyardError, TooManyFiles
from skillyard.extensions import NO_EXTENSIONS, Extensions
from skillyard.packages import Origin, PackageLimits, Source, SourceKind, digest_of, extract, shown_address
from skillyard.registry.registry_values import FetchedTree, Fetcher, SkillVersion
from skillyard.registry.source_host_policy import address_of_owner, among_shared, checked_repository, repository_redirect

if TYPE_CHECKING:
    from skillyard.registry.logins import Logins
    from skillyard.registry.mirror_locations import MirrorSource
    from skillyard.registry.resource_catalogs import ListedResource

_TIMEOUT_S: Final = 120
_LIMITS: Final = PackageLimits(total=512 * 1024 * 1024, entries=20_000)
"""Of everything below the requested folder; each skill in it is held to the usual limits."""
_BLOCKS: Final = 2 * _LIMITS.total // 512
"""The largest file that git may write: a pack of unrequested history ends here, not when the disk is full."""
_BOUNDED: Final = ("/bin/sh", "-c", f'ulimit -f {_BLOCKS} && exec "$@"', "sh")
_MAX_LISTED: Final = 200_000
"""Of a commit that is installed from; what is kept of it is held to `_LIMITS`."""
_MAX_LIST_BYTES: Final = 32 * 1024 * 1024
_CHUNK: Final = 64 * 1024
_TOO_LARGE: Final = re.compile(rb"File too large|died of signal %d" % signal.SIGXFSZ)
_SAFE: Final = (
    "protocol.ext.allow=never", "core.hooksPath=/dev/null", "core.symlinks=false", "core.fsmonitor=false",
    "submodule.recurse=false", "credential.helper=", "gc.auto=0", "transfer.fsckObjects=true",
)  # fmt: skip
_NETWORK: Final = re.compile(
    r"could not resolve|timed out|connection (?:reset|refused|closed)|network is unreachable|unexpected disconnect|early EOF"
    r"|temporary failure",
    re.IGNORECASE,
)
_REDIRECTED: Final = re.compile(r"returned error: 30[12378]\b")
_MAX_REDIRECTS: Final = 5
_QUERY: Final = re.compile(r"(?<=[^\s'])\?[^\s']*(?=/?'|\s|$)")
_FULL_ID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class _Blob(NamedTuple):
    mode: str
    id: str
    path: str


class _RepositoryMoved(InvalidSource):
    """The repository is somewhere else now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitFetcher:
    """Fetches repositories by https and ssh; with `local` also by a path on this machine, for tests and mirrors.

    Addresses of this machine and of private networks are only contacted with `allow_private`, and then without encryption too.
    """

    local: bool = False
    allow_private: bool = False

    def fetch(self, source: Source, into: Path) -> FetchedTree:
        """As `Fetcher.fetch`: the files of the commit at `source.ref`, below `source.path`."""
        repository = into / f"git-{os.urandom(4).hex()}"
        self._call(into, "init", "--quiet", "--bare", "--template=", str(repository))
        stands_at = self._bring(repository, source.address, source.ref or "HEAD")
        commit = self._call(repository, "rev-parse", "--verify", "FETCH_HEAD^{commit}").decode().strip()
        if _FULL_ID.fullmatch(source.ref) and commit != source.ref:
            raise InvalidSource(f"{shown_address(source.address)} gave another commit than {source.ref}", hint="fetch it again")
        blobs = self._blobs(repository, commit, source)
        tree = self._written(repository, blobs, into)
        return FetchedTree(tree, Origin("git", stands_at, source.path, source.ref, commit), owned=True)

    def _bring(self, repository: Path, asked: str, revision: str) -> str:
        """Fetch one commit, from where the repository is now; gives the address it is recorded with (`address_of_owner`)."""
        address = asked
        for _ in range(_MAX_REDIRECTS + 1):
            remote, settings = (address, ()) if self.local else checked_repository(address, allow_private=self.allow_private)
            pinned = [word for setting in settings for word in ("-c", setting)]
            how = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
            try:
                self._call(repository, *pinned, "fetch", *how, "--", remote, revision)
                return address_of_owner(asked, (address,))
            except _RepositoryMoved:
                address = repository_redirect(remote, allow_private=self.allow_private)
        raise InvalidSource(f"{shown_address(address)} redirects in a loop", hint="check the address")

    def _blobs(self, repository: Path, commit: str, source: Source) -> list[_Blob]:
        """Every file in the folders that hold a skill; links and submodules elsewhere do not matter."""
        where = f"{commit}:{source.path}" if source.path else commit
        try:
            listed = self._listed(repository, where)
        except InvalidSource:
            raise InvalidSource(
                f"there is no folder {source.path!r} in {shown_address(source.address)}", hint="check the path"
            ) from None
        blobs = [_blob(line) for line in listed.decode("utf-8", "surrogateescape").split("\0") if line]
        folders = {blob.path.removesuffix("SKILL.md") for blob in blobs if _is_skill(blob)}
        mine = [blob for blob in blobs if any(blob.path.startswith(folder) for folder in folders)]
        for blob in mine:
            if blob.mode in ("120000", "160000"):
                noun = "a link" if blob.mode == "120000" else "another repository"
                raise LinkNotAllowed(f"{blob.path!r} is {noun}", hint="put the files themselves there", entry=blob.path)
        return mine

    def _listed(self, repository: Path, where: str) -> bytes:
        """What git lists of a tree, read only so far: a few small trees that name each other list without an end."""
        with subprocess.Popen(  # noqa: S603 # a fixed program, an id and a path that begins with one
            [*_BOUNDED, *self._command(repository), "ls-tree", "-r", "-z", where], env=self._environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            ending = threading.Timer(_TIMEOUT_S, process.kill)
            ending.start()
            try:
                return _within_bounds(process)
            finally:
                ending.cancel()
                process.kill()

    def _written(self, repository: Path, blobs: list[_Blob], into: Path) -> Path:
        from skillyard.packages.archive_entries import new_staging

        with new_staging(into, _LIMITS) as writer, _BlobReader(self._command(repository), self._environment()) as objects:
            for blob in sorted(blobs, key=lambda blob: blob.path):
                writer.file(blob.path, objects.content(blob.id), executable=blob.mode == "100755")
        return Path(writer.path)

    def _command(self, folder: Path) -> list[str]:
        settings = [*_SAFE, f"protocol.file.allow={'always' if self.local else 'never'}"]
        return ["git", "-C", str(folder), *(word for setting in settings for word in ("-c", setting))]

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "SSH_AUTH_SOCK", "SSL_CERT_FILE") if name in os.environ}
        return kept | {
            "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes", "GIT_ASKPASS": "", "LC_ALL": "C", "GIT_NO_REPLACE_OBJECTS": "1",
        }  # fmt: skip

    def _call(self, folder: Path, *words: str) -> bytes:
        try:
            done = subprocess.run(  # noqa: S603 # a fixed program, arguments behind --
                [*_BOUNDED, *self._command(folder), *words], env=self._environment(), capture_output=True, timeout=_TIMEOUT_S,
                check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise NetworkFailed(f"git took over {_TIMEOUT_S} seconds", hint="try again, or install from an archive") from None
        if done.returncode == 0:
            return done.stdout
        if done.returncode == -signal.SIGXFSZ or _TOO_LARGE.search(done.stderr):
            raise ArchiveTooLarge(
                f"the repository is over {2 * _LIMITS.total >> 20} MB in one commit",
                hint="install from an archive of the skill",
                limit=2 * _LIMITS.total,
            )
        if done.returncode == 127:
            raise InvalidSource("git is not installed", hint="install git, or install from an archive")
        stderr = _QUERY.sub("", " ".join(done.stderr.decode("utf-8", "replace").split()))[-300:]
        if _REDIRECTED.search(stderr):
            raise _RepositoryMoved(f"git refused: {stderr}", hint="use the address it has now")
        if _NETWORK.search(stderr):
            raise NetworkFailed(f"git could not reach it: {stderr}", hint="check the network and try again")
        raise InvalidSource(f"git refused: {stderr}", hint="check the address, the branch or tag, and that you may read it")


def _within_bounds(process: subprocess.Popen[bytes]) -> bytes:
    """All entries of a listing.

    Raises:
        TooManyFiles: it has more entries, or longer paths, than any repository that is installed from.
        InvalidSource: git failed.
    """
    assert process.stdout is not None  # noqa: S101 # it is a pipe
    listed, entries = bytearray(), 0
    while piece := os.read(process.stdout.fileno(), _CHUNK):
        listed += piece
        entries += piece.count(b"\0")
        if entries > _MAX_LISTED or len(listed) > _MAX_LIST_BYTES:
            raise TooManyFiles(
                f"the repository has more than {_MAX_LISTED:,} files, or {_MAX_LIST_BYTES >> 20} MB of paths, in one commit",
                hint="name the folder of the skill (owner/repo/path), or install from an archive of it",
                limit=_MAX_LISTED,
            )
    if process.wait() != 0:
        raise InvalidSource("git could not list the commit", hint="check the address and the path")
    return bytes(listed)


class _BlobReader:
    """The contents of objects, read by one process."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 # a fixed program
            [*command, "cat-file", "--batch"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def content(self, object_id: str) -> Iterator[bytes]:
        """The bytes of one object, in pieces."""
        sink, source = self._process.stdin, self._process.stdout
        if sink is None or source is None:
            raise InvalidSource("git ended", hint="try again")
        sink.write(f"{object_id}\n".encode())
        sink.flush()
        head = source.readline().split()
        if len(head) != 3:
            raise InvalidSource("the repository lacks a file that its commit names", hint="fetch it again")
        left = int(head[2])
        while left:
            piece = source.read(min(left, 256 * 1024))
            if not piece:
                raise InvalidSource("git ended in the middle of a file", hint="try again")
            left -= len(piece)
            yield piece
        source.read(1)


def _blob(line: str) -> _Blob:
    head, _, path = line.partition("\t")
    mode, _, object_id = head.split(" ")
    return _Blob(mode, object_id, path)


def _is_skill(blob: _Blob) -> bool:
    return blob.mode.startswith("100") and (blob.path == "SKILL.md" or blob.path.endswith("/SKILL.md"))


_ATTEMPTS: Final = 3
_MAX_ANSWER: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFetcher:
    """The usual fetcher: folders and archives of this machine, git by https or ssh, all else by https.

    Addresses of this machine and of private networks are only contacted with `allow_private`, and then without encryption too.
    A server of `logins` is contacted wherever it is, with its key, and its own address means the mirror that it gives out.
    To OCI registries the logins of this machine's user are sent, unless `own_credentials` is false.
    """

    limits: PackageLimits = field(default_factory=PackageLimits)
    others: Mapping[SourceKind, Fetcher] = field(default_factory=dict)
    allow_private: bool = False
    logins: Logins | None = None
    own_credentials: bool = True
    extensions: Extensions = NO_EXTENSIONS
    sleep: Callable[[float], object] = time.sleep

    def fetch(self, source: Source, into: Path) -> FetchedTree:
        """As `Fetcher.fetch`."""
        other = self.others.get(source.kind)
        if other is None and source.kind == "folder":
            return FetchedTree(_inside(Path(source.address), source.path), _origin(source), owned=False)
        if other is None and source.kind in ("archive", "upload"):
            return self._unpacked(Path(source.address), source, into)
        if other is None and source.kind == "extension":
            return self._extended(source, into)
        source = self._at_login(source)
        remote = {"git": self._cloned, "mirror": self._mirrored, "address": self._downloaded, "oci": self._pulled}
        fetch = other.fetch if other else remote.get(source.kind, self._indexed)
        return _with_retries(lambda: fetch(source, into), self.sleep)

    def _extended(self, source: Source, into: Path) -> FetchedTree:
        """What an extension writes into a new folder; it is checked as a folder of this machine is."""
        name, _, reference = source.address.partition(":")
        extension = self.extensions.find("source", name)
        if extension is None:
            raise InvalidSource(
                f"the extension source:{name} is not used here",
                hint="the user of this machine can install with it, unless [extensions] of their settings switches it off",
            )
        tree = _new_folder(into)
        try:
            version = extension.load()(reference, str(tree))
        except SkillyardError:
            raise
        except Exception as error:  # whatever an extension raises
            raise extension.failed(error) from error
        if not any(tree.iterdir()):
            raise extension.failed(f"it fetched nothing for {reference[:100]!r}")
        return FetchedTree(tree, _origin(source, version=str(version or "")), owned=False)

    def _cloned(self, source: Source, into: Path) -> FetchedTree:
        return GitFetcher(allow_private=self.allow_private).fetch(source, into)

    def _at_login(self, source: Source) -> Source:
        """The mirror of the server that one is logged in to, where a source is its own address."""
        if source.kind != "well-known" or self.logins is None:
            return source
        login = self.logins.find(source.address)
        if login is None or source.address.rstrip("/") != login.server:
            return source
        return replace(source, kind="mirror", address=f"{login.server}/mirror")

    def mirror(self, address: str) -> MirrorSource:
        """The mirror at an address, with the key of the login for it.

        Raises:
            InvalidConfiguration: as `open_mirror`.
        """
        from skillyard.registry.mirror_locations import open_mirror

        return open_mirror(address, allow_private=self.allow_private, logins=self.logins)

    def _mirrored(self, source: Source, into: Path) -> FetchedTree:
        from skillyard.registry.mirror_locations import MirrorFetcher

        return MirrorFetcher(self.mirror, self.limits).fetch(source, into)

    def _pulled(self, source: Source, into: Path) -> FetchedTree:
        from skillyard.registry.oci_artifacts import OciFetcher
        from skillyard.registry.oci_registry import find_credentials, no_credentials

        credentials = find_credentials if self.own_credentials else no_credentials
        fetcher = OciFetcher(limits=self.limits, allow_private=self.allow_private, credentials=credentials)
        return fetcher.fetch(source, _new_folder(into))

    def _indexed(self, source: Source, into: Path) -> FetchedTree:
        """The skills of a site: of its index, or where it has none of its ARD catalog."""
        from skillyard.registry.resource_catalogs import catalog_address, fetch_resources, read_resources
        from skillyard.registry.skill_indexes import fetch_index

        try:
            tree, origin = fetch_index(source, _new_folder(into), self._download, self.limits)
        except InvalidSource as error:
            if source.ref or error.details.get("answered") not in (404, 410):
                raise
            where = catalog_address(source.address)
            try:
                listed = read_resources(self._download(where, _MAX_ANSWER), where)
            except InvalidSource:
                listed = None
            if listed is None:
                raise error from None
            tree = fetch_resources(source, where, listed, _new_folder(into), self._download, self.limits)
            origin = Origin("well-known", source.address, path=source.path)
        return FetchedTree(tree, origin, owned=True, chosen=True)

    def search(self, address: str, text: str, limit: int) -> tuple[ListedResource, ...]:
        """What the ARD catalog at an address finds for words, the best first.

        Raises:
            InvalidSource: it is no such catalog, or offers no search.
            NetworkRefused, NetworkFailed: it cannot be reached.
        """
        from skillyard.registry.resource_catalogs import search_resources

        return search_resources(address, text, limit, self._download, self._post)

    def _post(self, url: str, body: bytes) -> bytes:
        from skillyard.registry.source_host_policy import explain_private_hosts, follow_redirects, refused_answer, run_in_thread

        login = self.logins.find(url) if self.logins is not None else None
        secret = {"Authorization": f"Bearer {login.key}"} if login and login.key else {}
        with explain_private_hosts():
            answer, where = run_in_thread(
                follow_redirects(
                    "POST", url, limit=_MAX_ANSWER, allow_private=self.allow_private, allow_origin=login is not None,
                    headers={"Content-Type": "application/json"}, secret=secret, body=body,
                )
            )  # fmt: skip
        if answer.status == 200:
            return answer.body
        raise refused_answer(answer.status, where)

    def _download(self, url: str, limit: int, passed: list[str] | None = None) -> bytes:
        from skillyard.registry.source_host_policy import download

        login = self.logins.find(url) if self.logins is not None else None
        headers = {"Authorization": f"Bearer {login.key}"} if login and login.key else {}
        private = self.allow_private
        return download(url, limit=limit, allow_private=private, allow_origin=login is not None, headers=headers, passed=passed)

    def _unpacked(self, archive: Path, source: Source, into: Path) -> FetchedTree:
        try:
            extracted = extract(archive, into, self.limits)  # which refuses a device, of which reading may have no end
            sha256 = digest_of(archive.read_bytes())
        except OSError as error:
            hint = "check the file; what was installed from a file that was removed is installed again from where it is now"
            raise InvalidSource(f"{archive} cannot be read: {error.strerror}", hint=hint) from None
        return FetchedTree(_inside(extracted.tree, source.path), _origin(source, sha256=sha256), owned=True)

    def _package(self, source: Source, into: Path) -> Path:
        """The package that an untrusted manifest leads to: an archive, a SKILL.md or git by https, from a public host."""
        if source.kind == "address":
            return self._downloaded(source, into, lists=False).tree
        if source.kind == "git" and source.address.lower().startswith("https://"):
            return self._cloned(source, into).tree
        raise InvalidSource(
            f"a manifest may not lead to {shown_address(source.address)}", hint="install it by that address yourself"
        )

    def _downloaded(self, source: Source, into: Path, *, lists: bool = True) -> FetchedTree:
        from skillyard.packages import sniff
        from skillyard.registry.resource_catalogs import fetch_listed

        passed: list[str] = []
        data = self._download(source.address, self.limits.archive, passed)
        source = replace(source, address=address_of_owner(source.address, among_shared(passed)))
        if sniff(data[:512]) is not None:
            archive = into / "download"
            archive.write_bytes(data)
            return self._unpacked(archive, source, into)
        listed = fetch_listed(source, data, _new_folder(into), self._download, self._package, self.limits) if lists else None
        if listed is not None:
            return FetchedTree(*listed, owned=True, chosen=True)
        if not data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"---"):
            raise InvalidSource(
                f"{shown_address(source.address)} is neither an archive, a SKILL.md, a manifest nor a catalog",
                hint="name the address of a .zip, .tar.gz or SKILL.md",
            )
        tree = into / "download-skill"
        tree.mkdir()
        (tree / "SKILL.md").write_bytes(data)
        return FetchedTree(tree, _origin(source, sha256=digest_of(data)), owned=False)


def source_of_version(version: SkillVersion) -> Source:
    """Where an installed version came from, to be fetched again.

    Raises:
        InvalidSource: it was uploaded, and comes from nowhere.
    """
    origin = version.origin
    if origin.get("kind") == "upload":
        raise InvalidSource(
            f"{version.skill_id} was uploaded as {origin['address']}: there is nowhere to look for a newer version",
            hint="upload the new version, or `skillyard install` its archive: it becomes the next version of this skill",
        )
    kind, address, path, ref = (str(origin.get(key, "")) for key in ("kind", "address", "path", "ref"))
    return Source(cast(SourceKind, kind), address, path, ref)


def _with_retries(fetch: Callable[[], FetchedTree], sleep: Callable[[float], object]) -> FetchedTree:
    """Try at most three times, 1 and 2 seconds apart, as long as only the network is at fault.

    Raises:
        NetworkFailed: it was at fault every time; `details["attempts"]` counts them.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return fetch()
        except NetworkFailed as error:
            if attempt == _ATTEMPTS:
                details = {**error.details, "attempts": attempt}
                raise NetworkFailed(error.message, hint=error.hint, **details) from None
            sleep(2 ** (attempt - 1))
    raise AssertionError("unreachable")


def _new_folder(into: Path) -> Path:
    """A new folder below `into`, so that a second attempt does not meet the first."""
    folder = into / f"fetch-{os.urandom(4).hex()}"
    folder.mkdir()
    return folder


def _origin(source: Source, **more: str) -> Origin:
    published: dict[str, Any] = {"version": source.version, "notes": source.notes, "edits": source.edits}
    address = Path(source.address).name if source.kind == "upload" else source.address
    return Origin(source.kind, address, path=source.path, ref=source.ref, **(published | more))


def _inside(tree: Path, path: str) -> Path:
    if not path:
        return tree
    from skillyard.paths import is_inside, safe_relative

    folder = tree / safe_relative(path)
    if not folder.is_dir() or not is_inside(folder, tree):
        raise InvalidSource(f"there is no folder {path!r} in it", hint="check the path")
    return folder
