"""A git repository as a source: one commit, without history, hooks, links, submodules, filters or the user's settings.

Nothing is checked out. The commit is read object by object and written by the rules of packages, so that attributes and filters
of the repository have no effect.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from skillyard.errors import ArchiveTooLarge, InvalidSource, LinkNotAllowed, NetworkFailed, TooManyFiles
from skillyard.packages import Origin, PackageLimits, Source, shown_address
from skillyard.registry.model import FetchedTree
from skillyard.registry.source_host_policy import checked_repository, repository_redirect

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
        self._bring(repository, source.address, source.ref or "HEAD")
        commit = self._call(repository, "rev-parse", "--verify", "FETCH_HEAD^{commit}").decode().strip()
        if _FULL_ID.fullmatch(source.ref) and commit != source.ref:
            raise InvalidSource(f"{shown_address(source.address)} gave another commit than {source.ref}", hint="fetch it again")
        blobs = self._blobs(repository, commit, source)
        tree = self._written(repository, blobs, into)
        return FetchedTree(tree, Origin("git", source.address, source.path, source.ref, commit), owned=True)

    def _bring(self, repository: Path, address: str, revision: str) -> None:
        """Fetch one commit, from where the repository is now."""
        for _ in range(_MAX_REDIRECTS + 1):
            remote, settings = (address, ()) if self.local else checked_repository(address, allow_private=self.allow_private)
            pinned = [word for setting in settings for word in ("-c", setting)]
            how = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
            try:
                self._call(repository, *pinned, "fetch", *how, "--", remote, revision)
                return
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
        from skillyard.packages.entries import new_staging

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
