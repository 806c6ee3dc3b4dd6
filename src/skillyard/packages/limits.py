"""How much a package may be: the figures that extraction, packing and downloads share."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The most a package may be, and in `listed` all packages of one list together, fetched and unpacked; sizes in bytes.

    `ratio` is how many times larger than its compressed form a content over `ratio_from` may be. `depth` counts the components
    of a path, `component` and `path` are bytes of UTF-8.
    """

    archive: int = 50 * _MIB
    total: int = 100 * _MIB
    listed: int = 500 * _MIB
    file: int = 20 * _MIB
    entries: int = 2000
    ratio: int = 100
    ratio_from: int = _MIB
    depth: int = 16
    component: int = 255
    path: int = 1024
