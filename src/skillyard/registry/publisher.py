"""Where a skill comes from, in words: who publishes at an address, and the source without what may be a secret."""

from __future__ import annotations

from pathlib import PurePath
from urllib.parse import urlsplit

from skillyard.packages import Source, shown_address

__all__ = ["publisher", "shown_source"]


def publisher(address: str) -> tuple[str, ...]:
    """Who publishes at an address: the host, and where paths are long, as on sites that many share, their first two parts."""
    parts = urlsplit(address)
    path = [part for part in parts.path.removesuffix(".git").split("/") if part]
    file_in_root = len(path) < 2 or (len(path) == 2 and "." in path[1])
    return (parts.netloc.lower(), *(() if file_in_root else path[:2]))


def shown_source(source: Source) -> str:
    """A source as a person would write it; of an upload, the name of the file."""
    if source.kind == "upload":
        return f"{PurePath(source.address).name} (uploaded)"
    return (
        shown_address(source.address) + (f" {source.path}" if source.path else "") + (f" @{source.ref}" if source.ref else "")
    )
