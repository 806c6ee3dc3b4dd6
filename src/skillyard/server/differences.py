"""What is different between two versions of an installed skill."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Query

from skillyard.errors import VersionNotFound
from skillyard.packages import compare_trees
from skillyard.server.callers import needs
from skillyard.server.install_shapes import TreeDifference
from skillyard.server.problems import READING
from skillyard.server.service import Served, Service
from skillyard.server.shapes import Answer

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/skill-definitions", tags=["skill definitions"], dependencies=[needs("skills:read")])

_Version = Annotated[str, Query(min_length=1, max_length=100, description="one of the skill's versions")]


@routes.get("/{id}/difference", responses=READING)
def difference(service: Served, id: str, before: _Version, after: _Version) -> Answer[TreeDifference]:  # noqa: A002
    """What became of the files of the version `before` in the version `after`."""
    skill = service.registry.skill(id, installed=False)
    service.admit_installed(skill)
    found = compare_trees(_folder(service, skill.skill_id, before), _folder(service, skill.skill_id, after))
    return Answer(data=TreeDifference.model_validate(found.to_dict()))


def _folder(service: Service, skill_id: str, version: str) -> Path:
    """The folder of a version that is still there."""
    kept = service.registry.versions_folder.names(skill_id)
    if version not in kept:
        raise VersionNotFound(f"{skill_id} has no version {version[:100]!r}", hint="one of its versions", candidates=kept)
    return service.registry.versions_folder.path(skill_id, version)
