"""`skillyard approvals`: what was agreed to for a workspace, and taking it back."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK, UsageProblem
from skillyard.cli.openers import open_approvals, record_audit_event
from skillyard.errors import AmbiguousSkill, RecordNotFound

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.permissions import ApprovalRecord, SqlApprovalStore


def add_approvals_arguments(parser: argparse.ArgumentParser) -> None:
    """What `approvals` takes."""
    parser.add_argument("action", nargs="?", choices=("list", "revoke"), default="list", help="list (the default) or revoke")
    parser.add_argument("skill", nargs="?", metavar="SKILL", help="the id or name of the skill; list then shows only that one")
    parser.add_argument("--all", action="store_true", help="for revoke: every skill of this workspace")
    parser.add_argument("--everywhere", action="store_true", help="for list: those of all workspaces")


def approvals_command(arguments: argparse.Namespace) -> int:
    """List or revoke."""
    if not _understood(arguments):
        hint = (
            "`skillyard approvals list [SKILL]`, `skillyard approvals revoke SKILL` or `… revoke --all`, without --everywhere"
        )
        raise UsageProblem("which approvals?", hint=hint)
    store = open_approvals(arguments)
    if arguments.action == "list":
        approved = store.everywhere() if arguments.everywhere else store.approved()
        _list(
            arguments.screen,
            tuple(item for item in approved if arguments.skill is None or _fits(item.skill_id, arguments.skill)),
        )
    else:
        _revoke(arguments.screen, store, arguments.skill)
    return OK


def _understood(arguments: argparse.Namespace) -> bool:
    """Whether the options belong to the action: nothing is revoked in another workspace, or all of it by accident."""
    if arguments.action == "list":
        return not arguments.all
    return not arguments.everywhere and arguments.all != (arguments.skill is not None)


def _fits(skill_id: str, wanted: str) -> bool:
    return wanted in (skill_id, skill_id.rpartition(":")[2])


def _list(screen: Screen, approved: tuple[ApprovalRecord, ...]) -> None:
    if screen.as_json:
        screen.data({"approvals": [item.to_dict() for item in approved]})
    elif approved:
        rows = [(item.skill_id, item.digest[:19], item.to_dict()["approved_at"], item.workspace) for item in approved]
        screen.table(rows, header=("SKILL", "CONTENT", "APPROVED", "WORKSPACE"), stretch=3)
    else:
        screen.note("no approvals")


def _revoke(screen: Screen, store: SqlApprovalStore, wanted: str | None) -> None:
    from skillyard.permissions import SqlSessionApprovals

    sessions = SqlSessionApprovals(store.database)
    known = sorted({*(item.skill_id for item in store.approved()), *sessions.skills()})
    chosen = known if wanted is None else [_one(known, wanted)]
    revoked = [skill_id for skill_id in chosen if any([store.remove(skill_id), sessions.remove(skill_id)])]
    record_audit_event(screen, store.database, "approvals.revoke", *revoked)
    if screen.as_json:
        screen.data({"revoked": revoked})
    else:
        screen.line("\n".join(f"revoked {skill_id}: you will be asked again" for skill_id in revoked) or "no approvals")


def _one(known: list[str], wanted: str) -> str:
    """The id that is `wanted`, or ends in it as a name."""
    fitting = [wanted] if wanted in known else [skill_id for skill_id in known if _fits(skill_id, wanted)]
    if not fitting:
        message = f"nothing was agreed to for {wanted!r} in this workspace"
        raise RecordNotFound(message, hint="`skillyard approvals` lists what was; --project names another workspace")
    if len(fitting) > 1:
        raise AmbiguousSkill(f"{wanted!r} can be several skills", candidates=fitting)
    return fitting[0]
