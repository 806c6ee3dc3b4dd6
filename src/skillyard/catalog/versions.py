"""Order the versions of a plugin as people mean them: 1.10.0 is newer than 1.9.0, and 2.0.0 than 2.0.0-beta."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["newest", "version_key"]

_VERSION: Final = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
_DIGITS: Final = re.compile(r"(\d+)")

_Identifier = tuple[int, int, str]


def newest(names: list[str]) -> str:
    """The newest of at least one version name, by semantic version; names that are none come last (D-26)."""
    return max(names, key=version_key)


def version_key(name: str) -> tuple[int, tuple[int, ...], int, tuple[_Identifier, ...], str]:
    """A sort key: semantic versions by their numbers, a pre-release before its release, other names in natural order."""
    match = _VERSION.fullmatch(name)
    if not match:
        return 0, (), 0, tuple(_identifier(part) for part in _DIGITS.split(name) if part), name
    numbers = tuple(int(number or 0) for number in match.group(1, 2, 3))
    pre_release = match.group(4)
    identifiers = tuple(_identifier(part) for part in pre_release.split(".")) if pre_release else ()
    return 1, numbers, 0 if pre_release else 1, identifiers, name


def _identifier(part: str) -> _Identifier:
    """Numbers compare as numbers and come before words (Semantic Versioning 2.0.0, item 11)."""
    return (0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part)
