"""Every skill that an agent on this machine can see, over HTTP: the calls of document 001 as routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from skillyard.access import about
from skillyard.catalog import Skill, Source
from skillyard.errors import InvalidInput
from skillyard.packages import Limits
from skillyard.server.callers import UNRECORDED, needs
from skillyard.server.contents import file_answer
from skillyard.server.definitions import FILE
from skillyard.server.entries import Entry, Facets, Fit, Wanted, entry, facets, fit
from skillyard.server.prepared import Prepared
from skillyard.server.problems import READING, WRITING
from skillyard.server.queries import query_of, read_query
from skillyard.server.service import Served
from skillyard.server.shapes import Answer, Listed, RequestBody, listed

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/catalog", tags=["catalog"], dependencies=[needs("skills:read")])

_WRITE: Final = needs("skills:write")
_Name = Annotated[str, Query(min_length=1, max_length=300, description="an id, a name, or a unique part of a name")]


class NewSkill(RequestBody):
    """What a new skill of the user says."""

    name: str = Field(max_length=64)
    description: str = Field(max_length=1024)
    instructions: str = Field(default="", max_length=1_000_000)


class CatalogChanges(BaseModel):
    """The ids of the skills that are new, others than before, and gone."""

    added: list[str]
    changed: list[str]
    removed: list[str]


class Named(RequestBody):
    """Which skill is meant."""

    skill: str = Field(min_length=1, max_length=300)


@routes.get("", responses=READING, response_model=Listed[Entry], openapi_extra=query_of(Wanted))
async def list_skills(service: Served, request: Request) -> Response:
    """Every skill, also the broken, shadowed, disabled and denied ones, and why; with filters only those that they leave."""
    skills, query = service.catalog.all(), request.scope["query_string"]
    if (kept := service.pages.get(skills, query)) is None:
        wanted = read_query(Wanted, request)  # only now: what was asked before was understood before
        kept = await run_in_threadpool(service.pages.put, skills, query, lambda: _page(skills, wanted))
    return kept.response(request)


def _page(skills: Sequence[Skill], wanted: Wanted) -> Listed[Entry]:
    found = listed(wanted.of(skills), wanted.page, wanted.limit)
    return Listed(data=[entry(skill) for skill in found.data], meta=found.meta)


@routes.get("/facets", responses=READING)
def count_facets(service: Served) -> Answer[Facets]:
    """How many skills each value of the filters would leave."""
    return Answer(data=facets(service.catalog.all()))


@routes.get("/search", responses=READING, response_model=Answer[list[Fit]])
def search(
    service: Served,
    request: Request,
    q: Annotated[str, Query(min_length=1, max_length=2000)],
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    min_confidence: Annotated[float, Query(ge=0, le=1)] = 0.15,
    source: Source | None = None,
    tag: Annotated[str | None, Query(max_length=200, description="a tag or a keyword")] = None,
    domain: Annotated[str | None, Query(max_length=200)] = None,
    permission: Annotated[Literal["allow", "ask"] | None, Query(description="what the rules say")] = None,
) -> Response:
    """The usable skills that fit a request, the best first, each with its confidence and what matched."""
    found = service.catalog.search(
        q, limit, min_confidence=min_confidence, source=source, tag=tag, domain=domain, permission=permission
    )
    return Prepared.of(Answer(data=[fit(match) for match in found])).response(request)


@routes.get("/event", responses=READING)
def match_event(
    service: Served,
    type: Annotated[str, Query(min_length=1, max_length=300)],  # noqa: A002 # the document's name
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> Answer[list[Fit]]:
    """The skills that declare this event type among their triggers, the highest priority first."""
    return Answer(data=[fit(match) for match in service.catalog.match_event(type, limit=limit)])


@routes.get("/file", responses=READING | WRITING | FILE, response_class=Response)
def read_one_file(
    service: Served,
    request: Request,
    skill: _Name,
    path: Annotated[str, Query(min_length=1, max_length=1024)] = "SKILL.md",
) -> Response:
    """One file of a skill, when the rules let the skill be read."""
    found = service.catalog.get(skill)
    service.admit(found)
    return file_answer(request, found.read_file(path, limit=Limits().file))


@routes.get("/folder", responses=READING)
def folder(service: Served, skill: _Name) -> Answer[str]:
    """The folder of a skill on the server's machine, for a file manager; of an unknown one, where the user's skills are.

    An organisation is told where that is in its own home, `~`, or in which of the shared folders, never a path of the machine.
    """
    return Answer(data=service.catalog.directory_to_open(skill))


@routes.post("/refresh", responses=WRITING, dependencies=[_WRITE, UNRECORDED])
def refresh(service: Served) -> Answer[CatalogChanges]:
    """Look at the folders again, and tell what is different."""
    return Answer(data=CatalogChanges.model_validate(service.refresh()))


@routes.post("", status_code=201, responses=WRITING, dependencies=[_WRITE])
def create(service: Served, body: NewSkill) -> Answer[Entry]:
    """Make a new skill of the user."""
    if "\0" in body.instructions:
        raise InvalidInput("the instructions hold a NUL character", hint="take it out")
    about(body.name)
    with service.changing:
        return Answer(data=entry(service.catalog.create(body.name, body.description, body.instructions)))


@routes.delete("", responses=WRITING, dependencies=[_WRITE])
def delete(service: Served, skill: _Name) -> Answer[None]:
    """Delete a skill of the user, with its folder."""
    with service.changing:
        service.catalog.delete(skill)
    return Answer(data=None)


@routes.post("/toggle", responses=WRITING, dependencies=[_WRITE])
def toggle(service: Served, body: Named) -> Answer[Entry]:
    """Switch a skill on when it is off, and off when it is on."""
    about(body.skill)
    with service.changing:
        return Answer(data=entry(service.catalog.toggle(body.skill)))
