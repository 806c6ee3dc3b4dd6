"""`skillyard environment`: what skills need and were granted; grant packages and programs, take them back, prune the cache."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.confirmation import confirm
from skillyard.cli.failures import OK, UsageProblem
from skillyard.cli.openers import open_catalog, open_skill, record_audit_event
from skillyard.cli.option_values import parse_positive
from skillyard.cli.screen import counted
from skillyard.errors import ApprovalRejected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillyard.cli.screen import Screen
    from skillyard.environments import SkillNeeds

_ACTIONS = ("show", "allow", "revoke", "prune")
_KINDS = {"packages": "Python", "npm": "npm", "programs": "program"}


def add_environment_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `environment`."""
    parser.add_argument(
        "action", nargs="?", choices=_ACTIONS, default="show", help="show (the default), allow, revoke or prune"
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the skill; without one show tells of every skill")
    parser.add_argument(
        "--with",
        dest="granted",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="for allow and revoke, only this: pypdf, npm:docx or program:qpdf; may be given several times",
    )
    parser.add_argument("--yes", action="store_true", help="for allow, do not ask")
    parser.add_argument(
        "--unused", type=parse_positive, metavar="DAYS", help="for prune, what nobody used for so many days (default: 30)"
    )


def environment_command(arguments: argparse.Namespace) -> int:
    """Show, grant, take back or prune."""
    if arguments.action == "prune":
        return _prune(arguments)
    if arguments.action == "show":
        return _show(arguments)
    if arguments.name is None:
        raise UsageProblem("which skill?", hint=f"skillyard environment {arguments.action} NAME")
    return _allow(arguments) if arguments.action == "allow" else _revoke(arguments)


def _show(arguments: argparse.Namespace) -> int:
    screen: Screen = arguments.screen
    if arguments.name is None:
        catalog = open_catalog(arguments)
        every = [catalog.needs(skill) for skill in catalog.all() if skill.status == "ok"]
        needs = [one for one in every if one.items or one.granted]
        if screen.as_json:
            screen.data({"skills": [one.to_dict() for one in needs]})
        elif needs:
            rows = ((one.name, one.sentence or "has what it needs") for one in needs)
            screen.table(rows, header=("SKILL", "NOT GRANTED"), stretch=1)
        else:
            screen.note("no skill needs packages or programs")
        return OK
    catalog, skill = open_skill(arguments, arguments.name)
    one = catalog.needs(skill)
    if screen.as_json:
        screen.data(one.to_dict())
    else:
        draw_needs(screen, one)
    return OK


def draw_needs(screen: Screen, needs: SkillNeeds) -> None:
    """Draw what one skill needs, each thing with its state and where it is used, and the command that grants the rest."""
    if rows := tuple(needs_rows(needs)):
        screen.table(rows, header=("KIND", "NAME", "STATE", "WHERE"), stretch=3)
    else:
        screen.line(f"{needs.name} needs no packages and no programs")
    for sentence in needs.ignored:
        screen.note(f"warning: {sentence}")
    for name, remedy in needs.missing_programs:
        screen.note(f"{name} is not on this machine: {remedy}")
    if needs.command:
        screen.hint(f"`{needs.command}` grants what is proposed")


def needs_rows(needs: SkillNeeds) -> Iterator[tuple[str, str, str, str]]:
    """Kind, name, state and places of everything a skill needs."""
    for item in needs.items:
        yield _KINDS[item.kind], item.name, item.state, ", ".join(item.where) or "declared"


def _allow(arguments: argparse.Namespace) -> int:
    from skillyard.environments import SkillGrant

    screen: Screen = arguments.screen
    catalog, skill = open_skill(arguments, arguments.name)
    needs = catalog.needs(skill)
    grant = SkillGrant.from_words(arguments.granted) if arguments.granted else needs.proposed
    if grant:
        for word in grant.words:
            screen.note(f"  + {word}")
        if not arguments.yes:
            if not screen.interactive or screen.as_json:
                raise ApprovalRejected("nobody is here to agree to these packages and programs", hint="say --yes to agree")
            if not confirm(f"Install these and give them to {skill.name}?"):
                raise ApprovalRejected("nothing was granted", hint="`--with NAME` grants only one of them")
    catalog.allow(skill, grant)
    record_audit_event(screen, lambda: catalog.records().database, "environments.grant", skill.id)
    after = catalog.needs(skill)
    if screen.as_json:
        screen.data(after.to_dict())
        return OK
    screen.line(f"{skill.name} has {', '.join(after.granted.words) or 'nothing granted'}", style="ok")
    for name, remedy in after.missing_programs:
        if name in grant.programs:
            screen.note(f"{name} is not on this machine: {remedy}")
    return OK


def _revoke(arguments: argparse.Namespace) -> int:
    from skillyard.environments import SkillGrant

    screen: Screen = arguments.screen
    catalog, skill = open_skill(arguments, arguments.name)
    left = catalog.revoke(skill, SkillGrant.from_words(arguments.granted) if arguments.granted else None)
    record_audit_event(screen, lambda: catalog.records().database, "environments.revoke", skill.id)
    if screen.as_json:
        screen.data({"granted": left.to_dict()})
    else:
        screen.line(f"{skill.name} has {', '.join(left.words) or 'nothing granted'}", style="ok")
        if left and not arguments.granted:
            screen.hint(f"what is left is in [skills.{skill.name}] of {catalog.configuration.user_file}")
    return OK


def _prune(arguments: argparse.Namespace) -> int:
    from skillyard.environments import prune_environments

    screen: Screen = arguments.screen
    if arguments.name is not None:
        raise UsageProblem("prune is about all skills", hint="`skillyard environment prune` removes what nobody used for long")
    report = prune_environments(unused_days=arguments.unused) if arguments.unused else prune_environments()
    if screen.as_json:
        screen.data(report.to_dict())
    else:
        screen.line(
            f"removed {counted(report.environments, 'environment')}, {report.size:,} bytes with their downloads", style="ok"
        )
    return OK
