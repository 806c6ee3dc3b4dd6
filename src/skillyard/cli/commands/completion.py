"""`skillyard completion`: what makes a shell complete commands, options and names of skills; and the words it then asks for."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from skillyard.cli.program import COMMANDS
from skillyard.cli.screen import OK

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

_BASH: Final = """\
_skillyard() {
  local word
  COMPREPLY=()
  while IFS= read -r word; do
    COMPREPLY+=("$(printf %q "$word")")
  done < <(skillyard completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _skillyard skillyard
"""
_ZSH: Final = """\
#compdef skillyard
_skillyard() {
  local -a found
  found=("${(@f)$(skillyard completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
compdef _skillyard skillyard
"""
_FISH: Final = """\
function __skillyard_words
  set -l words (commandline -opc) (commandline -ct)
  skillyard completion words -- $words[2..-1] 2>/dev/null
end
complete -c skillyard -a '(__skillyard_words)'
"""
_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_NAMED: Final = frozenset({"show", "read", "run", "test", "enable", "disable", "delete", "environment", "open", "scan"})
"""Commands whose words are names of skills, beside their choices."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9._:@/][A-Za-z0-9._:@/-]*")
"""Names that no shell takes for anything else: what is completed is put into the line as it is, and strangers name skills."""
_INSTALLED: Final = frozenset({"update", "uninstall", "versions", "rollback", "history", "diff", "pin", "deprecate", "yank"})


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `completion`."""
    parser.add_argument(
        "shell", choices=(*_SCRIPTS, "words"), help="the shell; `words` is what its script calls, with the words after --"
    )
    parser.epilog = (
        'bash: eval "$(skillyard completion bash)" in ~/.bashrc; zsh: the same with zsh in ~/.zshrc, after compinit; '
        "fish: skillyard completion fish > ~/.config/fish/completions/skillyard.fish"
    )


def completion_command(arguments: argparse.Namespace) -> int:
    """Print the script, or the words that may come next."""
    screen: Screen = arguments.screen
    if arguments.shell != "words":
        screen.write(_SCRIPTS[arguments.shell])
        return OK
    for word in complete_words(arguments, arguments.command_line):
        screen.write(f"{word}\n")
    return OK


def complete_words(arguments: argparse.Namespace, words: Sequence[str]) -> list[str]:
    """What may stand in place of the last of `words`, which begin with the command; none where a path is meant."""
    *before, typed = words or ("",)
    if not before:
        return [name for name in COMMANDS if name.startswith(typed)]
    if before[0] not in COMMANDS or "--" in before:
        return []
    return [word for word in dict.fromkeys(_candidates(arguments, before, typed)) if word.startswith(typed)]


def _candidates(arguments: argparse.Namespace, before: list[str], typed: str) -> Iterator[str]:
    from skillyard.cli.program import parser_of

    name = before[0]
    actions = parser_of(name)._actions
    if typed.startswith("-"):
        yield from (option for action in actions for option in action.option_strings if option.startswith("--"))
        return
    takes = next((action for action in actions if before[-1] in action.option_strings and action.nargs != 0), None)
    if takes is not None:
        yield from map(str, takes.choices or ())
        return
    given = [word for word in before[1:] if not word.startswith("-")]
    choices = next((action.choices for action in actions if not action.option_strings and action.choices), None)
    if choices and not given:
        yield from map(str, choices)
    elif name in _NAMED | _INSTALLED:
        yield from _names(arguments, name)


def _names(arguments: argparse.Namespace, command: str) -> Iterator[str]:
    from skillyard.cli.options import open_catalog

    for skill in open_catalog(arguments).all():
        if command in _NAMED or skill.source == "installed":
            name = skill.slug if command in _INSTALLED else skill.name
            yield from [one for one in (name, skill.slug) if _PLAIN.fullmatch(one)][:1]
