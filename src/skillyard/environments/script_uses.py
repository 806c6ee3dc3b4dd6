"""What scripts and texts import, start and install: Python by its syntax tree, JavaScript and shell by one pass.

Nothing is run. A file that cannot be read as its language says nothing; every reader is linear in the text, which is capped.
"""

from __future__ import annotations

import ast
import re
import shlex
import string
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from skillyard.environments.grants import npm_package, python_package
from skillyard.errors import InvalidInput

TEXT_LIMIT: Final = 512 * 1024
"""Characters of one file that are looked at."""
_DEEPEST: Final = 200  # nested brackets in Python: what its parser accepts is no deeper


@dataclass(frozen=True, slots=True)
class Imported:
    """One thing a file imports or starts: its name (a module with dots, a specifier, a program) and the line."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class ScriptUses:
    """What one file imports, and which known programs it starts."""

    imports: tuple[Imported, ...] = ()
    programs: tuple[Imported, ...] = ()


def python_uses(source: str, known: Collection[str]) -> ScriptUses:
    """The modules that Python source imports, and the `known` programs that it names at the beginning of a command.

    Relative imports and those that only type checkers see are left out. A command is a list of words, the text given to a
    function that starts programs, or a name that is looked up in `PATH`.
    """
    tree = _parsed(source)
    return ScriptUses(tuple(_imports_of(tree)), tuple(_programs_of(tree, known))) if tree else ScriptUses()


def _parsed(source: str) -> ast.Module | None:
    if len(source) > TEXT_LIMIT:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imports_of(tree: ast.Module) -> Iterator[Imported]:
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (Imported(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if not node.level and node.module:
                yield from (Imported(f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.If) and _is_for_types(node.test):
            waiting.extend(node.orelse)
        elif isinstance(node, ast.stmt | ast.Module | ast.ExceptHandler | ast.match_case):
            waiting.extend(ast.iter_child_nodes(node))


def _is_for_types(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


_STARTS: Final = frozenset({
    "run", "call", "check_call", "check_output", "Popen", "system", "popen", "getoutput", "getstatusoutput", "which",
    "create_subprocess_exec", "create_subprocess_shell", "execvp", "spawn",
})  # fmt: skip


def _programs_of(tree: ast.Module, known: Collection[str]) -> Iterator[Imported]:
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple) and len(node.elts) > 1:
            yield from _word(node.elts[0], known)
        elif isinstance(node, ast.Call) and node.args:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in _STARTS:
                first = node.args[0]
                yield from _word(first.elts[0] if isinstance(first, ast.List) and first.elts else first, known)


def _word(node: ast.expr, known: Collection[str]) -> Iterator[Imported]:
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0] if isinstance(node.values[0], ast.Constant) else node
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        word = node.value[:200].strip().partition(" ")[0]
        if word in known:
            yield Imported(word, node.lineno)


_CODE: Final = re.compile(
    r"""//[^\n]*|/\*|["'`]|\n|[A-Za-z_$][\w$]*|\d[\w.]*|[^\s\w]""",
)
_BEFORE_REGEX: Final = frozenset("(,=:[!&|?{};+-*%~^<>")
_WORDS_BEFORE_REGEX: Final = frozenset({"return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "do", "else"})
_IMPORTS: Final = (("from",), ("import",), ("import", "("), ("require", "("), ("resolve", "("))
_SPAWNS: Final = frozenset({"exec", "execSync", "execFile", "execFileSync", "spawn", "spawnSync"})


def javascript_uses(source: str, known: Collection[str]) -> ScriptUses:
    """The specifiers that JavaScript or TypeScript source imports or requires, and the `known` programs that it starts."""
    imports, programs = [], []
    for before, text, line in _javascript_texts(source):
        if _is_import(before):
            imports.append(Imported(text, line))
        elif before[1:] == ("(",) and before[0] in _SPAWNS and (word := text[:200].strip().partition(" ")[0]) in known:
            programs.append(Imported(word, line))
    return ScriptUses(tuple(imports), tuple(programs))


def _is_import(before: tuple[str, ...]) -> bool:
    return before[-1:] in (("from",), ("import",)) or before in _IMPORTS


def _javascript_texts(source: str) -> Iterator[tuple[tuple[str, ...], str, int]]:
    """Every text outside comments, regular expressions and templates: the two pieces before it, the text and its line."""
    if len(source) > TEXT_LIMIT:
        return
    at, line, before = 0, 1, ("", "")
    divided = 0  # before this place no slash begins a regular expression
    while match := _CODE.search(source, at):
        piece, at = match[0], match.end()
        if piece == "\n":
            line += 1
        elif piece == "/*":
            end = source.find("*/", at)
            end = len(source) if end < 0 else end + 2
            line += source.count("\n", at, end)
            at = end
        elif piece in ("'", '"', "`"):
            end = _end_of_text(source, at, piece)
            if piece != "`" or "${" not in source[at:end]:
                yield before, source[at:end], line
            line += source.count("\n", at, end)
            at, before = end + 1, (before[1], "text")
        elif piece == "/" and (before[1][-1:] in _BEFORE_REGEX or not before[1] or before[1] in _WORDS_BEFORE_REGEX):
            closed, end = _end_of_regex(source, at) if at > divided else (False, divided)
            at, divided, before = (end + 1, divided, (before[1], "regex")) if closed else (at, end, (before[1], piece))
        elif not piece.startswith("//"):
            before = (before[1], piece)


_TEXT_ENDS: Final = {
    "`": re.compile(r"\\.|`", re.DOTALL),
    '"': re.compile(r'\\.|"|\n', re.DOTALL),
    "'": re.compile(r"\\.|'|\n", re.DOTALL),
}


def _end_of_text(source: str, at: int, quote: str) -> int:
    """Where a text ends: at its quote; a text of one line at the latest with the line."""
    ends = _TEXT_ENDS[quote]
    while match := ends.search(source, at):
        if not match[0].startswith("\\"):
            return match.start()
        at = match.end()
    return len(source)


_LONGEST_REGEX: Final = 1_000
_REGEX_PART: Final = re.compile(r"\\.|[\[\]/\n]", re.DOTALL)


def _end_of_regex(source: str, at: int) -> tuple[bool, int]:
    """Whether a regular expression ends within its line, and where; else how far was looked: the slash was a division."""
    inside, limit = False, at + _LONGEST_REGEX
    while match := _REGEX_PART.search(source, at, limit):
        at = match.end()
        if match[0] == "\n":
            return False, match.start()
        if match[0] == "[":
            inside = True
        elif match[0] == "]":
            inside = False
        elif match[0] == "/" and not inside:
            return True, match.start()
    return False, min(limit, len(source))


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
