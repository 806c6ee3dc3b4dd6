"""From a command line to an exit code: the table of commands, the parsers and the help, and errors as text."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, NoReturn

from skillyard._version import __version__
from skillyard.cli.language import LANGUAGES, choose_language, translated
from skillyard.cli.screen import (
    BROKEN_PIPE,
    FAILURE,
    INTERRUPTED,
    OK,
    USAGE,
    Screen,
    console_width,
    describe_failure,
    exit_code,
    roots_of_command_line,
    wants_color,
)
from skillyard.errors import UsageProblem
from skillyard.text import nearest


class CliCommand(NamedTuple):
    """One command: its module in `skillyard.cli.commands` (without `_commands`), its group and its one-line help.

    The module has `add_NAME_arguments` and `NAME_command`, where NAME is `function` or, without one, the command's own name.
    Where it `takes_command_line`, what follows `--` is for the script or command that it runs.
    """

    module: str
    group: str
    help: str
    function: str = ""
    takes_command_line: bool = False


GROUPS: Final = ("find and read", "write and check", "run", "this machine", "install")

COMMANDS: Final[Mapping[str, CliCommand]] = MappingProxyType(
    {
        "list": CliCommand("show", GROUPS[0], "all skills, also broken and shadowed ones, with the reason"),
        "show": CliCommand("show", GROUPS[0], "one skill: metadata, files, findings, source, and whether it can run"),
        "search": CliCommand("search", GROUPS[0], "the skills that match a request, best first"),
        "prompt": CliCommand("show", GROUPS[0], "the index of skills for a system prompt, within a token budget"),
        "read": CliCommand("show", GROUPS[0], "the text of one file of a skill (default: SKILL.md)"),
        "install": CliCommand("install", GROUPS[4], "install skills from a folder, an archive, git, the web or the lock file"),
        "update": CliCommand("install", GROUPS[4], "update installed skills; new powers need your consent"),
        "uninstall": CliCommand("install", GROUPS[4], "deactivate an installed skill; `rollback` restores it"),
        "versions": CliCommand("install", GROUPS[4], "installed skills, and all versions of a skill"),
        "rollback": CliCommand("install", GROUPS[4], "make an earlier version current again"),
        "diff": CliCommand("preview", GROUPS[4], "what an update would change, or the differences between two versions"),
        "deps": CliCommand("preview", GROUPS[4], "the dependency tree of a skill, with reasons and what is missing"),
        "pin": CliCommand("preview", GROUPS[4], "keep the current version of a skill; --undo allows updates again"),
        "sync": CliCommand("install", GROUPS[4], "install what the project's lock names; --frozen only compares"),
        "link": CliCommand("coding_agent", GROUPS[4], "link a skill into the folders of coding agents; list links and copies"),
        "unlink": CliCommand("coding_agent", GROUPS[4], "remove a skill from the folders of coding agents"),
        "adopt": CliCommand("coding_agent", GROUPS[4], "make an edited copy in an agent's folder the next version"),
        "connect": CliCommand("coding_agent", GROUPS[4], "add the MCP server to the configuration of a coding agent"),
        "disconnect": CliCommand("coding_agent", GROUPS[4], "remove the MCP server from it"),
        "login": CliCommand("publish", GROUPS[4], "store the key for a team server; without a server, list the logins"),
        "logout": CliCommand("publish", GROUPS[4], "forget the key for a server"),
        "publish": CliCommand("publish", GROUPS[4], "publish a skill to a team server; shows first what others will see"),
        "owners": CliCommand("publish", GROUPS[4], "the owners of a published skill: add, remove, transfer"),
        "mirror": CliCommand("mirror", GROUPS[4], "copy installed skills to another registry, online or offline"),
        "history": CliCommand("install", GROUPS[4], "the history of installs, updates, rollbacks and uninstalls"),
        "approve": CliCommand(
            "publish", GROUPS[4], "approve one pending version, or withdraw the approval; list pending versions"
        ),
        "deprecate": CliCommand("install", GROUPS[4], "mark a version as deprecated", function="mark"),
        "yank": CliCommand(
            "install", GROUPS[4], "withdraw a version: nobody may install it or roll back to it", function="mark"
        ),
        "new": CliCommand("user_skill", GROUPS[1], "create a skill that passes `check`"),
        "check": CliCommand("check", GROUPS[1], "check skills: findings with file, line and fix; --fix applies safe fixes"),
        "migrate": CliCommand("package", GROUPS[1], "turn old skills, commands, rules and AGENTS.md files into current skills"),
        "convert": CliCommand("package", GROUPS[1], "convert skills to the format of another system, and back without loss"),
        "scan": CliCommand("scan", GROUPS[1], "scan for security risks: findings with file, line, reason and fix"),
        "pack": CliCommand("package", GROUPS[1], "pack a skill's folder into a reproducible archive"),
        "verify": CliCommand("package", GROUPS[1], "verify the content of an archive, or of everything that is installed"),
        "key": CliCommand("package", GROUPS[1], "your signing keys: create one, list them"),
        "sign": CliCommand("package", GROUPS[1], "sign a skill's folder, so that others can tell that it is yours"),
        "push": CliCommand("mirror", GROUPS[1], "push a skill to an OCI registry, with a reproducible digest"),
        "eval": CliCommand(
            "search",
            GROUPS[1],
            "check whether the right skill is found for a list of prompts, before and after an edit",
        ),
        "open": CliCommand("user_skill", GROUPS[0], "open the folder of a skill in the file manager, or print its path"),
        "enable": CliCommand("user_skill", GROUPS[1], "offer a disabled skill to models again", function="switch"),
        "disable": CliCommand("user_skill", GROUPS[1], "keep a skill but do not offer it to models", function="switch"),
        "state": CliCommand("user_skill", GROUPS[1], "how a skill is offered: pinned, automatic, name-only, manual or off"),
        "use": CliCommand("user_skill", GROUPS[1], "offer only the skills of a set in this project; list the sets"),
        "delete": CliCommand("user_skill", GROUPS[1], "delete a user skill from the disk"),
        "run": CliCommand("run", GROUPS[2], "run a skill's script in the sandbox", takes_command_line=True),
        "test": CliCommand("run_record", GROUPS[2], "test a skill in the sandbox: its tests, examples and evals"),
        "runs": CliCommand("run_record", GROUPS[2], "past runs; `runs show RUN_ID` shows one with its steps"),
        "workspace": CliCommand(
            "workspace",
            GROUPS[2],
            "run commands in a sandboxed workspace; list and remove workspaces",
            takes_command_line=True,
        ),
        "schedule": CliCommand("schedule", GROUPS[2], "scheduled runs of skills, once or repeated", takes_command_line=True),
        "event": CliCommand("schedule", GROUPS[2], "report an event, and run the skills that subscribe to it"),
        "agents": CliCommand("agent", GROUPS[2], "agents: a prompt, model and skills under a name; the exact prompt of each"),
        "memories": CliCommand("agent", GROUPS[2], "memories: list, search, forget"),
        "approvals": CliCommand("access", GROUPS[2], "approvals of skills in this project: list, approve and revoke them"),
        "permissions": CliCommand("access", GROUPS[2], "rules about commands; whether one is allowed, and why"),
        "chat": CliCommand("chat", GROUPS[2], "talk with a model that uses your skills, in the terminal"),
        "insights": CliCommand("agent", GROUPS[2], "usage of skills by day: use, failures, time, tokens, cost"),
        "trail": CliCommand("chat", GROUPS[2], "how skills were used in conversations: offered, loaded, read, run"),
        "mcp": CliCommand("serve", GROUPS[2], "serve the skills to any MCP client over stdio"),
        "serve": CliCommand("serve", GROUPS[2], "serve skills over HTTP: on this machine without keys, to others with keys"),
        "worker": CliCommand("serve", GROUPS[2], "start a worker that executes queued runs with the skills of this machine"),
        "workers": CliCommand("serve", GROUPS[2], "the workers of each pool, and queued runs"),
        "keys": CliCommand("access", GROUPS[3], "API keys of the server: create one with scopes, list and revoke them"),
        "webhooks": CliCommand("access", GROUPS[3], "addresses at which other services report events, each with a secret"),
        "organisations": CliCommand(
            "access", GROUPS[3], "organisations that share the server, each with its own skills and runs"
        ),
        "audit": CliCommand("access", GROUPS[3], "the audit log: who changed what, and who was refused"),
        "db": CliCommand("database", GROUPS[3], "the database: status, integrity check, repair, upgrade, copy"),
        "backup": CliCommand("database", GROUPS[3], "back up all data to one file, also while a server is running"),
        "restore": CliCommand("database", GROUPS[3], "restore a backup, into either kind of database, or only verify it"),
        "environment": CliCommand(
            "environment", GROUPS[3], "packages and programs of skills: what they need, grant and revoke"
        ),
        "completion": CliCommand(
            "environment",
            GROUPS[3],
            "complete commands, options and names in bash, zsh and fish",
            takes_command_line=True,
        ),
        "doctor": CliCommand("environment", GROUPS[3], "what this machine can and cannot do, and how to fix it"),
    }
)

USUAL_VERBS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "add": ("install",),
        "get": ("install",),
        "download": ("install",),
        "upgrade": ("update",),
        "outdated": ("update --check",),
        "remove": ("uninstall", "delete"),
        "rm": ("uninstall", "delete"),
        "ls": ("list",),
        "info": ("show",),
        "cat": ("read",),
        "find": ("search",),
        "validate": ("check",),
        "lint": ("check",),
        "verify-skill": ("check",),
        "fix": ("check --fix",),
        "audit-skill": ("scan",),
        "init": ("new",),
        "create": ("new",),
        "build": ("pack",),
        "package": ("pack",),
        "withdraw": ("yank",),
        "unpublish": ("yank",),
        "signin": ("login",),
        "exec": ("run", "workspace exec"),
        "start": ("serve",),
        "ci": ("sync --frozen",),
        "lock": ("install --save",),
        "symlink": ("link",),
        "freeze": ("pin",),
    }
)
"""What other programs call it, and the commands here that do it."""


_OBJECTS_BEFORE_COLLECTION: Final = 100_000  # importing makes so many, and looking through them takes a tenth of a short run
_ABOUT = "Find agent skills, check them, describe them to any model, run their scripts in a sandbox."
_AFTER = "`skillyard COMMAND --help` explains a command. Exit codes: 0 success, 1 findings or failure, 2 wrong usage."


_ONE_WORD_TOO_MANY: Final = {
    "pin": "pin keeps the version that is current; `skillyard rollback NAME VERSION` makes another one current first",
    "event": "what skills get as parameters comes after --data",
}


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
        choices = [choice for action in self._actions for choice in getattr(action, "_choices_actions", ())]  # of `mirror`
        for action in [*self._actions, *choices]:
            action.help = translated(action.help) if action.help else action.help
        self.epilog = translated(self.epilog) if self.epilog else None
        usage = super().format_help()
        return translated("usage: ") + usage.removeprefix("usage: ") if usage.startswith("usage: ") else usage

    def _meant(self, message: str) -> str:
        """The option that a slip of the pen was meant for; empty when none is near."""
        unknown, _, rest = message.partition(": ")
        if unknown != "unrecognized arguments":
            return ""
        word = rest.split(" ", 1)[0].partition("=")[0]
        options = [option[2:] for option in self._option_string_actions if option.startswith("--")]
        near = nearest(word[2:], options, limit=1) if word.startswith("--") else []
        if near:
            return f"did you mean --{near[0]}? `{self.prog} --help` lists all options"
        name = self.prog.removeprefix("skillyard ")
        if name in _ONE_WORD_TOO_MANY and not word.startswith("-"):
            return _ONE_WORD_TOO_MANY[name]
        command = COMMANDS.get(name)
        if command is None or not command.takes_command_line:
            return ""
        return f"what is for the command or script comes after `--`: -- {rest}"


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
        help="look in exactly this folder of skills and nowhere else; may be repeated, the first wins",
    )
    group.add_argument("--project", metavar="DIR", help="act as if started in this folder")
    group.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    group.add_argument("--no-cache", action="store_true", help="read every skill again, without the cache")
    group.add_argument("--no-color", action="store_true", help="no colours; the variable NO_COLOR does the same")
    group.add_argument("-q", "--quiet", action="store_true", help="no notes and no progress on standard error")
    group.add_argument("--lang", choices=LANGUAGES, help="language of help and errors: en or zh (default: that of the locale)")
    group.add_argument("--version", action="version", version=f"skillyard {__version__}", help="show the version and exit")
    group.add_argument("-h", "--help", action="help", help="show this help and exit")


def command_parser(name: str) -> Parser:
    """The parser of one command; its own arguments are added by its module."""
    return Parser(f"skillyard {name}", description=_sentence(translated(COMMANDS[name].help)))


def parser_of(name: str) -> Parser:
    """The parser of one command with all its arguments."""
    parser = command_parser(name)
    _functions_of(name)[0](parser)
    add_common_options(parser)
    for actions in parser._actions:
        if isinstance(actions, argparse._SubParsersAction):
            for described in actions._choices_actions:
                _complete_action(actions.choices[described.dest], described.help or "")
    return parser


def _complete_action(parser: argparse.ArgumentParser, description: str) -> None:
    """Let an action of a command explain itself and take the common options behind its arguments, too."""
    parser.description = _sentence(translated(description))
    add_common_options(parser)
    for option in parser._action_groups[-1]._group_actions:
        option.default = argparse.SUPPRESS  # what stands before the action stays


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
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    _wait_for_streams()
    _see_ends_of_children()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else numpy starts threads, for tables too small for them
    code = main()
    if "opentelemetry.trace" in sys.modules:  # its own clean-up would be left out
        from skillyard.tracing import flush_spans

        flush_spans()
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
    module = import_module(f"skillyard.cli.commands.{command.module}_commands")
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


def _wait_for_streams() -> None:
    """Let the standard streams wait, as a shell does: where the parent set them not to, a long answer would be cut off."""
    for number in range(3) if hasattr(os, "get_blocking") else ():
        with suppress(OSError):
            if not os.get_blocking(number):
                os.set_blocking(number, True)


def _see_ends_of_children() -> None:
    """Where the parent ignores that children end, this process would too, and so would what it starts: none of it ended."""
    if hasattr(signal, "SIGCHLD") and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


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
