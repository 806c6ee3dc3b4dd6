"""`skillyard trail`: what became of skills in conversations."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.arguments import positive
from skillyard.cli.failures import OK
from skillyard.cli.opening import LOCAL_OWNER, open_agent_room, open_catalog
from skillyard.errors import SkillyardError

if TYPE_CHECKING:
    from skillyard.agent import Trail, TrailReport
    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `trail` takes."""
    parser.add_argument(
        "conversation", nargs="?", metavar="CONVERSATION", help="only this one; its last 6 characters are enough"
    )
    parser.add_argument("--skill", metavar="NAME", help="only this skill, by its name or id")
    parser.add_argument("--report", action="store_true", help="each skill in all conversations, and which to look at")
    parser.add_argument(
        "--limit", type=positive, default=100, metavar="N", help="at most this many steps (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """List the steps, or report on every skill."""
    screen: Screen = arguments.screen
    room = open_agent_room()
    catalog = open_catalog(arguments)
    records = catalog.records()
    trail: Trail = room.Trail(lambda: records.database)
    if arguments.report:
        return _report(trail.report(), catalog, screen)
    conversation = arguments.conversation
    if conversation is not None:
        conversation = room.ChatRecords(lambda: records.database).get(conversation, LOCAL_OWNER).id
    return _steps(trail, conversation, _skill_id(catalog, arguments.skill), arguments.limit, screen)


def _skill_id(catalog: Catalog, name: str | None) -> str | None:
    """The id of the skill that is meant; one that is gone may still be named by its id."""
    if name is None:
        return None
    try:
        return catalog.get(name).id
    except SkillyardError:
        if ":" in name:
            return name
        raise


def _steps(trail: Trail, conversation: str | None, skill: str | None, limit: int, screen: Screen) -> int:
    steps = trail.of(conversation=conversation, skill=skill, limit=limit)
    if screen.as_json:
        screen.data({"steps": [step.to_dict() for step in steps]})
    elif steps:
        rows = (
            (
                f"{step.at:%m-%d %H:%M:%S}",
                step.conversation_id[-10:],
                step.event,
                step.skill_id or "",
                f"{step.tokens:,}" if step.tokens else "",
                f"{step.duration_ms:,} ms" if step.duration_ms else "",
                ("" if step.ok else "failed: ") + (step.detail or ""),
            )
            for step in steps
        )
        screen.table(rows, header=("WHEN (UTC)", "CHAT", "STEP", "SKILL", "TOKENS", "TOOK", "WHAT"), stretch=6)
    else:
        screen.note("nothing happened yet")
    return OK


def _report(report: TrailReport, catalog: Catalog, screen: Screen) -> int:
    with_more = {skill.id for skill in catalog.all() if skill.status == "ok" and skill.files()}
    lists = {
        "never_used": report.never_used,
        "not_followed": report.not_followed(with_more),
        "fails_often": report.fails_often,
    }
    if screen.as_json:
        screen.data({"skills": [use.to_dict() for use in report.skills]} | {name: list(ids) for name, ids in lists.items()})
        return OK
    if not report.skills:
        screen.note("nothing happened yet")
        return OK
    rows = (
        (use.skill_id, str(use.offered), str(use.loaded), str(use.read), str(use.run), str(use.failed), f"{use.tokens:,}")
        for use in report.skills
    )
    screen.table(rows, header=("SKILL", "OFFERED", "LOADED", "READ", "RUN", "FAILED", "TOKENS"), stretch=0)
    for name, told in (
        ("never_used", "offered in ten conversations or more, and never used"),
        ("not_followed", "loaded, and then no file read and nothing run"),
        ("fails_often", "often fails"),
    ):
        for skill in lists[name]:
            screen.note(f"{skill}: {told}")
    return OK
