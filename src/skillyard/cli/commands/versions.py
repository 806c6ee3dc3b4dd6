"""`skillyard versions`: the versions of an installed skill, or what is installed at all."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK
from skillyard.cli.installing import open_registry

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.registry import InstalledSkill, SkillVersion

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `versions` takes."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the skill (default: every installed skill, its current version)"
    )
    parser.add_argument("--all", action="store_true", help="also skills that were uninstalled")


def run(arguments: argparse.Namespace) -> int:
    """Tell the versions, the newest first."""
    screen: Screen = arguments.screen
    registry = open_registry(arguments)
    if arguments.name is None:
        skills = registry.skills(uninstalled=arguments.all)
        if screen.as_json:
            screen.data({"skills": [skill.to_dict() for skill in skills]})
        elif skills:
            screen.table(map(_skill_row, skills), header=("SKILL", "VERSION", "DESCRIPTION"), stretch=2)
        else:
            screen.note("nothing is installed; `skillyard install SOURCE` does it")
        return OK
    versions = registry.versions(arguments.name)
    if screen.as_json:
        screen.data(
            {"skill": registry.skill(arguments.name, installed=False).to_dict(), "versions": [v.to_dict() for v in versions]}
        )
    else:
        screen.table(map(_row, versions), header=("VERSION", "DECLARED", "STATUS", "SIZE", "FROM"), stretch=4)
    return OK


def _skill_row(skill: InstalledSkill) -> tuple[str, str, str]:
    return skill.skill_id, skill.current_version or "uninstalled", skill.description


def _row(version: SkillVersion) -> tuple[str, str, str, str, str]:
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
