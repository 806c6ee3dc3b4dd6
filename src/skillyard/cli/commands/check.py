"""`skillyard check`: findings with file, line and a fix, for one skill or a tree of them.

Also `--as` (which clients load a skill), `--collisions` (skills that a model would confuse) and `--package` (packages).
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Final, get_args

from skillyard.cli.check_targets import CheckedFile, check_target, find_targets
from skillyard.cli.failures import FAILURE, OK, UsageProblem, require_existing
from skillyard.cli.openers import open_catalog, open_home
from skillyard.cli.progress import ScanProgress
from skillyard.cli.screen import counted
from skillyard.document import Profile
from skillyard.text import nearest, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillyard.cli.screen import Screen
    from skillyard.document import Diagnostic
    from skillyard.interop import ClientCompatibility, ClientName


def check_for_clients(arguments: argparse.Namespace) -> int:
    """Tell for each skill and client whether it loads; 1 when one does not.

    Raises:
        UsageProblem: a client that nobody knows, or options that have no meaning with this.
    """
    from skillyard.interop import check_clients

    if arguments.fix or arguments.profile or arguments.package or arguments.collisions:
        raise UsageProblem("--as goes with no other way to check", hint="skillyard check PATH --as claude,codex")
    clients = _clients(arguments.clients)
    targets, _ = find_targets(arguments)
    found = [(target, check_clients(target.path, clients)) for target in targets]
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"skills": [{"path": str(t.path), "clients": [one.to_dict() for one in all_]} for t, all_ in found]})
    else:
        for target, loadings in found:
            screen.line(str(target.path), style="bold")
            for one in loadings:
                _draw_loading(screen, one)
    return OK if all(one.loads for _, loadings in found for one in loadings) else FAILURE


def _clients(text: str) -> tuple[ClientName, ...]:
    from skillyard.interop import CLIENTS

    names = [name.strip() for name in text.split(",") if name.strip()]
    chosen = tuple(client for client in CLIENTS if client in names or "all" in names)
    unknown = [name for name in names if name not in CLIENTS and name != "all"]
    if unknown or not chosen:
        near = nearest(unknown[0], CLIENTS, limit=1) if unknown else []
        hint = f"did you mean {near[0]}?" if near else f"all, or some of {', '.join(CLIENTS)}"
        raise UsageProblem(f"there is no client {unknown[0] if unknown else ''!r}", hint=hint)
    return chosen


def _draw_loading(screen: Screen, one: ClientCompatibility) -> None:
    answer = f"loads as {one.name}: {shorten(one.description, 80)}" if one.loads else "does not load it"
    screen.line(f"{one.client:10} {answer}", indent=2, style="ok" if one.loads else "error")
    for reason in (*one.problems, *one.notes):
        screen.line(f"- {reason}", indent=13)


def check_collisions(arguments: argparse.Namespace) -> int:
    """Compare the offered skills with each other; 1 when two of them collide.

    Raises:
        UsageProblem: paths or options are given that a comparison of all skills has no use for.
    """
    from skillyard.search import find_collisions

    if arguments.paths or arguments.fix or arguments.profile:
        raise UsageProblem(
            "--collisions compares all skills of a catalog: it takes no PATH, no --fix and no --profile",
            hint="skillyard check --collisions --root FOLDER",
        )
    catalog = open_catalog(arguments)
    collisions = find_collisions(catalog.all())
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"collisions": [collision.to_dict() for collision in collisions]})
        return FAILURE if collisions else OK
    for collision in collisions:
        screen.line(f"{collision.alike:.0%}  {collision.first.id}  {collision.second.id}", style="warning")
        screen.line(f"both say: {', '.join(collision.shared)}", indent=5)
        screen.line(f"fix: {collision.advice}", indent=5)
    screen.note(f"{counted(len(collisions), 'collision')} among {counted(len(catalog), 'skill')}")
    return FAILURE if collisions else OK


def check_packages(arguments: argparse.Namespace) -> int:
    """Check every folder named; 1 when one is not valid.

    Raises:
        UsageProblem: no folder is named, one is not there, or options are given that packages have no use for.
    """
    from skillyard.interop import check_package, closing_line, report_lines  # only this form of the command reads manifests

    if not arguments.paths or arguments.fix or arguments.profile:
        raise UsageProblem("--package takes folders, no --fix and no --profile", hint="skillyard check --package FOLDER")
    screen: Screen = arguments.screen
    hint = "name the folder of a package: it holds a SKILL.md"
    checks = [check_package(require_existing(path, hint=hint)) for path in arguments.paths]
    if screen.as_json:
        screen.data({"packages": [check.to_dict() for check in checks]})
    else:
        for check in checks:
            for line in report_lines(check):
                screen.line(line, style=line.partition(":")[0] if ": " in line else "")
        screen.line(closing_line(checks), style="ok" if all(check.ok for check in checks) else "error")
    return OK if all(check.ok for check in checks) else FAILURE


_MANY: Final = 20  # findings, beyond which a person wants to know what they are mostly about


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
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


def check_command(arguments: argparse.Namespace) -> int:
    """Check, and fix when asked to; 1 when errors remain or a fix could not be written."""
    screen: Screen = arguments.screen
    if arguments.clients is not None:
        return check_for_clients(arguments)
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
        _draw_check(screen, checked, profile)
    return OK if all(one.ok and not one.unwritten for one in checked) else FAILURE


def _summary(checked: Sequence[CheckedFile]) -> dict[str, int]:
    found = [diagnostic.severity for one in checked for diagnostic in one.diagnostics]
    return {
        "files": len(checked),
        "ok": sum(one.ok for one in checked),
        "errors": found.count("error"),
        "warnings": found.count("warning"),
    }


def _draw_check(screen: Screen, checked: Sequence[CheckedFile], profile: Profile) -> None:
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
