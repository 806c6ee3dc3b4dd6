"""What skills require, whether it is there, and why it is asked for; versions in the words of npm and of Python.

Nothing here is a reason not to install: it is reported then, and by `skillyard doctor`. Packages are a matter of
the component `environments`: a skill has those that it was granted, whatever is installed beside Skillyard.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from skillyard.environments import Requirements, read_requirements
from skillyard.errors import FileProblem, SkillRequired
from skillyard.paths import slug
from skillyard.registry.registry_values import SkillVersion
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from skillyard.registry.record_queries import RecordReader
    from skillyard.registry.registry_values import InstalledSkill


def skill_names(required: Requirements) -> tuple[str, ...]:
    """The names of the skills it requires, without ranges."""
    return tuple(dict.fromkeys(parse_requirement(text).name for text in required.skills))


def without_skills(required: Requirements, names: Collection[str]) -> Requirements:
    """What is still required once the skills with these ids are there."""

    def is_there(text: str) -> bool:
        return slug(parse_requirement(text).name) in names

    skills = tuple(text for text in required.skills if not is_there(text))
    return replace(required, skills=skills, any_skills=() if any(map(is_there, required.any_skills)) else required.any_skills)


NeedKind = Literal["skill", "program", "variable", "python", "mcp_server", "tool"]


@dataclass(frozen=True, slots=True)
class Need(WireForm, also=("sentence",)):
    """One thing that a skill requires: whether it is there, in which version and where, and why it is asked for.

    `wanted` is how `required_by` writes it; of several of which one is enough, all are in `any_of`. `hint` is the way out where
    it is missing. `needs` is what a skill requires in turn; one that is `repeated` stands elsewhere in the tree with that.
    """

    kind: NeedKind
    name: str
    wanted: str
    required_by: str
    met: bool
    version: str | None = None
    where: str | None = None
    hint: str | None = None
    any_of: tuple[str, ...] = ()
    repeated: bool = False
    needs: tuple[Need, ...] = ()

    @property
    def sentence(self) -> str | None:
        """What is missing, with its way out; None where it is met."""
        if self.met:
            return None
        if self.kind == "python":
            return f"Python {self.wanted} is required and this one is {self.version}: {self.hint}"
        return f"{_NOUNS[self.kind]} {self.wanted} is missing: {self.hint}"


_NOUNS: Final[Mapping[NeedKind, str]] = {
    "skill": "the skill", "program": "the program", "variable": "the variable", "mcp_server": "the MCP server",
    "tool": "the tool",
}  # fmt: skip
_FIELDS: Final[tuple[tuple[str, NeedKind, str], ...]] = (
    ("bins", "program", "install it"),
    ("env", "variable", "set it"),
    ("mcp_servers", "mcp_server", "register it in [servers]"),
    ("tools", "tool", "register the server that has it in [servers]"),
    ("skills", "skill", "install it"),
)
_SERVER_PREFIX: Final = "mcp__"


@dataclass(frozen=True, slots=True)
class RequirementContext:
    """What requirements are held against: other skills with their versions, registered servers, and this machine."""

    skills: Mapping[str, str | None]
    servers: frozenset[str] = frozenset()
    environ: Mapping[str, str] | None = None

    def find(self, kind: NeedKind, text: str) -> tuple[bool, str | None, str | None]:
        """Whether something is there, its version, and where it is."""
        environ = os.environ if self.environ is None else self.environ
        if kind == "skill":
            return self._skill(parse_requirement(text))
        if kind == "variable":
            return bool(environ.get(text)), None, None
        if kind == "mcp_server":
            return text in self.servers, None, "[servers]" if text in self.servers else None
        place = shutil.which(text, path=environ.get("PATH")) if "/" not in text else None
        if kind == "tool" and place is None:
            owner = _server_of_tool(text)
            return owner in self.servers, None, f"MCP server {owner}" if owner in self.servers else None
        return place is not None, None, "PATH" if place else None

    def _skill(self, requirement: VersionRequirement) -> tuple[bool, str | None, str | None]:
        name = next((name for name in (requirement.name, slug(requirement.name)) if name in self.skills), None)
        if name is None:
            return False, None, None
        version = self.skills[name]
        return not requirement.clauses or (version is not None and requirement.holds(version)), version, None


def _server_of_tool(tool: str) -> str:
    """The MCP server that has a tool: of `mcp__SERVER__TOOL`, `SERVER/TOOL` or `SERVER:TOOL`; empty where none is named."""
    if tool.startswith(_SERVER_PREFIX):
        return tool.removeprefix(_SERVER_PREFIX).rpartition("__")[0]
    return tool.partition("/")[0] if "/" in tool else tool.rpartition(":")[0]


def check_needs(required: Requirements, around: RequirementContext, *, by: str = "") -> Iterator[Need]:
    """Everything that skill `by` requires, one after the other."""
    for name, kind, remedy in _FIELDS:
        for item in getattr(required, name):
            met, version, where = around.find(kind, item)
            called = parse_requirement(item).name if kind == "skill" else item
            yield Need(kind, called, item, by, met, version, where, None if met else _remedy(kind, version, remedy))
        if choices := getattr(required, f"any_{name}"):
            found = next(((item, *rest) for item in choices if (rest := around.find(kind, item))[0]), None)
            wanted, (item, met, version, where) = " or ".join(choices), found or (choices[0], False, None, None)
            called = parse_requirement(item).name if kind == "skill" else item
            yield Need(kind, called, wanted, by, met, version, where, None if met else remedy, any_of=choices)
    here = platform.python_version()
    for text in required.python:
        met = parse_requirement(f"python {text}").holds(here)
        yield Need("python", "python", text, by, met, here, None, None if met else "run Skillyard on such a Python")


def _remedy(kind: NeedKind, version: str | None, remedy: str) -> str:
    """The way out; a skill that is there in another version has to be updated."""
    return f"{version} is here, install another version" if kind == "skill" and version is not None else remedy


def unmet_requirements(required: Requirements, around: RequirementContext) -> tuple[str, ...]:
    """One sentence for everything that is not there, each with its way out."""
    return tuple(need.sentence for need in check_needs(required, around) if need.sentence is not None)


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
    have, want = version_key(version), version_key(bound)
    match sign:
        case "^" | "~" | "~=":
            return want <= have and version_key(_ceiling(bound, sign), release=False) > have
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


def version_key(version: str, *, release: bool = True) -> _Key:
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
    records: RecordReader,
    servers: frozenset[str],
    skill_id: str,
    requirements: Requirements,
    *,
    others: Callable[[], Mapping[str, str | None]] = dict,
) -> tuple[str, ...]:
    """One sentence for each thing that a skill with these `requirements` would miss here; `servers` are the registered ones.

    Only the skills that it requires are read, however many there are; `others` is asked for what is not installed.
    """
    names = {parse_requirement(text).name for text in (*requirements.skills, *requirements.any_skills)}
    around = _requirement_context(records, records.named(names), servers)
    if not names <= around.skills.keys():
        around = replace(around, skills={**_by_id(others()), **around.skills})
    circles = (circle for circle in _requirement_cycles(_reachable(records, skill_id, requirements)) if skill_id in circle)
    return (*unmet_requirements(requirements, around), *map(_cycle_sentence, circles))


def _by_id(others: Mapping[str, str | None]) -> dict[str, str | None]:
    return {slug(name): version for name, version in others.items()}


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
                collected[skill.skill_id] = requirements_of(skill)
                waiting |= set(skill_names(collected[skill.skill_id]))
        waiting -= collected.keys() | requested
    return collected


def installed_skill_problems(records: RecordReader, servers: frozenset[str]) -> Iterator[tuple[str, str]]:
    """What is wrong with installed skills, by id: withdrawn versions, requirements not met here, and cycles of them."""
    skills = records.skills()
    for skill in skills:
        marks = (version.withdrawn for version in records.versions(skill.skill_id) if version.current)
        yield from ((skill.skill_id, mark) for mark in marks if mark)
    required = {skill.skill_id: requirements_of(skill) for skill in skills}
    around = _requirement_context(records, skills, servers)
    for skill_id, requirements in required.items():
        yield from ((skill_id, sentence) for sentence in unmet_requirements(requirements, around))
    for circle in _requirement_cycles(required):
        yield circle[0], _cycle_sentence(circle)


def _requirement_cycles(required: Mapping[str, Requirements]) -> tuple[tuple[str, ...], ...]:
    return cycles({skill_id: skill_names(requirements) for skill_id, requirements in required.items()})


def required_skills(folder: Path) -> tuple[str, ...]:
    """The skills that the skill in a folder requires, as it writes them; none where its SKILL.md cannot be read."""
    from skillyard.document import DOCUMENT_LIMIT, parse_document
    from skillyard.paths import read_inside

    try:
        return read_requirements(parse_document(read_inside(folder, "SKILL.md", limit=DOCUMENT_LIMIT))).skills
    except (FileProblem, OSError):
        return ()


def requirements_of(skill: InstalledSkill) -> Requirements:
    """What the SKILL.md of an installed skill requires."""
    from skillyard.document import parse_document

    return read_requirements(parse_document((skill.skill_md_content or "").encode("utf-8", "surrogatepass")))


def _requirement_context(
    records: RecordReader, skills: Iterable[InstalledSkill], servers: frozenset[str]
) -> RequirementContext:
    versions: dict[str, str | None] = {}
    for skill in skills:
        current = next((version for version in records.versions(skill.skill_id) if version.current), None)
        versions[skill.skill_id] = versions[skill.name] = _version_of(current) if current else None
    return RequirementContext(versions, servers)


def _version_of(version: SkillVersion) -> str | None:
    """The version that ranges are held against: that of the SKILL.md, else what its publisher calls it."""
    return version.declared_version or version.label or None


@dataclass(frozen=True, slots=True)
class DependencyTree(WireForm):
    """An installed skill with everything that it requires, and why it is here.

    `required_by` has a sentence for each installed skill that needs it. `installed_because` says why it was installed where
    no person named it, `unmet` has a sentence for everything in the tree that is missing.
    """

    skill_id: str
    version: str | None
    required_by: tuple[str, ...]
    installed_because: tuple[str, ...]
    needs: tuple[Need, ...]
    unmet: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SkillDependencies:
    """What installed skills require of each other and of this machine.

    `find` gives the installed skill of a name, `servers` are the registered ones, `others` skills beside the installed ones.
    """

    records: RecordReader
    find: Callable[[str], InstalledSkill]
    servers: frozenset[str]
    others: Callable[[], Mapping[str, str | None]] = dict

    def tree(self, name: str) -> DependencyTree:
        """What a skill requires, and what that requires. Raises SkillNotFound: it is not installed."""
        skill, around = self.find(name), self._around()
        skill_id, expanded = skill.skill_id, {skill.skill_id}
        needs = tuple(self._expanded(need, around, expanded) for need in self._needs(skill, around))
        reasons = self.broken_by(skill_id, None, gone=True)
        unmet = tuple(dict.fromkeys(_missing(needs)))
        return DependencyTree(skill_id, around.skills[skill_id], reasons, self.records.required_by(skill_id), needs, unmet)

    def _needs(self, skill: InstalledSkill, around: RequirementContext) -> Iterator[Need]:
        return check_needs(requirements_of(skill), around, by=skill.skill_id)

    def _expanded(self, need: Need, around: RequirementContext, expanded: set[str]) -> Need:
        """A need with what it requires in turn, the first time that it is met."""
        found = self.records.named({need.name, slug(need.name)}) if need.kind == "skill" else ()
        if not found:
            return replace(need, where="this catalog") if need.kind == "skill" and need.met else need
        (skill, *_), need = found, replace(need, where="installed")
        if skill.skill_id in expanded:
            return replace(need, repeated=True)
        expanded.add(skill.skill_id)
        below = tuple(self._expanded(one, around, expanded) for one in self._needs(skill, around))
        return replace(need, needs=below)

    def unmet(self, skill: InstalledSkill) -> tuple[str, ...]:
        """One sentence for each thing that an installed skill misses."""
        needs = requirements_of(skill)
        return unmet_skill_requirements(self.records, self.servers, skill.skill_id, needs, others=self.others)

    def lacking(self, skill_id: str, requires: Iterable[str], locked: Collection[str]) -> tuple[str, ...]:
        """What of these requirements is neither here nor `locked`: a sentence each; locked ones count in whatever version."""
        wanted = Requirements(skills=tuple(requires))
        if not wanted.skills:
            return ()
        needs = check_needs(wanted, self._around(), by=skill_id)
        return tuple(need.sentence for need in needs if need.sentence and (need.version or slug(need.name) not in locked))

    def broken_by(self, skill_id: str, version: str | None, *, gone: bool = False) -> tuple[str, ...]:
        """What installed skills require and would no longer have with another version of a skill, or with it `gone`."""
        asking = [skill for skill in self.records.requiring() if skill.skill_id != skill_id]
        if not asking:
            return ()
        around = self._around()
        names = {name for name in around.skills if slug(name) == skill_id} | {skill_id}
        changed = {name: version for name in names if not gone} | {
            name: known for name, known in around.skills.items() if name not in names
        }
        after = replace(around, skills=changed)
        return tuple(f"{need.required_by} requires {need.wanted}" for skill in asking for need in _lost(skill, around, after))

    def refuse_broken(self, skill_id: str, version: str | None, *, gone: bool = False) -> None:
        """Return when no installed skill needs what would be lost.

        Raises:
            SkillRequired: one does.
        """
        if reasons := self.broken_by(skill_id, version, gone=gone):
            what = "is needed" if gone else f"{version or 'without a version'} is not what is needed"
            raise SkillRequired(
                f"{skill_id} {what}: {'; '.join(reasons)}",
                hint="take those away first; --no-deps does it all the same",
                required_by=list(reasons),
            )

    def unneeded(self) -> tuple[str, ...]:
        """The ids of skills installed as dependencies that none requires any more, in the order to remove."""
        required = {skill.skill_id: requirements_of(skill) for skill in self.records.requiring()}
        asked = {name: {slug(one) for one in _every_skill(needs)} for name, needs in required.items()}
        along = [
            skill_id
            for skill_id in sorted(one.skill_id for one in self.records.serving())
            if self.records.required_by(skill_id)
        ]
        gone: list[str] = []
        while free := [one for one in along if one not in gone and not any(
            one in names for by, names in asked.items() if by not in (one, *gone)
        )]:  # fmt: skip
            gone += free
        return tuple(gone)

    def _around(self) -> RequirementContext:
        around = _requirement_context(self.records, self.records.skills(), self.servers)
        return replace(around, skills={**_by_id(self.others()), **around.skills})


def _every_skill(required: Requirements) -> Iterator[str]:
    return (parse_requirement(text).name for text in (*required.skills, *required.any_skills))


def _lost(skill: InstalledSkill, before: RequirementContext, after: RequirementContext) -> Iterator[Need]:
    """The skills that one requires and has before, and not after."""
    required = requirements_of(skill)
    pairs = zip(check_needs(required, before, by=skill.skill_id), check_needs(required, after), strict=True)
    yield from (one for one, other in pairs if one.kind == "skill" and one.met and not other.met)


def _missing(needs: Iterable[Need]) -> Iterator[str]:
    for need in needs:
        if need.sentence is not None:
            yield f"{need.required_by}: {need.sentence}"
        yield from _missing(need.needs)
