"""`skillyard run`: run a skill's script in the sandbox and show what came of it."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Final

from skillyard.cli.consent import require_consent
from skillyard.cli.durations import milliseconds
from skillyard.cli.failures import FAILURE, OK
from skillyard.cli.json_input import json_object
from skillyard.cli.opening import open_catalog
from skillyard.cli.outcome import draw_run
from skillyard.errors import NotExecutable

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

_HINTS: Final = {
    "VALIDATION_FAILED": "`skillyard show {id}` tells what input it takes",
    "kind_unavailable": "`skillyard read {id}` shows its instructions, which a model can follow",
}

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `run` takes."""
    parser.add_argument("name", help="the skill's name or id")
    parser.add_argument(
        "--input",
        default="{}",
        metavar="JSON",
        help="the parameters: a JSON object, @FILE to read one, or - for standard input",
    )
    parser.add_argument(
        "--context", default="{}", metavar="JSON", help='who asks, for example {"userId": "u1"}; written like --input'
    )
    parser.add_argument("--entry", metavar="PATH", help="the script to run, when it is not the one the skill declares")
    parser.add_argument(
        "--timeout", type=milliseconds, metavar="TIME", help="at most this long: 5, 5s or 500ms; never more than configured"
    )
    parser.add_argument(
        "--install", action="store_true", help="download the packages a Python script asks for in a `# /// script` block"
    )
    parser.add_argument(
        "--priority",
        type=int,
        default=0,
        metavar="N",
        help="of the runs that wait a higher one goes first, from -100 to 100 (default: %(default)s)",
    )
    parser.add_argument(
        "--no-cache-result", action="store_true", help="run it again, also when the skill lets its last result be kept"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run it; 1 when the run did not succeed."""
    import asyncio  # 30 ms: only this command waits for a process

    from skillyard.engine import flush_spans

    screen: Screen = arguments.screen
    parameters = json_object("--input", arguments.input)
    context = json_object("--context", arguments.context)
    catalog = open_catalog(arguments)
    skill = catalog.get(arguments.name)
    digest = require_consent(catalog, skill, screen)
    running = catalog.run(
        skill,
        parameters,
        context=context,
        entry=arguments.entry,
        timeout_ms=arguments.timeout,
        digest=digest,
        fresh=arguments.no_cache_result,
        install=arguments.install,
        priority=arguments.priority,
    )
    try:
        outcome = asyncio.run(running)
    except NotExecutable as error:  # here, unlike elsewhere, its folder may be named
        hint = (error.hint or "").replace("--skill-dir FOLDER", f"--skill-dir {shlex.quote(skill.directory)}")
        raise NotExecutable(error.message, hint=hint, **error.details) from None
    flush_spans()
    if screen.as_json:
        screen.data(outcome.to_dict())
    else:
        draw_run(screen, skill.name, outcome)
        if outcome.error is not None and outcome.error.code in _HINTS:
            screen.hint(_HINTS[outcome.error.code].format(id=skill.id))
    return OK if outcome.error is None else FAILURE
