"""Where a skill comes from and who signed it, for permission rules that name a `source=` or a `signer=`.

The source of an installed skill is what the registry recorded for the current version; that of any other skill is the catalog's
name for it (`project`, `user`, …). A signature is verified against the files each time, so that an edit ends it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from skillyard.catalog import Skill, SkillCatalog


_SHORT: Final = {"github": "github.com", "gitlab": "gitlab.com", "codeberg": "codeberg.org", "bitbucket": "bitbucket.org"}
_SCHEME: Final = re.compile(r"(?:(?:git\+)?(?:https|ssh)|oci)://", re.IGNORECASE)


class SkillProvenance(NamedTuple):
    """The sources of a skill, each in parts, and whether they are complete; `folder` is what may be signed."""

    sources: tuple[tuple[str, ...], ...]
    complete: bool
    folder: str | None

    def signer(self) -> str | None:
        """The key whose signature holds for the files as they are; None when nobody's does."""
        from skillyard.errors import SkillyardError
        from skillyard.packages import verify_tree

        if self.folder is None:
            return None
        try:
            signature = verify_tree(Path(self.folder))
        except (SkillyardError, OSError):
            return None
        return signature.key if signature else None


class OriginLookup(Protocol):
    """Gives the origins of skills."""

    def provenance(self, skill: Skill) -> SkillProvenance:
        """The provenance of a skill of the catalog."""

    def installed(self, directory: str) -> SkillProvenance:
        """The provenance of the installed skill in `directory`."""


class InstalledOrigins:
    """The origins that the registry of the folder `data` recorded in the database at `url`, else in that folder."""

    def __init__(self, data: str, url: str | None = None) -> None:
        self._data = data
        self._url = url

    @classmethod
    def of(cls, catalog: SkillCatalog) -> Self:
        """Those of a catalog's own registry."""
        return cls(catalog.data_directory, catalog.configuration.database_url)

    def provenance(self, skill: Skill) -> SkillProvenance:
        """As `OriginLookup.provenance`."""
        if skill.source != "installed":
            return SkillProvenance(((skill.source,),), complete=True, folder=skill.directory)
        return self.installed(skill.directory)

    def installed(self, directory: str) -> SkillProvenance:
        """As `OriginLookup.installed`; not complete when nothing was recorded, or the records cannot be read."""
        folder = Path(directory)
        try:
            version = folder.resolve(strict=True).name
        except OSError:
            return SkillProvenance((("installed",),), complete=False, folder=None)
        origin = _origin_of(self._data, self._url, folder.parent.name, version)
        sources = (("installed",), source_parts(origin)) if origin else (("installed",),)
        return SkillProvenance(sources, complete=origin is not None, folder=directory)


@lru_cache(maxsize=4096)
def _recorded(data: str, url: str | None, skill_id: str, version: str) -> tuple[tuple[str, str], ...]:
    """The origin of one version, which never changes.

    Raises:
        LookupError: none is recorded, or the records cannot be read; that may change.
    """
    from sqlalchemy import select

    from skillyard.database import Database, skill_versions
    from skillyard.errors import SkillyardError

    if url is None and not Path(data, "skillyard.db").exists():
        raise LookupError(skill_id)
    query = select(skill_versions.c.origin).where(skill_versions.c.skill_id == skill_id, skill_versions.c.version == version)
    try:
        database = Database.open(data, url, migrate=False)
        try:
            with database.read() as connection:
                origin = connection.execute(query).scalar()
        finally:
            database.close()
    except SkillyardError as error:
        raise LookupError(skill_id) from error
    if not isinstance(origin, dict) or not origin.get("kind"):
        raise LookupError(skill_id)
    return tuple((str(name), str(value)) for name, value in origin.items())


def _origin_of(data: str, url: str | None, skill_id: str, version: str) -> Mapping[str, str] | None:
    try:
        return dict(_recorded(data, url, skill_id, version))
    except LookupError:
        return None


def source_parts(origin: Mapping[str, str] | str) -> tuple[str, ...]:
    """A source in the parts that are compared: the host and the folders of an address, or the folders of a path.

    A text is read as a rule writes it (`github:acme/skills`, `https://github.com/acme/skills.git`, `/srv/skills`); an origin is
    what the registry wrote down. http stays in front of its host, because it proves nobody, and so does `mirror:`.
    """
    if isinstance(origin, str):
        return _parts(origin)
    kind, address, path = origin.get("kind", ""), origin.get("address", ""), origin.get("path", "")
    if kind == "upload":
        return ("upload",)
    if kind == "extension":
        return tuple(part for part in address.split("/") if part)
    parts = _parts(address)
    if kind == "mirror":
        return (f"mirror:{parts[0]}", *parts[1:]) if parts else ("mirror:",)
    return (*parts, *(part for part in path.split("/") if part))


def _parts(text: str) -> tuple[str, ...]:
    name, colon, rest = text.partition(":")
    if colon and not rest.startswith("//") and name.lower() in _SHORT:
        text = f"{_SHORT[name.lower()]}/{rest}"
    elif _SCHEME.match(text):
        address = urlsplit(text.removeprefix("git+"))
        text = address.netloc.rpartition("@")[2] + address.path
    elif text.lower().startswith(("http://", "oci+http://")):
        text = "http:" + text.partition("://")[2]
    rooted = ("/",) if text.startswith("/") else ()
    return (*rooted, *(part.removesuffix(".git") for part in text.split("/") if part))
