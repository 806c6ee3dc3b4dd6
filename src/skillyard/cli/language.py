"""The language of help, answers and errors: `--lang`, else the locale; the Chinese texts are one catalogue, `chinese.json`.

English is the key of each text. JSON output is the same in every language. The catalogue is read only where it is used.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Final

LANGUAGES: Final = ("en", "zh")
_VARIABLES: Final = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")  # as gettext asks them

_chosen = "en"


def choose_language(argv: Sequence[str], environ: Mapping[str, str] | None = None) -> str:
    """Set and give the language of this call: the last `--lang`, else that of the first variable of the locale that is set."""
    global _chosen  # one process answers in one language
    environ = os.environ if environ is None else environ
    before = list(argv[: argv.index("--")] if "--" in argv else argv)
    given = [value for option, value in pairwise(before) if option == "--lang"]
    given += [word.removeprefix("--lang=") for word in before if word.startswith("--lang=")]
    locale = next((environ[name] for name in _VARIABLES if environ.get(name)), "")
    _chosen = given[-1] if given and given[-1] in LANGUAGES else "zh" if locale.lower().startswith("zh") else "en"
    return _chosen


def current_language() -> str:
    """The chosen language: `en` or `zh`."""
    return _chosen


def translated(text: str) -> str:
    """`text` in the chosen language; as it is where the catalogue does not have it."""
    return text if _chosen == "en" else str(_catalogue()["messages"].get(text, text))


def translated_answer(text: str, *, words: int = 0) -> str:
    """A line of an answer in the chosen language: in the catalogue `{}` stands for each value in it.

    Of several entries that fit the one with the most text of its own is taken, at least `words` characters: a line that
    may be untrusted text must not be mistaken for ours. A line that none fits stays as it is.
    """
    if _chosen == "en" or not text or len(text) > _LONGEST:
        return text
    for own, pattern, chinese in _answers():
        if own >= words and (match := pattern.fullmatch(text)):
            return chinese.format(*match.groups())
    return text


OWN_TEXT: Final = 5
"""How many characters of its own an answer on standard output has that is translated."""
_LONGEST: Final = 2000  # characters of a line that is translated
_VALUES: Final = re.compile(r"\{\d?\}")


def own_text(english: str) -> int:
    """How many letters of an answer are its own, and not those of a value."""
    return sum(map(str.isalpha, english.replace("{}", "")))


@cache
def _answers() -> list[tuple[int, re.Pattern[str], str]]:
    """What is looked for, the most particular first; a value is what stands before the next words of the text."""
    found = []
    for english, chinese in sorted(_catalogue()["answers"].items(), key=lambda entry: -own_text(entry[0])):
        head, *rest = map(re.escape, english.split("{}"))
        middle = "".join(f"((?>.*?(?={part})))(?>{part})" for part in rest[:-1])
        pattern = f"{head}{middle}(.*){rest[-1]}" if rest else head
        found.append((own_text(english), re.compile(pattern, re.DOTALL), _escaped(chinese)))
    return found


def _escaped(text: str) -> str:
    """The text for `str.format`: braces that are no place of a value stay braces."""
    places = _VALUES.findall(text)
    parts = [part.replace("{", "{{").replace("}", "}}") for part in _VALUES.split(text)]
    return "".join(part + place for part, place in zip(parts, [*places, ""], strict=True))


def translated_failure(failure: Mapping[str, str]) -> tuple[str, str]:
    """The message and the hint of an error: in Chinese what its code means, and behind it what exactly happened."""
    message, hint = failure["message"], failure["hint"]
    known = None if _chosen == "en" else _catalogue()["errors"].get(failure["code"])
    return (f"{known[0]}（{message}）", f"{known[1]}（{hint}）") if known else (message, hint)


@cache
def _catalogue() -> dict[str, Any]:
    path = os.path.join(os.path.dirname(__file__), "chinese.json")  # noqa: PTH118, PTH120 # pathlib costs a list 7 ms
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        found: dict[str, Any] = json.load(file)
    return found
