"""`skillyard search`: the skills that fit a request, best first."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final, get_args

from skillyard.cli.arguments import positive
from skillyard.cli.failures import FAILURE, OK, UsageProblem
from skillyard.cli.opening import open_catalog
from skillyard.cli.screen import counted
from skillyard.text import shorten

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog
    from skillyard.search import Match

_WORDS: Final = 32  # characters
_UNSURE: Final = 0.3  # the best match below this is said to be unsure

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `search` takes."""
    from skillyard.catalog.model import Source

    parser.add_argument("query", nargs="?", help="a request in plain words, as a user would write it")
    parser.add_argument("--intent", metavar="TEXT", help="instead: what skills declare as triggers, with their fixed scores")
    parser.add_argument("--event", metavar="TYPE", help="instead: the skills that declare this event type")
    parser.add_argument("--source", choices=get_args(Source), help="only skills from there")
    parser.add_argument("--tag", help="only skills with this tag or keyword")
    parser.add_argument("--domain", help="only skills of this domain; with --intent it counts a tenth instead")
    parser.add_argument("--permission", choices=("allow", "ask"), help="only skills that the rules allow, or ask about")
    parser.add_argument("--limit", type=positive, default=10, metavar="N", help="at most this many (default: %(default)s)")
    parser.add_argument("--page", type=positive, default=1, metavar="K", help="the K-th so many (default: %(default)s)")
    parser.add_argument(
        "--disclosure",
        choices=("auto", "metadata", "brief", "full"),
        help="tell of each match as a model would be told: by how surely it fits (auto), or always so much",
    )
    parser.add_argument("--wide", action="store_true", help="whole descriptions, also where they are long")
    parser.add_argument("--explain", action="store_true", help="show what each reason weighs in the request")


def run(arguments: argparse.Namespace) -> int:
    """Search the usable skills; exit code 1 when none fits."""
    asked = [text for text in (arguments.query, arguments.intent, arguments.event) if text is not None]
    if len(asked) != 1 or not asked[0].strip():
        raise UsageProblem("search wants one request", hint='give it in plain words: skillyard search "merge two PDF files"')
    catalog = open_catalog(arguments)
    first = (arguments.page - 1) * arguments.limit
    found = _found(catalog, arguments, first + arguments.limit + 1)
    matches, more = found[first : first + arguments.limit], len(found) > first + arguments.limit
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"matches": [_shape(match, arguments) for match in matches], "more": more})
    elif matches:
        _show(screen, matches, arguments, more=more)
    else:
        screen.note(f"none of {counted(len(catalog), 'skill')} fits; try other words")
    return OK if matches else FAILURE


def _found(catalog: Catalog, arguments: argparse.Namespace, limit: int) -> list[Match]:
    from skillyard.search import wanted

    wants = {"source": arguments.source, "tag": arguments.tag, "permission": arguments.permission}
    if arguments.query is not None:
        return catalog.search(arguments.query, limit, domain=arguments.domain, **wants)
    only = wanted(**wants, permission_of=catalog.rules().decide)
    if arguments.intent is not None:
        found = catalog.find_relevant_skills(arguments.intent, limit=max(len(catalog), 1), domain=arguments.domain)
    else:
        found = catalog.match_event(arguments.event, limit=max(len(catalog), 1))
    return [match for match in found if only is None or only(match.skill)][:limit]


def _shape(match: Match, arguments: argparse.Namespace) -> dict[str, object]:
    shape: dict[str, object] = dict(match.to_dict())
    if arguments.disclosure:
        shape["told"] = _told(match, arguments.disclosure)
    if arguments.explain:
        shape["reasons"] = [reason._asdict() for reason in match.explain()]
    return shape


def _show(screen: Screen, matches: list[Match], arguments: argparse.Namespace, *, more: bool) -> None:
    if arguments.disclosure:
        for match in matches:
            screen.line(_told(match, arguments.disclosure) + "\n")
    elif arguments.explain:
        for match in matches:
            _explain(screen, match)
    else:
        told = [screen.description(match.skill.description, wide=arguments.wide) for match in matches]
        screen.table(
            (
                (f"{match.confidence:.2f}", match.skill.name, _words(match), text)
                for match, text in zip(matches, told, strict=True)
            ),
            header=("FIT", "NAME", "BECAUSE OF", "DESCRIPTION"),
            stretch=None if arguments.wide else 3,
            marks=[[found.partition(":")[2] for found in match.matched] for match in matches],
        )
    if matches[0].confidence < _UNSURE:
        screen.note("none of them fits surely; perhaps no skill is for this")
    if more:
        screen.note(f"there are more: --page {arguments.page + 1}")


def _told(match: Match, disclosure: str) -> str:
    from skillyard.prompt import describe_skill, disclosure_stage

    return describe_skill(match.skill, disclosure_stage(match.confidence, user=None if disclosure == "auto" else disclosure))


def _explain(screen: Screen, match: Match) -> None:
    """One match with each of its reasons, and the skills with nearly the same content."""
    screen.line(f"{match.confidence:.2f}  {match.skill.name}  ({match.skill.id})", style="bold")
    rows = [(f"{reason.weight:.2f}", reason.field, reason.written) for reason in match.explain()]
    screen.table(rows, indent=6)
    if match.duplicates:
        screen.line(f"nearly the same: {', '.join(match.duplicates)}", indent=6)


def _words(match: Match) -> str:
    """The words of the skill that fit, each once, whatever field they are in."""
    return shorten(", ".join(dict.fromkeys(found.partition(":")[2] for found in match.matched)), _WORDS)
