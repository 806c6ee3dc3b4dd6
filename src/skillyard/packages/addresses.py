"""Addresses without what may be a secret: for messages, and for what is written down and passed on."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["shown_address", "without_secrets"]

_SECRET: Final = re.compile(
    r"token|secret|passw|pwd|auth|credential|signature|session|jwt|(?:^|[^a-z])(?:sig|key|pass|apikey)(?:[^a-z]|$)",
    re.IGNORECASE,
)
_REVISION: Final = re.compile(r"(?:at|ref|sha|rev|revision|commit|version|v|id)", re.IGNORECASE)
_LOOKS_RANDOM: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+=~-]{20,}|eyJ[A-Za-z0-9_.-]+")


def shown_address(text: str) -> str:
    """An address as it may be shown: without its query, and without a user's name and password; other text as it is.

    >>> shown_address("https://me:word@example.com/a.zip?token=x")
    'https://example.com/a.zip'
    """
    scheme, mark, rest = text.partition("://")
    if not mark:
        return text
    authority, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    host = authority if scheme == "ssh" and ":" not in authority.rpartition("@")[0] else authority.rpartition("@")[2]
    return f"{scheme}://{host}{slash}{path}"


def without_secrets(address: str) -> str:
    """An address as it may be kept: what in its query is called or looks like a secret is taken out, the rest stays.

    >>> without_secrets("https://example.com/get?id=5&token=abc")
    'https://example.com/get?id=5'
    """
    bare, mark, query = address.partition("?")
    if not mark or "://" not in bare:
        return address
    kept = [part for part in query.split("&") if not _is_secret(part)]
    return bare + (f"?{'&'.join(kept)}" if kept else "")


def _is_secret(part: str) -> bool:
    name, _, value = part.partition("=")
    if _SECRET.search(name):
        return True
    return bool(_LOOKS_RANDOM.fullmatch(value or name)) and not _REVISION.fullmatch(name)
