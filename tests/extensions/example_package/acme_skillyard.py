"""A package that extends Skillyard in each of the four ways, and fails in some of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillyard.catalog import Permission, Skill

TEAMS = ("billing", "search")


def fetch(reference: str, folder: str) -> str | None:
    """Write the skill `NAME` or `NAME@VERSION` of the shelf into the folder; give its version."""
    name, _, version = reference.partition("@")
    skill = Path(folder, name)
    skill.mkdir()
    (skill / "SKILL.md").write_text(f"---\nname: {name}\ndescription: From the shelf.\n---\n\nDo it.\n", "utf-8")
    return version or None


def fetch_nothing(reference: str, folder: str) -> None:
    """Write nothing, which is an error."""


def check_team(value: object) -> str | None:
    """A team is one of those there are."""
    return None if value in TEAMS else f"there is no team {value!r}, only {' and '.join(TEAMS)}"


def check_weather(value: object) -> str | None:
    """Fails, as code of strangers may."""
    raise RuntimeError(f"no weather for {value!r}")


def check_permission(skill: Skill, permission: Permission) -> str | None:
    """Secret skills are denied, drafts are asked for, and loud ones break this check."""
    if "loud" in skill.name:
        raise ValueError("too loud")
    if "open" in skill.name:
        return "allow"
    return "deny" if "secret" in skill.name else "ask" if "draft" in skill.name else None


class Bullets:
    """A style with one line for each skill; used as a class, it needs no state."""

    header = "Skills of ours:\n"
    footer = "That is all.\n"

    @staticmethod
    def entry(label: str, skill: Skill) -> tuple[str, str]:
        """What stands before and after the description."""
        return f"* {label} <", f"> [{skill.source}]\n"
