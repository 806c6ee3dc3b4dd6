"""What the service says of itself is true: random requests find no answer that its description does not have."""

from __future__ import annotations

import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from starlette.testclient import TestClient

HOST = {"Host": "localhost"}
FORMS = {"clients: ClawHub": "text/plain", "clients: Anthropic": "application/json", "clients: OpenAI": "application/json"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]


def test_random_requests_get_only_answers_that_are_described(app: FastAPI) -> None:
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers=HOST)
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=12, derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy())
        def ask(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=CHECKS, headers=HOST)

        ask()
        tried += 1
    assert tried >= 15


def test_every_route_describes_its_errors(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for methods in paths.values():
        for route in methods.values():
            assert {"400", "403", "404", "500", "503"} <= set(route["responses"])
            assert list(route["responses"]["400"]["content"]) == [FORMS.get(route["tags"][0], "application/problem+json")]
