"""`skillyard prompt`: the index of skills for a system prompt, inside a token budget."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from skillyard.cli.failures import OK
from skillyard.cli.openers import open_catalog
from skillyard.cli.option_values import parse_positive
from skillyard.cli.screen import counted
from skillyard.errors import InvalidInput
from skillyard.prompt import Index, Style, usage_guidance

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen


_HOW: Final = "name a file that `skillyard prompt --json` wrote"


def add_prompt_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `prompt`."""
    parser.add_argument(
        "--style",
        choices=get_args(Style),
        default="compact",
        metavar="STYLE",
        help="how it is written: " + ", ".join(get_args(Style)) + " (default: %(default)s, the fewest tokens)",
    )
    parser.add_argument(
        "--budget", type=_budget, default=2000, metavar="TOKENS", help="at most this many tokens, or `none` (default: 2000)"
    )
    parser.add_argument(
        "--description-chars",
        type=parse_positive,
        default=200,
        metavar="N",
        help="cut each description after N characters (default: %(default)s)",
    )
    parser.add_argument("--request", metavar="TEXT", help="what the user asks for: the skills that fit it come first")
    parser.add_argument(
        "--previous",
        metavar="FILE",
        help="what --json wrote for the turn before: what it showed stays where it is",
    )
    parser.add_argument(
        "--pin", action="append", default=[], metavar="NAME", help="a skill that is always listed; may be given several times"
    )
    parser.add_argument(
        "--guidance",
        action="store_true",
        help="print rules for the use of skills instead, to paste into the file of an agent, such as AGENTS.md or Agent.md",
    )
    parser.add_argument("--language", choices=("en", "zh"), default="en", help="language of the guidance (default: en)")


def prompt_command(arguments: argparse.Namespace) -> int:
    """Print the index, and say on standard error what did not fit."""
    if arguments.guidance:
        return _guidance(arguments)
    catalog = open_catalog(arguments)
    index = catalog.prompt(
        budget=arguments.budget,
        style=arguments.style,
        request=arguments.request,
        pinned=[catalog.get(name).id for name in arguments.pin],
        description_chars=arguments.description_chars,
        previous=_read(arguments.previous) if arguments.previous else None,
    )
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data(index.to_dict())
    else:
        screen.write(index.text + ("\n" if index.text and not index.text.endswith("\n") else ""))
        screen.note(_report(index))
    return OK


def _guidance(arguments: argparse.Namespace) -> int:
    screen: Screen = arguments.screen
    text = usage_guidance(arguments.language)
    if screen.as_json:
        screen.data({"guidance": text})
    else:
        screen.write(text)
    return OK


def _read(path: str) -> Index:
    try:
        value = json.loads(Path(path).read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not JSON: {error}", hint=_HOW) from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} is not an index", hint=_HOW)
    return Index.from_dict(value)


def _budget(text: str) -> int | None:
    return None if text == "none" else parse_positive(text)


def _report(index: Index) -> str:
    listed = len(index.kept) + len(index.shortened)
    parts = [f"{index.tokens:,} tokens for {counted(listed, 'skill')}"]
    if index.shortened:
        parts.append(f"{len(index.shortened):,} of them shortened")
    if index.more:
        parts.append(f"{index.more:,} left out for want of room")
    if index.turn > 1:
        parts.append(f"{len(index.added):,} added and {len(index.dropped):,} dropped since the turn before")
    if hidden := len(index.omitted) - index.more:
        parts.append(f"{hidden:,} not offered")
    if index.omitted and not index.text:
        return f"{', '.join(parts)}: {index.omitted[0].reason}"
    return ", ".join(parts) + (" (--json says why)" if index.omitted else "")
