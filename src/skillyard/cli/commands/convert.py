"""`skillyard convert`: skills in another format; `skillyard migrate`: old skills and files of other programs."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final

from skillyard.cli.failures import FAILURE, OK, UsageProblem, require_existing
from skillyard.cli.screen import counted
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.interop import MigrationReport, MigrationResult


_FORMATS: Final = ("agent-skills", "anthropic", "codex", "semibot", "apexbridge", "claude-plugin", "claude-marketplace")


def add_convert_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `convert`."""
    parser.add_argument("source", metavar="SOURCE", help="the folder of a skill, of several, of a plugin, or an archive")
    parser.add_argument("--to", required=True, choices=_FORMATS, metavar="FORMAT", help=f"one of: {', '.join(_FORMATS)}")
    parser.add_argument("--out", default="converted", metavar="DIR", help="write below this folder (default: %(default)s)")
    parser.add_argument(
        "--skill", action="append", default=[], metavar="NAME", help="only this skill of the source; may be given several times"
    )
    parser.add_argument("--force", action="store_true", help="replace a folder that is there already")


def convert_command(arguments: argparse.Namespace) -> int:
    """Convert and report what was written, and what the format cannot express."""
    from skillyard.interop import convert

    screen: Screen = arguments.screen
    source = require_existing(arguments.source, hint="name the folder of a skill, a plugin, or an archive")
    done = convert(source, arguments.out, arguments.to, skills=arguments.skill, force=arguments.force)
    if screen.as_json:
        screen.data({"converted": [one.to_dict() for one in done]})
        return OK
    for one in done:
        screen.line(f"{one.path}: {', '.join(one.skills)}, {one.before} to {one.after}", style="ok")
        for note in one.notes:
            screen.line(f"- {note}", indent=2)
    return OK


_FORMS: Final = ("claude-commands", "cursor", "agents")
_STYLES: Final = {"migrated": "ok", "validated": "ok", "skipped": "dim", "failed": "error"}


def add_migrate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `migrate`."""
    parser.add_argument("source", nargs="?", metavar="SOURCE", help="with --from: a file, or the folder of a project")
    parser.add_argument(
        "--skill-dir", metavar="DIR", help="a folder of old skills, or one of them (default: $SKILLS_DIR, else skills)"
    )
    parser.add_argument("--from", dest="form", choices=_FORMS, help="make skills out of what another program keeps in SOURCE")
    parser.add_argument(
        "--to", metavar="DIR", default=".agents/skills", help="with --from: where they go (default: %(default)s)"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    parser.add_argument(
        "--validate", action="store_true", help="change nothing; check each skill as `check --profile full` does"
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="HOST",
        help="what skills may reach that want the network and name no host",
    )
    parser.add_argument(
        "--no-backup", action="store_true", help="keep a copy of an old file only where something of it would be lost"
    )


def migrate_command(arguments: argparse.Namespace) -> int:
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
        return migrate_skills(folder, dry_run=arguments.dry_run, backup=not arguments.no_backup, hosts=arguments.host)
    if arguments.skill_dir or arguments.validate or arguments.no_backup or arguments.host:
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
