"""The texts of a skill: files read within bounds, and the prose, examples, comments and scripts in them."""

from __future__ import annotations

import json
import os
import re
import stat
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Final, Literal

from skillyard.document.front_matter import read_body
from skillyard.errors import SkillyardError
from skillyard.packages import IGNORED, sniff
from skillyard.paths import open_inside
from skillyard.scanner.finding import LINK, NEVER_PACKED, Skipped
from skillyard.text import shorten, single_line

Language = Literal["python", "shell", "javascript", "powershell", "markdown", "html", "data", "text"]
Role = Literal["script", "example", "prose", "comment", "data"]
"""`script`: runs as it is; `example`: code in a document; `prose`: what a model reads; `comment`: what nobody is shown."""

_EVIDENCE: Final = 120


@dataclass(frozen=True, slots=True)
class Hit:
    """A position in a source where a rule matched; `offset` counts characters from the source's start."""

    rule: str
    offset: int
    message: str = ""
    """Replaces the rule's title."""
    evidence: str = ""
    """Replaces the line."""
    relief: int = 0
    """How many steps less it weighs here than its rule."""


@dataclass(frozen=True)
class SourceText:
    """One text in one language; `first_line` is the line of the file it begins on, counted from 1."""

    file: str
    text: str
    language: Language
    role: Role
    first_line: int = 1
    origin: str = ""
    """How the text was obtained, when it is not in the file like this, for example `in base64`."""
    fixed_line: int | None = None
    """The line of the file that every finding is reported at, for a text that was taken out of one line."""
    commented: str = ""
    """The text with its comments, where they were taken out of `text`, each character where it was."""

    @cached_property
    def lower(self) -> str:
        """The text in lower case, each character where it was, for a quick search for words."""
        low = self.text.lower()
        return low if len(low) == len(self.text) else "".join(a if len(a.lower()) != 1 else a.lower() for a in self.text)

    @cached_property
    def _firsts(self) -> dict[str, int]:
        return {}

    def first(self, word: str) -> int:
        """Where a word, in lower case, occurs first, whatever the case there; -1 when it does not. Many patterns ask for the same."""
        at = self._firsts.get(word)
        if at is None:
            at = self._firsts[word] = self.lower.find(word)
        return at

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self.text.split("\n")[:-1])]

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column of an offset in the file."""
        index = bisect_right(self._starts, offset) - 1
        if self.fixed_line is not None:
            return self.fixed_line, 1
        return self.first_line + index, offset - self._starts[index] + 1

    def offset_of(self, line: int, column: int = 0) -> int:
        """The offset of a line of the text, counted from 1, and a column, counted from 0."""
        return self._starts[min(max(line, 1), len(self._starts)) - 1] + column

    def line_at(self, offset: int) -> str:
        """The line around an offset, cut to what is near it when it is long."""
        start, end = self._line(offset)
        return self.text[max(start, offset - _EVIDENCE // 2) if end - start > _EVIDENCE else start : min(end, offset + 400)]

    def _line(self, offset: int) -> tuple[int, int]:
        end = self.text.find("\n", offset)
        return self.text.rfind("\n", 0, offset) + 1, len(self.text) if end < 0 else end

    def whole_line(self, offset: int) -> tuple[str, int]:
        """The line around an offset, of a long one a part, and where in it the offset is."""
        start = max(self.text.rfind("\n", 0, offset) + 1, offset - 600)
        end = self.text.find("\n", offset, offset + 600)
        return self.text[start : end if end >= 0 else offset + 600], offset - start

    def lines_near(self, offset: int) -> tuple[str, str]:
        """The line around an offset and the one before it, each cut to its beginning when it is long."""
        start, end = self._line(offset)
        before, _ = self._line(max(start - 1, 0))
        return self.text[start : min(end, start + 2000)], self.text[before : min(start, before + 2000)]


def evidence_of(text: str) -> str:
    """Text of a stranger as one short line that steers no terminal."""
    return shorten(single_line(text[:2000]), _EVIDENCE)


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
FENCES: Final[dict[str, Language]] = {
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
_ALWAYS_TEXT: Final = ("python", "shell", "javascript", "powershell", "markdown")
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
    return next(iter(readings("", data)), None)


def readings(name: str, data: bytes) -> list[str]:
    """What the bytes say to who reads them, with the line feed as the only line break: none when they are no text.

    A script or a document, by its name or its first line, always says something: shells, and models that are given it, pass
    over NULs, broken letters and a byte order mark that does not fit. With such a mark it is read in both ways.
    """
    language = language_of(name, data[:200].decode("utf-8", "replace"))
    certain = language in _ALWAYS_TEXT or data.startswith(b"#!")
    marked = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    texts = [data.decode("utf-16", "replace")] if marked else []
    if certain or (not marked and b"\0" not in data[:8192]):
        text = data.replace(b"\0", b"").decode("utf-8", "replace")
        if certain or text.count("\ufffd", 0, 8192) <= len(text[:8192]) // 10:
            texts.append(text)
    return [_OTHER_BREAKS.sub(" ", _LINE_BREAKS.sub("\n", text)) for text in texts]


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


_OTHER_CODE: Final = (
    ".rb", ".pl", ".pm", ".php", ".go", ".rs", ".lua", ".java", ".cs", ".kt", ".swift", ".applescript", ".scpt", ".vbs", ".groovy",
    ".scala", ".r", ".ex", ".exs", ".tcl", ".dart",
)  # fmt: skip
"""Endings of programs in languages whose commands are not known: they are searched like text that runs."""
_ACTED_ON: Final = frozenset((
    "package.json", "tasks.json", "hooks.json", "settings.json", "settings.local.json", "devcontainer.json", "mcp.json", ".mcp.json",
    "plugin.json", "launch.json", ".pre-commit-config.yaml", ".gitlab-ci.yml", "action.yml", "action.yaml", "procfile", ".npmrc", "pip.conf",
    ".yarnrc.yml", ".yarnrc", "bunfig.toml", ".envrc", "lefthook.yml",
))  # fmt: skip


def commands_acted_on(name: str, text: str) -> SourceText | None:
    """A file with commands that programs run by themselves, as a script; None for other files."""
    base = name.lower().rpartition("/")[2]
    if base not in _ACTED_ON and not (".github/workflows/" in name.lower() and base.endswith((".yml", ".yaml"))):
        return None
    if base.endswith(".json"):  # each text begins a command
        text = re.sub(r'(?<!\\)"', ";", text).replace('\\"', '"')
    elif base.endswith((".yml", ".yaml")):
        text = text.replace(": ", "; ")
    return SourceText(name, text, "shell", "script")


def _notebook(name: str, text: str) -> Iterator[SourceText]:
    """The cells of a notebook: code as one script, the others as prose."""
    try:
        cells = json.loads(text).get("cells", [])
        joined: dict[str, list[str]] = {"code": [], "markdown": []}
        for cell in cells:
            if cell.get("cell_type") in joined:
                source = cell.get("source", "")
                joined[cell["cell_type"]].append(source if isinstance(source, str) else "".join(map(str, source)))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return
    code = "\n".join(re.sub(r"^[ \t]*([!%])", r"#\1", one, flags=re.MULTILINE) for one in joined["code"])
    shell = "\n".join(re.findall(r"^[ \t]*!([^\n]*)", "\n".join(joined["code"]), re.MULTILINE))
    for language, found in (("python", code), ("shell", shell)):
        if found.strip():
            yield SourceText(
                name, found, "python" if language == "python" else "shell", "script", origin="in a cell", fixed_line=1
            )
    if joined["markdown"]:
        yield SourceText(name, "\n\n".join(joined["markdown"]), "markdown", "prose", fixed_line=1)


_RUN_AS: Final = re.compile(
    r"\b(python[0-9.]{0,5}|(?:ba|z)?sh|node|bun|source)\s{1,3}(?:-\w{1,10}\s{1,3}){0,3}[\"']?([\w./${}-]{1,200})"
)
_MOST_RUN: Final = 200


def told_to_run(text: str) -> dict[str, Language]:
    """The last names of the files that a text tells to run by an interpreter, with its language."""
    found = zip(_RUN_AS.finditer(text), range(_MOST_RUN), strict=False)
    return {
        match[2].rpartition("/")[2]: next(language for word, language in _SHEBANGS if word in f"{match[1]} sh")
        for match, _ in found
    }


def split(name: str, text: str, run_as: Language | None = None) -> Iterator[SourceText]:
    """The texts in a file, each in one language; the first is the file itself, or what is prose in it.

    `run_as` is the language in which the skill's text tells to run a file whose name does not say one.
    """
    language = language_of(name, text)
    if run_as is not None and language in ("data", "text"):
        language = run_as
    if name.lower().endswith(".ipynb"):
        yield from _notebook(name, text)
    if language == "markdown":
        yield from _markdown(name, text)
    elif language == "html":
        yield SourceText(name, text, "html", "data")
        yield from _hidden_comments(name, text)
    elif language in ("data", "text"):
        code = name.lower().endswith(_OTHER_CODE)
        yield SourceText(name, text, language, "script" if code else "data" if language == "data" else "prose")
    else:
        yield SourceText(name, text, language, "script")


def without_comments(source: SourceText) -> SourceText:
    """The source with lines that are comments made empty and broken commands joined; every other character stays at its offset."""
    text = source.text
    expression = _COMMENT_LINE.get(source.language)
    if expression is not None and not (
        source.language == "shell" and source.role == "example" and "# " in text and "$ " in text
    ):
        text = expression.sub(lambda match: " " * len(match[0]), text)
    if "\\\n" in text and source.language != "python":
        text = text.replace("\\\n", "  ")
    return source if text is source.text else replace(source, text=text, commented=source.text)


_INLINE: Final = re.compile(
    r"\b(node|bun|deno eval|python[0-9.]{0,5})\s{1,3}(?:-[a-zA-Z-]{1,20}\s{1,3}){0,2}?(?:-[ec]\s{0,3}|(?<=eval )\s{0,3})([\"'])"
    r"|\b(node|bun|python[0-9.]{0,5})\b[^\n;|&]{0,60}?<<-?\s{0,2}[\"']?(\w{1,20})[\"']?[^\n]{0,60}\n"
)
_LONGEST_INLINE: Final = 20_000
_MOST_INLINE: Final = 20


def _line_of(word: str, text: str, start: int, most: int) -> int:
    """Where a line that is only this word begins; -1 when there is none."""
    at = text.find(word, start, most)
    while at >= 0:
        line = text.rfind("\n", 0, at) + 1
        if text[line : at + len(word) + 20].partition("\n")[0].strip() == word:
            return line
        at = text.find(word, at + len(word), most)
    return -1


def inline_programs(source: SourceText) -> Iterator[SourceText]:
    """The programs that a shell text hands to an interpreter in a command, between quotes or as the lines that follow."""
    if source.language != "shell":
        return
    text = source.text
    for number, match in enumerate(_INLINE.finditer(text)):
        if number == _MOST_INLINE:
            return
        start, most = match.end(), match.end() + _LONGEST_INLINE
        if quote := match[2]:
            end = text.find(quote, start, most)
            while quote == '"' and end > 0 and text[end - 1] == "\\":
                end = text.find(quote, end + 1, most)
        else:
            end = _line_of(match[4], text, start, most)
        if end > start:
            program = text[start:end]
            language: Language = "python" if (match[1] or match[3]).startswith("python") else "javascript"
            program = program.replace('\\"', '"').replace("\\$", "$") if quote == '"' else program
            yield SourceText(source.file, program, language, source.role, source.position(start)[0], "inside a command")


def _markdown(name: str, text: str) -> Iterator[SourceText]:
    """Prose, the comments in it, and the examples of each language as one text: all keep their lines."""
    _, blocks = read_body(text)
    lines = text.splitlines(keepends=True)
    examples: dict[Language, list[str]] = {}
    reached: dict[Language, int] = {}
    for number, block in enumerate(blocks):
        height = block.text.count("\n")
        lines[block.line - 1 : block.line + height + 1] = ["\n"] * len(lines[block.line - 1 : block.line + height + 1])
        language = FENCES.get(block.language) or ("shell" if not block.language else "text")
        if language == "python" and number < _MOST_PARSED:
            yield SourceText(name, block.text, language, "example", block.line + 1)
        else:
            pieces = examples.setdefault(language, [])
            pieces += ("\n" * (block.line - reached.get(language, 0)), block.text)
            reached[language] = block.line + height
    prose = "".join(lines)
    yield SourceText(name, prose, "markdown", "prose")
    yield from _hidden_comments(name, prose)
    for language, pieces in examples.items():
        yield SourceText(name, "".join(pieces), language, "example")


def _hidden_comments(name: str, text: str) -> Iterator[SourceText]:
    """The comments of a page, which no reader of the rendered page sees, as one text that keeps its lines."""
    pieces: list[str] = []
    at, done = text.find("<!--"), 0
    while at >= 0:
        end = text.find("-->", at + 4)
        end = len(text) if end < 0 else end
        pieces += ("\n" * text.count("\n", done, at), text[at + 4 : end])
        at, done = text.find("<!--", end), end
    if pieces:
        yield SourceText(name, "".join(pieces), "html", "comment")


_MOST_FILES: Final = 5_000
_MOST_BYTES: Final = 8 * 1024 * 1024
_DEEPEST: Final = 32
_RUNS: Final = (
    ".py", ".sh", ".bash", ".zsh", ".js", ".mjs", ".cjs", ".ts", ".mts", ".ps1", ".bat", ".cmd", ".rb", ".pl", ".php",
)  # fmt: skip
TOO_DEEP: Final = "too many folders deep"
TOO_LARGE: Final = "beyond what is read of one skill"
"""Why files are left out when there are too many, or too much is in them."""
LARGEST_TEXT: Final = 1024 * 1024
"""How many bytes of one file are scanned."""
LARGEST_ARCHIVE: Final = 16 * 1024 * 1024
"""How many bytes of one archive are read."""


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """The beginning of one regular file; `name` is its path in the folder, `whole` whether that is all of it."""

    name: str
    data: bytes
    whole: bool


def read_files(folder: str | os.PathLike[str], skipped: list[Skipped]) -> Iterator[ScannedFile]:
    """Every regular file: SKILL.md, what may run, what is read, then the rest; what cannot be scanned is added to `skipped`."""
    names = sorted(_walk(Path(folder), "", 0, skipped), key=lambda name: (reading_rank(name), name))
    budget = _MOST_BYTES
    for number, name in enumerate(names):
        if number == _MOST_FILES or budget <= 0:
            skipped.append(Skipped(name, f"{TOO_LARGE}, as are {len(names) - number - 1} more files"))
            return
        try:
            with os.fdopen(open_inside(folder, name), "rb") as file:
                data = file.read(LARGEST_TEXT + 1)
                if len(data) > LARGEST_TEXT and sniff(data[:512]):
                    data += file.read(LARGEST_ARCHIVE - LARGEST_TEXT)
        except SkillyardError as error:
            skipped.append(Skipped(name, error.message))
            continue
        except OSError as error:
            skipped.append(Skipped(name, f"it cannot be read: {error.strerror}"))
            continue
        budget -= 0 if b"\0" in data[:8192] else len(data)
        most = LARGEST_ARCHIVE if sniff(data[:512]) else LARGEST_TEXT
        yield ScannedFile(name, data[:most], len(data) <= most)


def reading_rank(name: str) -> int:
    """In which order files are read: 0 SKILL.md, 1 what runs, 2 what is read, 3 the rest."""
    low = name.lower()
    if low == "skill.md":
        return 0
    if low.endswith(_RUNS):
        return 1
    return 2 if low.endswith((".md", ".txt", ".markdown")) or "." not in low.rpartition("/")[2] else 3


def _walk(folder: Path, prefix: str, depth: int, skipped: list[Skipped]) -> Iterator[str]:
    try:
        with os.scandir(folder / prefix) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
    except OSError as error:
        skipped.append(Skipped(prefix or ".", f"it cannot be read: {error.strerror}"))
        return
    for entry in entries:
        name = prefix + entry.name
        mode = entry.stat(follow_symlinks=False).st_mode
        if entry.name in IGNORED:
            skipped.append(Skipped(name, NEVER_PACKED))
        elif stat.S_ISLNK(mode):
            skipped.append(Skipped(name, LINK))
        elif stat.S_ISREG(mode):
            yield name
        elif not stat.S_ISDIR(mode):
            skipped.append(Skipped(name, "neither a file nor a folder"))
        elif depth == _DEEPEST:
            skipped.append(Skipped(name, TOO_DEEP))
        else:
            yield from _walk(folder, f"{name}/", depth + 1, skipped)
