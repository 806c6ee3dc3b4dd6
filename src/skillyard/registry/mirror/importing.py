"""From a mirror into a registry: what it lacks is installed the usual way, with consent, scanner, signatures and log.

A version that serves in the mirror is installed and serves; with its history the earlier ones are put beside it, for rollbacks.
What was deprecated or yanked there is so here too, wherever the same content is. Nothing is uninstalled, and what the mirror
does not know stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skillyard.packages import Source
from skillyard.registry.mirror.index import MirroredSkill, MirroredVersion, MirrorIndex

if TYPE_CHECKING:
    from skillyard.registry.mirror.places import MirrorPlace
    from skillyard.registry.model import AgreeReplacement, Consent, Progress, Result, SkillVersion
    from skillyard.registry.registry import Registry

__all__ = ["Imported", "Plan", "import_mirror", "plan_import"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a registry lacks of a mirror: ids whose version serves there and not here, versions of the history, and marks."""

    serve: tuple[str, ...]
    history: tuple[tuple[str, MirroredVersion], ...]
    marks: tuple[tuple[SkillVersion, MirroredVersion], ...]

    @property
    def same(self) -> bool:
        """Whether nothing is lacking."""
        return not (self.serve or self.history or self.marks)

    def to_dict(self) -> dict[str, object]:
        """The plan as plain data."""
        return {
            "same": self.same,
            "serve": list(self.serve),
            "history": [f"{skill_id}@{version.version}" for skill_id, version in self.history],
            "marks": [f"{version.skill_id}@{version.version}" for version, _ in self.marks],
        }


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did: a result for each version, and how many versions were marked."""

    results: tuple[Result, ...] = field(default=())
    marked: int = 0

    def to_dict(self) -> dict[str, object]:
        """The outcome as plain data."""
        return {"results": [result.to_dict() for result in self.results], "marked": self.marked}


def plan_import(registry: Registry, place: MirrorPlace, *, names: tuple[str, ...] = (), history: bool = False) -> Plan:
    """What `import_mirror` would do, without doing it.

    Raises:
        InvalidSource, NoSkillInside: it is no mirror, or has none of a name.
        StoreFailed, NetworkFailed, NetworkRefused: it cannot be read.
    """
    return _plan(registry, place.index().chosen(names), history=history)


def import_mirror(
    registry: Registry,
    place: MirrorPlace,
    address: str,
    *,
    names: tuple[str, ...] = (),
    history: bool = False,
    consent: Consent | None = None,
    accept_signer: bool = False,
    accept_source: bool = False,
    replacing: AgreeReplacement | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Install what `registry` lacks of the mirror at `address`; the parts are as in `Registry.install`.

    Each skill is an operation of its own: what was imported when one is refused stays, and the next import goes on from there.

    Raises:
        SkillyardError: as `Registry.install`, and as `plan_import`.
    """
    index = place.index().chosen(names)
    results: list[Result] = []
    plan = _plan(registry, index, history=history)
    for skill_id in plan.serve:
        report = registry.install(
            Source("mirror", address, path=skill_id), only=(skill_id,), consent=consent, accept_signer=accept_signer,
            accept_source=accept_source, replacing=replacing, force=force, progress=progress,
        )  # fmt: skip
        results += report.results
    for skill_id, version in plan.history:
        results += registry.install(
            Source("mirror", address, path=skill_id, ref=version.version), only=(skill_id,), activate=False,
            installed_at=version.installed_at, consent=consent, accept_signer=accept_signer,
            accept_source=accept_source, replacing=replacing, progress=progress,
        ).results  # fmt: skip
    marks = _plan(registry, index, history=history).marks
    for known, listed in marks:
        _mark(registry, known, listed)
    return Imported(tuple(results), len(marks))


def _plan(registry: Registry, index: MirrorIndex, *, history: bool) -> Plan:
    known = {skill.skill_id: registry.versions(skill.skill_id) for skill in registry.skills(uninstalled=True)}
    serve, older, marks = [], [], []
    for skill in index.skills:
        here = known.get(skill.skill_id, ())
        if skill.current and not _serves(here, skill):
            serve.append(skill.skill_id)
        if history and skill.current:
            older += [(skill.skill_id, version) for version in _lacking(here, skill, registry.keep)]
        marks += _marks(here, skill)
    return Plan(tuple(serve), tuple(older), tuple(marks))


def _serves(here: Sequence[SkillVersion], skill: MirroredSkill) -> bool:
    wanted = skill.version().digest
    return any(version.current and version.digest == wanted for version in here)


def _lacking(here: Sequence[SkillVersion], skill: MirroredSkill, keep: int) -> list[MirroredVersion]:
    """The versions of the history that are not here, the oldest first, of those newest that would be kept here.

    Nobody shall go back to a yanked one.
    """
    there = {version.digest for version in here if not version.removed} | {skill.version().digest}
    by_time = sorted(skill.versions, key=lambda version: version.installed_at)
    older = [version for version in by_time[-keep:] if version.yanked is None and version.digest not in there]
    return list({version.digest: version for version in older}.values())


def _marks(here: Sequence[SkillVersion], skill: MirroredSkill) -> list[tuple[SkillVersion, MirroredVersion]]:
    """The versions here whose content was deprecated or yanked there, and is neither here."""
    listed = {version.digest: version for version in skill.versions}
    pairs = [(version, listed[version.digest]) for version in here if version.digest in listed]
    return [
        (version, there)
        for version, there in pairs
        if (there.yanked is not None and not version.yanked)
        or (there.deprecated is not None and version.status != "deprecated" and not version.current)
    ]


def _mark(registry: Registry, known: SkillVersion, listed: MirroredVersion) -> None:
    if listed.yanked is not None and not known.yanked:
        registry.yank(known.skill_id, known.version, reason=listed.yanked)
    if listed.deprecated is not None and known.status != "deprecated" and not known.current:
        registry.deprecate(known.skill_id, known.version, reason=listed.deprecated)
