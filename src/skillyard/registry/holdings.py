"""What is installed in one home, and all there is to know about it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.errors import SkillNotFound
from skillyard.registry.model import InstalledSkill, InstallLog, SkillVersion
from skillyard.registry.needs import trouble
from skillyard.registry.operations import Operations
from skillyard.registry.recovery import recover
from skillyard.registry.returning import named_version
from skillyard.registry.versions import Versions

if TYPE_CHECKING:
    from skillyard.database import Database
    from skillyard.registry.ledger import Ledger
    from skillyard.registry.popularity import Popularity
    from skillyard.registry.version_tags import VersionTags

__all__ = ["Holdings"]


class Holdings:
    """The installed skills of one home as they are: files in `{data}/skills`, records in the database at `url`, else in `data`.

    `servers` are the names of registered MCP servers, which skills may require; `actor` is who is written down for changes.
    """

    def __init__(self, data: str, url: str | None = None, *, servers: Sequence[str] = (), actor: str | None = None) -> None:
        self.versions_folder = Versions(Path(data) / "skills")
        self.operations = Operations(self.versions_folder.root)
        self._data, self._url = data, url
        self._servers = frozenset(servers)
        self._actor = actor
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None

    @property
    def root(self) -> Path:
        """The folder of the installed skills, which catalogs read."""
        return self.versions_folder.root

    @property
    def ledger(self) -> Ledger:
        """The records; at the first use they are opened, and what a killed process left is put in order.

        Raises:
            DatabaseUnavailable: they cannot be opened.
        """
        with self._lock:
            if self._ledger is None:
                from skillyard.database import Database  # half a second

                ledger = self._ledger_over(Database.open(self._data, self._url))
                recover(self.operations, self.versions_folder, ledger)
                self._ledger = ledger
            return self._ledger

    def _ledger_over(self, database: Database) -> Ledger:
        from skillyard.registry.ledger import Ledger

        return Ledger(database, self._actor)

    @property
    def popularity(self) -> Popularity:
        """Stars and counts of downloads."""
        from skillyard.registry.popularity import Popularity

        return Popularity(self.ledger.database)

    @property
    def tags(self) -> VersionTags:
        """The names that were given to versions."""
        from skillyard.registry.version_tags import VersionTags

        return VersionTags(self.ledger.database)

    def close(self) -> None:
        """Let go of the records; the next use opens them again."""
        with self._lock:
            if self._ledger is not None:
                self._ledger.database.close()
            self._ledger = None

    def skills(self, *, uninstalled: bool = False) -> tuple[InstalledSkill, ...]:
        """The installed skills, by id."""
        return self.ledger.skills(all_=uninstalled)

    def page(
        self, *, text: str = "", active: bool | None = None, limit: int = 20, offset: int = 0
    ) -> tuple[tuple[InstalledSkill, ...], int]:
        """So many skills by id, without the text of their SKILL.md, and how many there are; uninstalled ones are not active."""
        from skillyard.registry.lookups import page_of_skills

        return page_of_skills(self.ledger.database, text=text, active=active, limit=limit, offset=offset)

    def skill(self, name: str, *, installed: bool = True) -> InstalledSkill:
        """The skill with this id or name.

        Raises:
            SkillNotFound: none is installed; with `installed=False`, none ever was.
        """
        from skillyard.registry.lookups import find_skill, near_ids

        wanted = name.removeprefix("installed:")
        found = find_skill(self.ledger.database, wanted)
        if found is not None and (found.active or not installed):
            return found
        if found is not None:
            raise SkillNotFound(
                f"{found.skill_id} is no longer installed", hint=f"`skillyard rollback {found.skill_id}` brings it back"
            )
        from skillyard.text import nearest

        near = nearest(wanted, near_ids(self.ledger.database, wanted), limit=3)
        raise SkillNotFound(
            f"{wanted!r} is not installed",
            hint=f"did you mean {', '.join(near)}?" if near else "`skillyard versions` shows what is installed",
            candidates=near,
        )

    def versions(self, name: str) -> tuple[SkillVersion, ...]:
        """The versions of a skill, the newest first.

        Raises:
            SkillNotFound: there never was one.
        """
        from dataclasses import replace

        skill_id = self.skill(name, installed=False).skill_id
        there = set(self.versions_folder.names(skill_id))
        return tuple(replace(version, removed=version.version not in there) for version in self.ledger.versions(skill_id))

    def version(self, name: str, version: str) -> SkillVersion:
        """The version with that install version, or the newest that declares it.

        Raises:
            SkillNotFound, VersionNotFound: there is no such skill or version.
        """
        return named_version(self.versions(name), version)

    def current(self, name: str) -> SkillVersion:
        """The version that serves.

        Raises:
            SkillNotFound: it is not installed.
        """
        skill = self.skill(name)
        return next(version for version in self.versions(skill.skill_id) if version.version == skill.current_version)

    def serving(self) -> dict[str, SkillVersion]:
        """The version that serves of every installed skill, by the skill's id: one look for all."""
        return {version.skill_id: version for version in self.ledger.serving()}

    def history(self, name: str | None = None, *, limit: int = 50) -> tuple[InstallLog, ...]:
        """What was done to a skill, or to all, the newest first."""
        skill_id = None if name is None else self.skill(name, installed=False).skill_id
        return self.ledger.history(skill_id, limit=limit)

    def operation(self, operation_id: str) -> tuple[InstallLog, ...]:
        """The logs of one operation, one for each skill it is about; none when there never was such an operation."""
        return self.ledger.history(operation_id=operation_id, limit=1000)

    def trouble(self) -> Iterator[tuple[str, str]]:
        """What is wrong with installed skills: withdrawn versions, requirements not met here, and those that go in a circle."""
        return trouble(self.ledger, self._servers)

    def _version(self, name: str, version: str | None) -> SkillVersion:
        return self.current(name) if version is None else named_version(self.versions(name), version)
