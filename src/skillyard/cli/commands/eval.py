"""`skillyard eval triggers`: whether the right skill is found for a list of prompts, and whether an edit made it better."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.failures import FAILURE, OK, UsageProblem
from skillyard.cli.opening import open_catalog
from skillyard.cli.screen import counted
from skillyard.errors import InvalidInput

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.search import Evaluation

_SHOWN: Final = 10
_LARGEST: Final = 16 * 1024 * 1024

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `eval` takes."""
    parser.add_argument("what", choices=("triggers",), help="what to evaluate")
    parser.add_argument("file", metavar="FILE", help="prompts with the skill expected, as JSON, JSON lines or YAML")
    parser.add_argument(
        "--skill", metavar="NAME", help="the skill that `should_trigger` speaks of (default: whose folder it is)"
    )
    parser.add_argument("--against", metavar="FILE", help="an earlier answer of --json: exit 1 when anything became worse")
    parser.add_argument("--at-least", type=_share, metavar="X", help="exit 1 when the share of first hits is below (0 to 1)")
    parser.add_argument(
        "--alarm", type=_share, default=0.3, metavar="X", help="confidence that is a false alarm (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Evaluate; 1 when it is worse than before or not as good as asked for."""
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
    if screen.as_json:
        screen.data({**done.to_dict(), "worse": worse})
    else:
        _draw(screen, done, before, worse)
    return FAILURE if worse else OK


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("give a number from 0 to 1")
    return value


def _text(file: Path) -> str:
    if file.is_file() and file.stat().st_size > _LARGEST:
        raise InvalidInput(f"{file} is larger than 16 MiB", hint="split it")
    try:
        return file.read_text(encoding="utf-8")
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
    """What is worse than before, and what is not as good as asked for, one sentence each."""
    after = _after(done)
    found = [
        f"{name} went from {before[name]:.0%} to {after[name]:.0%}"
        for name in before
        if name in after and after[name] < before[name] - 1e-9
    ]
    first = after.get("hit@1", 0.0)
    if at_least is not None and first < at_least:
        found.append(f"hit@1 is {first:.0%}, not {at_least:.0%}")
    return found


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
