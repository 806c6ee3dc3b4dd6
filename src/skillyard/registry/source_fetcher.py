"""Fetch a source to this machine: a folder, an archive, a git repository, a file on the web, an index, a mirror.

A `Fetcher` takes a `Source` and gives a tree to look for skills in. Network failures are retried, refusals are not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from skillyard.errors import InvalidSource, NetworkFailed, SkillyardError
from skillyard.extensions import NO_EXTENSIONS, Extensions
from skillyard.packages import Origin, PackageLimits, Source, SourceKind, digest_of, extract, shown_address
from skillyard.registry.model import FetchedTree, Fetcher

_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFetcher:
    """The usual fetcher: folders and archives of this machine, git by https or ssh, all else by https.

    Addresses of this machine and of private networks are only contacted with `allow_private`, and then without encryption too.
    """

    limits: PackageLimits = field(default_factory=PackageLimits)
    others: Mapping[SourceKind, Fetcher] = field(default_factory=dict)
    allow_private: bool = False
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
        remote = {"git": self._cloned, "mirror": self._mirrored, "address": self._downloaded}
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
        from skillyard.registry.git_fetcher import GitFetcher

        return GitFetcher(allow_private=self.allow_private).fetch(source, into)

    def _mirrored(self, source: Source, into: Path) -> FetchedTree:
        from skillyard.registry.mirror_locations import MirrorFetcher, open_mirror

        fetcher = MirrorFetcher(lambda address: open_mirror(address, allow_private=self.allow_private), self.limits)
        return fetcher.fetch(source, into)

    def _indexed(self, source: Source, into: Path) -> FetchedTree:
        from skillyard.registry.skill_indexes import fetch_index

        tree, origin = fetch_index(source, _new_folder(into), self._download, self.limits)
        return FetchedTree(tree, origin, owned=True, chosen=True)

    def _download(self, url: str, limit: int) -> bytes:
        from skillyard.registry.source_host_policy import download

        return download(url, limit=limit, allow_private=self.allow_private)

    def _unpacked(self, archive: Path, source: Source, into: Path) -> FetchedTree:
        try:
            sha256 = digest_of(archive.read_bytes()) if archive.stat().st_size <= self.limits.archive else ""
            extracted = extract(archive, into, self.limits)
        except OSError as error:
            hint = "check the file; what was installed from a file that was removed is installed again from where it is now"
            raise InvalidSource(f"{archive} cannot be read: {error.strerror}", hint=hint) from None
        return FetchedTree(_inside(extracted.tree, source.path), _origin(source, sha256=sha256), owned=True)

    def _package(self, source: Source, into: Path) -> Path:
        """The package that a stranger's manifest leads to: an archive, a SKILL.md or git by https, from a public host."""
        if source.kind == "address":
            return self._downloaded(source, into, lists=False).tree
        if source.kind == "git" and source.address.lower().startswith("https://"):
            return self._cloned(source, into).tree
        raise InvalidSource(
            f"a manifest may not lead to {shown_address(source.address)}", hint="install it by that address yourself"
        )

    def _downloaded(self, source: Source, into: Path, *, lists: bool = True) -> FetchedTree:
        from skillyard.packages import sniff
        from skillyard.registry.skill_indexes import fetch_listed

        data = self._download(source.address, self.limits.archive)
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


def source_from_origin(origin: Origin) -> Source:
    """Where to look for the newest of what came from `origin`."""
    return Source(origin.kind, origin.address, origin.path, origin.ref)


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
    published: dict[str, Any] = {"version": source.version, "notes": source.notes}
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
