"""Which requirements of installed skills are not met here: missing skills, programs, variables, packages, servers; cycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from skillyard.environments import Requirements, read_requirements
from skillyard.registry.requirements import RequirementContext, cycles, parse_requirement, skill_names, unmet_requirements

if TYPE_CHECKING:
    from skillyard.registry.model import InstalledSkill
    from skillyard.registry.record_queries import RecordReader


def unmet_skill_requirements(
    records: RecordReader, servers: frozenset[str], skill_id: str, requirements: Requirements
) -> tuple[str, ...]:
    """One sentence for each thing that a skill with these `requirements` would miss here; `servers` are the registered ones.

    Only the skills that it requires are read, however many there are.
    """
    names = {parse_requirement(text).name for text in (*requirements.skills, *requirements.any_skills)}
    around = _requirement_context(records, records.named(names), servers)
    circles = (circle for circle in _requirement_cycles(_reachable(records, skill_id, requirements)) if skill_id in circle)
    return (*unmet_requirements(requirements, around), *map(_cycle_sentence, circles))


def _cycle_sentence(circle: tuple[str, ...]) -> str:
    return f"skills require each other in a cycle: {' → '.join(circle)}"


def _reachable(records: RecordReader, skill_id: str, requirements: Requirements) -> dict[str, Requirements]:
    """What the skill requires, what those skills require, and so on."""
    collected = {skill_id: requirements}
    waiting = set(skill_names(requirements)) - collected.keys()
    while waiting:
        requested, waiting = waiting, set()
        for skill in records.named(requested):
            if skill.skill_id not in collected:
                collected[skill.skill_id] = _requirements_of(skill)
                waiting |= set(skill_names(collected[skill.skill_id]))
        waiting -= collected.keys() | requested
    return collected


def installed_skill_problems(records: RecordReader, servers: frozenset[str]) -> Iterator[tuple[str, str]]:
    """What is wrong with installed skills, by id: withdrawn versions, requirements not met here, and cycles of them."""
    skills = records.skills()
    for skill in skills:
        marks = (version.withdrawn for version in records.versions(skill.skill_id) if version.current)
        yield from ((skill.skill_id, mark) for mark in marks if mark)
    required = {skill.skill_id: _requirements_of(skill) for skill in skills}
    around = _requirement_context(records, skills, servers)
    for skill_id, requirements in required.items():
        yield from ((skill_id, sentence) for sentence in unmet_requirements(requirements, around))
    for circle in _requirement_cycles(required):
        yield circle[0], _cycle_sentence(circle)


def _requirement_cycles(required: Mapping[str, Requirements]) -> tuple[tuple[str, ...], ...]:
    return cycles({skill_id: skill_names(requirements) for skill_id, requirements in required.items()})


def _requirements_of(skill: InstalledSkill) -> Requirements:
    from skillyard.document import parse_document

    return read_requirements(parse_document((skill.skill_md_content or "").encode("utf-8", "surrogatepass")))


def _requirement_context(
    records: RecordReader, skills: Iterable[InstalledSkill], servers: frozenset[str]
) -> RequirementContext:
    versions: dict[str, str | None] = {}
    for skill in skills:
        current = next((version for version in records.versions(skill.skill_id) if version.current), None)
        versions[skill.skill_id] = versions[skill.name] = current.declared_version if current else None
    return RequirementContext(versions, servers)
