"""`skillyard versions`, `history`, `deprecate` and `yank`: installed versions, how they came here, and which to avoid."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK
from skillyard.cli.installation import open_registry
from skillyard.cli.option_values import parse_positive

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.registry import InstalledSkill, InstallLog, SkillVersion


def add_versions_arguments(parser: argparse.ArgumentParser) -> None:
    """What `versions` takes."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the skill (default: every installed skill, its current version)"
    )
    parser.add_argument("--all", action="store_true", help="also skills that were uninstalled")


def versions_command(arguments: argparse.Namespace) -> int:
    """Tell the versions, the newest first."""
    screen: Screen = arguments.screen
    registry = open_registry(arguments)
    if arguments.name is None:
        skills = registry.installed.skills(uninstalled=arguments.all)
        if screen.as_json:
            screen.data({"skills": [skill.to_dict() for skill in skills]})
        elif skills:
            screen.table(map(_skill_row, skills), header=("SKILL", "VERSION", "DESCRIPTION"), stretch=2)
        else:
            screen.note("nothing is installed; `skillyard install SOURCE` does it")
        return OK
    versions = registry.installed.versions(arguments.name)
    if screen.as_json:
        screen.data(
            {
                "skill": registry.installed.skill(arguments.name, installed=False).to_dict(),
                "versions": [v.to_dict() for v in versions],
            }
        )
    else:
        screen.table(map(_row_versions, versions), header=("VERSION", "DECLARED", "STATUS", "SIZE", "FROM"), stretch=4)
    return OK


def _skill_row(skill: InstalledSkill) -> tuple[str, str, str]:
    return skill.skill_id, skill.current_version or "uninstalled", skill.description


def _row_versions(version: SkillVersion) -> tuple[str, str, str, str, str]:
    origin = version.origin
    where = str(origin.get("address", "")) + (f" {origin['path']}" if origin.get("path") else "")
    commit = f" @{str(origin['commit'])[:12]}" if origin.get("commit") else ""
    return version.version, version.declared_version or "", _status(version), f"{version.size_bytes:,}", where + commit


def _status(version: SkillVersion) -> str:
    words: list[str] = ["current" if version.current else version.status]
    if version.current and version.status == "deprecated":
        words.append("deprecated")
    if version.yanked:
        words.append("yanked")
    if version.removed:
        words.append("pruned")
    return ", ".join(words)


def add_history_arguments(parser: argparse.ArgumentParser) -> None:
    """What `history` takes."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="only of this skill")
    parser.add_argument(
        "--limit", type=parse_positive, default=20, metavar="N", help="at most this many (default: %(default)s)"
    )


def history_command(arguments: argparse.Namespace) -> int:
    """Tell it, the newest first; `--json` has every step with its time."""
    screen: Screen = arguments.screen
    logs = open_registry(arguments).installed.history(arguments.name, limit=arguments.limit)
    if screen.as_json:
        screen.data({"logs": [log.to_dict() for log in logs]})
    elif logs:
        screen.table(
            map(_row_history, logs),
            header=("WHEN (UTC)", "OPERATION", "SKILL", "VERSION", "STATUS", "TOOK", "REMARK"),
            stretch=6,
        )
    else:
        screen.note("nothing was installed yet")
    return OK


def _row_history(log: InstallLog) -> tuple[str, ...]:
    when = f"{log.started_at:%Y-%m-%d %H:%M:%S}" if log.started_at else ""
    took = "" if log.duration_ms is None else f"{log.duration_ms:,} ms"
    remark = f"{log.error_code}: {log.error_message}" if log.error_code else log.message or log.source or ""
    return when, log.operation, log.skill_id or "", log.version or "", log.status, took, remark


def add_mark_arguments(parser: argparse.ArgumentParser) -> None:
    """What both commands take."""
    parser.add_argument("name", metavar="NAME", help="the skill's name or id")
    parser.add_argument("version", nargs="?", metavar="VERSION", help="which (default: the current one)")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; shown to whoever wants to use it")
    parser.add_argument("--undo", action="store_true", help="take it back")


def mark_command(arguments: argparse.Namespace) -> int:
    """Mark the version and say so."""
    screen: Screen = arguments.screen
    registry = open_registry(arguments)
    mark = registry.versions.yank if arguments.command == "yank" else registry.versions.deprecate
    version = mark(arguments.name, arguments.version, reason=arguments.reason, undo=arguments.undo)
    if screen.as_json:
        screen.data({"version": version.to_dict()})
        return OK
    word = "yanked" if arguments.command == "yank" else "deprecated"
    screen.line(f"{version.skill_id} {version.version} is {'no longer ' if arguments.undo else ''}{word}", style="ok")
    if version.current and not arguments.undo:
        screen.note(f"it is the current version and goes on serving; `skillyard rollback {version.skill_id}` goes back")
    return OK
