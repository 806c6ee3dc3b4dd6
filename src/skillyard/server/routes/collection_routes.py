"""What is kept of the catalog: the set of skills its project uses; stars, collections and saved searches of each caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from skillyard.access import STARS, SavedSearch, set_audit_subject
from skillyard.server.authorization import UNRECORDED, CurrentCaller, require_scope
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS
from skillyard.server.shapes import Answer, RequestBody
from skillyard.server.shapes.catalog_shapes import (
    CatalogSearch,
    CollectionName,
    SavedSearchShape,
    SkillCollection,
    SkillReference,
    SkillStar,
)

routes: Final = APIRouter(prefix="/api/v1/catalog", tags=["catalog"], dependencies=[require_scope("skills:read")])
_WRITE: Final = require_scope("skills:write")


class SkillSets(BaseModel):
    """The sets of skills of the project, by name, and the one that is in use: null where all skills are offered."""

    chosen: str | None
    sets: dict[str, list[str]]


class ChosenSet(RequestBody):
    """The set whose skills alone are offered; null offers all."""

    name: str | None = Field(max_length=200)


@routes.get("/sets", responses=READ_PROBLEMS)
def list_sets(service: CurrentServices) -> Answer[SkillSets]:
    """The sets of skills that the configuration names, and which one this project uses."""
    catalog = service.catalog
    sets = {name: list(skills) for name, skills in sorted(catalog.configuration.skill_sets.items())}
    return Answer(data=SkillSets(chosen=catalog.chosen_set, sets=sets))


@routes.put("/sets", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def choose_set(service: CurrentServices, body: ChosenSet) -> Answer[SkillSets]:
    """Offer only the skills of a set in this project, or all of them."""
    set_audit_subject(body.name or "*")
    with service.change_lock:
        service.catalog.use_set(body.name)
        service.registry.agent_folders.follow_set(service.catalog)
    return list_sets(service)


class StarredSkill(SkillReference):
    """Which skill is meant, and whether it shall have a star."""

    starred: bool


class CollectedSkill(SkillReference, CollectionName):
    """Which skill is meant, and whether it shall be in the collection of that name."""

    included: bool


class NamedSearch(CollectionName):
    """A search and the name to keep it under."""

    search: CatalogSearch


_Collection = Annotated[str, Query(min_length=1, max_length=200, description="its name")]


@routes.get("/stars", responses=READ_PROBLEMS)
def list_stars(service: CurrentServices, caller: CurrentCaller) -> Answer[list[str]]:
    """The ids of the skills with the caller's star, the last first."""
    return Answer(data=_known(service, service.collections.skills(service.owner(caller))))


@routes.put("/stars", responses=WRITE_PROBLEMS, dependencies=[UNRECORDED])
def put_star(service: CurrentServices, caller: CurrentCaller, body: StarredSkill) -> Answer[SkillStar]:
    """Add or remove the caller's star of a skill."""
    skill = service.catalog.get(body.skill)
    change = service.collections.add if body.starred else service.collections.remove
    change(service.owner(caller), skill.reference)
    return Answer(data=SkillStar(skill=skill.id, starred=body.starred))


@routes.get("/collections", responses=READ_PROBLEMS)
def list_collections(service: CurrentServices, caller: CurrentCaller) -> Answer[list[SkillCollection]]:
    """The caller's collections of skills, by name."""
    found = service.collections.all(service.owner(caller))
    named = [SkillCollection(name=name, skills=_known(service, skills)) for name, skills in found.items() if name != STARS]
    return Answer(data=sorted(named, key=lambda one: one.name.casefold()))


@routes.put("/collections", responses=WRITE_PROBLEMS, dependencies=[UNRECORDED])
def collect(service: CurrentServices, caller: CurrentCaller, body: CollectedSkill) -> Answer[list[SkillCollection]]:
    """Add a skill to one of the caller's collections, creating it if needed, or remove it; returns all collections."""
    skill = service.catalog.get(body.skill)
    change = service.collections.add if body.included else service.collections.remove
    change(service.owner(caller), skill.reference, body.name)
    return list_collections(service, caller)


@routes.delete("/collections", responses=WRITE_PROBLEMS, dependencies=[UNRECORDED])
def delete_collection(service: CurrentServices, caller: CurrentCaller, name: _Collection) -> Answer[None]:
    """Delete one of the caller's collections; its skills stay."""
    service.collections.delete(service.owner(caller), name)
    return Answer(data=None)


@routes.get("/searches", responses=READ_PROBLEMS)
def list_searches(service: CurrentServices, caller: CurrentCaller) -> Answer[list[SavedSearchShape]]:
    """The caller's saved searches, by name."""
    found = service.collections.searches(service.owner(caller))
    return Answer(data=sorted(map(_saved, found), key=lambda one: one.name.casefold()))


@routes.put("/searches", responses=WRITE_PROBLEMS, dependencies=[UNRECORDED])
def save_search(service: CurrentServices, caller: CurrentCaller, body: NamedSearch) -> Answer[SavedSearchShape]:
    """Save a search under a name, replacing one with that name."""
    search = body.search.model_dump(exclude_none=True)
    return Answer(data=_saved(service.collections.save_search(service.owner(caller), body.name, search)))


@routes.delete("/searches", responses=WRITE_PROBLEMS, dependencies=[UNRECORDED])
def delete_search(service: CurrentServices, caller: CurrentCaller, name: _Collection) -> Answer[None]:
    """Delete one of the caller's saved searches."""
    service.collections.delete_search(service.owner(caller), name)
    return Answer(data=None)


def _saved(search: SavedSearch) -> SavedSearchShape:
    return SavedSearchShape.model_validate(search.to_dict())


def _known(service: OrganisationServices, references: Sequence[str]) -> list[str]:
    """The ids of those of the skills that are in the catalog, in their order."""
    wanted = set(references)
    ids = {skill.reference: skill.id for skill in service.catalog.all() if skill.reference in wanted} if wanted else {}
    return [ids[reference] for reference in references if reference in ids]
