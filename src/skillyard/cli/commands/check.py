"""`skillyard check`: findings with file, line and a fix, for one skill or a tree of them."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Final, get_args

from skillyard.cli.checking import Checked, check_target, find_targets
from skillyard.cli.collisions import check_collisions
from skillyard.cli.failures import FAILURE, OK
from skillyard.cli.loading import check_loading
from skillyard.cli.opening import open_home
from skillyard.cli.packaged import check_packages
from skillyard.cli.progress import ScanProgress
from skillyard.cli.screen import counted
from skillyard.document import Profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillyard.cli.screen import Screen
    from skillyard.document import Diagnostic

_MANY: Final = 20  # findings, beyond which a person wants to know what they are mostly about

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `check` takes."""
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="a SKILL.md, a skill's folder or a tree of skills (default: the roots)"
    )
    parser.add_argument(
        "--profile",
        choices=get_args(Profile),
        metavar="PROFILE",
        help=f"which rules: {', '.join(get_args(Profile))} (default: as configured, else standard)",
    )
    parser.add_argument(
        "--package", action="store_true", help="check each PATH as a package: its structure, its manifest.json, its protocols"
    )
    parser.add_argument(
        "--collisions", action="store_true", help="compare all skills: which would a model mix up, and how to tell them apart"
    )
    parser.add_argument(
        "--as",
        dest="clients",
        metavar="CLIENTS",
        help="what these clients make of it: all, or some of claude,codex,gemini,opencode,api",
    )
    parser.add_argument("--fix", action="store_true", help="apply the fixes that cannot change what a skill means")


def run(arguments: argparse.Namespace) -> int:
    """Check, and fix when asked to; 1 when errors remain or a fix could not be written."""
    screen: Screen = arguments.screen
    if arguments.clients is not None:
        return check_loading(arguments)
    if arguments.collisions:
        return check_collisions(arguments)
    if arguments.package:
        return check_packages(arguments)
    targets, profile = find_targets(arguments)
    checked = []
    with ScanProgress(screen, what="checking") as progress:
        for number, target in enumerate(targets, 1):
            checked.append(check_target(target, profile=profile, fix=arguments.fix))
            progress(number, len(targets))
    for pattern in () if arguments.paths else open_home(arguments).rules().allowed_by_name_alone():
        fix = f"write '{pattern} source=…' or '{pattern} signer=…'"
        screen.note(f"warning: the rule {pattern!r} = 'allow' trusts any skill of that name: {fix}")
    for one in checked:
        if one.unwritten:
            screen.note(f"warning: {one.path} was not changed: {one.unwritten}")
    if screen.as_json:
        screen.data({"files": [one.to_dict() for one in checked], "summary": _summary(checked)})
    else:
        _draw(screen, checked, profile)
    return OK if all(one.ok and not one.unwritten for one in checked) else FAILURE


def _summary(checked: Sequence[Checked]) -> dict[str, int]:
    found = [diagnostic.severity for one in checked for diagnostic in one.diagnostics]
    return {
        "files": len(checked),
        "ok": sum(one.ok for one in checked),
        "errors": found.count("error"),
        "warnings": found.count("warning"),
    }


def _draw(screen: Screen, checked: Sequence[Checked], profile: Profile) -> None:
    for one in checked:
        for diagnostic in one.fixed:
            screen.line(f"{one.path}:{diagnostic.line} fixed {diagnostic.rule}: {diagnostic.message}", style="ok")
        for diagnostic in one.diagnostics:
            _draw_finding(screen, one.path, diagnostic)
        if one.fixed or one.diagnostics:
            screen.line()
    rules = Counter(found.rule for one in checked for found in one.diagnostics)
    if rules.total() > _MANY:
        screen.line("most frequent: " + ", ".join(f"{rule} {count}" for rule, count in rules.most_common(5)))
    summary = _summary(checked)
    counts = f"{counted(summary['errors'], 'error')}, {counted(summary['warnings'], 'warning')}"
    fixed = sum(len(one.fixed) for one in checked)
    noun = "file is" if len(checked) == 1 else "files are"
    screen.line(
        f"{summary['ok']} of {summary['files']} {noun} fine under profile {profile}: {counts}"
        + (f", {fixed} fixed" if fixed else ""),
        style="ok" if summary["ok"] == summary["files"] else "error",
    )


def _draw_finding(screen: Screen, path: str, diagnostic: Diagnostic) -> None:
    screen.line(
        f"{path}:{diagnostic.line} {diagnostic.severity} {diagnostic.rule}: {diagnostic.message}", style=diagnostic.severity
    )
    if diagnostic.fix:
        screen.line(f"fix: {diagnostic.fix}", indent=4)
