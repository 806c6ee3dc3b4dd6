"""Lists in pages: the cursor is the key of the last item given, so a page never shifts when the catalog changes between two."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from skillyard.errors import InvalidInput

__all__ = ["page"]

_Item = TypeVar("_Item")


def page(
    items: Iterable[_Item], cursor: str | None, *, size: int, key: Callable[[_Item], str]
) -> tuple[list[_Item], str | None]:
    """At most `size` of the items that come after `cursor`, and the cursor of the next page if there is one.

    The items are in the order of `key`.

    Raises:
        InvalidInput: the cursor was not given out here.
    """
    after = _decode(cursor) if cursor is not None else ""
    found = list(islice((item for item in items if key(item) > after), size + 1))
    return found[:size], _encode(key(found[size - 1])) if len(found) > size else None


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def _decode(cursor: str) -> str:
    try:
        return base64.b64decode(cursor.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise InvalidInput("that cursor is not one of this server's", hint="start again without a cursor") from None
