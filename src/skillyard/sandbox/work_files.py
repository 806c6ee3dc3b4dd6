"""Which files of a run may go back into a work folder of the host, and which are held back.

Programs of the host act on some files by themselves: version control and editors on hidden ones, agents on their instructions.
A run writes none of them unless the operator allows it (`hidden-files`), nor names that show as other names, nor secrets.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from skillyard.sandbox.environment import REDACTED, redact, secret_forms
from skillyard.text import single_line

__all__ = ["CONTROL_FILES", "HELD_BACK", "held_back", "refusal_of_content", "refusal_of_name"]

HELD_BACK: Final = "file_held_back"
"""The code that begins each sentence about a file that did not go back."""

CONTROL_FILES: Final = frozenset({
    "agent.md", "agents.md", "agents.override.md", "claude.local.md", "claude.md", "crush.json", "gemini.md", "opencode.json",
    "opencode.jsonc", "qwen.md", "skillyard.lock", "skillyard.toml",
})  # fmt: skip
"""Names, in small letters, of files without a dot that programs act on by themselves."""

_GIT: Final = re.compile(r"(?:.*/)?(?:head|git~[0-9]+(?:/.*)?)", re.IGNORECASE | re.DOTALL)
"""A folder with a file `HEAD` can be a repository without a `.git`, whose settings name programs; `GIT~1` is `.git` on NTFS."""
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # control, format (bidi and zero-width), surrogates, line separators
_CHUNK: Final = 1 << 20


def refusal_of_name(relative: str, *, hidden_files: bool, secrets: Iterable[str]) -> str:
    """Why a path may not go back; empty when it may. Names that nobody can read are never allowed."""
    parts = relative.split("/")
    if any(unicodedata.category(letter) in _UNSEEN for letter in relative):
        return "its name has characters that nobody sees or that turn the text around"
    if REDACTED in redact(os.fsencode(relative), secrets):
        return "its name holds a secret"
    if hidden_files:
        return ""
    if any(part.startswith(".") for part in parts):
        return "it is hidden (hidden-files = true in your own [sandbox] settings allows it)"
    if any(part.casefold() in CONTROL_FILES for part in parts) or _GIT.fullmatch(relative):
        return "programs act on it by themselves (hidden-files = true in your own [sandbox] settings allows it)"
    return ""


def refusal_of_content(file: int, secrets: Sequence[str]) -> str:
    """Why the content of an open file may not go back; empty when it may. One pass over it, and it is left at its beginning.

    Found are secrets in the forms that are removed from output: as they are, as hexadecimal digits, base64, quoted for a URL,
    or inside JSON.
    """
    forms = secret_forms(secrets)
    overlap = max(map(len, forms), default=1) - 1
    kept, place = b"", 0
    while forms and (data := os.pread(file, _CHUNK, place)):
        place += len(data)
        window = kept + data
        if any(form in window for form in forms):
            return "it holds a secret"
        kept = window[-overlap:] if overlap else b""
    return ""


def held_back(relative: str, reason: str, secrets: Iterable[str]) -> str:
    """The sentence for the outcome, with a name that can be shown."""
    name = redact(os.fsencode(relative), secrets).decode("utf-8", "backslashreplace")
    return f"{HELD_BACK}: {single_line(name)} was left behind: {reason}"
