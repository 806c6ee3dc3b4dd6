"""The installed skills as a mirror: `skillyard mirror import https://…/mirror` on another machine takes them over."""

from __future__ import annotations

import contextlib
from typing import Annotated, Final
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Response
from fastapi import Path as InPath

from skillyard.errors import PackageMissing, SkillyardError
from skillyard.registry import Registry
from skillyard.registry.mirror import INDEX_FILE, MirrorIndex, RegistryPlace
from skillyard.server.callers import needs
from skillyard.server.problems import READING
from skillyard.server.service import Served, Service

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/mirror", tags=["mirror"], dependencies=[needs("skills:read")])
_PLACES: Final[WeakKeyDictionary[Registry, RegistryPlace]] = WeakKeyDictionary()


@routes.get(f"/{INDEX_FILE}", responses=READING, response_class=Response)
def index(service: Served) -> Response:
    """Every installed skill that the rules let anybody read, with its versions and their digests."""
    skills = [skill for skill in _place(service).index().skills if _is_open(service, skill.skill_id)]
    return Response(MirrorIndex(tuple(skills)).to_bytes(), media_type="application/json")


@routes.get("/packages/{start}/{rest}", responses=READING, response_class=Response)
def package(
    service: Served,
    start: Annotated[str, InPath(pattern="^[0-9a-f]{2}$")],
    rest: Annotated[str, InPath(pattern="^[0-9a-f]{62}$")],
) -> Response:
    """One package, by the hex digits of its digest."""
    digest, place = f"sha256:{start}{rest}", _place(service)
    if not any(_is_open(service, skill_id) for skill_id in place.skills_with(digest)):
        raise PackageMissing(f"there is no package {digest}", hint=f"/mirror/{INDEX_FILE} lists them")
    return Response(place.package(digest), media_type="application/zip", headers={"ETag": f'"{digest}"'})


def _place(service: Service) -> RegistryPlace:
    place = _PLACES.get(service.registry)
    if place is None:
        place = _PLACES[service.registry] = RegistryPlace(service.registry, service.catalog.data_directory)
    return place


def _is_open(service: Service, skill_id: str) -> bool:
    """Whether the rules let anybody read the skill; of one that was uninstalled, what they say of its name."""
    with contextlib.suppress(SkillyardError):
        service.admit_installed(service.registry.skill(skill_id, installed=False))
        return True
    return False
