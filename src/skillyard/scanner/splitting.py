"""From the bytes of a file to the texts in it: prose, examples and comments of a document, or one script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from skillyard.document.sections import read_body
from skillyard.scanner.source import Language, Source

__all__ = ["decoded", "language_of", "split", "without_comments"]

_ENDINGS: Final[dict[str, Language]] = {
    ".py": "python", ".pyw": "python", ".pyi": "python",
    ".sh": "shell", ".bash": "shell", ".zsh": "shell", ".fish": "shell", ".command": "shell",
    ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".ts": "javascript", ".mts": "javascript", ".cts": "javascript",
    ".tsx": "javascript", ".jsx": "javascript",
    ".ps1": "powershell", ".psm1": "powershell", ".bat": "powershell", ".cmd": "powershell",
    ".md": "markdown", ".markdown": "markdown", ".mdx": "markdown", ".mdc": "markdown",
    ".html": "html", ".htm": "html", ".svg": "html", ".xml": "html", ".xhtml": "html", ".xsd": "html", ".xsl": "html",
    ".json": "data", ".yaml": "data", ".yml": "data", ".toml": "data", ".ini": "data", ".cfg": "data", ".env": "data", ".jsonl": "data",
}  # fmt: skip
_FENCES: Final[dict[str, Language]] = {
    "python": "python", "py": "python", "python3": "python",
    "bash": "shell", "sh": "shell", "shell": "shell", "zsh": "shell", "console": "shell", "terminal": "shell", "shell-session": "shell",
    "js": "javascript", "javascript": "javascript", "ts": "javascript", "typescript": "javascript", "jsx": "javascript",
    "tsx": "javascript", "mjs": "javascript",
    "powershell": "powershell", "ps1": "powershell", "pwsh": "powershell", "cmd": "powershell", "batch": "powershell",
    "json": "data", "yaml": "data", "yml": "data", "toml": "data", "ini": "data", "jsonc": "data", "dotenv": "data", "env": "data",
    "html": "html", "xml": "html", "svg": "html",
}  # fmt: skip
_SHEBANGS: Final[tuple[tuple[str, Language], ...]] = (
    ("python", "python"), ("node", "javascript"), ("deno", "javascript"), ("bun", "javascript"), ("sh", "shell"),
)  # fmt: skip
_MOST_PARSED: Final = 60  # examples in Python of one document that are parsed; the others are only searched
_LINE_BREAKS: Final = re.compile("\r\n?")
_OTHER_BREAKS: Final = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_COMMENT_LINE: Final[dict[Language, re.Pattern[str]]] = {
    "python": re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE),
    "shell": re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE),
    "powershell": re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE),
    "javascript": re.compile(r"^[ \t]*(?://|\*(?!\S))[^\n]*", re.MULTILINE),
}


def decoded(data: bytes) -> str | None:
    """The bytes as text whose only line break is the line feed, None when they are no text."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data[:8192]:
        return None
    else:
        text = data.decode("utf-8", "replace")
        if text.count("\ufffd", 0, 8192) > len(text[:8192]) // 10:
            return None
    return _OTHER_BREAKS.sub(" ", _LINE_BREAKS.sub("\n", text))


def language_of(name: str, text: str) -> Language:
    """The language of a file, by the ending of its name, else by its first line."""
    base = name.lower().rpartition("/")[2]
    ending = base[base.rfind(".") :] if "." in base else ""
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    if text.startswith("#!"):
        first = text[:200].partition("\n")[0]
        return next((language for word, language in _SHEBANGS if word in first), "text")
    return "shell" if base in ("makefile", "dockerfile", "justfile") else "text"


def split(name: str, text: str) -> Iterator[Source]:
    """The texts in a file, each in one language; the first is the file itself, or what is prose in it."""
    language = language_of(name, text)
    if language == "markdown":
        yield from _markdown(name, text)
    elif language == "html":
        yield Source(name, text, "html", "data")
        yield from _hidden_comments(name, text)
    elif language in ("data", "text"):
        yield Source(name, text, language, "data" if language == "data" else "prose")
    else:
        yield Source(name, text, language, "script")


def without_comments(source: Source) -> Source:
    """The source with lines that are comments made empty and broken commands joined; every other character stays at its offset."""
    text = source.text
    expression = _COMMENT_LINE.get(source.language)
    if expression is not None and not (
        source.language == "shell" and source.role == "example" and "# " in text and "$ " in text
    ):
        text = expression.sub(lambda found: " " * len(found[0]), text)
    if "\\\n" in text and source.language != "python":
        text = text.replace("\\\n", "  ")
    return source if text is source.text else replace(source, text=text)


def _markdown(name: str, text: str) -> Iterator[Source]:
    """Prose, the comments in it, and the examples of each language as one text: all keep their lines."""
    _, blocks = read_body(text)
    lines = text.splitlines(keepends=True)
    examples: dict[Language, list[str]] = {}
    reached: dict[Language, int] = {}
    for number, block in enumerate(blocks):
        height = block.text.count("\n")
        lines[block.line - 1 : block.line + height + 1] = ["\n"] * len(lines[block.line - 1 : block.line + height + 1])
        language = _FENCES.get(block.language) or ("shell" if not block.language else "text")
        if language == "python" and number < _MOST_PARSED:
            yield Source(name, block.text, language, "example", block.line + 1)
        else:
            pieces = examples.setdefault(language, [])
            pieces += ("\n" * (block.line - reached.get(language, 0)), block.text)
            reached[language] = block.line + height
    prose = "".join(lines)
    yield Source(name, prose, "markdown", "prose")
    yield from _hidden_comments(name, prose)
    for language, pieces in examples.items():
        yield Source(name, "".join(pieces), language, "example")


def _hidden_comments(name: str, text: str) -> Iterator[Source]:
    """The comments of a page, which no reader of the rendered page sees, as one text that keeps its lines."""
    pieces: list[str] = []
    at, done = text.find("<!--"), 0
    while at >= 0:
        end = text.find("-->", at + 4)
        end = len(text) if end < 0 else end
        pieces += ("\n" * text.count("\n", done, at), text[at + 4 : end])
        at, done = text.find("<!--", end), end
    if pieces:
        yield Source(name, "".join(pieces), "html", "comment")
