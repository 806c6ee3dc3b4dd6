"""From a command line to an exit code: choose the command, run it, and turn whatever happens into words."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn

from skillyard.cli.command_table import COMMANDS
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
from skillyard.cli.parsers import add_common_options, command_parser, leading_parser, overview
from skillyard.cli.screen import Screen
from skillyard.text import nearest


def console() -> NoReturn:
    """Be the process `skillyard`: run, flush, and leave at once.

    Python would take every skill of a long list apart before it ends, which takes longer than reading a tenth of them.
    """
    code = main()
    with suppress(OSError, ValueError):  # a closed pipe has nobody left to tell
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `skillyard` with these arguments (default: the process's own) and return its exit code.

    0 is fine, 1 findings or a failure, 2 a command line that cannot be understood. No exception leaves this function.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
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
    add_arguments, run = _functions_of(name)
    parser = command_parser(name)
    add_arguments(parser)
    add_common_options(parser)
    arguments = parser.parse_args(argv[1:], given)
    arguments.command = name
    arguments.screen = Screen(
        as_json=arguments.json, quiet=arguments.quiet, color=not arguments.no_color, roots=arguments.root or ()
    )
    return run(arguments)


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
        return FAILURE  # nobody can be told
    return exit_code(error)


def _open_closed_streams() -> None:
    """Let nothing stand in for a stream that was closed; else the next file that is opened would get its number."""
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
