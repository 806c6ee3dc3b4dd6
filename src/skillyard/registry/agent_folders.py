"""The skills of one registry in the folders of coding agents: put there, followed, and away while agents are not to have them.

An agent offers all that is in its folders. So a skill that is off or manual leaves them, and in the folders of a project one
that is not in the set which the project uses; it comes back when that has ended. `SkillLinks` does it on the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from skillyard.catalog.configuration import configuration_directory
from skillyard.catalog.user_changes import load_settings
from skillyard.coding_agents import LinkReport, SkillLink, SkillLinks, coding_agents
from skillyard.errors import InvalidInput
from skillyard.paths import real_path, slug
from skillyard.registry.version_store import CURRENT

if TYPE_CHECKING:
    from skillyard.catalog import Skill, SkillCatalog
    from skillyard.catalog.user_changes import SkillSettings
    from skillyard.coding_agents import SkillsFolder
    from skillyard.registry.version_store import VersionStore


_INSTALLED: Final = "installed"


class AgentFolders:
    """What is in `links` of the skills in `versions` and of the user's own, as the switches in the folder `data` want it.

    Every method that follows returns what could not be done: an edited copy is never changed.

    Raises, from every method:
        InvalidConfiguration: the file about the links, or the settings, cannot be understood.
    """

    def __init__(self, data: str, versions: VersionStore, links: SkillLinks) -> None:
        self._data = data
        self._versions = versions
        self._links = links

    def follow(self, skill_id: str, *, forget: bool = False) -> tuple[LinkReport, ...]:
        """Bring the folders to the current version of an installed skill; out of them while it is off or manual."""
        away = self._is_away(skill_id, load_settings(self._data))
        return self._links.follow(lambda link: away if link.skill_id == skill_id else None, forget=forget)

    def follow_skill(self, skill: Skill) -> tuple[LinkReport, ...]:
        """Bring the folders to the state of a skill now, installed or not."""
        if skill.source == _INSTALLED:
            return self.follow(skill.slug)
        kept_out = load_settings(self._data).kept_out(skill.source, skill.slug, skill.root.path)
        away, source = kept_out is not None, _directory(skill)
        return self._links.follow(lambda link: away if link.skill_id is None and link.source == source else None)

    def follow_all(self, catalog: SkillCatalog) -> tuple[LinkReport, ...]:
        """The same for every skill in such a folder, after all were switched on or off."""
        if not self._links.path.exists():
            return ()
        settings = load_settings(self._data)
        skills = {_directory(skill): skill for skill in catalog.all() if skill.source != _INSTALLED}

        def is_away(link: SkillLink) -> bool:
            if link.skill_id is not None:
                return self._is_away(link.skill_id, settings)
            root, name = os.path.split(link.source)
            skill = skills.get(link.source)  # else that of another project
            place = (skill.source, skill.slug, skill.root.path) if skill else ("project", slug(name), root)
            return settings.kept_out(*place) is not None

        moving = {link.path for link in self._links.links() if link.withdrawn or is_away(link)}
        return tuple(report for report in self._links.follow(is_away) if report.path in moving)

    def follow_set(self, catalog: SkillCatalog) -> tuple[LinkReport, ...]:
        """Bring the folders of a project to the set that it uses. Returned is also what left them and came back."""
        if not self._links.path.exists():
            return ()
        settings = catalog.project_switches
        sources = {_directory(skill): skill.source for skill in catalog.all()}
        away = {link.path for link in self._links.links() if link.withdrawn}
        reports = list(
            self._links.follow_set(
                _folders_of(catalog),
                settings.set_name or None,
                lambda link: _is_chosen(settings, link.skill_id or slug(link.name), _source(link, sources)),
            )
        )
        reports += self.follow_all(catalog)
        back = [link for link in self._links.links() if link.path in away and not link.withdrawn]
        return (*reports, *(LinkReport(link.path, link.name, link.agents, _made(link)) for link in back))

    def put(
        self,
        catalog: SkillCatalog,
        skill: Skill,
        folders: Sequence[SkillsFolder],
        *,
        copy: bool = False,
        withhold: bool = False,
    ) -> tuple[LinkReport, ...]:
        """Put a skill of the catalog into folders; an installed one follows its current version there.

        With `withhold` one that agents are not to have now is noted, and comes as soon as they may.

        Raises:
            InvalidInput: they may not, and it is not to be withheld.
        """
        name, source, skill_id = self._origin(skill)
        settings = catalog.project_switches
        off = settings._replace(chosen=None).kept_out(skill.source, skill.slug, skill.root.path)
        governed = {real_path(folder) for folder in _folders_of(catalog)} if settings.set_name else set()
        reports: list[LinkReport] = []
        for folder in folders:
            by_set = real_path(folder.path) in governed and not _is_chosen(settings, skill.slug, skill.source)
            left_out = f"not in the set {settings.set_name!r}, which is in use here" if by_set else None
            if (why := off or left_out) and not withhold:
                state = "off" if by_set else skill.state
                raise InvalidInput(f"{skill.id} is {state}, and agents would offer it", hint=why)
            left_out_by = settings.set_name if by_set else None
            reports += self._links.add(
                name, source, [folder], skill_id=skill_id, copy=copy, withheld=why, left_out_by=left_out_by
            )
        return tuple(reports)

    def _origin(self, skill: Skill) -> tuple[str, str, str | None]:
        """The name of a skill in a folder, the folder that it stands for, and the id of an installed one."""
        directory = _directory(skill)
        known = next((link for link in self._links.links() if link.path == directory), None)
        if known is not None:  # a copy stands for what it is of
            return skill.slug, known.source, known.skill_id
        if skill.source == _INSTALLED:
            return skill.slug, str(self._current(skill.slug)), skill.slug
        return skill.slug, directory, None

    def _is_away(self, skill_id: str, settings: SkillSettings) -> bool:
        """Whether an installed skill is kept out of the folders, or is not installed any more."""
        kept_out = settings.kept_out(_INSTALLED, skill_id, str(self._versions.root))
        return kept_out is not None or self._versions.current(skill_id) is None

    def _current(self, skill_id: str) -> Path:
        return self._versions.home(skill_id) / CURRENT


def _directory(skill: Skill) -> str:
    return os.path.abspath(skill.directory)  # noqa: PTH100 # links stay as they are


def _made(link: SkillLink) -> Literal["linked", "copied"]:
    return "linked" if link.form == "link" else "copied"


def _source(link: SkillLink, sources: Mapping[str, str]) -> str:
    return _INSTALLED if link.skill_id else sources.get(link.source, "user")


def _is_chosen(settings: SkillSettings, name: str, source: str) -> bool:
    return settings.chosen is None or bool(settings.chosen & {name, f"{source}:{name}"})


def _folders_of(catalog: SkillCatalog) -> Iterable[str]:
    """The folders of agents that follow the set of this project; outside of projects those of the user."""
    project, agents = catalog.project_root, coding_agents().values()
    own = {real_path(folder) for folder in (os.path.expanduser("~"), configuration_directory(os.environ))}  # noqa: PTH111
    folders = [agent.skills_folder(project) for agent in agents]
    return [*folders, *(agent.user_skills for agent in agents)] if real_path(project) in own else folders
