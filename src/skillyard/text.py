"""Text for a screen or a model: made safe, cut to length, and likened to what may have been meant.

Names, descriptions and file names are untrusted. Before they reach a prompt or a screen they lose what cannot be
seen but can steer: control and escape characters, zero-width and bidirectional marks, Unicode tag characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

LABEL_LIMIT: Final = 64
"""Characters of a name that stands among the words of this program; those of the Agent Skills specification."""

_SAMPLE: Final = 80_000  # bytes by which text is known
# C0 and C1 controls but for tab and newline, soft hyphen, zero-width and bidirectional marks, invisible operators, the byte
# order mark, interlinear annotation, lone surrogates, tag characters, the two noncharacters that XML forbids; Hangul and
# Khmer fillers that draw nothing.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)
# A run of variation selectors is a known way to smuggle bytes; a single one after an emoji is ordinary.
_SELECTOR_RUN = re.compile("(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]+")
_USER = re.compile(r"\A(\s*(?!ssh:)(?:[a-z][a-z0-9+.-]*:)?//)[^/?#]*@", re.IGNORECASE)


def sanitize(text: str) -> str:
    """`text` without characters that are invisible or drive a terminal; tabs and newlines stay, CRLF becomes LF."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    return _SELECTOR_RUN.sub("", _INVISIBLE.sub("", text))


def limit_words(limit: int) -> str:
    """A limit in bytes as a person reads it.

    >>> limit_words(20 * 1024 * 1024)
    '20 MB'
    >>> limit_words(30_000_000)
    '30 MB'
    """
    unit = next((unit for unit in (1 << 20, 1_000_000) if limit and not limit % unit), None)
    return f"{limit // unit} MB" if unit is not None else f"{limit:,} bytes"


def is_text(data: bytes) -> bool:
    """Whether bytes that anybody has written can be shown as text: UTF-8, but for at most a tenth of it, without NUL.

    The first 80,000 bytes are looked at. Text in another one-byte encoding has fewer letters that are not ASCII than that.
    """
    sample = data[:_SAMPLE]
    text = sample.decode("utf-8", "replace")
    return b"\0" not in sample and text.count("\ufffd") <= len(text) // 10 + 1


def single_line(text: str) -> str:
    """`text` sanitized, every run of white space one space, ends trimmed: fit for one line of a list."""
    return " ".join(sanitize(text).split())


def shorten(text: str, limit: int) -> str:
    """`text` cut to at most `limit` characters at a word boundary, ending in `…` when something was cut.

    Chinese, Japanese and Korean text has no spaces: there the cut may fall between any two characters.
    """
    if len(text) <= limit:
        return text
    if limit <= 0:
        return ""
    head = text[: limit - 1]
    space = head.rfind(" ")
    inside_word = text[limit - 1].isalnum() and text[limit - 1].isascii() and head[-1:].isascii()
    if inside_word and space > limit // 2:
        head = head[:space]
    return head.rstrip(" ,;:.-–—(") + "…"


def is_label(text: str) -> bool:
    """Whether a name may stand among words of this program, outside a fence: it can end no sentence, quote or line of them.

    At most 64 letters, digits and accents of any script, `_`, and single spaces, dots, `+` and hyphens between them; nothing
    that cannot be seen.
    """
    if not text or len(text) > LABEL_LIMIT or not text[0].isalnum() or "  " in text or text.endswith(" "):
        return False
    others = {char for char in text if not (char.isalnum() or char in "_ .+-")}
    return (not others or _are_accents(others)) and ". " not in text and single_line(text) == text


def _are_accents(characters: Iterable[str]) -> bool:
    import unicodedata  # only for names that are not plain: it is slow to import

    return all(unicodedata.category(char) in ("Mn", "Mc") for char in characters)


def quoted(text: str, limit: int = 200) -> str:
    """`text` on one line, cut to `limit` characters, as a JSON string, which it cannot end: for names and notes in a list."""
    import json

    return json.dumps(shorten(single_line(text[: 4 * limit]), limit), ensure_ascii=False)


def without_user(address: str) -> str:
    """An address without the user's name and password before its host, which are not for others; other text as it is.

    >>> without_user("https://me:word@example.com/page")
    'https://example.com/page'
    """
    return _USER.sub(r"\1", address)


def escape_xml(text: str) -> str:
    """`text` with `& < > "` as entities, so that it stays text inside elements and attributes."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def nearest(word: str, names: Iterable[str], *, limit: int = 3) -> list[str]:
    """Those of `names` for which `word` may be a slip of the pen, nearest first, at most `limit`; case does not count."""
    import difflib  # only after a mistake: it is slow to import

    by_folded = {name.casefold(): name for name in names}
    return [by_folded[match] for match in difflib.get_close_matches(word.casefold(), by_folded, n=limit)]
