"""What builtins of the shell do to the shell itself: variables that they set, and texts that they run later.

A rule cannot be held against either: a variable such as PATH changes what the other commands are, and a text that is run later
is no command of the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from skillyard.permissions.shell_script import SimpleCommand
from skillyard.permissions.shell_words import ShellWord, word_set

_NAMED: Final = re.compile(r"[\"']?([A-Za-z_]\w*)(?:\[.*\])?\+?=", re.DOTALL)
_IN_ARITHMETIC: Final = re.compile(r"[A-Za-z_]\w*")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_MAY_BE_OPTION: Final = re.compile(r"[\"']*[-$`*?\[{\\]")
_DECLARING: Final = word_set("export declare typeset local readonly")
_VALUES: Final[Mapping[str, str]] = {"read": "dinNptu", "mapfile": "dnOsuCc", "readarray": "dnOsuCc"}  # options with a value
_RUN_LATER: Final = word_set("PS0 PS1 PS2 PS4 PROMPT_COMMAND BASH_ENV ENV BASH_CMDS BASH_ALIASES")
_OPTIONS_THAT_RUN: Final[Mapping[str, str]] = {
    "mapfile": "C", "readarray": "C", "compgen": "CFW", "complete": "CFW", "hash": "p", "bind": "x",
}  # fmt: skip
_ALWAYS_RUN: Final[Mapping[str, str]] = {
    ".": "it runs a file in the shell itself",
    "source": "it runs a file in the shell itself",
    "enable": "it changes which commands are the shell's own",
    "fc": "it runs earlier commands",
}


def assigned_names(command: SimpleCommand) -> Iterator[str | None]:
    """The variables that a command sets, also the assignments before it; None is one that is known only when it runs."""
    yield from (name for name, _ in command.assignments)
    if command.words:
        name, words = command.words[0].text or "", command.words[1:]
        if name in _DECLARING:
            yield from _declared(words, references=name not in ("export", "readonly"))
        elif name == "let":
            for word in words:
                yield from [None] if word.text is None else _IN_ARITHMETIC.findall(word.text)
        elif name == "printf":
            yield from map(_name, _option_values(words, "v"))
        elif name == "wait":  # its operands are numbers of processes
            yield from map(_name, _option_values([word for word in words if word.text is not None], "p"))
        elif name == "getopts":
            yield from map(_name, words[1:2])
        elif name == "unset":
            yield from (_name(word) for word in words if not _is_option(word))
        elif name in _VALUES:
            yield from map(_name, _operands(words, _VALUES[name]))


def runs_later(command: SimpleCommand) -> str | None:
    """Why a command runs something that is no command of the line, or changes what one is; None when it does not."""
    for variable in assigned_names(command):
        if variable is None:
            return "which variable it sets is known only when it runs"
        if variable in _RUN_LATER:
            return f"it sets {variable}, which the shell runs"
    name, words = command.words[0].text or "" if command.words else "", command.words[1:]
    if name in _ALWAYS_RUN and words:
        return _ALWAYS_RUN[name]
    if name in _DECLARING and any(_is_option(word) and "i" in (word.text or "") for word in words):
        return "it calculates with names, whose values can be commands"
    letters = _OPTIONS_THAT_RUN.get(name)
    if letters and any(word.text is None or (_is_option(word) and set(letters) & set(word.text)) for word in words):
        return f"{name} can run a text with these options"
    return None


def _is_option(word: ShellWord) -> bool:
    return word.text is not None and len(word.text) > 1 and word.text.startswith("-")


def _name(word: ShellWord) -> str | None:
    """The variable that a word names, also as an element of an array."""
    name = (word.text or "").partition("[")[0]
    return name if _NAME.fullmatch(name) else None


def _declared(words: Sequence[ShellWord], *, references: bool) -> Iterator[str | None]:
    """What `export` and its like set by words; their plain assignments are those of the command."""
    for word in words:
        match = _NAMED.match(word.raw if word.text is None else word.text)
        if match:
            yield match[1]
        elif word.text is None or (references and _is_option(word) and "n" in word.text):  # a reference may be to any variable
            yield None


def _option_values(words: Sequence[ShellWord], letter: str) -> Iterator[ShellWord]:
    """What follows the option of one letter, before the operands of the command begin."""
    for at, word in enumerate(words):
        if word.text is None and _MAY_BE_OPTION.match(word.raw):
            yield word
        if not _is_option(word) or word.text == "--":
            return
        text = word.text or ""
        if letter in text[1:]:
            after = text.partition(letter)[2]
            yield from [ShellWord(after, after)] if after else words[at + 1 : at + 2]
            return


def _operands(words: Sequence[ShellWord], values: str) -> Iterator[ShellWord]:
    """The words that are neither options nor values of the options with these letters."""
    at = 0
    while at < len(words):
        text = words[at].text if _is_option(words[at]) else None
        if text is None:
            yield words[at]
        elif taking := next((n for n, letter in enumerate(text[1:], 1) if letter in values), 0):
            separate = taking == len(text) - 1
            if separate and at + 1 < len(words) and words[at + 1].text is None and words[at + 1].raw[:1] not in ("'", '"'):
                yield words[at + 1]
            at += separate
        elif "a" in text and text.partition("a")[2]:
            yield ShellWord(text, text.partition("a")[2])
        at += 1
