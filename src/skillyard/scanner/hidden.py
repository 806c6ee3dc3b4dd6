"""Hidden text: characters that nobody sees, that turn the direction of reading, or that only look like others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from skillyard.scanner.finding import ScanRule
from skillyard.scanner.sources import Hit, SourceText

HIDDEN_RULES: Final = (
    ScanRule("tag-characters", "hidden text", "text is written in tag characters, which no screen draws",
         "A model reads them as letters, a person sees nothing: reviewers miss the instructions in them.", "remove the characters U+E0000 to U+E007F", "high"),
    ScanRule("smuggled-bytes", "hidden text", "a run of variation selectors hides data behind a character",
         "One selector chooses how an emoji is drawn; many in a row are bytes that nobody sees.", "remove the selectors", "high"),
    ScanRule("bidirectional-controls", "hidden text", "characters change the reading direction",
         "Code and sentences are then displayed in another order than they are interpreted.", "remove the characters, or write them as escapes", "high"),
    ScanRule("zero-width", "hidden text", "words contain invisible characters",
         "They hide words from searches and reviews, and can carry a message of their own.", "remove them", "medium"),
    ScanRule("terminal-controls", "hidden text", "the file contains terminal control characters",
         "They can erase the text before them, so that a person sees another text than a program.", "remove them, or write them as escapes", "medium"),
    ScanRule("look-alike-letters", "hidden text", "a word mixes Latin letters with ones that only look Latin",
         "Two names that look the same are two names: a host, a package or a command that is not the one it seems.", "write the word in one alphabet", "medium"),
    ScanRule("misleading-name", "hidden text", "a file's name contains characters that are invisible or change the reading direction",
         "It pretends to be another file, or another kind of file.", "rename the file", "high"),
)  # fmt: skip

_TAGS: Final = re.compile("[\U000e0000-\U000e007f]+")
_FLAG: Final = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f")
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}")
_BIDI: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
_OVERRIDE: Final = "\u202d\u202e"
_RIGHT_TO_LEFT: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_ZERO: Final = re.compile("(?<=[A-Za-z0-9])[\u200b-\u200d\u2060-\u2064\ufeff\u180e\u00ad\u034f\u3164]+(?=[A-Za-z0-9])")
_ZERO_RUN: Final = re.compile("[\u200b\u200c\u200d\u2060-\u2064\ufeff\u180e]{6,}")
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\u0080-\u0084\u0086-\u009f]")
_LOOK_ALIKE: Final = re.compile(
    "(?<![^\\W\\d_])(?=[^\\W\\d_]{0,60}[A-Za-z])[A-Za-z]{0,60}[аеорсухіјѕһԁԛԝАВЕКМНОРСТХІЈЅοΑΒΕΖΗΙΚΜΝΟΡΤΥΧ][^\\W\\d_]{0,60}"
)
_ANY: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u00ad\u034f\u0370-\u04ff\u0500-\u052f\u180e\u200b-\u200d\u202a-\u202e\u2060-\u2069\u3164\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]")  # fmt: skip
_CONFUSABLE_SETS: Final = re.compile("[\u0370-\u03ff\u0400-\u052f]")


def find_hidden_text(source: SourceText) -> Iterator[Hit]:
    """Characters in the text that are there to mislead; a text without any is passed over at once."""
    text = source.text
    if not _ANY.search(text):
        return
    yield from _tags(text)
    yield from _first(text, _SELECTORS, "smuggled-bytes")
    yield from _bidi(text)
    yield from _zero_width(text)
    yield from _first(text, _CONTROL, "terminal-controls")
    yield from _look_alikes(text)


def misleading_name(name: str) -> Hit | None:
    """A file's name with characters in it that nobody sees, or that turn its direction."""
    if _TAGS.search(name) or _BIDI.search(name) or _CONTROL.search(name) or re.search("[\u200b\u2060-\u2064\ufeff]", name):
        return Hit("misleading-name", 0, "", visible(name))
    return None


def decode_tag_characters(text: str) -> Iterator[tuple[int, str]]:
    """What is written in tag characters: the offset and the text in plain letters."""
    plain = _FLAG.sub(lambda flag: " " * len(flag[0]), text)
    for run in _TAGS.finditer(plain):
        yield run.start(), "".join(chr(ord(letter) - 0xE0000) for letter in run[0] if 0x20 <= ord(letter) - 0xE0000 < 0x7F)


def visible(text: str) -> str:
    """The text with every hidden character as its number, such as `<U+200B>`."""
    return _ANY.sub(lambda match: match[0] if _CONFUSABLE_SETS.match(match[0]) else f"<U+{ord(match[0]):04X}>", text)


def _tags(text: str) -> Iterator[Hit]:
    for offset, hidden in decode_tag_characters(text):
        yield Hit("tag-characters", offset, f"hidden in tag characters: {hidden[:80]!r}" if hidden else "", visible(hidden))


def _first(text: str, expression: re.Pattern[str], rule: str) -> Iterator[Hit]:
    """One hit for the whole text: a file full of them is one finding."""
    if match := expression.search(text):
        count = sum(1 for _ in expression.finditer(text))
        message = f"{_title(rule)} ({count} places)" if count > 1 else ""
        yield Hit(rule, match.start(), message, _around(text, match.start()))


def _bidi(text: str) -> Iterator[Hit]:
    for match in _BIDI.finditer(text):
        start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
        line = text[max(start, match.start() - 300) : min(end if end >= 0 else len(text), match.end() + 300)]
        foreign = bool(_RIGHT_TO_LEFT.search(line)) and match[0] not in _OVERRIDE
        relief = 2 if foreign else int("U+20" in line)
        yield Hit("bidirectional-controls", match.start(), "", _around(text, match.start()), relief=relief)
        return


def _zero_width(text: str) -> Iterator[Hit]:
    """Runs are a message; a few inside words are most often left over from a copy."""
    if run := _ZERO_RUN.search(text):
        yield Hit("zero-width", run.start(), f"{len(run[0])} consecutive invisible characters", _around(text, run.start()))
        return
    if match := _ZERO.search(text):
        count = sum(1 for _ in _ZERO.finditer(text))
        soft = all("\u00ad" in match[0] for match in _ZERO.finditer(text))
        yield Hit("zero-width", match.start(), "", _around(text, match.start()), relief=1 if count < 3 or soft else 0)


def _look_alikes(text: str) -> Iterator[Hit]:
    for match in _LOOK_ALIKE.finditer(text):
        foreign = {"Greek" if letter < "\u0400" else "Cyrillic" for letter in match[0] if _CONFUSABLE_SETS.match(letter)}
        latin = sum(letter.isascii() for letter in match[0])
        if latin >= 2 and foreign:
            yield Hit("look-alike-letters", match.start(), f"{match[0][:40]!r} mixes Latin and {' and '.join(sorted(foreign))}")
            return


def _around(text: str, offset: int) -> str:
    return visible(text[max(text.rfind("\n", 0, offset) + 1, offset - 40) : offset + 40].partition("\n")[0])


def _title(rule: str) -> str:
    return next(hidden.title for hidden in HIDDEN_RULES if hidden.id == rule)
