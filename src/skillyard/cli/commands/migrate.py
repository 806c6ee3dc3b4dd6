"""`skillyard migrate`: old skills into the form of today, and skills out of what other programs keep."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final

from skillyard.cli.failures import FAILURE, OK, UsageProblem
from skillyard.cli.screen import counted
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.interop import MigrationReport, MigrationResult

__all__ = ["add_arguments", "run"]

_FORMS: Final = ("claude-commands", "cursor", "agents")
_STYLES: Final = {"migrated": "ok", "validated": "ok", "skipped": "dim", "failed": "error"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `migrate` takes."""
    parser.add_argument("source", nargs="?", metavar="SOURCE", help="with --from: a file, or the folder of a project")
    parser.add_argument(
        "--skill-dir", metavar="DIR", help="a folder of old skills, or one of them (default: $SKILLS_DIR, else skills)"
    )
    parser.add_argument("--from", dest="form", choices=_FORMS, help="make skills out of what another program keeps in SOURCE")
    parser.add_argument(
        "--to", metavar="DIR", default=".agents/skills", help="with --from: where they go (default: %(default)s)"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    parser.add_argument("--validate", action="store_true", help="change nothing; say which skills have the form of today")
    parser.add_argument(
        "--no-backup", action="store_true", help="keep a copy of an old file only where something of it would be lost"
    )


def run(arguments: argparse.Namespace) -> int:
    """Migrate or validate; 1 when a skill failed."""
    screen: Screen = arguments.screen
    report = _report(arguments)
    if screen.as_json:
        screen.data(report.to_dict())
    else:
        for result in report.results:
            _draw(screen, result, diff=arguments.dry_run)
        _draw_total(screen, report, dry_run=arguments.dry_run)
    return OK if report.ok else FAILURE


def _report(arguments: argparse.Namespace) -> MigrationReport:
    from skillyard.interop import adopt_skills, migrate_skills, validate_skills

    if arguments.form is None:
        if arguments.source is not None:
            raise UsageProblem("what is SOURCE?", hint="--skill-dir DIR for old skills, --from FORM SOURCE for other programs'")
        folder = arguments.skill_dir or os.environ.get("SKILLS_DIR") or "skills"
        if arguments.validate:
            return validate_skills(folder)
        return migrate_skills(folder, dry_run=arguments.dry_run, backup=not arguments.no_backup)
    if arguments.skill_dir or arguments.validate or arguments.no_backup:
        raise UsageProblem("--from takes SOURCE and --to only", hint=f"skillyard migrate --from {arguments.form} . --to DIR")
    return adopt_skills(arguments.form, arguments.source or ".", arguments.to, dry_run=arguments.dry_run)


def _draw(screen: Screen, result: MigrationResult, *, diff: bool) -> None:
    screen.line(f"{result.status} {result.skill_name}", style=_STYLES[result.status])
    for detail in result.details:
        screen.line(single_line(detail), indent=2)
    for issue in result.issues:
        screen.line(f"- {single_line(issue)}", indent=2)
    if diff and result.before != result.after:
        from difflib import unified_diff

        lines = unified_diff(result.before.splitlines(), result.after.splitlines(), "SKILL.md", "SKILL.md", lineterm="", n=1)
        for line in lines:
            screen.line(line, indent=4, style={"+": "ok", "-": "error"}.get(line[:1], ""))


def _draw_total(screen: Screen, report: MigrationReport, *, dry_run: bool) -> None:
    counts = report.to_dict()
    words = [f"{counts[name]} {name}" for name in ("migrated", "validated", "skipped", "failed") if counts[name]]
    screen.note(
        f"{counted(len(report.results), 'skill')}: {', '.join(words) or 'none'}" + ("; nothing was written" if dry_run else "")
    )
