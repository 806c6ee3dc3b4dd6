"""Fences around text that a skill wrote, so that it cannot pass for text of the system.

A fenced text is between two marker lines with the same random number::

    <skill_text nonce="5f0c2e9a41d7b386" skill="pdf" source="project">
    …
    </skill_text nonce="5f0c2e9a41d7b386">

Whoever wrote the text could not know the number, so nothing inside can close the fence. Markers written inside, with any
number, have their `<` turned into `&lt;`, so that a reader who overlooks the number is not fooled either. A marker shows where
the text came from only in plain words; a name that holds more stands inside, in the first lines.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Final, Literal

from skillyard.text import is_label, sanitize, shorten, single_line

FenceKind = Literal["skill_text", "file_text", "run_result", "conversation"]

_MARKER: Final = re.compile(r"<(?=\s*+(?:/\s*+)?(?:skill_text|file_text|run_result|conversation)\b)", re.IGNORECASE)
_OPENING: Final = re.compile(r'^<(skill_text|file_text|run_result|conversation) nonce="([0-9a-f]{1,32})"', re.MULTILINE)
_PLAIN: Final = re.compile(r"[\w.:/@#+-]{1,120}")
_SHOWN: Final = 300  # characters of a name that stands inside
_BLOCK_END: Final = "[[END_ABP_RESULT]]"


def fence(kind: FenceKind, text: str, *, nonce: str | None = None, **attributes: str) -> str:
    """`text`, sanitized, between two marker lines of `kind`; `attributes` name where it came from."""
    number = nonce or new_nonce()
    plain = {name: value for name, value in attributes.items() if _is_plain(value)}
    named = "".join(f' {name}="{value}"' for name, value in plain.items())
    odd = [f"{name}: {shorten(single_line(value), _SHOWN)}\n" for name, value in attributes.items() if name not in plain]
    inside = without_markers(sanitize("".join([*odd, "\n" if odd else "", text]))).rstrip("\n")
    return f'<{kind} nonce="{number}"{named}>\n{inside}\n{_closing(kind, number)}'


def markers(kind: FenceKind, nonce: str) -> tuple[str, str]:
    """The two marker lines, for who writes what is between them by himself: sanitized, and `without_markers`."""
    return f'<{kind} nonce="{nonce}">', _closing(kind, nonce)


def without_markers(text: str) -> str:
    """`text` with the `<` of everything that looks like a marker as `&lt;`."""
    return _MARKER.sub("&lt;", text)


def cut_fenced(text: str, limit: int) -> str:
    """The first `limit` characters of a text; a fence, or a block, that the cut leaves open is closed, and the cut is noted."""
    if len(text) <= limit:
        return text
    kept = text[:limit]
    closings = [closing for kind, number in _OPENING.findall(kept) if (closing := _closing(kind, number)) not in kept]
    if text.rstrip().endswith(_BLOCK_END):
        closings.append(_BLOCK_END)
    note = f"[cut: {len(text) - limit} characters more]"
    return "\n".join([kept, note, *closings])


def _is_plain(value: str) -> bool:
    return is_label(value) or (_PLAIN.fullmatch(value) is not None and single_line(value) == value)


def _closing(kind: str, number: str) -> str:
    return f'</{kind} nonce="{number}">'


def new_nonce() -> str:
    """A number nobody can guess: 16 hexadecimal digits."""
    return os.urandom(8).hex()


def steady_nonce(text: str) -> str:
    """A number nobody outside of this process can guess, the same each time for the same text: prompt caches hold."""
    import hashlib  # only for instructions in a prompt: it is slow to import

    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=_secret()).hexdigest()


@cache
def _secret() -> bytes:
    return os.urandom(32)
