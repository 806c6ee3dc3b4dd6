"""The language of help and errors: `--lang`, else the locale; the Chinese texts are one catalogue, `chinese.json`.

English is the key of each text. JSON output is the same in every language. The catalogue is read only where it is used.
"""

from __future__ import annotations

import json
import os
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
