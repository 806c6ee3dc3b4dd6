"""The argument of a rule such as `Bash(git push:*)` held against one command, strictly to allow and widely to deny.

To allow, the words of the command must be known and be those of the pattern. To ask or deny, it is enough that they could be:
options may stand between them, the program may be called by any path, letter case does not count, and a word that is known
only when the command runs may be any. Where a command works is found also when it names it not among its files: folders that
options enter, and searches of the working folder.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, Self

from skillyard.permissions.command_line import CommandStep
from skillyard.permissions.opaque_commands import assigned_names
from skillyard.permissions.permission_rules import glob
from skillyard.permissions.shell_script import SimpleCommand
from skillyard.permissions.shell_words import ShellWord, word_set
from skillyard.permissions.tool_rules import ANYTHING

Fit = Literal["no", "maybe", "yes"]
_SYSTEM_FOLDERS: Final = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin"})


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """The words of a pattern, the first of them the program; with `open_end` any words may follow."""

    words: tuple[str, ...]
    open_end: bool = False

    @classmethod
    @lru_cache(maxsize=1024)
    def parse(cls, argument: str | None) -> Self:
        """The pattern that the argument of a rule is; without words it fits every command."""
        if argument is None or argument in ANYTHING:
            return cls((), open_end=True)
        prefix = argument.removesuffix(":*") if argument.endswith(":*") else argument
        try:
            words = shlex.split(prefix)
        except ValueError:
            words = prefix.split()
        open_end = prefix != argument or (bool(words) and words[-1].endswith("*"))
        if words and words[-1] == "*":
            words.pop()
        return cls(tuple(words), open_end)

    @property
    def fits_all(self) -> bool:
        """Whether this is about every command."""
        return not self.words and self.open_end

    def may_start(self, command: SimpleCommand) -> bool:
        """Whether the program could be that of the pattern, or is not known: without that nothing else fits."""
        if not self.words or not command.words or not command.words[0].text:
            return True
        return _may_be_program(self.words[0], command.words[0].text)

    def permits(self, command: SimpleCommand) -> bool:
        """Whether this surely is a command of the pattern."""
        if self.fits_all:
            return True
        words = command.words
        if not self.words or not words or not words[0].text or not _is_program(self.words[0], words[0].text):
            return False
        reached = {1}  # how many words of the pattern can be used up
        for word in words[1:]:
            step = {at + 1 for at in reached if at < len(self.words) and _word_fits(self.words[at], word.text)}
            step |= {at for at in reached if at < len(self.words) and self.words[at] == "*"}
            step |= {at for at in reached if at == len(self.words) and self.open_end}
            reached = _past_stars(self.words, step)
        return len(self.words) in reached and (self.open_end or not command.open_ended)

    def may_fit(self, command: SimpleCommand) -> Fit:
        """Whether this could be a command of the pattern."""
        if self.fits_all:
            return "yes"
        if not self.words or not command.words:
            return "no"
        name = command.words[0].text
        if not name:
            return "maybe"
        if not _may_be_program(self.words[0], name):
            return "no"
        wanted = [word for word in self.words[1:] if not word.startswith("-")]
        options = [word for word in self.words[1:] if word.startswith("-")]
        rest = command.words[1:]
        if not self.open_end and not options:
            return _exactly(wanted, rest, open_ended=command.open_ended)
        fits = [_options_fit(options, rest), _in_order(wanted, rest, open_ended=command.open_ended)]
        return "no" if "no" in fits else "maybe" if "maybe" in fits else "yes"

    def may_be_in(self, tokens: AbstractSet[str]) -> bool:
        """Whether every word of the pattern that is no option is somewhere in a line that could not be understood."""
        if not self.words:
            return self.open_end
        wanted = [self.words[0].rpartition("/")[2], *(word for word in self.words[1:] if not word.startswith("-"))]
        return all(_is_among(word.casefold(), tokens) for word in wanted)


def _is_among(word: str, tokens: AbstractSet[str]) -> bool:
    if "*" in word or "?" in word:
        return any(glob(word).fullmatch(token) for token in tokens)
    return word in tokens or all(part in tokens for part in word.split("=")) or "/" in word


def _is_program(pattern: str, name: str) -> bool:
    """Whether a command of this name surely is the program: a path must be the pattern's, or in a folder of the system."""
    if "/" in pattern:
        return "/" in name and _word_fits(posixpath.normpath(pattern), posixpath.normpath(name)) and ".." not in name.split("/")
    folder, slash, base = name.rpartition("/")
    return (not slash or folder in _SYSTEM_FOLDERS) and glob(pattern).fullmatch(base) is not None


def _may_be_program(pattern: str, name: str) -> bool:
    bases = (pattern.casefold().rpartition("/")[2], name.casefold().rpartition("/")[2])
    return glob(bases[0]).fullmatch(bases[1]) is not None


def _word_fits(pattern: str, text: str | None) -> bool:
    if text is None or glob(pattern).fullmatch(text) is None:
        return False
    return "*" not in pattern or "/" not in pattern or ".." not in text.split("/") or ".." in pattern.split("/")


def _past_stars(words: Sequence[str], reached: AbstractSet[int]) -> set[int]:
    """The same positions and those behind a `*` that stands for no word."""
    found = set(reached)
    for at in sorted(reached):
        while at < len(words) and words[at] == "*":
            at += 1
            found.add(at)
    return found


def _exactly(wanted: Sequence[str], words: Sequence[ShellWord], *, open_ended: bool) -> Fit:
    unknown = open_ended or any(word.text is None for word in words)
    texts = [word.text for word in words if word.text is not None]
    if not unknown:
        return "yes" if len(texts) == len(wanted) and all(map(_word_may_fit, wanted, texts)) else "no"
    return "maybe" if len(texts) <= len(wanted) else "no"


def _word_may_fit(pattern: str, text: str) -> bool:
    return glob(pattern.casefold()).fullmatch(text.casefold()) is not None


def _in_order(wanted: Sequence[str], words: Sequence[ShellWord], *, open_ended: bool) -> Fit:
    """Whether the words come in this order, with nothing between them but options, each perhaps with a value."""
    reached, skippable = {0}, set[int]()
    for word in words:
        if len(wanted) in reached:
            return "yes"
        if not reached and not skippable:
            return "no"
        if word.text is None:
            return "maybe"
        if word.text.startswith("-"):
            reached, skippable = reached | skippable, reached | skippable
            continue
        here = reached | skippable
        step = {at + 1 for at in here if _word_may_fit(wanted[at], word.text)} | {at for at in here if wanted[at] == "*"}
        reached, skippable = step | skippable, set()
    if len(wanted) in reached:
        return "yes"
    return "maybe" if open_ended and reached else "no"


def _options_fit(wanted: Sequence[str], words: Sequence[ShellWord]) -> Fit:
    """Whether all these options are there, short ones in any grouping; what is not known could be any."""
    texts = [word.text for word in words]
    unknown = None in texts
    short = {letter for text in texts if text and text.startswith("-") and not text.startswith("--") for letter in text[1:]}
    long = [text.partition("=")[0] for text in texts if text and text.startswith("--") and len(text) > 2]
    for option in wanted:
        if option.startswith("--"):
            there = any(option.startswith(text) or glob(option).fullmatch(text) for text in long)
        else:
            there = option in texts or set(option[1:].rstrip("*")) <= short
        if not there:
            return "maybe" if unknown else "no"
    return "yes"


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
