"""Where a skill comes from: who publishes it, and the source in words, without what may be a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final
from urllib.parse import urlsplit

from skillyard.packages import Source, shown_address

__all__ = ["publisher", "shown_origin", "shown_source", "source_identity"]

_VERSION: Final = re.compile(r"[-_.]?v?[0-9][0-9A-Za-z.+_-]{0,60}$")
_SUFFIXES: Final = (".tar.gz", ".tgz", ".tar", ".zip", ".skill")


def publisher(address: str) -> tuple[str, ...]:
    """Who publishes at an address: the host, and where paths are long, as on sites that many share, their first two parts.

    Users of ssh are left out, so that one repository is the same by ssh and by https; http is apart, for it proves nobody.
    """
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2].lower()
    path = [part for part in parts.path.removesuffix(".git").split("/") if part]
    file_in_root = len(path) < 2 or (len(path) == 2 and "." in path[1])
    plain = ("http:",) if parts.scheme.lower() == "http" else ()
    return (*plain, host, *(() if file_in_root else path[:2]))


def source_identity(origin: Mapping[str, object]) -> tuple[str, ...]:
    """What identifies a source: two origins of the same identity are of one publisher; empty when nothing is known.

    On this machine that is the folder, or the archive without the version in its name. Whoever may upload is one source.
    """
    kind, address = str(origin.get("kind", "")), str(origin.get("address", ""))
    if kind in ("", "upload"):
        return (kind,) if kind else ()
    if kind == "archive":
        path = PurePath(address)
        return ("archive", str(path.parent), _without_version(path.name))
    if "://" not in address:
        return ("local", str(PurePath(address) / str(origin.get("path", ""))) if kind == "folder" else address)
    if kind == "mirror":
        return ("mirror", *(publisher(address) if address.startswith("http") else (address,)))
    return publisher(address)


def shown_origin(origin: Mapping[str, object]) -> str:
    """An origin as a person would name it."""
    kind, address = str(origin.get("kind", "")), str(origin.get("address", ""))
    if not kind:
        return "a source that nobody wrote down"
    if kind == "upload":
        return "an upload"
    return shown_source(Source("folder" if kind == "folder" else "address", address, str(origin.get("path", ""))))


def shown_source(source: Source) -> str:
    """A source as a person would write it; of an upload, the name of the file."""
    if source.kind == "upload":
        return f"{PurePath(source.address).name} (uploaded)"
    return (
        shown_address(source.address) + (f" {source.path}" if source.path else "") + (f" @{source.ref}" if source.ref else "")
    )


def _without_version(name: str) -> str:
    stem = next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)
    return _VERSION.sub("", stem) or stem
