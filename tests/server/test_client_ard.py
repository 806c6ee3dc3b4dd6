"""Agentic Resource Discovery: the manifest and the registry answer as the specification says, checked as its own tool does."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.registry import Registry
from skillyard.server import create_app

URN: Final = re.compile(r"urn:air:([a-zA-Z0-9.-]+)(:[a-zA-Z0-9._-]+)+")
ZIP: Final = "application/agent-skills+zip"
CARD: Final = "application/a2a-agent-card+json"
SKILLS: Final = {
    "tidy": "description: Puts a desk in order.\ntriggers:\n  phrases: [tidy my desk, sort my papers]\nlicense: MIT",
    "weather": "description: Tells the weather forecast of a city.\ntags: [forecast]\nversion: 1.2.0",
}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server with two skills and an agent that has one of them."""
    home = tmp_path_factory.mktemp("ard")
    catalog = Catalog.discover(cwd=home, home=home)
    with TestClient(create_app(catalog, Registry.of(catalog)), base_url="http://127.0.0.1:8787") as client:
        for name, header in SKILLS.items():
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w") as archive:
                archive.writestr(f"{name}/SKILL.md", f"---\nname: {name}\n{header}\n---\nDo it.\n")
            sent = {"file": ("skill.zip", stream.getvalue())}
            assert client.post("/api/v1/skill-definitions/upload-create", files=sent).status_code == 201
        agent = {"name": "Forecaster", "description": "Answers about weather.", "skills": [{"skill": "weather"}]}
        assert client.post("/api/v1/agents", json=agent).status_code == 201
        yield client


def _check_entry(entry: dict[str, Any]) -> None:
    """What the conformance tool of the specification looks at, entry by entry."""
    assert URN.fullmatch(entry["identifier"]), entry
    assert entry["displayName"]
    assert entry["type"].startswith("application/")
    assert ("url" in entry) != ("data" in entry), entry
    assert 2 <= len(entry.get("representativeQueries", ["one", "two"])) <= 5
    assert all(isinstance(value, str | int | float) for value in entry.get("metadata", {}).values())


def _search(client: TestClient, text: str, **more: Any) -> dict[str, Any]:
    query = {"text": text} | ({"filter": more.pop("filter")} if "filter" in more else {})
    answer = client.post("/ard/search", json={"query": query, **more})
    assert answer.status_code == 200, answer.text
    shape: dict[str, Any] = answer.json()
    for result in shape["results"]:
        _check_entry(result)
        assert isinstance(result["score"], int)
        assert 0 <= result["score"] <= 100
        assert result["source"] == "http://127.0.0.1:8787/ard/"
    return shape


def test_the_manifest_lists_skills_agents_the_server_and_the_registry(registry: TestClient) -> None:
    answer = registry.get("/.well-known/ai-catalog.json")
    assert answer.headers["access-control-allow-origin"] == "*"
    manifest = answer.json()
    assert (manifest["specVersion"], set(manifest)) == ("1.0", {"specVersion", "host", "entries"})
    for entry in manifest["entries"]:
        _check_entry(entry)
    kinds = [entry["identifier"].removeprefix("urn:air:agent.localhost:").split(":")[0] for entry in manifest["entries"]]
    assert kinds == ["registry", "server", "agent", "skill", "skill"]
    tidy, weather = manifest["entries"][3:]
    assert tidy["representativeQueries"] == ["tidy my desk", "sort my papers"]
    assert (weather["tags"], weather["version"], tidy["metadata"]["license"]) == (["forecast"], "1.2.0", "MIT")
    assert registry.get(tidy["url"]).content.startswith(b"PK")
    assert registry.get(manifest["entries"][2]["url"]).json()["name"] == "Forecaster"
    named = registry.get("/.well-known/ai-catalog.json", headers={"host": "localhost"}).json()
    assert {URN.fullmatch(entry["identifier"])[1] for entry in named["entries"]} == {"agent.localhost"}  # type: ignore[index]


def test_a_search_ranks_filters_and_pages(registry: TestClient) -> None:
    found = _search(registry, "the weather forecast of a city")
    assert found["results"][0]["displayName"] == "weather"
    assert {"weather", "Forecaster"} <= {result["displayName"] for result in found["results"]}
    agents = _search(registry, "weather", filter={"type": [CARD], "capabilities": "weather"}, federation="referrals")
    assert [result["displayName"] for result in agents["results"]] == ["Forecaster"]
    assert agents["referrals"] == []
    assert _search(registry, "weather", filter={"publisher": ["acme.com"]})["results"] == []
    mine = _search(registry, "desk", filter={"metadata.license": ["MIT", "BSD"], "type": ZIP})
    assert [result["displayName"] for result in mine["results"]] == ["tidy"]
    first = _search(registry, "weather", pageSize=1)
    rest = _search(registry, "weather", pageSize=1000, pageToken=first["pageToken"])
    assert [*first["results"], *rest["results"]] == _search(registry, "weather")["results"]
    assert "pageToken" not in rest


def test_facets_count_what_a_search_would_find(registry: TestClient) -> None:
    asked: dict[str, Any] = {"resultType": {"facets": [{"field": "type"}, {"field": "publisher", "limit": 1}]}}
    reported = registry.post("/ard/explore", json=asked).json()
    assert reported["resultType"] == "facets"
    assert reported["facets"]["type"]["buckets"][0] == {"value": ZIP, "count": 2}
    assert reported["facets"]["publisher"] == {"buckets": [{"value": "agent.localhost", "count": 4}], "otherCount": 0}
    few = {"query": {"text": "weather"}, "resultType": {"facets": [{"field": "type", "limit": 1}]}}
    facet = registry.post("/ard/explore", json=few).json()["facets"]["type"]
    assert (len(facet["buckets"]), facet["otherCount"]) == (1, len(_search(registry, "weather")["results"]) - 1)


def test_the_list_is_filtered_and_ordered_by_expressions(registry: TestClient) -> None:
    def listed(**parameters: Any) -> list[str]:
        answer = registry.get("/ard/agents", params=parameters)
        assert answer.status_code == 200, answer.text
        for entry in answer.json()["items"]:
            _check_entry(entry)
        return [entry["displayName"] for entry in answer.json()["items"]]

    assert listed() == ["Forecaster", "Skillyard", "tidy", "weather"]
    assert listed(filter=f"type = '{ZIP}' AND createdAfter > '2020-01-01'", orderBy="name DESC") == ["weather", "tidy"]
    assert listed(filter='displayName = "IDY"') == ["tidy"]
    assert listed(filter="publisherId=a.org,agent.localhost AND updatedAfter > 2999-01-01") == []
    assert listed(pageSize=1) == ["Forecaster"]
    assert listed(orderBy="updatedAt DESC, name")[0] == "Forecaster"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/ard/search", {"query": {"filter": {"type": ZIP}}}),
        ("POST", "/ard/search", {"query": {"text": "a"}, "pageToken": "%%"}),
        ("POST", "/ard/search", {"query": {"text": "a"}, "federation": "everywhere"}),
        ("POST", "/ard/search", {"question": "a"}),
        ("POST", "/ard/explore", {"query": {}}),
        ("GET", "/ard/agents?filter=size>3", None),
        ("GET", "/ard/agents?filter=type=a%20OR%20type=b", None),
        ("GET", "/ard/agents?filter=updatedAfter>yesterday", None),
        ("GET", "/ard/agents?orderBy=size", None),
    ],
)
def test_what_cannot_be_meant_is_refused_in_the_protocols_form(registry: TestClient, method: str, path: str, body: Any) -> None:
    answer = registry.request(method, path, json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["errorCode"] == "INVALID_ARGUMENT"
    assert answer.json()["message"]
