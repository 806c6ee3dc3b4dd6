"""`skillyard search`: the skills that fit a request; `skillyard eval triggers`: how often the right one is returned."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from skillyard.cli.command_options import missing_root, open_catalog, open_home, parse_positive, read_given_text
from skillyard.cli.install_support import note_withdrawn
from skillyard.cli.screen import FAILURE, OK, USAGE, ScanProgress, counted
from skillyard.errors import InvalidInput, UsageProblem
from skillyard.text import shorten

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog
    from skillyard.search import DescriptionChange, Evaluation, Match


_WORDS: Final = 32  # characters
_MOST_THERE: Final = 100


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `search`."""
    from skillyard.catalog.catalog_rows import Source

    parser.add_argument("query", nargs="?", help="a request in plain words, as a user would write it")
    parser.add_argument("--intent", metavar="TEXT", help="instead: what skills declare as triggers, with their fixed scores")
    parser.add_argument("--event", metavar="TYPE", help="instead: the skills that declare this event type")
    parser.add_argument("--source", choices=get_args(Source), help="only skills of this source")
    parser.add_argument("--tag", help="only skills with this tag or keyword")
    parser.add_argument("--domain", help="only skills of this domain; with --intent it counts a tenth instead")
    parser.add_argument("--permission", choices=("allow", "ask"), help="only skills that the rules allow, or ask about")
    parser.add_argument(
        "--limit", type=parse_positive, default=10, metavar="N", help="at most this many (default: %(default)s)"
    )
    parser.add_argument(
        "--page", type=parse_positive, default=1, metavar="K", help="which page of results (default: %(default)s)"
    )
    parser.add_argument(
        "--min-confidence",
        type=_share,
        default=None,
        metavar="X",
        help="leave out matches below this confidence (0 to 1; default: none)",
    )
    parser.add_argument(
        "--disclosure",
        choices=("auto", "metadata", "brief", "full"),
        help="show each match as a model sees it: by confidence (auto), or always at this level",
    )
    parser.add_argument("--wide", action="store_true", help="whole descriptions, also where they are long")
    parser.add_argument(
        "--at", metavar="ADDRESS", help="instead of here: in the ARD catalog (ai-catalog.json) of a site or server"
    )
    parser.add_argument("--explain", action="store_true", help="show the weight of each reason")


def search_command(arguments: argparse.Namespace) -> int:
    """Search the usable skills; exit code 1 when none has anything of the request, 2 when a root is missing besides."""
    requests = [text for text in (arguments.query, arguments.intent, arguments.event) if text is not None]
    if len(requests) != 1 or not requests[0].strip():
        raise UsageProblem("search takes one request", hint='give it in plain words: skillyard search "merge two PDF files"')
    if arguments.at is not None:
        return _search_there(arguments, requests[0])
    catalog = open_catalog(arguments)
    first = (arguments.page - 1) * arguments.limit
    results = _search(catalog, arguments, first + arguments.limit + 1)
    matches, more = results[first : first + arguments.limit], len(results) > first + arguments.limit
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"matches": [_shape(match, arguments) for match in matches], "more": more})
    elif matches:
        _show(screen, matches, arguments, more=more)
        note_withdrawn(screen, catalog, [match.skill for match in matches])
    else:
        screen.note(f"none of {counted(len(catalog), 'skill')} matches; try other words")
    if matches:
        return OK
    if missing_root(arguments, catalog) is not None:
        screen.hint("check the path of --root")
        return USAGE
    return FAILURE


def _search_there(arguments: argparse.Namespace, text: str) -> int:
    """What somebody else's catalog finds, and how it is installed; 1 when nothing fits."""
    from skillyard.registry import SourceFetcher
    from skillyard.registry.logins import Logins

    others = ("intent", "event", "source", "tag", "domain", "permission", "min_confidence", "disclosure")
    if any(getattr(arguments, name) is not None for name in others) or arguments.explain or arguments.page != 1:
        raise UsageProblem("--at takes words and --limit alone", hint=f'skillyard search "{text}" --at ADDRESS')
    home, screen = open_home(arguments), arguments.screen
    fetcher = SourceFetcher(allow_private=home.configuration.private_hosts, logins=Logins(home.data_directory))
    found = fetcher.search(arguments.at, text, min(arguments.limit, _MOST_THERE))
    if screen.as_json:
        screen.data({"at": arguments.at, "matches": [one.to_dict() for one in found]})
    elif found:
        rows = ((one.key, "" if one.score is None else str(one.score), one.description) for one in found)
        screen.table(rows, header=("SKILL", "FITS", "DESCRIPTION"), stretch=None if arguments.wide else 2)
        screen.note(f"skillyard install {arguments.at} --skill {found[0].key}")
    else:
        screen.note("no matches there; try other words")
    return OK if found else FAILURE


def _search(catalog: Catalog, arguments: argparse.Namespace, limit: int) -> list[Match]:
    from skillyard.search import skill_filter

    wants = {"source": arguments.source, "tag": arguments.tag, "permission": arguments.permission}
    if arguments.query is not None:
        least = arguments.min_confidence or 0.0
        with ScanProgress(arguments.screen, what="indexing") as progress:
            catalog.prepare_search(progress)
        return catalog.search(arguments.query, limit, min_confidence=least, domain=arguments.domain, **wants)
    only = skill_filter(**wants, permission_of=catalog.rules().decide if arguments.permission else None)
    if arguments.intent is not None:
        least = 0.15 if arguments.min_confidence is None else arguments.min_confidence
        matches = catalog.find_relevant_skills(
            arguments.intent, limit=max(len(catalog), 1), min_confidence=least, domain=arguments.domain
        )
    else:
        matches = catalog.match_event(arguments.event, limit=max(len(catalog), 1))
    return [match for match in matches if only is None or only(match.skill)][:limit]


def _shape(match: Match, arguments: argparse.Namespace) -> dict[str, object]:
    shape: dict[str, object] = dict(match.to_dict())
    if arguments.disclosure:
        shape["disclosed"] = _disclosed(match, arguments.disclosure)
    if arguments.explain:
        shape["reasons"] = [reason._asdict() for reason in match.explain()]
    return shape


def _show(screen: Screen, matches: list[Match], arguments: argparse.Namespace, *, more: bool) -> None:
    if arguments.disclosure:
        for match in matches:
            screen.line(_disclosed(match, arguments.disclosure) + "\n")
    elif arguments.explain:
        for match in matches:
            _explain(screen, match)
    else:
        descriptions = [screen.description(match.skill.description, wide=arguments.wide) for match in matches]
        screen.table(
            (
                (f"{match.confidence:.2f}", match.skill.name, _words(match), text)
                for match, text in zip(matches, descriptions, strict=True)
            ),
            header=("FIT", "NAME", "BECAUSE OF", "DESCRIPTION"),
            stretch=None if arguments.wide else 3,
            marks=[[field.partition(":")[2] for field in match.matched] for match in matches],
        )
    if matches[0].none_may_fit:
        screen.note("these are the nearest skills; it is possible that none of them fits")
    elif not matches[0].sure:
        screen.note("one of these is probably right, but it is not clear which")
    if more:
        screen.note(f"there are more: --page {arguments.page + 1}")


def _disclosed(match: Match, disclosure: str) -> str:
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
    return shorten(", ".join(dict.fromkeys(field.partition(":")[2] for field in match.matched)), _WORDS)


_SHOWN: Final = 10


def add_eval_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `eval`."""
    parser.add_argument("what", choices=("triggers",), help="what to evaluate")
    parser.add_argument("file", metavar="FILE", help="prompts with the skill expected, as JSON, JSON lines or YAML")
    parser.add_argument(
        "--skill", metavar="NAME", help="the skill that `should_trigger` refers to (default: the one of the folder)"
    )
    parser.add_argument("--against", metavar="FILE", help="an earlier output of --json; exit with 1 when anything became worse")
    parser.add_argument(
        "--at-least", type=_share, metavar="X", help="exit with 1 when the share of first hits is below this (0 to 1)"
    )
    parser.add_argument(
        "--alarm",
        type=_share,
        default=0.3,
        metavar="X",
        help="the confidence from which a wrong match is a false alarm (default: %(default)s)",
    )
    parser.add_argument(
        "--suggest", action="store_true", help="propose descriptions that find more of the held-out prompts; writes nothing"
    )


def eval_command(arguments: argparse.Namespace) -> int:
    """Evaluate; 1 when it is worse than before or below the required rates."""
    from skillyard.search import evaluate_triggers, read_trigger_cases

    file = Path(arguments.file)
    cases = read_trigger_cases(_text(file), skill=arguments.skill or _owner(file))
    before = _before(arguments.against)
    catalog = open_catalog(arguments)
    done = evaluate_triggers(
        cases, lambda prompt, limit: catalog.search(prompt, limit, min_confidence=0.0), min_confidence=arguments.alarm
    )
    worse = _worse(done, before, arguments.at_least)
    screen: Screen = arguments.screen
    suggestions = catalog.suggest_descriptions(cases) if arguments.suggest else []
    if screen.as_json:
        suggested = {"suggestions": [one.to_dict() for one in suggestions]} if arguments.suggest else {}
        screen.data({**done.to_dict(), "worse": worse, **suggested})
    else:
        _draw(screen, done, before, worse)
        if arguments.suggest:
            _draw_suggestions(screen, suggestions)
    return FAILURE if worse else OK


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("give a number from 0 to 1")
    return value


def _text(file: Path) -> str:
    try:
        return read_given_text(file)
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not text in UTF-8", hint="give a JSON, JSON lines or YAML file") from None


def _owner(file: Path) -> str | None:
    """The name of the folder of the skill that the file lies in."""
    return next((folder.name for folder in list(file.resolve().parents)[:3] if (folder / "SKILL.md").is_file()), None)


def _before(file: str | None) -> dict[str, float]:
    """The shares of an earlier answer by name, a higher one is better."""
    if file is None:
        return {}
    try:
        value = json.loads(_text(Path(file)))
        hits, alarms = dict(value["hits"]), value["false_alarms"]
        shares = {f"hit@{depth}": share for depth, share in hits.items()} | {"quiet": None if alarms is None else 1 - alarms}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UsageProblem(
            f"{file} is not an earlier answer", hint="keep one with: skillyard eval triggers FILE --json > before.json"
        ) from None
    return {name: float(share) for name, share in shares.items() if isinstance(share, int | float)}


def _after(done: Evaluation) -> dict[str, float]:
    shape = done.to_dict()
    shares = {f"hit@{depth}": share for depth, share in shape["hits"].items()}
    alarms = shape["false_alarms"]
    shares["quiet"] = None if alarms is None else 1 - alarms
    return {name: share for name, share in shares.items() if share is not None}


def _worse(done: Evaluation, before: dict[str, float], at_least: float | None) -> list[str]:
    """What is worse than before, and what is below the required rates, one sentence each."""
    after = _after(done)
    problems = [
        f"{name} went from {before[name]:.0%} to {after[name]:.0%}"
        for name in before
        if name in after and after[name] < before[name] - 1e-9
    ]
    first = after.get("hit@1", 0.0)
    if at_least is not None and first < at_least:
        problems.append(f"hit@1 is {first:.0%}, not {at_least:.0%}")
    return problems


def _draw(screen: Screen, done: Evaluation, before: dict[str, float], worse: list[str]) -> None:
    after, shape = _after(done), done.to_dict()
    rows = [(name, f"{before[name]:.1%}" if name in before else "", f"{share:.1%}") for name, share in after.items()]
    screen.table(rows, header=("SHARE", "BEFORE", "NOW"), right=2)
    for title, prompts in (("not among the first ten", shape["misses"]), ("false alarm", shape["alarms"])):
        for prompt in prompts[:_SHOWN]:
            screen.line(f"{title}: {prompt}")
        if len(prompts) > _SHOWN:
            screen.line(f"{title}: {len(prompts) - _SHOWN} more, in --json")
    for sentence in worse:
        screen.line(sentence, style="error")
    screen.note(counted(shape["prompts"], "prompt"))


def _draw_suggestions(screen: Screen, suggestions: list[DescriptionChange]) -> None:
    for one in suggestions:
        found = f"{one.before} of {one.held_out} held-out prompts found it first, then {one.after}"
        screen.line(f"\n{one.skill}: {found}", style="bold")
        screen.line(one.description)
    screen.note(f"{counted(len(suggestions), 'suggestion')}; no prompt of another skill lost its hit, nothing was written")
