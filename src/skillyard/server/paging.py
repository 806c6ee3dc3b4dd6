"""Long lists in pieces: a piece begins behind a key, whatever was added or taken away meanwhile."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from skillyard.errors import InvalidInput

__all__ = ["pieced", "read_token", "token_for"]

_Item = TypeVar("_Item")


def token_for(key: str) -> str:
    """An opaque token for the place behind the item that is called `key`."""
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def read_token(token: str) -> str:
    """The key in a token.

    Raises:
        InvalidInput: it is none of ours.
    """
    try:
        return base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4)).decode()
    except (ValueError, binascii.Error):
        raise InvalidInput(f"{token[:100]!r} is no page", hint="take it from the answer before, or begin without one") from None


def pieced(items: Iterable[_Item], behind: Callable[[_Item], bool] | None, limit: int) -> tuple[list[_Item], bool]:
    """At most `limit` of the items that are `behind` a place, all of them without one; and whether there are more."""
    found = list(islice((item for item in items if behind is None or behind(item)), limit + 1))
    return found[:limit], len(found) > limit
