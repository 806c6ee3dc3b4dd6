"""The files of `skillyard_sdk`, as a run gets them beside its script."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

__all__ = ["sdk_files"]

_NAMES: Final = ("__init__.py", "index.cjs", "index.mjs", "package.json")


@cache
def sdk_files() -> Mapping[str, bytes]:
    """What a script may import as `skillyard_sdk`, in Python and in JavaScript: relative paths and content."""
    folder = Path(__file__).with_name("sdk")
    return MappingProxyType({f"skillyard_sdk/{name}": folder.joinpath(name).read_bytes() for name in _NAMES})
