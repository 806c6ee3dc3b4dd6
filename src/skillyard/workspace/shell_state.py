"""What a shell leaves to the next one: its folder, exported variables and functions, read strictly and written anew.

A shell's state is a stranger's text: whatever ran in that shell may have had a hand in it. Variables are read as names and
values, and quoted again; what is anything else is dropped. Functions are programs under names of their own: where the calls
of a workspace are judged by rules, neither they nor variables that decide what commands do are handed on.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, Self

_LONGEST: Final = 96 * 1024  # bytes: it travels in one variable
_LONGEST_PATH: Final = 4096
_DECLARED: Final = re.compile(r"declare -([A-Za-z]+) ([A-Za-z_][A-Za-z0-9_]*)(=?)", re.ASCII)
_PLAIN: Final = re.compile(r'"((?:[^"\\`$]|\\[\s\S])*+)"')
_ANSI: Final = re.compile(r"\$'((?:[^'\\]|\\[\s\S])*+)'")
_ESCAPED: Final = re.compile(r"\\([0-7]{1,3}|[\s\S])", re.ASCII)
_LETTERS: Final = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b", "E": "\x1b"}
# What each shell says of itself, and what cannot be assigned to.
_OWN: Final = frozenset({"_", "PWD", "SHLVL", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "EUID", "UID", "PPID"})
_DECIDING: Final = re.compile(
    r"PATH|CDPATH|HOME|ENV|IFS|PS[0-9]|PROMPT_COMMAND|GLOBIGNORE|EXECIGNORE|POSIXLY_CORRECT|PAGER|MANPAGER|EDITOR|VISUAL|BROWSER"
    r"|SHELL|(BASH|LD_|DYLD_|GIT_|PYTHON|NODE_|PERL|RUBY|LESS|TAR_OPTIONS|npm_config_|NPM_CONFIG_)\w*|__skillyard\w*",
    re.ASCII,
)


class _UnreadableState(ValueError):
    """It is not what a shell writes."""


@dataclass(frozen=True, slots=True)
class ShellState:
    """Exported variables (None: exported, without a value) and the text of functions, as the last shell left them."""

    variables: tuple[tuple[str, str | None], ...] = ()
    functions: str = ""

    @classmethod
    def read(cls, data: bytes) -> tuple[str, Self] | None:
        """The folder and the state from what a shell has written: `pwd`, `declare -px` and `declare -f`, each ended by NUL.

        None when it is anything else.
        """
        parts = data.decode("utf-8", "surrogateescape").split("\0")
        if len(parts) != 4 or parts[3] or not parts[0].startswith("/") or len(data) > _LONGEST:
            return None
        folder = parts[0].removesuffix("\n")
        try:
            state = cls(tuple(_variables(parts[1])), parts[2])
        except _UnreadableState:
            return None
        fits = len(_encoded(folder)) < _LONGEST_PATH and len(_encoded(state.text(judged=False))) <= _LONGEST
        return (folder, state) if fits else None

    def text(self, *, judged: bool) -> str:
        """The commands that give a new shell this state; where calls are `judged`, without what decides what commands do."""
        lines = [
            f"export {name}" if value is None else f"export {name}={shlex.quote(value)}"
            for name, value in self.variables
            if not (judged and _DECIDING.fullmatch(name))
        ]
        return "\n".join(lines if judged else [*lines, self.functions])

    def without(self, names: Collection[str]) -> ShellState:
        """The same without some variables."""
        return ShellState(tuple(one for one in self.variables if one[0] not in names), self.functions)


def _variables(text: str) -> Iterator[tuple[str, str | None]]:
    place = 0
    while place < len(text):
        head = _DECLARED.match(text, place)
        if head is None:
            raise _UnreadableState(place)
        place = head.end()
        flags, name = head[1], head[2]
        value: str | None = None
        if head[3]:
            if "a" in flags or "A" in flags:  # cannot be exported: a shell only marks it so
                place = _after_list(text, place)
                name = "_"
            else:
                value, place = _value(text, place)
        if not text.startswith("\n", place):
            raise _UnreadableState(place)
        place += 1
        if name not in _OWN and "n" not in flags:
            yield name, value


def _value(text: str, place: int) -> tuple[str, int]:
    if (plain := _PLAIN.match(text, place)) is not None:
        return re.sub(r"\\([\s\S])", r"\1", plain[1]), plain.end()
    if (ansi := _ANSI.match(text, place)) is not None:
        return _of_ansi(ansi[1]), ansi.end()
    raise _UnreadableState(place)


def _after_list(text: str, place: int) -> int:
    """Behind `([0]="a" [x]=$'b')`."""
    if not text.startswith("(", place):
        raise _UnreadableState(place)
    place += 1
    while not text.startswith(")", place):
        equal = text.find("]=", place)
        if equal < 0 or not text.startswith("[", place):
            raise _UnreadableState(place)
        _, place = _value(text, equal + 2)
        place += text.startswith(" ", place)
    return place + 1


def _of_ansi(text: str) -> str:
    """What `$'…'` stands for: letters and octal numbers of bytes."""

    def plain(found: re.Match[str]) -> str:
        what = found[1]
        if what[0] in "01234567":
            return bytes([int(what, 8) & 0xFF]).decode("latin-1")
        return _LETTERS.get(what, what).encode("utf-8", "surrogateescape").decode("latin-1")

    pieces: list[str] = []
    end = 0
    for found in _ESCAPED.finditer(text):
        pieces += (_encoded(text[end : found.start()]).decode("latin-1"), plain(found))
        end = found.end()
    pieces.append(_encoded(text[end:]).decode("latin-1"))
    return "".join(pieces).replace("\0", "").encode("latin-1").decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
