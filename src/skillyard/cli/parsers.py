"""The argument parsers: one per command, all with the same common options and the same way to report wrong usage."""

from __future__ import annotations

import argparse
import sys
from typing import ClassVar, NoReturn

from skillyard._version import __version__
from skillyard.cli.command_table import COMMANDS
from skillyard.cli.failures import UsageProblem
from skillyard.cli.screen import wants_color

_ABOUT = "Find agent skills, check them, tell any model about them, run their scripts in a sandbox."
_AFTER = "`skillyard COMMAND --help` explains a command. Exit codes: 0 fine, 1 findings or failure, 2 wrong usage."


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that raises instead of ending the process, and never guesses abbreviated options."""

    def __init__(
        self, prog: str, *, usage: str | None = None, description: str | None = None, epilog: str | None = None
    ) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            add_help=False,
            formatter_class=_formatter(),
        )

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            UsageProblem: always.
        """
        raise UsageProblem(message, hint=f"see `{self.prog} --help`")


class LeadingParser(Parser):
    """The parser of what comes before the command: its help is the overview."""

    def format_help(self) -> str:
        """The overview of all commands."""
        return overview()


def _formatter() -> type[argparse.HelpFormatter]:
    """Colours on a terminal; elsewhere plain text that is the same on every machine."""
    if not (sys.stdout.isatty() and wants_color()):
        return argparse.HelpFormatter
    from rich_argparse import RichHelpFormatter  # imports rich: only when someone looks

    class Formatter(RichHelpFormatter):
        """Rich's formatter that takes `[…]` in a help text as text."""

        styles: ClassVar = RichHelpFormatter.styles | {"argparse.groups": "bold"}
        group_name_formatter = str
        help_markup = False
        text_markup = False

    return Formatter


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """The options every command takes."""
    group = parser.add_argument_group("common options")
    group.add_argument(
        "--root",
        action="append",
        metavar="PATH",
        help="look in exactly this folder of skills and nowhere else; may be given several times, the first wins",
    )
    group.add_argument("--project", metavar="DIR", help="act as if started in this folder")
    group.add_argument("--json", action="store_true", help="answer with one JSON document on standard output")
    group.add_argument("--no-cache", action="store_true", help="read every skill anew and keep nothing for next time")
    group.add_argument("--no-color", action="store_true", help="no colours; the variable NO_COLOR does the same")
    group.add_argument("-q", "--quiet", action="store_true", help="no notes and no progress on standard error")
    group.add_argument("--version", action="version", version=f"skillyard {__version__}", help="show the version and leave")
    group.add_argument("-h", "--help", action="help", help="show this help and leave")


def command_parser(name: str) -> Parser:
    """The parser of one command; its own arguments are added by its module."""
    return Parser(f"skillyard {name}", description=_sentence(COMMANDS[name].help))


def leading_parser() -> Parser:
    """The parser of options before the command, as in `skillyard --json list`."""
    parser = LeadingParser("skillyard")
    add_common_options(parser)
    parser.add_argument("command", nargs="?")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    return parser


def overview() -> str:
    """What `skillyard --help` shows: every command in its group. Nothing is parsed with this."""
    parser = Parser("skillyard", usage="skillyard COMMAND [options]", description=_ABOUT, epilog=_AFTER)
    for title in dict.fromkeys(command.group for command in COMMANDS.values()):
        group = parser.add_argument_group(title)
        for name, command in COMMANDS.items():
            if command.group == title:
                group.add_argument(name, help=command.help)
    add_common_options(parser)
    return parser.format_help()


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
