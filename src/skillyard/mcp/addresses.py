"""The addresses of skills and their files: `skill://<name>/<path>` (SEP-2640, resource mapping).

A skill whose name another skill also has gets its source in front, `skill://user/pdf/SKILL.md`: the last segment before the
file stays the skill's name, as the extension wants it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, unquote

from skillyard.errors import FileMissing, PathRefused
from skillyard.paths import safe_relative

__all__ = ["INDEX", "MAIN_FILE", "SCHEME", "address", "segments"]

SCHEME: Final = "skill://"
MAIN_FILE: Final = "SKILL.md"
INDEX: Final = "skill://index.json"


def address(skill_path: Sequence[str], file: str = "") -> str:
    """The address of `file` in the skill at `skill_path`; without a file that of the skill's folder."""
    parts = [*skill_path, *(part for part in file.split("/") if part)]
    return SCHEME + "/".join(quote(part, safe="-._~!$&'()*+,;=:@") for part in parts)


def segments(uri: str) -> tuple[str, ...]:
    """The decoded segments of an address.

    Raises:
        FileMissing: not a `skill://` address.
        PathRefused: the address climbs, or hides a slash or a second encoding.
    """
    if not uri.startswith(SCHEME):
        raise FileMissing(f"{uri!r} is not an address of a skill", hint="addresses look like skill://<name>/SKILL.md")
    parts = [unquote(part, errors="strict") for part in _split(uri.removeprefix(SCHEME).removesuffix("/"))]
    if any("/" in part for part in parts):
        raise PathRefused(f"{uri!r} hides a slash in a segment", hint="write the path with plain slashes")
    return tuple(safe_relative("/".join(parts)).split("/"))


def _split(path: str) -> list[str]:
    try:
        path.encode("utf-8")
        unquote(path, errors="strict")
    except UnicodeError:
        raise PathRefused("the address is not UTF-8", hint="encode it as UTF-8, then percent-encode it") from None
    return path.split("/")
