"""Words of a shell line: what a word is once its quotes are gone, or that this cannot be known before it runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node

_WORD: Final = re.compile(r"(?:[^\s;|&()<>'\"`$\\]|\\[^\n]|\\\n|\$(?![\w({\[@*#?$!'\"-]))+")
_GLOB: Final = re.compile(r"(?:^|[^\\])(?:\\\\)*[*?\[{}]")
_RAW: Final = re.compile(r"'[^']*'")
_ANSI_C: Final = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_DOUBLE: Final = re.compile(r"(?:[^\"\\`$]|\\.|\$(?![\w({\[@*#?$!-]))*", re.DOTALL)
_SIMPLE_EXPANSION: Final = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!_-])")
_PLAIN_EXPANSION: Final = re.compile(r"\$\{#?[A-Za-z_]\w*(?:(?::?-|##?|%%?)[\w./*-]*)?\}")
_PLAIN_PATTERN: Final = re.compile(r"[\w.*?\[\]^+/:@%,={}-]+")
_PLAIN_NUMBERS: Final = re.compile(r"\$\(\([\d\s+*/%()<>=!&|^~?:,-]*\)\)")
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_LETTERS: Final = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PROCESS_LINKS: Final = frozenset({"fd", "fdinfo", "cwd", "root", "map_files", "exe", "mem"})
_DEVICE_LINKS: Final = frozenset({"fd", "tcp", "udp"})
_HIGHEST: Final = 0x10FFFF


def word_set(words: str) -> frozenset[str]:
    """The words of a text that are separated by blanks."""
    return frozenset(words.split(" "))


SHELLS: Final = word_set("sh bash dash zsh ksh mksh ash rbash fish")
"""Shells that take their script as an option, as `sh -c` does."""


@dataclass(frozen=True, slots=True)
class ShellWord:
    """One word: as it is written, and as the program gets it; `text` None is anything, also no word or several."""

    raw: str
    text: str | None


def is_visible(text: str) -> bool:
    """Whether every character of a line can be seen by who is asked about it."""
    from skillyard.text import sanitize

    return "\r" not in text and "\0" not in text and sanitize(text) == text


def is_descriptor(path: str) -> bool:
    """Whether a path leads to an open descriptor of some process, or to a connection, and not to a file of that name."""
    names = [name for name in path.split("/") if name not in ("", ".", "..")]
    if "proc" in names:
        return not _PROCESS_LINKS.isdisjoint(names[names.index("proc") + 1 :]) or names[-1] in ("self", "thread-self")
    if "dev" not in names:
        return False
    after = names[names.index("dev") + 1 :]
    return not _DEVICE_LINKS.isdisjoint(after) and after not in (["fd", "0"], ["fd", "1"], ["fd", "2"])


def ansi_c(text: str) -> str:
    r"""What `$'…'` stands for, given what is between its quotes: `\x67it` is `git`."""

    def character(match: re.Match[str]) -> str:
        for digits, base in zip(match.groups()[:4], (16, 16, 16, 8), strict=True):
            if digits is not None:
                code = int(digits, base) & (0xFF if base == 8 else 0xFFFFFFFF)
                return chr(code) if code <= _HIGHEST else "\0"
        if match[5] is not None:
            return chr(ord(match[5]) & 0x1F)
        letter = match[6]
        return _LETTERS.get(letter, letter if letter in "\\'\"?" else f"\\{letter}")

    return _ESCAPE.sub(character, text)


def unescaped_backquotes(text: str) -> str:
    r"""The script between two backquotes: there a backslash escapes `` ` ``, `$` and itself."""
    return re.sub(r"\\([\\`$])", r"\1", text)


@dataclass(slots=True)
class WordReader:
    """Makes words of the nodes of a syntax tree; `visit` reads the commands inside them, `doubt` notes what is unclear."""

    source: Callable[[Node], str]
    visit: Callable[[Node, int], None]
    doubt: Callable[[str], None]
    accounted: set[int] = field(default_factory=set)  # where something begins that looks like a substitution and is none
    begins: list[int] = field(default_factory=list)  # where words begin, and where they end
    ends: set[int] = field(default_factory=set)
    understood: list[tuple[int, int]] = field(default_factory=list)  # expansions that were understood as a whole

    def touching(self) -> bool:
        """Whether two words touch: the shell reads them as one."""
        return any(start in self.ends for start in self.begins)

    def read(self, node: Node, level: int) -> ShellWord:
        """The word of `node`."""
        raw = self.source(node)
        self.begins.append(node.start_byte)
        self.ends.add(node.end_byte)
        return ShellWord(raw, raw if raw == "{}" else self._text(node, raw, level))

    def _text(self, node: Node, raw: str, level: int) -> str | None:
        if level > 60:
            self.doubt("it is nested too deeply")
            return None
        if node.type == "concatenation":
            return self._joined(node, level)
        if node.type == "string":
            return self._string(node, level)
        if node.type in ("word", "number", "test_operator") or not node.is_named:
            return self._plain(raw)
        if node.type == "raw_string" and _RAW.fullmatch(raw):
            return raw[1:-1]
        if node.type == "ansi_c_string" and _ANSI_C.fullmatch(raw):
            text = ansi_c(raw[2:-1])
            return None if "\0" in text else text
        self._expanded(node, raw, level)
        return None

    def _plain(self, raw: str) -> str | None:
        if not _WORD.fullmatch(raw):
            self.doubt("a word has a sign that cannot be understood")
            return None
        if raw[0] == "~" or _GLOB.search(raw):
            return None
        return re.sub(r"\\(.)", lambda match: "" if match[1] == "\n" else match[1], raw, flags=re.DOTALL)

    def _joined(self, node: Node, level: int) -> str | None:
        texts: list[str | None] = []
        end = node.start_byte
        for child in node.children:
            if child.start_byte != end:
                self.doubt("the parts of a word do not stand together")
            end = child.end_byte
            texts.append(self._text(child, self.source(child), level + 1))
        known = [text for text in texts if text is not None]
        return "".join(known) if len(known) == len(texts) else None

    def _string(self, node: Node, level: int) -> str | None:
        raw, begin = self.source(node).encode(), node.start_byte
        if not raw.startswith(b'"') or not raw.endswith(b'"') or len(raw) < 2:
            self.doubt("a text in quotes cannot be understood")
            return None
        parts, at, known = [], 1, True
        for child in node.named_children:
            if child.type in ("string_content", "comment"):
                continue
            known = False
            parts.append(raw[at : child.start_byte - begin])
            at = child.end_byte - begin
            self._expanded(child, self.source(child), level + 1)
        parts.append(raw[at:-1])
        texts = [part.decode(errors="replace") for part in parts]
        if not all(_DOUBLE.fullmatch(text) for text in texts):
            self.doubt("a text in quotes cannot be understood")
            return None
        self.accounted |= {begin + match.start() for match in re.finditer(rb"[<>]\(", raw)}
        return re.sub(r'\\([\\"$`\n])', lambda found: "" if found[1] == "\n" else found[1], texts[0]) if known else None

    def _expanded(self, node: Node, raw: str, level: int) -> None:
        """A part whose value is not known: what it runs is read, what it could hide is noted."""
        if node.type.endswith("_substitution"):
            self.visit(node, level + 1)
        elif node.type == "simple_expansion":
            if not _SIMPLE_EXPANSION.fullmatch(raw):
                self.doubt("an expansion cannot be understood")
        elif node.type == "arithmetic_expansion":
            self.accounted.add(node.start_byte)
            if _PLAIN_NUMBERS.fullmatch(raw):
                self.understood.append((node.start_byte, node.end_byte))
            else:
                self.doubt("it calculates with names, whose values can be commands")
                self._inside(node, level)
        elif (node.type == "expansion" and _PLAIN_EXPANSION.fullmatch(raw)) or (
            node.type in ("brace_expression", "extglob_pattern", "regex") and _PLAIN_PATTERN.fullmatch(raw)
        ):
            self.understood.append((node.start_byte, node.end_byte))
        else:
            self.doubt("an expansion or quotation cannot be understood")
            self._inside(node, level)

    def _inside(self, node: Node, level: int) -> None:
        """Every command inside a part that is not understood: what it would run can still be denied."""
        for child in node.named_children:
            if child.type.endswith("_substitution"):
                self.visit(child, level + 1)
            elif level < 60:
                self._inside(child, level + 1)
