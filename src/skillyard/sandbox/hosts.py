"""The entries of a network allow-list: which are well formed, and which an operator's list covers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["ANY_HOST", "covers", "host_problem"]

ANY_HOST: Final = "*"
"""An operator's word for «no limit of my own»; never valid in a skill."""

_ENTRY: Final = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::(?P<port>\d{1,5}))?",
    re.IGNORECASE,
)
_NUMERIC: Final = re.compile(r"(?:0x[0-9a-f]+|\d+)(?:\.(?:0x[0-9a-f]+|\d+))*", re.IGNORECASE)
_DOTTED_QUAD: Final = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1?[1-9]?\d)(?:\.|$)){4}")


def host_problem(entry: str) -> str | None:
    """Why `entry` cannot be in an allow-list, or `None`.

    Good ones are `host`, `*.host`, `host:port`, `https://host`, `[v6]:port`. A path cannot be enforced, a wildcard needs two
    labels behind it, and a number that only some resolvers read as an address (`127.1`, `0x7f.1`) is refused.
    """
    match = _ENTRY.fullmatch(entry)
    if not match:
        return f"network_allowlist entry {entry!r} is not a host (paths, user names and spaces cannot be allowed)"
    host = match["host"].lower()
    if host.startswith("*.") and host.count(".") < 2:
        return f"network_allowlist entry {entry!r} covers a whole top-level domain"
    if _NUMERIC.fullmatch(host) and not _DOTTED_QUAD.fullmatch(host):
        return f"network_allowlist entry {entry!r} is an ambiguous address"
    if match["port"] and not 0 < int(match["port"]) < 65_536:
        return f"network_allowlist entry {entry!r} has an impossible port"
    return None


def covers(allowed: Iterable[str], entry: str) -> bool:
    """Whether an operator's list allows all that `entry` asks for."""
    return any(rule == ANY_HOST or _same_or_wider(rule, entry) for rule in allowed)


def _same_or_wider(rule: str, entry: str) -> bool:
    rule, entry = rule.lower(), entry.lower()
    if rule == entry:
        return True
    scheme, _, asked = entry.rpartition("://")
    rule_scheme, _, host = rule.rpartition("://")
    same_scheme = scheme == rule_scheme or (not rule_scheme and scheme == "https")
    return same_scheme and (host == asked or (host.startswith("*.") and asked.endswith(host[1:])))
