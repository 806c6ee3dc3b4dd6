"""What the installed skills need of each other and of this machine, and which of it is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from skillyard.registry.requirements import Requirements, Surroundings, cycles, read_requirements, unmet

if TYPE_CHECKING:
    from skillyard.registry.ledger import Ledger

__all__ = ["trouble", "unmet_needs"]


def unmet_needs(ledger: Ledger, servers: frozenset[str], skill_id: str, requirements: Requirements) -> tuple[str, ...]:
    """One sentence for each thing that a skill with these `requirements` would miss here; `servers` are the registered ones."""
    circles = [" → ".join(circle) for circle in _circles(_required(ledger) | {skill_id: requirements}) if skill_id in circle]
    return (
        *unmet(requirements, _around(ledger, servers)),
        *(f"skills require each other in a circle: {circle}" for circle in circles),
    )


def trouble(ledger: Ledger, servers: frozenset[str]) -> Iterator[tuple[str, str]]:
    """What is wrong with installed skills, by id: withdrawn versions, requirements not met here, those that go in a circle."""
    for skill_id in (skill.skill_id for skill in ledger.skills()):
        marks = (version.withdrawn for version in ledger.versions(skill_id) if version.current)
        yield from ((skill_id, mark) for mark in marks if mark)
    required, around = _required(ledger), _around(ledger, servers)
    for skill_id, requirements in required.items():
        yield from ((skill_id, sentence) for sentence in unmet(requirements, around))
    for circle in _circles(required):
        yield circle[0], f"skills require each other in a circle: {' → '.join(circle)}"


def _circles(required: Mapping[str, Requirements]) -> Iterator[tuple[str, ...]]:
    return iter(cycles({skill_id: requirements.skill_names for skill_id, requirements in required.items()}))


def _required(ledger: Ledger) -> dict[str, Requirements]:
    from skillyard.document import parse_document

    return {
        skill.skill_id: read_requirements(parse_document((skill.skill_md_content or "").encode("utf-8", "surrogatepass")))
        for skill in ledger.skills()
    }


def _around(ledger: Ledger, servers: frozenset[str]) -> Surroundings:
    versions: dict[str, str | None] = {}
    for skill in ledger.skills():
        current = next((version for version in ledger.versions(skill.skill_id) if version.current), None)
        versions[skill.skill_id] = versions[skill.name] = current.declared_version if current else None
    return Surroundings(versions, servers)
