"""Fences around text that a skill wrote, so that it cannot pass for a word of the system.

A fenced text stands between two marker lines that carry the same random number::

    <skill_text nonce="5f0c2e9a41d7b386" skill="pdf" source="project">
    …
    </skill_text nonce="5f0c2e9a41d7b386">

Whoever wrote the text could not know the number, so nothing inside can close the fence. Markers written inside, with any
number, have their `<` turned into `&lt;`, so that a reader who overlooks the number is not fooled either.
"""

from __future__ import annotations

import re
import secrets
from typing import Final, Literal

from skillyard.text import escape_xml, sanitize, single_line

__all__ = ["FenceKind", "fence", "new_nonce"]

FenceKind = Literal["skill_text", "file_text", "run_result"]

_MARKER: Final = re.compile(r"<(?=\s*+(?:/\s*+)?(?:skill_text|file_text|run_result)\b)", re.IGNORECASE)


def fence(kind: FenceKind, text: str, *, nonce: str | None = None, **attributes: str) -> str:
    """`text`, sanitized, between two marker lines of `kind`; `attributes` name where it came from."""
    number = nonce or new_nonce()
    named = "".join(f' {name}="{escape_xml(single_line(value))}"' for name, value in attributes.items())
    inside = _MARKER.sub("&lt;", sanitize(text)).rstrip("\n")
    return f'<{kind} nonce="{number}"{named}>\n{inside}\n</{kind} nonce="{number}">'


def new_nonce() -> str:
    """A number nobody can guess: 16 hexadecimal digits."""
    return secrets.token_hex(8)
