"""Agentic Resource Discovery (ARD 0.9): a manifest of what this server offers, its search, its facets and its list.

Offered are the skills that the rules let anybody read, each as the archive of the discovery index, the agents by their cards,
and the server's own MCP endpoint. An identifier begins with the name under which the client reached the server; a name that is
no domain of anybody (an address, `localhost`) is written `agent.localhost`, as the specification wants it.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import chain
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, StringConstraints

from skillyard import __version__
from skillyard.agent_definitions import Agent
from skillyard.errors import InvalidInput
from skillyard.registry import InstalledSkill, SkillVersion
from skillyard.server.authorization import UNRECORDED, require_scope
from skillyard.server.clients.published_skills import decode_cursor, encode_cursor, offered_skills, search_offered
from skillyard.server.middleware.error_formats import ARD
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.shapes import RequestBody

CARD_TYPE: Final = "application/a2a-agent-card+json"
_SKILL_TYPE: Final = "application/agent-skills+zip"
_SERVER_TYPE: Final = "application/mcp-server-card+json"
_REGISTRY_TYPE: Final = "application/ai-registry+json"
_MOST_ON_A_PAGE: Final = 100
_QUERIES: Final = 5
_LOCAL: Final = "agent.localhost"

Text = Annotated[str, StringConstraints(max_length=2000)]
_Field = Annotated[str, StringConstraints(min_length=1, max_length=200)]

routes: Final = APIRouter(tags=["clients: ARD"], dependencies=[require_scope("skills:read")])


class DiscoveryQuery(RequestBody):
    """What is sought: in words, and by the values of fields of an entry; a path such as `metadata.license` has dots."""

    text: Text | None = None
    filter: dict[_Field, Text | Annotated[list[Text], Field(max_length=100)]] = Field(default={}, max_length=20)


class DiscoverySearch(RequestBody):
    """A search; this server knows no other registries to pass it on to."""

    query: DiscoveryQuery
    federation: Literal["auto", "referrals", "none"] = "auto"
    pageSize: int = Field(default=10, ge=1)  # noqa: N815 # the protocol's own spelling
    pageToken: str | None = Field(default=None, max_length=200)  # noqa: N815


class DiscoveryFacet(RequestBody):
    """A field whose values are counted: at most `limit` of them, and none that fewer than `minCount` entries have."""

    field: _Field
    limit: int = Field(default=20, ge=1, le=1000)
    minCount: int = Field(default=1, ge=1)  # noqa: N815


class DiscoveryFacets(RequestBody):
    """The fields whose values are counted."""

    facets: list[DiscoveryFacet] = Field(min_length=1, max_length=20)


class DiscoveryExploration(RequestBody):
    """The values of fields, counted over what a query finds; over everything without one."""

    query: DiscoveryQuery = DiscoveryQuery()
    resultType: DiscoveryFacets  # noqa: N815


@dataclass(frozen=True, slots=True)
class DiscoverableResource:
    """One entry of the manifest as plain data, when it was created and changed, and its relevance from 0 to 100."""

    entry: dict[str, Any]
    created: datetime | None = None
    updated: datetime | None = None
    score: int = 0


@routes.get("/.well-known/ai-catalog.json", responses=ARD)
def manifest(service: CurrentServices, request: Request, response: Response) -> dict[str, Any]:
    """The catalog of everything that is offered, and the search endpoint."""
    response.headers.update({"Cache-Control": "public, no-cache", "Access-Control-Allow-Origin": "*"})
    place = _ServerAddress.of(request)
    registry = place.entry("registry", "skills", "Skillyard", _REGISTRY_TYPE, "Search of the skills and agents of this server.")
    entries = [resource.entry for resource in _resources(service, place)]
    host = {"displayName": "Skillyard", "documentationUrl": f"{place.base}/openapi.json"}
    return {"specVersion": "1.0", "host": host, "entries": [registry | {"url": place.registry}, *entries]}


@routes.post("/ard/search", responses=ARD, dependencies=[UNRECORDED])
def search(service: CurrentServices, request: Request, body: DiscoverySearch) -> dict[str, Any]:
    """The entries that match a query and its filter, best first."""
    if not (body.query.text or "").strip():
        raise InvalidInput("query.text is missing", hint="say in words what is sought; /ard/explore and /ard/agents need none")
    place = _ServerAddress.of(request)
    page, following = _page(_found(service, place, body.query), body.pageSize, body.pageToken)
    results = [resource.entry | {"score": resource.score, "source": place.registry} for resource in page]
    referrals: dict[str, Any] = {"referrals": []} if body.federation == "referrals" else {}
    return {"results": results} | referrals | following


@routes.post("/ard/explore", responses=ARD, dependencies=[UNRECORDED])
def explore(service: CurrentServices, request: Request, body: DiscoveryExploration) -> dict[str, Any]:
    """How many of the entries have which value of a field."""
    found = _found(service, _ServerAddress.of(request), body.query)
    return {
        "resultType": "facets",
        "facets": {facet.field: _counted(found, facet) for facet in body.resultType.facets},
    }


@routes.get("/ard/agents", responses=ARD)
def list_resources(
    service: CurrentServices,
    request: Request,
    filter_: Annotated[str, Query(alias="filter", max_length=2000)] = "",
    order: Annotated[str, Query(alias="orderBy", max_length=200)] = "",
    size: Annotated[int, Query(alias="pageSize", ge=1)] = 20,
    token: Annotated[str | None, Query(alias="pageToken", max_length=200)] = None,
) -> dict[str, Any]:
    """Every entry, by name or in another order; `type = 'application/agent-skills+zip' AND updatedAfter > '2026-01-01'`."""
    conditions = tuple(_conditions(filter_))
    resources = [resource for resource in _resources(service, _ServerAddress.of(request)) if _meets(resource, conditions)]
    page, following = _page(_ordered(resources, order), size, token)
    return {"items": [resource.entry for resource in page], "total": len(resources)} | following


@dataclass(frozen=True, slots=True)
class _ServerAddress:
    """Where the client reached this server: its address without a slash at the end, and the publisher of its entries."""

    base: str
    publisher: str

    @classmethod
    def of(cls, request: Request) -> _ServerAddress:
        return cls(str(request.base_url).rstrip("/"), _publisher(request.url.hostname or ""))

    @property
    def registry(self) -> str:
        return f"{self.base}/ard/"

    def entry(self, kind: str, name: str, shown: str, type_: str, description: str) -> dict[str, Any]:
        """An entry without the address or data that each has."""
        identifier = f"urn:air:{self.publisher}:{kind}:{name}"
        return {"identifier": identifier, "displayName": shown, "type": type_, "description": description}


def _publisher(host: str) -> str:
    """The domain of a host name; one that is an address or has no dot is nobody's."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host if "." in host and re.fullmatch(r"[a-zA-Z0-9.-]+", host) else _LOCAL
    return _LOCAL


def _resources(service: OrganisationServices, place: _ServerAddress) -> Iterator[DiscoverableResource]:
    serving = service.registry.installed.serving()
    skills = (skill for skill in offered_skills(service) if skill.skill_id in serving)
    yield _server(place)
    yield from (_agent(agent, place) for agent in service.catalog.agents().list())
    yield from (_skill(skill, serving[skill.skill_id], place) for skill in skills)


def _server(place: _ServerAddress) -> DiscoverableResource:
    about = "Agent skills as tools, prompts and resources, over the Model Context Protocol."
    card = {
        "name": "skillyard",
        "title": "Skillyard",
        "description": about,
        "version": __version__,
        "remotes": [{"type": "streamable-http", "url": f"{place.base}/mcp"}],
    }
    return DiscoverableResource(place.entry("server", "mcp", "Skillyard", _SERVER_TYPE, about) | {"data": card})


def _agent(agent: Agent, place: _ServerAddress) -> DiscoverableResource:
    more: dict[str, Any] = {
        "url": f"{place.base}/a2a/{quote(agent.id, safe='')}/.well-known/agent-card.json",
        "updatedAt": _moment(agent.updated_at),
    }
    if agent.skills:
        more["capabilities"] = [skill.skill_id for skill in agent.skills]
    entry = place.entry("agent", _segment(agent.id), agent.name, CARD_TYPE, agent.description)
    return DiscoverableResource(entry | more, agent.created_at, agent.updated_at)


def _skill(skill: InstalledSkill, version: SkillVersion, place: _ServerAddress) -> DiscoverableResource:
    metadata = {"digest": version.digest, "revision": version.version, "license": skill.license, "author": skill.author}
    more: dict[str, Any] = {
        "url": f"{place.base}/.well-known/agent-skills/{quote(skill.skill_id, safe='')}.zip",
        "metadata": {name: value for name, value in metadata.items() if value},
    }
    optional = {
        "tags": list(dict.fromkeys((*skill.tags, *skill.trigger_keywords))),
        "representativeQueries": _phrases(skill.skill_md_content or "", skill.skill_id),
        "version": version.declared_version,
        "updatedAt": _moment(version.installed_at) if version.installed_at else None,
    }
    entry = place.entry("skill", _segment(skill.skill_id), skill.name, _SKILL_TYPE, skill.description)
    return DiscoverableResource(
        entry | more | {name: value for name, value in optional.items() if value}, skill.created_at, version.installed_at
    )


@lru_cache(maxsize=4096)
def _phrases(skill_md: str, skill_id: str) -> list[str]:
    """What a person may say to mean a skill, by its SKILL.md: two to five phrases, or none."""
    from skillyard.document import parse_document

    triggers = parse_document(skill_md.encode("utf-8", "surrogatepass"), directory_name=skill_id).metadata.triggers
    phrases = list(dict.fromkeys(triggers.phrases))[:_QUERIES]
    return phrases if len(phrases) > 1 else []


def _segment(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", name) or "-"


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _found(service: OrganisationServices, place: _ServerAddress, query: DiscoveryQuery) -> list[DiscoverableResource]:
    """What has the values of the filter and fits the words, the best first; everything that has the values without words."""
    found = [resource for resource in _resources(service, place) if _has_values(resource.entry, query.filter)]
    text = (query.text or "").strip()
    if not text:
        return found
    skills = {
        f"urn:air:{place.publisher}:skill:{_segment(skill.skill_id)}": fits for skill, fits in search_offered(service, text)
    }
    scored = ((resource, _score(resource.entry, text, skills)) for resource in found)
    fitting = [
        DiscoverableResource(resource.entry, resource.created, resource.updated, score) for resource, score in scored if score
    ]
    return sorted(fitting, key=lambda resource: (-resource.score, resource.entry["identifier"]))


def _score(entry: Mapping[str, Any], text: str, skills: Mapping[str, float]) -> int:
    """How well an entry fits, from 0 (not at all) to 100: a skill as the search says, others by their share of the words."""
    if entry["type"] == _SKILL_TYPE:
        fits = skills.get(entry["identifier"])
        return 0 if fits is None else max(1, round(100 * fits))
    from skillyard.search.words import words

    wanted = set(words(text))
    known = set(words(f"{entry['displayName']} {entry['description']} {' '.join(entry.get('capabilities', ()))}"))
    return round(100 * len(wanted & known) / len(wanted)) if wanted else 0


def _values(entry: Mapping[str, Any], path: str) -> list[str]:
    """The values at a path with dots; a list is each of what is in it, and the publisher is part of the identifier."""
    if path == "publisher":
        return [entry["identifier"].split(":")[2]]
    found: list[Any] = [entry]
    for name in path.split("."):
        inner = (each.get(name) for each in found if isinstance(each, Mapping))
        found = list(
            chain.from_iterable(value if isinstance(value, list) else (value,) for value in inner if value is not None)
        )
    return [str(value) for value in found if isinstance(value, str | int | float)]


def _has_values(entry: Mapping[str, Any], wanted: Mapping[str, str | list[str]]) -> bool:
    allowed = ((path, {values} if isinstance(values, str) else set(values)) for path, values in wanted.items())
    return all(not values.isdisjoint(_values(entry, path)) for path, values in allowed)


def _counted(found: Iterable[DiscoverableResource], facet: DiscoveryFacet) -> dict[str, Any]:
    counts = Counter(chain.from_iterable(set(_values(resource.entry, facet.field)) for resource in found))
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    shown = [(value, count) for value, count in ordered if count >= facet.minCount][: facet.limit]
    others = counts.total() - sum(count for _, count in shown)
    return {"buckets": [{"value": value, "count": count} for value, count in shown], "otherCount": others}


def _page(
    resources: Sequence[DiscoverableResource], size: int, token: str | None
) -> tuple[Sequence[DiscoverableResource], dict[str, str]]:
    """At most a hundred of them from where the token says, and the token of the following page when there is one."""
    key = decode_cursor(token) if token else "0"
    if not re.fullmatch(r"[0-9]{1,9}", key, re.ASCII):
        raise InvalidInput(f"{(token or '')[:100]!r} is not a valid page", hint="take it from the answer before")
    begin, size = int(key), min(size, _MOST_ON_A_PAGE)
    more = {"pageToken": encode_cursor(str(begin + size))} if len(resources) > begin + size else {}
    return resources[begin : begin + size], more


_CONDITION: Final = re.compile(r"""\s*([A-Za-z]{1,30})\s*(=|>)\s*(?:'([^']*)'|"([^"]*)"|([^\s'"]+))\s*""", re.ASCII)
_AND: Final = re.compile(r"\bAND\b")
_EQUALS: Final = {"displayName", "type", "publisherId"}
_AFTER: Final = {"createdAfter", "updatedAfter"}
_ORDERS: Final = {
    "name": "displayName", "displayName": "displayName", "identifier": "identifier", "type": "type",
    "created_at": "created", "createdAt": "created", "updated_at": "updated", "updatedAt": "updated",
}  # fmt: skip
_LONG_AGO: Final = datetime.fromtimestamp(0, UTC)


def _conditions(text: str) -> Iterator[tuple[str, str | datetime]]:
    """The field and value of each condition in a filter expression.

    Raises:
        InvalidInput: it is no such expression, or names a field that cannot be filtered by.
    """
    at = 0
    while text[at:].strip():
        match = _CONDITION.match(text, at)
        if match is None or match[1] not in _EQUALS | _AFTER:
            known = ", ".join(sorted(_EQUALS | _AFTER))
            raise InvalidInput(
                f"filter: {text[at : at + 60]!r} is not a condition", hint=f"such as type = '…' AND …; fields: {known}"
            )
        value = next(part for part in match.groups()[2:] if part is not None)
        yield match[1], _day(value) if match[1] in _AFTER else value
        at = match.end()
        if following := _AND.match(text, at):
            at = following.end()
            if text[at:].strip():
                continue
        if at < len(text) or following:
            raise InvalidInput(f"filter: {text[at : at + 60]!r} stands behind a condition", hint="join conditions with AND")


def _day(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"filter: {text[:60]!r} is not a time", hint="write it as 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from None


def _meets(resource: DiscoverableResource, conditions: Sequence[tuple[str, str | datetime]]) -> bool:
    return all(_fits(resource, field, value) for field, value in conditions)


def _fits(resource: DiscoverableResource, field: str, value: str | datetime) -> bool:
    if isinstance(value, datetime):
        moment = resource.created if field == "createdAfter" else resource.updated
        return moment is not None and moment > value
    if field == "displayName":
        return value.casefold() in resource.entry["displayName"].casefold()
    path = "publisher" if field == "publisherId" else field
    return not {part.strip() for part in value.split(",")}.isdisjoint(_values(resource.entry, path))


def _ordered(resources: list[DiscoverableResource], order: str) -> list[DiscoverableResource]:
    """The resources in an order such as `updatedAt DESC, name`; by name without one.

    Raises:
        InvalidInput: it names a field that cannot be sorted by.
    """
    ordered = sorted(resources, key=lambda resource: (resource.entry["displayName"].casefold(), resource.entry["identifier"]))
    for part in reversed(order.split(",")) if order.strip() else ():
        name, _, direction = part.strip().partition(" ")
        key, direction = _ORDERS.get(name), direction.strip().upper() or "ASC"
        if key is None or direction not in ("ASC", "DESC"):
            known = ", ".join(_ORDERS)
            raise InvalidInput(f"orderBy: {part.strip()[:60]!r} is not an order", hint=f"fields: {known}; ASC or DESC")
        ordered.sort(key=partial(_sort_key, key), reverse=direction == "DESC")
    return ordered


def _sort_key(field: str, resource: DiscoverableResource) -> str | datetime:
    if field in ("created", "updated"):
        return (resource.created if field == "created" else resource.updated) or _LONG_AGO
    return str(resource.entry[field]).casefold()
