"""From a command line to an exit code: the parsers and the help, the choice of the command, and errors as text."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import ClassVar, NoReturn

from skillyard._version import __version__
from skillyard.cli.command_table import COMMANDS, USUAL_VERBS
from skillyard.cli.failures import (
    BROKEN_PIPE,
    FAILURE,
    INTERRUPTED,
    OK,
    USAGE,
    UsageProblem,
    describe_failure,
    exit_code,
    roots_of_command_line,
)
from skillyard.cli.language import LANGUAGES, choose_language, translated
from skillyard.cli.screen import Screen, console_width, wants_color
from skillyard.text import nearest

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
            formatter_class=_formatter(),  # type: ignore[arg-type] # argparse calls it with the program's name only
        )

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            UsageProblem: always.
        """
        raise UsageProblem(message, hint=self._meant(message) or f"see `{self.prog} --help`")

    def format_help(self) -> str:
        """The help in the chosen language, as far as the catalogue has it."""
        for group in self._action_groups:
            group.title = translated(group.title or "")
        for action in self._actions:
            action.help = translated(action.help) if action.help else action.help
        self.epilog = translated(self.epilog) if self.epilog else None
        usage = super().format_help()
        return translated("usage: ") + usage.removeprefix("usage: ") if usage.startswith("usage: ") else usage

    def _meant(self, message: str) -> str:
        """The option that a slip of the pen was meant for; empty when none is near."""
        unknown, _, rest = message.partition(": ")
        word = rest.split(" ", 1)[0].partition("=")[0]
        if unknown != "unrecognized arguments" or not word.startswith("--"):
            return ""
        options = [option[2:] for option in self._option_string_actions if option.startswith("--")]
        near = nearest(word[2:], options, limit=1)
        return f"did you mean --{near[0]}? `{self.prog} --help` lists all options" if near else ""


class LeadingParser(Parser):
    """The parser of what comes before the command: its help is the overview."""

    def format_help(self) -> str:
        """The overview of all commands."""
        return overview()


def _formatter() -> Callable[[str], argparse.HelpFormatter]:
    """Colours on a terminal; elsewhere plain text that is the same on every machine."""
    if not (sys.stdout.isatty() and wants_color()):
        return lambda prog: argparse.HelpFormatter(prog, width=console_width() - 2)
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
    group.add_argument("--lang", choices=LANGUAGES, help="language of help and errors: en or zh (default: that of the locale)")
    group.add_argument("--version", action="version", version=f"skillyard {__version__}", help="show the version and leave")
    group.add_argument("-h", "--help", action="help", help="show this help and leave")


def command_parser(name: str) -> Parser:
    """The parser of one command; its own arguments are added by its module."""
    return Parser(f"skillyard {name}", description=_sentence(translated(COMMANDS[name].help)))


def parser_of(name: str) -> Parser:
    """The parser of one command with all its arguments."""
    parser = command_parser(name)
    _functions_of(name)[0](parser)
    add_common_options(parser)
    return parser


def leading_parser() -> Parser:
    """The parser of options before the command, as in `skillyard --json list`."""
    parser = LeadingParser("skillyard")
    add_common_options(parser)
    parser.add_argument("command", nargs="?")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    return parser


def overview() -> str:
    """What `skillyard --help` shows: every command in its group. Nothing is parsed with this."""
    parser = Parser("skillyard", usage="skillyard COMMAND [options]", description=translated(_ABOUT), epilog=_AFTER)
    for title in dict.fromkeys(command.group for command in COMMANDS.values()):
        group = parser.add_argument_group(title)
        for name, command in COMMANDS.items():
            if command.group == title:
                group.add_argument(name, help=command.help)
    add_common_options(parser)
    return parser.format_help()


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("." if text.isascii() else "。")


def console() -> NoReturn:
    """Be the process `skillyard`: run, flush, and leave at once.

    Python would take every skill of a long list apart before it ends, which takes longer than reading a tenth of them.
    """
    code = main()
    with suppress(OSError, ValueError):  # a closed pipe has no reader
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `skillyard` with these arguments (default: the process's own) and return its exit code.

    0 is fine, 1 findings or a failure, 2 a command line that cannot be understood. No exception leaves this function.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    choose_language(arguments)
    _open_closed_streams()
    _accept_any_text()
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _close_quietly()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as leaving:  # argparse after --help and --version
        return leaving.code if isinstance(leaving.code, int) else OK
    except Exception as error:
        return _fail(error, arguments)
    return code


def _dispatch(argv: list[str]) -> int:
    given, argv = _split_leading(argv)
    if not argv:
        sys.stderr.write(overview())
        return USAGE
    name = argv[0]
    if name not in COMMANDS:
        raise UsageProblem(f"there is no command {name!r}", hint=_did_you_mean(name))
    _, run = _functions_of(name)
    parser = parser_of(name)
    words, command_line = _split_command_line(name, argv[1:])
    arguments = parser.parse_args(words, given)
    arguments.command, arguments.command_line = name, command_line
    arguments.screen = Screen(
        as_json=arguments.json, quiet=arguments.quiet, color=not arguments.no_color, roots=arguments.root or ()
    )
    return run(arguments)


def _split_command_line(name: str, words: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """What is for the command, and what after `--` is for the script that it runs."""
    if not COMMANDS[name].takes_command_line or "--" not in words:
        return words, ()
    at = words.index("--")
    return words[:at], tuple(words[at + 1 :])


def _functions_of(name: str) -> tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]:
    """What adds a command's arguments to its parser, and what runs it and returns the exit code."""
    command = COMMANDS[name]
    module = import_module(f"skillyard.cli.commands.{command.module}")
    function = command.function or name
    return getattr(module, f"add_{function}_arguments"), getattr(module, f"{function}_command")


def _split_leading(argv: list[str]) -> tuple[argparse.Namespace | None, list[str]]:
    """Options before the command, as in `skillyard --json list`, and the command with the rest."""
    if argv and argv[0] in COMMANDS:
        return None, argv
    if argv and argv[0] == "help":
        argv = [*argv[1:2], "--help"]
    given = leading_parser().parse_args(argv)
    return given, [given.command, *given.rest] if given.command else []


def _did_you_mean(name: str) -> str:
    if verbs := USUAL_VERBS.get(name.lower()):
        return f"did you mean {' or '.join(f'`skillyard {verb}`' for verb in verbs)}?"
    near = nearest(name, COMMANDS, limit=1)
    return f"did you mean `skillyard {near[0]}`?" if near else "`skillyard --help` lists the commands"


def _fail(error: Exception, argv: list[str]) -> int:
    if os.environ.get("SKILLYARD_DEBUG"):
        import traceback

        traceback.print_exception(error)
    try:
        Screen(as_json="--json" in argv, roots=roots_of_command_line(argv)).failure(describe_failure(error))
        sys.stdout.flush()
    except BrokenPipeError:
        _close_quietly()
    except OSError:
        return FAILURE  # nothing can be reported
    return exit_code(error)


def _open_closed_streams() -> None:
    """Reserve the number of a stream that was closed; else the next file that is opened would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 # open to the end


def _accept_any_text() -> None:
    """Let a stream that cannot encode a character write `?` instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _close_quietly() -> None:
    """Point standard output at nothing, so that the flush at exit does not complain about the closed pipe."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
