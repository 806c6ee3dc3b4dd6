"""Where a command works without naming it among its files: folders that options enter, and searches of the working folder."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from skillyard.permissions.command_line import CommandStep
from skillyard.permissions.shell_builtins import assigned_names
from skillyard.permissions.shell_script import SimpleCommand
from skillyard.permissions.shell_words import ShellWord, word_set

MOVES: Final = frozenset({"cd", "pushd", "popd", "chdir"})
"""The commands that change the working folder."""
_ENTERING: Final[Mapping[str, frozenset[str]]] = {
    "env": word_set("-C --chdir"),
    "git": word_set("-C --work-tree --git-dir"),
    "make": word_set("-C --directory"),
    "gmake": word_set("-C --directory"),
    "ninja": word_set("-C"),
    "tar": word_set("-C --directory --cd"),
    "bsdtar": word_set("-C --directory --cd"),
    "npm": word_set("-C --prefix"),
    "pnpm": word_set("-C --dir"),
    "sudo": word_set("-D --chdir"),
}
_OTHER_ROOTS: Final = word_set("chroot nsenter unshare")
_SEARCHERS: Final = word_set("rg ag ack ugrep rgrep")
_GREPS: Final = word_set("grep egrep fgrep")
_VALUES: Final = "efABCmdDgtTjMEr"  # short options that take a value; for grep `r` takes none
_FLAGS: Final = frozenset("niHhlLcvwxoqsaFGPzIUTybpSNu0R")


def among_devices(folder: str, steps: Iterable[CommandStep]) -> bool:
    """Whether commands may work in a folder of devices or processes, where any path may lead to a descriptor."""
    moves = [word.text or "" for step in steps if step.name in MOVES for word in step.command.words[1:]]
    entered = moves if folder == "/" else []
    return any(posixpath.join("/", place).split("/")[1] in ("dev", "proc") for place in (folder, *entered))


def working_folders(steps: Iterable[CommandStep], folder: str) -> list[str]:
    """The folders that commands of the line may work in; none when that is not known."""
    places = [folder]
    for step in steps:
        if step.name in MOVES:
            targets = [step.command.words[1].text if len(step.command.words) == 2 else None]
        else:
            targets = folders_entered(step.command)
        if "CDPATH" in assigned_names(step.command):
            return []
        for target in targets:
            if target is None or target.startswith(("-", "~")) or len(places) > 8:
                return []
            places += [posixpath.join(place, target) for place in places[:4]]
    return places


def possible_paths(text: str) -> list[str]:
    """What of a word may be a path: the whole, and what follows an option and `=`."""
    paths = [text]
    if "=" in text:
        paths.append(text.partition("=")[2])
    if text.startswith("-") and len(text) > 2:
        paths.append(text[2:])
    return paths


def folders_entered(command: SimpleCommand) -> list[str | None]:
    """The folders that options of a command make its working folder, in their order; None is one that is not known."""
    base = _base(command)
    if base in _OTHER_ROOTS:
        return [None]
    options = _ENTERING.get(base)
    if options is None:
        return []
    found: list[str | None] = []
    words = command.words[1:]
    for at, word in enumerate(words):
        text = word.text or ""
        name, joined, value = text.partition("=")
        if text in options or (len(text) > 2 and text.startswith("--") and any(option.startswith(text) for option in options)):
            found.append(words[at + 1].text if at + 1 < len(words) else None)
        elif joined and name.startswith("--") and len(name) > 2 and any(option.startswith(name) for option in options):
            found.append(value)
        elif text[:2] in options and not text.startswith("--"):
            found.append(text[2:])
        elif word.text is None and word.raw.startswith(("-C", "-D", "--")):
            found.append(None)
    return found


def searches_below(command: SimpleCommand) -> bool:
    """Whether a command reads every file below a folder, whichever that is."""
    base, words = _base(command), command.words[1:]
    if base == "git":
        return any(word.text == "grep" for word in words)
    return base in _SEARCHERS or (base in _GREPS and any(map(_is_recursive, words)))


def searches_here(command: SimpleCommand) -> bool:
    """Whether a command may read every file below the working folder though it does not name it."""
    base, words = _base(command), command.words[1:]
    if base == "git":
        return any(word.text == "grep" for word in words)
    if base == "find":
        return not words or (words[0].text or "x").startswith(("-", "(", "!"))
    if base in _SEARCHERS:
        return not _names_path(words, _VALUES)
    return base in _GREPS and any(map(_is_recursive, words)) and not _names_path(words, _VALUES.replace("r", ""))


def _base(command: SimpleCommand) -> str:
    return (command.words[0].text or "").rpartition("/")[2] if command.words else ""


def _is_recursive(word: ShellWord) -> bool:
    text = word.text
    if text is None:
        return True
    if text.startswith("--"):
        return text.startswith(("--rec", "--der", "--dir"))
    return text.startswith("-") and not {"r", "R", "d"}.isdisjoint(text)


def _names_path(words: Sequence[ShellWord], values: str) -> bool:
    """Whether a search surely names where it searches; not where an option could take one of its words as value."""
    operands, wanted, at = 0, 2, 0
    while at < len(words):
        text = words[at].text
        at += 1
        if text is None or not text.startswith("-") or text == "-":
            operands += 1
        elif text == "--":
            return operands + len(words) - at >= wanted
        elif text.startswith("--"):
            if text.partition("=")[0] in ("--regexp", "--file"):
                wanted = 1
            if "=" not in text and text not in _LONG_FLAGS:
                return False
        else:
            taking = next((n for n, letter in enumerate(text[1:], 1) if letter in values), 0)
            if taking:
                wanted = 1 if text[taking] in "ef" else wanted
                at += taking == len(text) - 1
            elif not set(text[1:]) <= _FLAGS | {"r", "E"}:
                return False
    return operands >= wanted


_LONG_FLAGS: Final = word_set(
    "--recursive --ignore-case --line-number --files-with-matches --count --invert-match --word-regexp --no-heading --hidden "
    "--no-ignore --fixed-strings --extended-regexp --only-matching --quiet --with-filename --no-filename"
)
