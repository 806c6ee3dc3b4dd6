"""Decide which skill has a name when several want it, give each an id, and say why the others step back.

The first root wins, and within a root the first path. The others stay in the list as `shadowed`, with the winner in the
reason. A broken skill takes no name. A skill that is switched off keeps its name: switching off must not bring another skill to
life.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skillyard.paths import real_path

if TYPE_CHECKING:
    from skillyard.catalog.model import Found, Root, Row, Verdict
    from skillyard.catalog.scan import Scan
    from skillyard.catalog.settings import Settings

__all__ = ["rank"]

_Winner = tuple[str, "Root", "Found"]  # who has a slug: its id, its root, and where it is below it


def rank(scans: Sequence[Scan], settings: Settings) -> list[Row]:
    """One row per skill, in order of precedence; the same input always gives the same rows."""
    rows: list[Row] = []
    broken: list[int] = []
    ids: set[str] = set()
    winners: dict[str, _Winner] = {}
    quiet = settings.enable_skills and not settings.disabled
    for index, scan in enumerate(scans):
        root, source = scan.root, scan.root.source
        for found, facts in zip(scan.found, scan.facts, strict=True):
            slug, problem = facts[0], facts[1]
            if problem is not None:
                broken.append(len(rows))
                rows.append(("", "broken", problem, index, found, facts))
                continue
            skill_id = f"{source}:{slug}"
            if slug not in winners:  # so its id is free too: an id holds the slug
                ids.add(skill_id)
                winners[slug] = (skill_id, root, found)
                status, reason = ("ok", None) if quiet else _switched(source, slug, root, settings)
                rows.append((skill_id, status, reason, index, found, facts))
            else:
                reason = _shadow(winners[slug], root, found)
                rows.append((_free(skill_id, ids), "shadowed", reason, index, found, facts))
    for position in broken:
        rows[position] = _with_id(rows[position], scans, ids)
    return rows


def _switched(source: str, slug: str, root: Root, settings: Settings) -> Verdict:
    """Whether it is switched off, and why; who sees the alias of a root has no command line here, and is shown no path."""
    reason = settings.reason(source, slug, root.path)
    if reason and root.alias is not None:
        reason = "switched off; it is switched on on its page, or over the API"
    return ("disabled", reason) if reason else ("ok", None)


def _shadow(winner: _Winner, root: Root, found: Found) -> str:
    """Why a second skill of one name steps back; the same SKILL.md reached twice is told apart from a namesake."""
    winner_id, winner_root, winner_found = winner
    theirs = _folder(winner_root.location, winner_found)
    if winner_found[5] == found[5] and real_path(_folder(winner_root.path, winner_found)) == real_path(
        _folder(root.path, found)
    ):
        return f"the same folder as {winner_id} in {theirs}"
    return f"{winner_id} in {theirs} has the same name and comes first"


def _folder(root: str, found: Found) -> str:
    return f"{root.rstrip('/')}/{found[0]}" if found[0] else root


def _with_id(row: Row, scans: Sequence[Scan], ids: set[str]) -> Row:
    _, status, reason, index, found, facts = row
    return _free(f"{scans[index].root.source}:{facts[0]}", ids), status, reason, index, found, facts


def _free(skill_id: str, ids: set[str]) -> str:
    """`skill_id`, or the first of `skill_id#2`, `#3`… that nobody has."""
    free, number = skill_id, 2
    while free in ids:
        free, number = f"{skill_id}#{number}", number + 1
    ids.add(free)
    return free
