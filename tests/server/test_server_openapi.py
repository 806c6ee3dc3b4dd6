"""What the service says of itself is true: random requests find no answer that its description does not have."""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from starlette.routing import NoMatchFound
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.registry import Registry
from skillyard.server import create_app
from skillyard.server.application import ROUTERS

HOST: Final = {"Host": "localhost"}
FORMS: Final = {
    "clients: ClawHub": "text/plain",
    "clients: Anthropic": "application/json",
    "clients: OpenAI": "application/json",
    "clients: ARD": "application/json",
    "clients: A2A": "application/json",
    "clients: OAuth": "application/json",
}
ACCEPTS_ALL: Final = "positive_data_acceptance"
"""That what fits the description is accepted: not where rules hold that no schema can say."""
STRICTER: Final = {
    "POST /api/v1/skill-definitions/inspect": "the file must be an archive, the address one of https",
    "POST /api/v1/skill-definitions/upload-create": "the file must be an archive",
    "POST /api/v1/skill-definitions/{id}/upload-install": "the file must be an archive",
    "POST /api/v1/skill-definitions/install/address": "the address must be one of https",
    "POST /api/v1/catalog": "a name must leave something of which a folder can be made",
    "POST /api/v1/agents": "a name must be seen, on one line",
    "PUT /api/v1/agents/{agent}": "a name must be seen, on one line",
    "POST /api/v1/chat/conversations": "a model must be named, here or by the agent or the server",
    "POST /api/v1/organisations": "a name must be one that a folder and a schema can have",
    "POST /api/v1/schedules/preview": "there must be a time that can be meant",
    "POST /api/v1/agents/prompt-preview": "a name must be seen, on one line",
    "POST /api/v1/agents/command-check": "a rule must be of the grammar of rules",
}
OF_ANSWERS: Final = {
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "unsupported_method",
}  # fmt: skip
"""For routes of other people's protocols: what they accept is what their clients send, and the clients are tried."""
FEW: Final = {"POSITIVE": 1, "NEGATIVE": 1}
MANY: Final = {"POSITIVE": 30, "NEGATIVE": 20}


@pytest.mark.parametrize("attempts", [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.long)])
def test_random_requests_get_only_answers_that_are_described(app: FastAPI, attempts: dict[str, int]) -> None:
    """Every check there is: also that what does not fit the description is refused, and what fits is not.

    With few attempts every second operation is asked in one of these ways, the others in the other, where there are both.
    """
    import schemathesis
    from schemathesis.checks import CHECKS
    from schemathesis.generation import GenerationMode

    schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers=HOST)
    every = CHECKS.get_by_names(CHECKS.get_all_names())
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        checks = [check for check in every if check.__name__ != ACCEPTS_ALL or operation.label not in STRICTER]
        foreign = operation.definition.raw["tags"][0].startswith("clients")
        if foreign:
            checks = [check for check in every if check.__name__ in OF_ANSWERS]
        ways = ["POSITIVE", "NEGATIVE"] if not foreign and _can_be_wrong(operation) else ["POSITIVE"]
        for name in ways if attempts is MANY else [ways[tried % len(ways)]]:
            _ask(operation, GenerationMode[name], attempts[name], checks)
        tried += 1
    assert tried >= 60


def _can_be_wrong(operation: Any) -> bool:
    """Whether there is anything to a request that could not fit its description: any text fits a part of a path."""
    definition = operation.definition.raw
    return "requestBody" in definition or any(one["in"] != "path" for one in definition.get("parameters", []))


def _ask(operation: Any, mode: Any, tries: int, checks: list[Any]) -> None:
    @settings(
        max_examples=tries, derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> Any:
        answer = case.call(headers=HOST)
        if answer.status_code == 413:  # too much of what does not fit is refused before it is read
            checks_of_it = [check for check in checks if check.__name__ != "negative_data_rejection"]
            return case.validate_response(answer, checks=checks_of_it)
        return case.validate_response(answer, checks=checks)

    ask()


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The description, as it is served."""
    folder = tmp_path_factory.mktemp("described")
    catalog = Catalog.discover(cwd=folder, home=folder)
    with TestClient(create_app(catalog, Registry.of(catalog)), base_url="http://127.0.0.1:8787") as client:
        return client.get("/openapi.json").json()


def test_every_route_describes_its_errors(described: Any) -> None:
    paths = described["paths"]
    assert sum(map(len, paths.values())) > 170
    for path, methods in paths.items():
        for route in methods.values():
            form = "text/plain" if ".git/" in path else FORMS.get(route["tags"][0], "application/problem+json")
            assert {"400", "403", "404", "500", "503"} <= set(route["responses"])
            assert form in route["responses"]["400"]["content"]


def test_every_answer_of_the_native_routes_has_a_shape_with_a_name(described: Any) -> None:
    """Types of other languages are made of the description: an answer without a name is one without a type."""
    looked_at = 0
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            for status, answer in route["responses"].items():
                schema = answer.get("content", {}).get("application/json", {}).get("schema")
                native = path.startswith("/api/v1/") and route["tags"][0] not in FORMS
                if native and status.startswith("2"):
                    looked_at += schema is not None
                    assert schema is None or "$ref" in json.dumps(schema), f"{method} {path} {status}"
    assert looked_at > 70
    nameless = [name for name in described["components"]["schemas"] if "dict_" in name]
    assert nameless == []


@pytest.mark.parametrize(("stream", "names"), [("RunEvent", 5), ("InstallEvent", 2)])
def test_the_events_of_a_stream_have_their_shapes(described: Any, stream: str, names: int) -> None:
    shapes = described["components"]["schemas"]
    assert len(shapes[stream]["oneOf"]) == names
    assert set(shapes[stream]["discriminator"]["mapping"].values()) == {one["$ref"] for one in shapes[stream]["oneOf"]}


def test_every_application_serves_the_same_routes_and_names_their_addresses(app: FastAPI, client: TestClient) -> None:
    catalog = Catalog.discover()
    other = create_app(catalog, Registry.of(catalog))
    shared = {id(route) for route in app.router.routes} & {id(route) for route in other.router.routes}
    assert len(shared) == len(ROUTERS)  # none is built anew for an application
    refused = client.patch("/api/v1/runs")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, POST")
    assert client.get("/api/v1/nothing").status_code == 404
    assert app.url_path_for("upload", ticket="0" * 32) == f"/api/v1/skills/-/uploads/{'0' * 32}"
    with pytest.raises(NoMatchFound):
        app.url_path_for("nothing of this name")


def test_a_refused_method_names_every_method_of_its_path(described: Any, client: TestClient) -> None:
    """The methods that the description has for a path are those that `Allow` names; HEAD stands beside some GETs."""
    methods, wrong, looked_at = {"GET", "PUT", "POST", "DELETE", "PATCH"}, [], 0
    for path, routes in described["paths"].items():
        declared = {method.upper() for method in routes}
        address = re.sub(r"\{[^}]+\}", "x", path)
        overlapping = {
            method.upper()
            for other, more in described["paths"].items()
            if re.fullmatch(re.sub(r"\\\{[^}]+\\\}", "[^/]+", re.escape(other)), address)
            for method in more
        }
        for method in sorted(methods - overlapping)[:1]:
            answer = client.request(method, address)
            allowed = set(answer.headers.get("allow", "").split(", "))
            looked_at += 1
            if answer.status_code != 405 or not declared <= allowed or allowed - overlapping - {"HEAD"}:
                wrong.append((method, path, answer.status_code, sorted(allowed)))
    assert wrong == []
    assert looked_at > 120


def test_every_cursor_that_is_none_is_refused(described: Any, client: TestClient) -> None:
    """Malformed ones, and well-formed ones that this server has not made for such a list."""
    foreign = base64.urlsafe_b64encode(b"not of this list!").decode().rstrip("=")
    asked: list[tuple[str, str, int]] = []
    for path, routes in described["paths"].items():
        for parameter in routes.get("get", {}).get("parameters", ()):
            if parameter["name"] in ("cursor", "pageToken", "page_token") or (
                parameter["name"] == "page" and _is_text(parameter)
            ):
                for cursor in ("!!", "é", "a", "YWJj=", foreign):
                    address = re.sub(r"\{[^}]+\}", "x", path)
                    answer = client.get(address, params={parameter["name"]: cursor})
                    asked.append((path, cursor, answer.status_code))
    assert [one for one in asked if one[2] not in (400, 404, 422)] == []
    assert sum(status != 404 for _, _, status in asked) >= 10
    assert len(asked) >= 25


def _is_text(parameter: dict[str, Any]) -> bool:
    shapes = parameter["schema"].get("anyOf", [parameter["schema"]])
    return any(shape.get("type") == "string" for shape in shapes)
