"""`skillyard run`: a skill's script in the sandbox, with parameters, a command line, files and a work folder."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.command_options import add_package_option, open_skill, parse_context, parse_json_object, parse_milliseconds
from skillyard.cli.confirmation import require_consent
from skillyard.cli.run_view import draw_run
from skillyard.cli.screen import FAILURE, OK, counted
from skillyard.errors import NotExecutable, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillyard.cli.screen import Screen
    from skillyard.execution import Run, WorkFile


_HINTS: Final = {
    "VALIDATION_FAILED": "`skillyard show {id}` shows its input",
    "kind_unavailable": "`skillyard read {id}` shows its instructions, which a model can follow",
}


_LAST_WORDS: Final = 4_000  # characters
_CURES: Final = {
    ("Name or service not known", "name resolution", "Network is unreachable", "ENOTFOUND", "EAI_AGAIN", "ENETUNREACH"): (
        "the sandbox has no network: name the hosts in SKILL.md (security.network: allowlist, security.network_allowlist), "
        "and allow them with `network-allowlist` in [sandbox] of your skillyard.toml"
    ),
    ("Read-only file system", "EROFS", "Permission denied", "No such file or directory", "ENOENT"): (
        "the sandbox shows none of your files: --file PATH gives a copy, --work DIR a folder to read and write, "
        "and --output DIR keeps what the script makes in its working folder"
    ),
}
"""What a script says of something that the sandbox keeps from it, and the ways to give it that."""


def add_request_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what a run is given, the same for `run` and `schedule add`."""
    parser.add_argument(
        "--input",
        default="{}",
        metavar="JSON",
        help="the parameters: a JSON object, @FILE to read one, or - for standard input",
    )
    parser.add_argument(
        "--context",
        default="{}",
        metavar="JSON",
        help='who asks, for example {"userId": "u1"} (default: you); written like --input',
    )
    parser.add_argument(
        "--entry",
        metavar="PATH",
        help="the script to run, when it is not the one the skill declares: its path, or package.module as for `python -m`",
    )
    parser.add_argument(
        "--work",
        metavar="DIR",
        help="a folder in which the script starts, and which it may read and write; no other files of yours",
    )
    parser.add_argument(
        "--file",
        action="append",
        default=[],
        metavar="PATH",
        help="give the script a copy of this file in an empty folder; may be repeated, also as NAME=PATH",
    )
    add_package_option(parser, "give this run one more package or program: pypdf, npm:docx or program:qpdf; may be repeated")


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `run`."""
    parser.add_argument("name", help="the skill's name, id or folder")
    add_request_arguments(parser)
    parser.add_argument("--output", metavar="DIR", help="copy the files that the script makes into this folder")
    parser.add_argument(
        "--output-only",
        action="store_true",
        help="print only the output, for pipes, and exit with the exit code of the script",
    )
    parser.add_argument(
        "--timeout",
        type=parse_milliseconds,
        metavar="TIME",
        help="at most this long: 5, 5s or 500ms; never more than configured",
    )
    parser.add_argument(
        "--install", action="store_true", help="download the packages that the skill declares, when they are not there yet"
    )
    parser.add_argument(
        "--priority",
        type=int,
        default=0,
        metavar="N",
        help="waiting runs with a higher priority start first, from -100 to 100 (default: %(default)s)",
    )
    parser.add_argument("--no-cache-result", action="store_true", help="run again instead of using a cached result")
    parser.add_argument("--verbose", action="store_true", help="also show the limits, and what enforced each")
    parser.epilog = "What follows `--` is the command line of the script: skillyard run pdf --entry scripts/x.py -- in.pdf -v"


def run_command(arguments: argparse.Namespace) -> int:
    """Run it; 1 when the run did not succeed."""
    import asyncio  # 30 ms: only this command waits for a process

    from skillyard.execution import RunOrigin

    screen: Screen = arguments.screen
    if arguments.output_only and screen.as_json:
        raise UsageProblem("--output-only and --json exclude each other", hint="--json answers with the whole run")
    parameters = parse_json_object("--input", arguments.input)
    context = parse_context(arguments.context)
    work, files = given_work(arguments), given_files(arguments)
    output = _output_folder(arguments.output)
    catalog, skill = open_skill(arguments, arguments.name)
    digest = require_consent(catalog, skill, screen)
    if work is not None:
        screen.note(f"the script works in {work}: it may read and write the files there, but no other files of yours")
    running = catalog.run(
        skill,
        parameters,
        context=context,
        entry=arguments.entry,
        arguments=arguments.command_line,
        packages=arguments.packages,
        files=files,
        work=work,
        timeout_ms=arguments.timeout,
        digest=digest,
        fresh=arguments.no_cache_result,
        install=arguments.install,
        priority=arguments.priority,
        origin=RunOrigin("cli"),
    )
    try:
        outcome = asyncio.run(running)
    except NotExecutable as error:  # here, unlike elsewhere, its folder may be named
        hint = (error.hint or "").replace("--skill-dir FOLDER", f"--skill-dir {shlex.quote(skill.directory)}")
        raise NotExecutable(error.message, hint=hint, **error.details) from None
    if output is not None:
        _take(outcome.made, output)
    if arguments.output_only:
        return _write_output(outcome, screen)
    if screen.as_json:
        screen.data(outcome.to_dict())
    else:
        draw_run(screen, skill.name, outcome, limits=arguments.verbose)
        if output is not None:
            screen.note(f"{counted(len(outcome.made), 'file')} in {output}")
        elif outcome.made:
            screen.hint(
                f"`skillyard runs take {outcome.run_id} --output DIR` copies the files it made, --output DIR does at once"
            )
        if cure := _cure(outcome, skill.id):
            screen.hint(cure)
    return OK if outcome.error is None else FAILURE


def _cure(run: Run, skill_id: str) -> str:
    """What to do about a failure: by its code, else by what a script says that the sandbox kept from it; empty for others."""
    if run.error is None:
        return ""
    if run.error.code in _HINTS:
        return _HINTS[run.error.code].format(id=skill_id)
    words = run.stderr[-_LAST_WORDS:]
    return next((cure for signs, cure in _CURES.items() if any(sign in words for sign in signs)), "")


def given_work(arguments: argparse.Namespace) -> str | None:
    """The real path of the folder of `--work`.

    Raises:
        UsageProblem: there is no such folder.
    """
    if arguments.work is None:
        return None
    folder: str = os.path.realpath(arguments.work)
    if not Path(folder).is_dir():
        raise UsageProblem(f"--work {arguments.work}: there is no such folder", hint="name an existing folder")
    return folder


def given_files(arguments: argparse.Namespace) -> tuple[WorkFile, ...]:
    """The files of `--file`; of `NAME=PATH` under that name, unless there is a file called so.

    Raises:
        SkillyardError: one cannot be read or given.
    """
    from skillyard.execution import read_work_file

    given = []
    for text in arguments.file:
        name, equals, path = text.partition("=")
        named = equals and not Path(text).exists()
        given.append(read_work_file(path, name) if named else read_work_file(text))
    return tuple(given)


def _output_folder(output: str | None) -> Path | None:
    """The folder for what the run makes, looked at before anything runs."""
    if output is None:
        return None
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageProblem(f"--output {output}: {error.strerror}", hint="name a folder that can be made") from None
    return folder.resolve()


def _take(made: Sequence[WorkFile], folder: Path) -> None:
    """Write what a run made into a folder of the user, never through a link in it."""
    from skillyard.files import replace_file
    from skillyard.paths import is_inside

    for file in made:
        target = folder / file.name
        if not is_inside(target.parent, folder):
            raise UsageProblem(
                f"{file.name} would leave {folder} through a link", hint="name another folder, or remove the link"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, file.data, durable=False)


def take_files(made: Sequence[WorkFile], output: str) -> Path:
    """Write what a run made into the folder `output`, and give its real path.

    Raises:
        UsageProblem: the folder cannot be made, or a file would leave it.
    """
    folder = _output_folder(output)
    assert folder is not None  # noqa: S101 # a folder was given
    _take(made, folder)
    return folder


def _write_output(run: Run, screen: Screen) -> int:
    """Write the output as it is, the logs and the reason of a failure beside it; gives the exit code of the script."""
    import json

    from skillyard.execution.run_report import printed_value

    if run.stdout and printed_value(run.stdout) == run.output:
        text = run.stdout  # to the letter, as the program printed it
    elif isinstance(run.output, str):
        text = f"{run.output}\n"
    else:
        text = "" if run.output is None else json.dumps(run.output, ensure_ascii=False) + "\n"
    sys.stdout.write(text)
    if run.stderr:
        sys.stderr.write(run.stderr)
    if run.error is None:
        return OK
    if not run.stderr:
        screen.note(f"{run.error.code}: {run.error.message}")
    return run.exit_code or FAILURE
