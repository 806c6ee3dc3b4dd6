"""One survey of the skills there are: what was asked for, which settings and folders that means, and all that was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from skillyard.catalog.configuration import Configuration, load_configuration
from skillyard.catalog.model import Changes, Row, Skill
from skillyard.catalog.precedence import rank
from skillyard.catalog.roots import (
    Place,
    configuration_folders,
    installed_place,
    named_places,
    organisation_places,
    standard_places,
)
from skillyard.catalog.scan import Progress, Scan, scan_places, without_collecting
from skillyard.catalog.settings import configuration_directory, load_settings

if TYPE_CHECKING:
    from skillyard.document import Profile

__all__ = ["Plan", "State", "compare", "survey"]


class Plan(NamedTuple):
    """What was asked of `discover`, so that a refresh can ask it again."""

    named: tuple[str, ...] | None
    cwd: str
    home: str
    data: str
    environ: Mapping[str, str]
    profile: Profile | None
    cache: str | None
    organisation: bool = False  # the user's own skills are not in `home` but in `data`
    installed: bool = False  # beside the named folders also what is installed


class State:
    """One complete result of a survey; a refresh replaces it in one step."""

    __slots__ = ("configuration", "profile", "rows", "scans", "skills")

    def __init__(self, configuration: Configuration, profile: Profile, scans: tuple[Scan, ...], rows: list[Row]) -> None:
        self.configuration = configuration
        self.profile = profile
        self.scans = scans
        self.rows = rows
        self.skills: tuple[Skill, ...] | None = None

    def all(self) -> tuple[Skill, ...]:
        """Every skill of every root, in order of precedence, made when first asked for."""
        if self.skills is None:
            roots = [scan.root for scan in self.scans]
            self.skills = tuple([Skill(row, roots[row[3]], self.profile) for row in self.rows])
        return self.skills


def survey(plan: Plan, progress: Progress | None, *, before: State | None = None) -> State:
    """What is there now; a root that cannot be read any more keeps its list from `before`.

    Raises:
        InvalidConfiguration: a settings file cannot be understood.
    """
    configuration = _configuration(plan)
    profile: Profile = plan.profile or configuration.profile
    last = before.scans if before else ()
    with without_collecting():
        scans = scan_places(_places(plan, configuration), profile=profile, cache=plan.cache, progress=progress, last=last)
        return State(configuration, profile, scans, rank(scans, load_settings(plan.data)))


def _configuration(plan: Plan) -> Configuration:
    user_file = f"{configuration_directory(plan.environ)}/skillyard.toml"
    configuration = load_configuration(configuration_folders(plan.cwd, plan.home), user_file=user_file)
    url = plan.environ.get("SKILLYARD_DATABASE_URL", "").strip()
    store = plan.environ.get("SKILLYARD_STORE", "").strip()
    kind = plan.environ.get("SKILLYARD_ENGINE", "").strip()
    if kind:
        configuration = configuration._replace(engine={**configuration.engine, "kind": kind})
    return configuration._replace(
        database_url=url or configuration.database_url, package_store=store or configuration.package_store
    )


def _places(plan: Plan, configuration: Configuration) -> list[Place]:
    if plan.named is not None:
        places = named_places(plan.named)
        places += [installed_place(plan.data)] if plan.installed else []
    else:
        places = standard_places(
            cwd=plan.cwd, home=plan.home, data=plan.data, environ=plan.environ, configuration=configuration
        )
    return organisation_places(places, plan.data) if plan.organisation else places


def compare(before: State, after: State) -> Changes:
    """What is in `after` and was not in `before`, is no longer, or is another."""
    old = {skill.id: skill for skill in before.all()}
    new = {skill.id: skill for skill in after.all()}
    return Changes(
        added=tuple(sorted(new.keys() - old.keys())),
        changed=tuple(sorted(skill_id for skill_id in new.keys() & old.keys() if new[skill_id] != old[skill_id])),
        removed=tuple(sorted(old.keys() - new.keys())),
    )
