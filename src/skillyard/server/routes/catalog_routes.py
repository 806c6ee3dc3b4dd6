"""Every skill that an agent on this machine can see: listed, searched, looked at, scanned, created, switched and deleted.

And what a caller keeps of them: stars, collections and saved searches.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Protocol, TypeVar

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from skillyard.access import STARS, SavedSearch, set_audit_subject
from skillyard.catalog import Skill, SkillState, Source, load_withdrawn, withdrawal
from skillyard.catalog.user_changes import has_desktop, open_folder
from skillyard.errors import InvalidInput, PermissionDenied, SkillyardError
from skillyard.insights import SkillUse, read_uses
from skillyard.interop import ClientCompatibility, check_clients
from skillyard.packages import PackageLimits
from skillyard.plain_json import to_plain_json
from skillyard.prompt import count_tokens
from skillyard.search import Match
from skillyard.server.authorization import UNRECORDED, Caller, CurrentCaller, require_scope, sits_here
from skillyard.server.background.catalog_changes import CachedResponse
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import FILE_RESPONSES, READ_PROBLEMS, WRITE_PROBLEMS, file_response
from skillyard.server.shapes import Answer, RequestBody, listed
from skillyard.server.shapes.catalog_shapes import (
    CatalogFilter,
    CatalogMeta,
    CatalogOrder,
    CatalogPage,
    CatalogSearch,
    CollectionName,
    DetailedSkill,
    Facets,
    ListedSkill,
    ModelText,
    SavedSearchShape,
    ScanReportShape,
    SearchMatch,
    SkillCollection,
    SkillRisk,
    SkillStar,
    by_risk,
    by_tokens,
    by_use,
    facets,
    fit,
    in_order,
)
from skillyard.skill_detail import model_text, read_skill_detail

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
_Again = Annotated[bool, Query(description="run it also when the same content was watched before")]
_Id = Annotated[str, Field(min_length=1, max_length=300)]
_MOST_VERDICTS: Final = 50  # as many as a screen shows
_VERDICTS_S: Final = 3.0  # a request waits no longer for the next scan
_SWEEP_S: Final = 1.5  # the same, where all are scanned for an order
_MOST_MATCHES: Final = 100
_Name = Annotated[str, Query(min_length=1, max_length=300, description="an id, a name, or a unique part of a name")]


class NewSkill(RequestBody):
    """The content of a new skill, and whether it is one of the user or of the project."""

    name: str = Field(max_length=64)
    description: str = Field(max_length=1024)
    instructions: str = Field(default="", max_length=1_000_000)
    source: Literal["user", "project"] = "user"


class SkillsSwitch(RequestBody):
    """The switch over all skills."""

    enabled: bool


class CatalogChanges(BaseModel):
    """The ids of the skills that were added, changed and removed."""

    added: list[str]
    changed: list[str]
    removed: list[str]


class SkillReference(RequestBody):
    """Which skill is meant."""

    skill: str = Field(min_length=1, max_length=300)


class StateOfSkill(SkillReference):
    """Which skill is meant, and its new state."""

    state: SkillState


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
def uses(
    service: CurrentServices, skill: Annotated[list[_Id], Query(min_length=1, max_length=_MOST_VERDICTS)]
) -> Answer[list[SkillUse]]:
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


@routes.get("/file", responses=READ_PROBLEMS | WRITE_PROBLEMS | FILE_RESPONSES, response_class=Response)
def read_one_file(
    service: CurrentServices,
    request: Request,
    skill: _Name,
    path: Annotated[str, Query(min_length=1, max_length=1024)] = "SKILL.md",
) -> Response:
    """One file of a skill, independent of the rules for agents: a person reads a skill before approving it."""
    return file_response(request, service.catalog.get(skill).read_file(path, limit=PackageLimits().file))


@routes.get("/folder", responses=READ_PROBLEMS)
def folder(service: CurrentServices, skill: _Name) -> Answer[str]:
    """The folder of a skill on the server's machine, for a file manager; of an unknown one, where the user's skills are.

    An organisation is shown where that is in its own home, `~`, or in which of the shared folders, never a path of the machine.
    """
    return Answer(data=service.catalog.directory_to_open(skill))


@routes.get("/opening", responses=READ_PROBLEMS)
def can_open(request: Request, caller: CurrentCaller) -> Answer[bool]:
    """Whether the caller may have a skill's folder opened: at this machine, without a key, where there is a desktop."""
    return Answer(data=sits_here(request, caller) and has_desktop())


@routes.post("/open", responses=WRITE_PROBLEMS, dependencies=[_WRITE, UNRECORDED])
def open_on_desktop(service: CurrentServices, request: Request, caller: CurrentCaller, body: SkillReference) -> Answer[bool]:
    """Open a skill's folder in the file manager of this machine; false where there is no desktop."""
    if not sits_here(request, caller):
        raise PermissionDenied(
            "a folder is opened only for who sits at the server's machine", hint="`skillyard open NAME` opens it on your own"
        )
    return Answer(data=open_folder(service.catalog.get(body.skill).directory))


@routes.post("/refresh", responses=WRITE_PROBLEMS, dependencies=[_WRITE, UNRECORDED])
def refresh(service: CurrentServices) -> Answer[CatalogChanges]:
    """Rescan the folders, and report the changes."""
    return Answer(data=CatalogChanges.model_validate(service.refresh()))


@routes.post("", status_code=201, responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def create(service: CurrentServices, body: NewSkill) -> Answer[ListedSkill]:
    """Create a skill of the user, or of the project."""
    if "\0" in body.instructions:
        raise InvalidInput("the instructions have a NUL character", hint="take it out")
    set_audit_subject(body.name)
    with service.change_lock:
        made = service.catalog.create(body.name, body.description, body.instructions, source=body.source)
        return Answer(data=ListedSkill.of(made, service.catalog.rules()))


@routes.delete("", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def delete(service: CurrentServices, skill: _Name) -> Answer[None]:
    """Delete a skill of the user, with its folder."""
    with service.change_lock:
        service.catalog.delete(skill)
    return Answer(data=None)


@routes.post("/toggle", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def toggle(service: CurrentServices, body: SkillReference) -> Answer[ListedSkill]:
    """Enable a disabled skill, or disable an enabled one."""
    set_audit_subject(body.skill)
    with service.change_lock:
        return _switched(service, service.catalog.toggle(body.skill))


@routes.put("/state", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def set_state(service: CurrentServices, body: StateOfSkill) -> Answer[ListedSkill]:
    """Set the state of a skill: pinned, automatic, name-only, manual or off."""
    set_audit_subject(body.skill)
    with service.change_lock:
        return _switched(service, service.catalog.set_state(body.skill, body.state))


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


def _switched(service: CurrentServices, skill: Skill) -> Answer[ListedSkill]:
    """The skill as it is now, after the folders of coding agents were updated."""
    service.registry.agent_folders.follow_skill(skill)
    return Answer(data=ListedSkill.of(skill, service.catalog.rules()))


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


@routes.get("/skill", responses=READ_PROBLEMS)
def look_at(service: CurrentServices, skill: _Name) -> Answer[DetailedSkill]:
    """Everything about one skill, whatever its status: its front matter, its files, what it may do, whether it can run."""
    known = service.catalog.get(skill)
    shape = DetailedSkill(ListedSkill.of(known, service.catalog.rules()), read_skill_detail(service.catalog, known))
    return Answer[DetailedSkill].model_validate({"data": to_plain_json(shape.to_dict())})


@routes.get("/scan", responses=READ_PROBLEMS | WRITE_PROBLEMS)
def scan(service: CurrentServices, skill: _Name) -> Answer[ScanReportShape]:
    """Scan the files of a skill now, without running anything."""
    report = service.scans.report(service.catalog.get(skill), service.catalog.suppressions())
    return Answer(data=ScanReportShape.model_validate(to_plain_json(report.to_dict())))


@routes.post("/scan", responses=WRITE_PROBLEMS, dependencies=[_EXECUTE])
def watch(service: CurrentServices, skill: _Name, again: _Again = False) -> Answer[ScanReportShape]:
    """Run the scripts of a skill in a sandbox with fake secrets and a fake network, and scan it; takes some 10 seconds.

    What it did is among the findings and in `watched`, and stays there in later scans of the same content.
    """
    report = service.scans.watch(service.catalog.get(skill), service.catalog.suppressions(), again=again)
    return Answer(data=ScanReportShape.model_validate(to_plain_json(report.to_dict())))


@routes.get("/verdicts", responses=READ_PROBLEMS)
def verdicts(
    service: CurrentServices, skill: Annotated[list[_Id], Query(min_length=1, max_length=_MOST_VERDICTS)]
) -> Answer[list[SkillRisk]]:
    """The scanner's verdict on several skills, and whether they were withdrawn.

    Those it had no time for are not `scanned`: ask again.
    """
    suppressions, until = service.catalog.suppressions(), time.monotonic() + _VERDICTS_S
    found, withdrawn = [], load_withdrawn(service.catalog.data_directory)
    for name in dict.fromkeys(skill):
        verdict = SkillRisk(skill=name, scanned=False, worst=None, findings=0)
        with contextlib.suppress(SkillyardError, OSError):
            known = service.catalog.get(name)
            if known.source == "installed" and (why := withdrawn.get(known.slug)):
                verdict = verdict.model_copy(update={"withdrawal": withdrawal(why), "withdrawn": why})
            if time.monotonic() < until:
                report = service.scans.report(known, suppressions)
                verdict = verdict.model_copy(update={"scanned": True, "worst": report.worst, "findings": len(report.open)})
        found.append(verdict)
    return Answer(data=found)


@routes.get("/model-text", responses=READ_PROBLEMS)
def get_model_text(service: CurrentServices, skill: _Name) -> Answer[ModelText]:
    """The exact text that a model reads when it loads the skill, and its tokens."""
    known = service.catalog.get(skill)
    text = model_text(service.catalog, known)
    return Answer(data=ModelText(text=text, tokens=count_tokens(text), description_tokens=count_tokens(known.description)))


@routes.get("/clients", responses=READ_PROBLEMS | WRITE_PROBLEMS)
def loading(service: CurrentServices, skill: _Name) -> Answer[list[ClientCompatibility]]:
    """Which clients load a skill, under which name and description, and why one does not."""
    known = service.catalog.get(skill)
    clients = check_clients(known.directory, name=known.slug if known.source == "installed" else None)
    return Answer[list[ClientCompatibility]].model_validate({"data": to_plain_json([client.to_dict() for client in clients])})
