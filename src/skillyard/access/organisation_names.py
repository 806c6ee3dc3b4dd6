"""The names of organisations: they become names of folders and of database schemas, so few characters are allowed in one."""

from __future__ import annotations

import re
from typing import Final

from skillyard.errors import InvalidInput
from skillyard.text import single_line

DEFAULT_ORGANISATION: Final = "default"
"""The organisation that is always there: the server's own home."""

_LONGEST: Final = 40
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)


def check_organisation_name(name: str) -> None:
    """Return when an organisation may be called so.

    Raises:
        InvalidInput: it is not made of lower-case letters, digits and single dashes between them, at most 40.
    """
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{single_line(name)[:60]!r} is no name for an organisation",
            hint=f"lower-case letters, digits and single dashes between them, at most {_LONGEST}",
        )
