"""`skillyard mcp`: serve the skills to any MCP client over standard input and output."""

from __future__ import annotations

import argparse
import sys

from skillyard.cli.failures import OK
from skillyard.cli.opening import LOCAL_OWNER, open_catalog
from skillyard.mcp import serve_stdio

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `mcp` takes."""
    parser.add_argument(
        "--language", choices=("en", "zh"), default="en", help="language of the tool descriptions (default: en)"
    )
    parser.add_argument("--no-run", action="store_true", help="do not offer the tool that runs scripts")
    parser.add_argument(
        "--prewarm",
        type=int,
        metavar="K",
        help="keep K sandboxes (at most 8) ready for each Python skill that has run; they take memory",
    )
    parser.add_argument("--no-watch", action="store_true", help="do not announce changes in the skill folders")


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client leaves."""
    catalog = open_catalog(arguments)
    if sys.stdin.isatty():
        arguments.screen.note(
            f"serving {len(catalog)} skills over standard input and output; an MCP client starts this, Ctrl-C ends it"
        )
    serve_stdio(
        catalog,
        permissions=catalog.rules(),
        executor=catalog.executor(prewarm=arguments.prewarm),
        run_skills=not arguments.no_run,
        language=arguments.language,
        watch=not arguments.no_watch,
        user=LOCAL_OWNER,
    )
    return OK
