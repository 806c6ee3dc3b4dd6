"""What the installed skills need of each other and of this machine, and which of it is not there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from skillyard.registry.ranges import read_wanted
from skillyard.registry.requirements import Requirements, Surroundings, cycles, read_requirements, unmet

if TYPE_CHECKING:
    from skillyard.registry.ledger import Ledger
    from skillyard.registry.model import InstalledSkill

__all__ = ["trouble", "unmet_needs"]


def unmet_needs(ledger: Ledger, servers: frozenset[str], skill_id: str, requirements: Requirements) -> tuple[str, ...]:
    """One sentence for each thing that a skill with these `requirements` would miss here; `servers` are the registered ones.

    Only the skills that it requires are looked at, however many there are.
    """
    from skillyard.registry.lookups import skills_called

    wanted = {read_wanted(text).name for text in (*requirements.skills, *requirements.any_skills)}
    around = _surroundings(ledger, skills_called(ledger.database, wanted), servers)
    circles = [" → ".join(circle) for circle in _circles(_reachable(ledger, skill_id, requirements)) if skill_id in circle]
    return (*unmet(requirements, around), *(f"skills require each other in a circle: {circle}" for circle in circles))


def _reachable(ledger: Ledger, skill_id: str, requirements: Requirements) -> dict[str, Requirements]:
    """What the skill requires, what those skills require, and so on."""
    from skillyard.registry.lookups import skills_called

    found = {skill_id: requirements}
    waiting = set(requirements.skill_names) - found.keys()
    while waiting:
        asked, waiting = waiting, set()
        for skill in skills_called(ledger.database, asked):
            if skill.skill_id not in found:
                found[skill.skill_id] = _requirements_of(skill)
                waiting |= set(found[skill.skill_id].skill_names)
        waiting -= found.keys() | asked
    return found


def trouble(ledger: Ledger, servers: frozenset[str]) -> Iterator[tuple[str, str]]:
    """What is wrong with installed skills, by id: withdrawn versions, requirements not met here, those that go in a circle."""
    for skill_id in (skill.skill_id for skill in ledger.skills()):
        marks = (version.withdrawn for version in ledger.versions(skill_id) if version.current)
        yield from ((skill_id, mark) for mark in marks if mark)
    required, around = _required(ledger), _surroundings(ledger, ledger.skills(), servers)
    for skill_id, requirements in required.items():
        yield from ((skill_id, sentence) for sentence in unmet(requirements, around))
    for circle in _circles(required):
        yield circle[0], f"skills require each other in a circle: {' → '.join(circle)}"


def _circles(required: Mapping[str, Requirements]) -> Iterator[tuple[str, ...]]:
    return iter(cycles({skill_id: requirements.skill_names for skill_id, requirements in required.items()}))


def _required(ledger: Ledger) -> dict[str, Requirements]:
    return {skill.skill_id: _requirements_of(skill) for skill in ledger.skills()}


def _requirements_of(skill: InstalledSkill) -> Requirements:
    from skillyard.document import parse_document

    return read_requirements(parse_document((skill.skill_md_content or "").encode("utf-8", "surrogatepass")))


def _surroundings(ledger: Ledger, skills: Iterable[InstalledSkill], servers: frozenset[str]) -> Surroundings:
    """The skills under their ids and names, each with the version it declares."""
    versions: dict[str, str | None] = {}
    for skill in skills:
        current = next((version for version in ledger.versions(skill.skill_id) if version.current), None)
        versions[skill.skill_id] = versions[skill.name] = current.declared_version if current else None
    return Surroundings(versions, servers)
