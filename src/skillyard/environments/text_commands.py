"""What shell scripts and code blocks of Markdown call: known programs; and the packages of `pip install` and `npm install`."""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from skillyard.environments.grants import npm_package, python_package
from skillyard.environments.script_imports import Imported
from skillyard.errors import InvalidInput

_LONGEST: Final = 2_000  # characters of one line
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})\s*([\w+-]*)")
_SHELLS: Final = frozenset({"bash", "sh", "shell", "console", "zsh", "shellsession"})
_PYTHON: Final = frozenset({"python", "py", "python3"})
_SCRIPTS: Final = frozenset({"javascript", "js", "typescript", "ts", "mjs", "jsx", "tsx"})
_BETWEEN: Final = re.compile(r"\|\||&&|[|;&]|\$\(|`|\bthen\b|\bdo\b|\belse\b")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=\S*")
_PREFIXES: Final = frozenset({"sudo", "time", "exec", "command", "env", "nohup", "!", "$", "xargs", "if", "while", "(", "{"})
_INSTALLS: Final = re.compile(
    r"\b(?:(?:uv[ ]+)?pip3?|python3?[ ]+-m[ ]+pip)[ ]+install[ ]+(?P<pip>[^\n`;&|#)]{1,500})"
    r"|\b(?:npm|pnpm|yarn|bun)[ ]+(?:install|i|add)[ ]+(?P<npm>[^\n`;&|#)]{1,1000})"
)
_VALUED: Final = frozenset({
    "-r", "--requirement", "-c", "--constraint", "-e", "--editable", "-i", "--index-url", "--extra-index-url", "-t", "--target",
    "--prefix", "--registry", "-f", "--find-links", "--python", "-p",
})  # fmt: skip


_FIRST: Final = frozenset("@" + string.ascii_letters + string.digits)
_PROSE: Final = frozenset({
    "a", "an", "and", "as", "before", "first", "for", "from", "if", "in", "into", "is", "on", "or", "the", "then", "to", "with",
})  # fmt: skip
"""Words that end a list of packages in a sentence."""


@dataclass(slots=True)
class CodeBlocks:
    """The code in a Markdown text by kind, each block with the line it begins on."""

    shell: list[tuple[str, int]] = field(default_factory=list)
    python: list[tuple[str, int]] = field(default_factory=list)
    javascript: list[tuple[str, int]] = field(default_factory=list)


def code_blocks(markdown: str) -> CodeBlocks:
    """The fenced blocks of a Markdown text in the languages that matter here; in one pass over its lines."""
    blocks = CodeBlocks()
    kinds = ((_SHELLS, blocks.shell), (_PYTHON, blocks.python), (_SCRIPTS, blocks.javascript))
    fence, into, first, lines = "", None, 0, list[str]()
    for number, line in enumerate(markdown.split("\n"), 1):
        match = _FENCE.match(line[:_LONGEST])
        if fence:
            if match and match[1].startswith(fence) and not match[2]:
                if into is not None:
                    into.append(("\n".join(lines), first))
                fence, lines = "", []
            else:
                lines.append(line)
        elif match:
            fence, first, lines = match[1], number + 1, []
            into = next((kept for names, kept in kinds if match[2].lower() in names), None)
    return blocks


def called_programs(shell: str, known: Collection[str], first_line: int = 1) -> Iterator[Imported]:
    """The `known` programs that stand where a command begins, in shell code."""
    for number, line in enumerate(shell.split("\n"), first_line):
        for part in _BETWEEN.split(line[:_LONGEST].partition(" #")[0]):
            words = part.split()
            while words and (words[0] in _PREFIXES or _ASSIGNMENT.fullmatch(words[0])):
                words.pop(0)
            if words and words[0].strip("\"'()") in known:
                yield Imported(words[0].strip("\"'()"), number)


def install_lines(text: str) -> Iterator[tuple[str, str, int]]:
    """What lines like `pip install x` and `npm install -g y` name: `packages` or `npm`, the package, the line."""
    for number, line in enumerate(text.split("\n"), 1):
        for match in _INSTALLS.finditer(line[:_LONGEST]):
            kind = "packages" if match["pip"] else "npm"
            for word in _named(match["pip"] or match["npm"]):
                try:
                    yield kind, python_package(word) if kind == "packages" else npm_package(word), number
                except InvalidInput:
                    break  # prose begins here


def _named(words: str) -> Iterator[str]:
    try:
        parts = shlex.split(words, comments=True)
    except ValueError:
        parts = words.replace('"', " ").replace("'", " ").split()
    skip = False
    for part in parts:
        if skip or part.startswith("-"):
            skip = part in _VALUED
        elif part.startswith(("$", ".", "/", "<", "(", "{")) or part.endswith((".txt", ".whl", ".toml")):
            continue
        elif part in _PROSE or (len(part) > 1 and part.endswith((".", ",", ":", "**"))) or part[0] not in _FIRST:
            return
        else:
            yield part
