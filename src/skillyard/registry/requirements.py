"""Which requirements of a skill are not met on this machine, and versions in the words of npm and of Python.

Nothing here is a reason not to install: it is reported then, and by `skillyard doctor`. Packages are a matter of
the room `environments`: a skill has those that it was granted, whatever is installed beside Skillyard.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillyard.environments import Requirements, read_requirements
from skillyard.registry.model import SkillVersion

if TYPE_CHECKING:
    from skillyard.registry.model import InstalledSkill
    from skillyard.registry.record_queries import RecordReader


def skill_names(required: Requirements) -> tuple[str, ...]:
    """The names of the skills it requires, without ranges."""
    return tuple(dict.fromkeys(parse_requirement(text).name for text in required.skills))


@dataclass(frozen=True, slots=True)
class RequirementContext:
    """What requirements are held against: other skills with their versions, registered servers, and this machine."""

    skills: Mapping[str, str | None]
    servers: frozenset[str] = frozenset()
    environ: Mapping[str, str] | None = None


def unmet_requirements(required: Requirements, around: RequirementContext) -> tuple[str, ...]:
    """One sentence for everything that is not there, each with its way out."""
    environ = os.environ if around.environ is None else around.environ
    path = environ.get("PATH")

    def has_program(name: str) -> bool:
        return "/" not in name and shutil.which(name, path=path) is not None

    checks = (
        ("bins", "the program", has_program, "install it"),
        ("env", "the variable", lambda name: bool(environ.get(name)), "set it"),
        ("mcp_servers", "the MCP server", around.servers.__contains__, "register it in [servers]"),
        ("skills", "the skill", lambda text: _has_skill(parse_requirement(text), around.skills), "install it"),
    )
    missing: list[str] = []
    for name, noun, present, remedy in checks:
        missing += [f"{noun} {item} is missing: {remedy}" for item in getattr(required, name) if not present(item)]
        choices = getattr(required, f"any_{name}")
        if choices and not any(map(present, choices)):
            missing.append(f"{noun} {' or '.join(choices)} is missing: {remedy}")
    return (*missing, *_python(required.python))


def _python(ranges: Iterable[str]) -> Iterator[str]:
    here = platform.python_version()
    for text in ranges:
        if not parse_requirement(f"python {text}").holds(here):
            yield f"Python {text} is required and this one is {here}: run Skillyard on such a Python"


def _has_skill(requirement: VersionRequirement, skills: Mapping[str, str | None]) -> bool:
    if requirement.name not in skills:
        return False
    version = skills[requirement.name]
    return not requirement.clauses or (version is not None and requirement.holds(version))


def cycles(needs: Mapping[str, Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    """Every chain of skills that leads back to its beginning: `("a", "b", "a")`, from the first name of each, sorted."""
    circles: set[tuple[str, ...]] = set()
    finished: set[str] = set()
    for start in sorted(needs):
        chain: list[str] = []
        waiting: list[tuple[str, Iterator[str]]] = [(start, iter(sorted(set(needs[start]))))] if start not in finished else []
        while waiting:
            name, rest = waiting[-1]
            if len(chain) < len(waiting):
                chain.append(name)
            following = next(rest, None)
            if following is None:
                finished.add(name)
                waiting.pop()
                chain.pop()
            elif following in chain:
                circles.add(_from_smallest(chain[chain.index(following) :]))
            elif following in needs and following not in finished:
                waiting.append((following, iter(sorted(set(needs[following])))))
    return tuple(sorted(circles))


def _from_smallest(circle: list[str]) -> tuple[str, ...]:
    first = circle.index(min(circle))
    turned = circle[first:] + circle[:first]
    return (*turned, turned[0])


_TEXT: Final = re.compile(r"\s*(?P<name>[^\s@<>=!~^,;\[(]+)\s*(?:\[[^\]]*\])?\s*@?\s*(?P<range>[^;]*)")
_CLAUSE: Final = re.compile(r"(?P<sign>\^|~=|~|>=|<=|==|=|!=|>|<|)\s*v?(?P<version>\d[0-9A-Za-z.+*-]*|\*)")
_NUMBER: Final = re.compile(r"\d{1,18}")

_Key = tuple[tuple[int, ...], int, tuple[tuple[int, int, str], ...]]


@dataclass(frozen=True, slots=True)
class VersionRequirement:
    """A name and the clauses its version must meet, all of them; `None` stands for a clause that cannot be understood."""

    name: str
    clauses: tuple[tuple[str, str] | None, ...] = ()

    def holds(self, version: str) -> bool:
        """Whether `version` meets every clause; a clause that cannot be understood is met by none."""
        return all(clause is not None and _meets(version, *clause) for clause in self.clauses)


def parse_requirement(text: str) -> VersionRequirement:
    """Take a requirement apart; what follows a `;` is a condition of other tools and ignored."""
    match = _TEXT.match(text)
    if not match:
        return VersionRequirement(text.strip(), (None,) if text.strip() else ())
    pieces = [piece for piece in re.split(r"(?<![,\s])[,\s]++(?=[\^~<>=!v\d*])", match["range"].strip(" ()")) if piece]
    return VersionRequirement(match["name"], tuple(clause for piece in pieces if (clause := _clause(piece)) != ("", "*")))


def _clause(piece: str) -> tuple[str, str] | None:
    match = _CLAUSE.fullmatch(piece.strip(" ,"))
    return (match["sign"], match["version"]) if match else None


def _meets(version: str, sign: str, bound: str) -> bool:
    have, want = _version_key(version), _version_key(bound)
    match sign:
        case "^" | "~" | "~=":
            return want <= have and _version_key(_ceiling(bound, sign), release=False) > have
        case ">=":
            return have >= want
        case "<=":
            return have <= want
        case ">":
            return have > want
        case "<":
            return have < want
        case "!=":
            return have != want
        case _:
            return have == want or (bound.endswith(".*") and version.startswith(bound[:-1]))


def _ceiling(bound: str, sign: str) -> str:
    """The first version that is beyond `^`, `~` or `~=`: the next at the first number that may not change."""
    numbers = [int(number) for number in _NUMBER.findall(re.split(r"[-+]", bound)[0])] or [0]
    if sign == "^":
        fixed = next((index for index, number in enumerate(numbers) if number), len(numbers) - 1)
    elif sign == "~":
        fixed = min(1, len(numbers) - 1)
    else:
        fixed = max(len(numbers) - 2, 0)
    return ".".join(map(str, [*numbers[:fixed], numbers[fixed] + 1]))


def _version_key(version: str, *, release: bool = True) -> _Key:
    """A sort key: numbers, then a pre-release before its release (Semantic Versioning 2.0.0, item 11).

    With `release=False` the key comes before every pre-release of that version.
    """
    core, _, pre = version.partition("+")[0].removeprefix("v").partition("-")
    numbers = [int(number) for number in _NUMBER.findall(core)]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    if not release:
        return tuple(numbers), -1, ()
    parts = tuple((0, int(part), "") if _NUMBER.fullmatch(part) else (1, 0, part) for part in pre.split(".")) if pre else ()
    return tuple(numbers), 0 if pre else 1, parts


def locked_versions(versions: Sequence[SkillVersion], locks: Iterable[str]) -> frozenset[str]:
    """The version that each lock means, of `versions` (the newest first): for a range the newest in it.

    What waits for approval is none of them; what lost it only where nothing else is meant.
    """
    known = sorted((one for one in versions if one.approval != "waiting"), key=lambda one: one.approval == "withdrawn")
    locked = (next((one.version for one in known if _matches_lock(lock, one)), None) for lock in locks)
    return frozenset(version for version in locked if version is not None)


def _matches_lock(lock: str, version: SkillVersion) -> bool:
    if lock in (version.version, version.declared_version):
        return True
    return version.declared_version is not None and parse_requirement(f"it@{lock}").holds(version.declared_version)


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
