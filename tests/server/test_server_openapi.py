"""What the service says of itself is true: random requests find no answer that its description does not have."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CHECKS
from schemathesis.generation import GenerationMode
from starlette.testclient import TestClient

HOST: Final = {"Host": "localhost"}
FORMS: Final = {
    "clients: ClawHub": "text/plain",
    "clients: Anthropic": "application/json",
    "clients: OpenAI": "application/json",
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
}
OF_ANSWERS: Final = {
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "unsupported_method",
}  # fmt: skip
"""For routes of other people's protocols: what they accept is what their clients send, and the clients are tried."""
TRIES: Final = {GenerationMode.POSITIVE: 6, GenerationMode.NEGATIVE: 4}


def test_random_requests_get_only_answers_that_are_described(app: FastAPI) -> None:
    """Every check there is: also that what does not fit the description is refused, and what fits is not."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers=HOST)
    every = CHECKS.get_by_names(CHECKS.get_all_names())
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        checks = [check for check in every if check.__name__ != ACCEPTS_ALL or operation.label not in STRICTER]
        foreign = operation.definition.raw["tags"][0].startswith("clients")
        if foreign:
            checks = [check for check in every if check.__name__ in OF_ANSWERS]
        for mode, tries in TRIES.items():
            if mode is GenerationMode.POSITIVE or (not foreign and _can_be_wrong(operation)):
                _ask(operation, mode, tries, checks)
        tried += 1
    assert tried >= 60


def _can_be_wrong(operation: Any) -> bool:
    """Whether there is anything to a request that could not fit its description: any text fits a part of a path."""
    definition = operation.definition.raw
    return "requestBody" in definition or any(one["in"] != "path" for one in definition.get("parameters", []))


def _ask(operation: Any, mode: GenerationMode, tries: int, checks: list[Any]) -> None:
    @settings(
        max_examples=tries, derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=checks, headers=HOST)

    ask()


def test_every_route_describes_its_errors(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert sum(map(len, paths.values())) > 170
    for path, methods in paths.items():
        for route in methods.values():
            form = "text/plain" if ".git/" in path else FORMS.get(route["tags"][0], "application/problem+json")
            assert {"400", "403", "404", "500", "503"} <= set(route["responses"])
            assert form in route["responses"]["400"]["content"]


def test_every_answer_of_the_native_routes_has_a_shape_with_a_name(client: TestClient) -> None:
    """Types of other languages are made of the description: an answer without a name is one without a type."""
    described = client.get("/openapi.json").json()
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
def test_the_events_of_a_stream_have_their_shapes(client: TestClient, stream: str, names: int) -> None:
    shapes = client.get("/openapi.json").json()["components"]["schemas"]
    assert len(shapes[stream]["oneOf"]) == names
    assert set(shapes[stream]["discriminator"]["mapping"].values()) == {one["$ref"] for one in shapes[stream]["oneOf"]}
