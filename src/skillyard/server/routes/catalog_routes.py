"""Every skill that an agent on this machine can see: listed, searched, counted, looked for again, and offered or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Protocol, TypeVar

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool

from skillyard.access import STARS, set_audit_subject
from skillyard.catalog import Skill, Source, load_withdrawn
from skillyard.insights import SkillUse, read_uses
from skillyard.search import Match
from skillyard.server.authorization import UNRECORDED, Caller, CurrentCaller, require_scope
from skillyard.server.background.catalog_changes import CachedResponse
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS
from skillyard.server.shapes import Answer, RequestBody, listed
from skillyard.server.shapes.catalog_shapes import (
    CatalogFilter,
    CatalogMeta,
    CatalogOrder,
    CatalogPage,
    Facets,
    ListedSkill,
    SearchMatch,
    SkillsOfScreen,
    by_risk,
    by_tokens,
    by_use,
    facets,
    fit,
    in_order,
)

_Shape = TypeVar("_Shape", bound=BaseModel)


def query_of(shape: type[BaseModel]) -> dict[str, Any]:
    """The `openapi_extra` of a route whose query has the fields of `shape`, which all have a default."""
    fields = shape.model_json_schema()["properties"]
    return {
        "parameters": [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in fields.items()]
    }


def read_query(shape: type[_Shape], request: Request) -> _Shape:
    """The query of a request.

    Raises:
        RequestValidationError: it does not fit the shape, reported as FastAPI reports it.
    """
    try:
        return shape.model_validate(dict(request.query_params))
    except ValidationError as error:
        faults = [fault | {"loc": ("query", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from None


routes: Final = APIRouter(prefix="/api/v1/catalog", tags=["catalog"], dependencies=[require_scope("skills:read")])

_WRITE: Final = require_scope("skills:write")

_EXECUTE: Final = require_scope("runs:execute")

_SWEEP_S: Final = 1.5  # the same, where all are scanned for an order

_MOST_MATCHES: Final = 100


class SkillsSwitch(RequestBody):
    """The switch over all skills."""

    enabled: bool


class CatalogChanges(BaseModel):
    """The ids of the skills that were added, changed and removed."""

    added: list[str]
    changed: list[str]
    removed: list[str]


@routes.get("", responses=READ_PROBLEMS, response_model=CatalogPage, openapi_extra=query_of(CatalogFilter))
async def list_skills(service: CurrentServices, request: Request, caller: CurrentCaller) -> Response:
    """Every skill, also broken, shadowed, disabled and denied ones with the reason; filters select."""
    skills, query = service.catalog.all(), request.scope["query_string"]
    if (kept := service.page_cache.get(skills, query)) is None:
        chosen = read_query(CatalogFilter, request)  # only now: what was asked before was understood before

        def make() -> CatalogPage:
            return _page(service, caller, skills, chosen)

        if chosen.changes_by_itself:
            kept = await run_in_threadpool(lambda: CachedResponse.of(make()))
        else:
            kept = await run_in_threadpool(service.page_cache.put, skills, query, make)
    return kept.response(request)


def _page(service: OrganisationServices, caller: Caller, skills: Sequence[Skill], chosen: CatalogFilter) -> CatalogPage:
    found, unscanned = _ordered(service, chosen.sort, _kept(service, caller, chosen.of(skills), chosen))
    page, rules = listed(found, chosen.page, chosen.limit), service.catalog.rules()
    meta = CatalogMeta(**page.meta.model_dump(), unscanned=unscanned)
    return CatalogPage(data=[ListedSkill.of(skill, rules) for skill in page.data], meta=meta)


class _Kept(Protocol):
    """Which of the things that a caller keeps are meant."""

    @property
    def starred(self) -> bool | None: ...
    @property
    def collection(self) -> str | None: ...


def _kept(service: OrganisationServices, caller: Caller, skills: Sequence[Skill], chosen: _Kept) -> Sequence[Skill]:
    """Those of the skills that the caller marked so."""
    names = [*([STARS] if chosen.starred else []), *([chosen.collection] if chosen.collection else [])]
    for name in names:
        marked = set(service.collections.skills(service.owner(caller), name))
        skills = [skill for skill in skills if skill.reference in marked]
    return skills


def _ordered(service: OrganisationServices, order: CatalogOrder | None, skills: Sequence[Skill]) -> tuple[Sequence[Skill], int]:
    """The skills in an order, and how many of them still wait for the scan that it needs."""
    if order is None:
        return skills, 0
    if order == "risk":
        catalog = service.catalog
        worst = service.scans.worst(skills, catalog.suppressions(), seconds=_SWEEP_S)
        return in_order(skills, by_risk(worst, load_withdrawn(catalog.data_directory))), len(skills) - len(worst)
    if order in ("used", "last_used"):
        return in_order(skills, by_use(service.uses.read(), last=order == "last_used")), 0
    return in_order(skills, by_tokens if order == "tokens" else None), 0


@routes.get("/uses", responses=READ_PROBLEMS)
def uses(service: CurrentServices, skill: SkillsOfScreen) -> Answer[list[SkillUse]]:
    """How often skills were used in the last 30 days, and their last use, by id."""
    found = read_uses(service.database(), skill)
    return Answer(data=[found.get(one) or SkillUse(one) for one in dict.fromkeys(skill)])


@routes.get("/facets", responses=READ_PROBLEMS)
def count_facets(service: CurrentServices) -> Answer[Facets]:
    """The number of skills for each filter value."""
    return Answer(data=facets(service.catalog.all()))


@routes.get("/search", responses=READ_PROBLEMS, response_model=Answer[list[SearchMatch]])
def search(
    service: CurrentServices,
    request: Request,
    caller: CurrentCaller,
    q: Annotated[str, Query(min_length=1, max_length=2000)],
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    min_confidence: Annotated[float, Query(ge=0, le=1)] = 0.0,
    source: Source | None = None,
    tag: Annotated[str | None, Query(max_length=200, description="a tag or a keyword")] = None,
    domain: Annotated[str | None, Query(max_length=200)] = None,
    permission: Annotated[Literal["allow", "ask"] | None, Query(description="what the rules say")] = None,
    starred: Annotated[bool, Query(description="only those with the caller's star")] = False,
    collection: Annotated[str | None, Query(min_length=1, max_length=200, description="one of the caller's")] = None,
    sort: Annotated[CatalogOrder | None, Query(description="another order than the nearest first")] = None,
) -> Response:
    """The skills nearest to a request, best first, each with its confidence, whether it is sure, and the matched words.

    With `sort` the nearest are in another order; those with the caller's star, or in a collection, are of the 100 nearest.
    """
    narrowed = starred or collection is not None
    matches: Sequence[Match] = service.catalog.search(
        q, _MOST_MATCHES if narrowed else limit, min_confidence=min_confidence, source=source, tag=tag, domain=domain,
        permission=permission,
    )  # fmt: skip
    if narrowed or sort:
        by_id = {match.skill.id: match for match in matches}
        marked = CatalogFilter(starred=starred, collection=collection)
        skills = _kept(service, caller, [match.skill for match in matches], marked)
        matches = [by_id[skill.id] for skill in _ordered(service, sort, skills[:limit])[0]]
    return CachedResponse.of(Answer(data=[fit(match, service.catalog.rules()) for match in matches])).response(request)


@routes.get("/event", responses=READ_PROBLEMS)
def match_event(
    service: CurrentServices,
    type: Annotated[str, Query(min_length=1, max_length=300)],  # noqa: A002 # the API's own name
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> Answer[list[SearchMatch]]:
    """The skills that declare this event type among their triggers, the highest priority first."""
    return Answer(data=[fit(match, service.catalog.rules()) for match in service.catalog.match_event(type, limit=limit)])


@routes.post("/refresh", responses=WRITE_PROBLEMS, dependencies=[_WRITE, UNRECORDED])
def refresh(service: CurrentServices) -> Answer[CatalogChanges]:
    """Rescan the folders, and report the changes."""
    return Answer(data=CatalogChanges.model_validate(service.refresh()))


@routes.get("/enabled", responses=READ_PROBLEMS)
def enabled(service: CurrentServices) -> Answer[bool]:
    """Whether skills are offered to models at all."""
    return Answer(data=service.catalog.skills_enabled)


@routes.put("/enabled", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def switch_all(service: CurrentServices, body: SkillsSwitch) -> Answer[bool]:
    """Offer skills to models, or none of them; the states of single skills are kept."""
    set_audit_subject("*")
    with service.change_lock:
        service.catalog.switch_all(enabled=body.enabled)
        service.registry.agent_folders.follow_all(service.catalog)
    return Answer(data=body.enabled)
