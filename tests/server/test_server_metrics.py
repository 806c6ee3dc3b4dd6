"""What a server tells its operator: metrics, one line a request, spans; never a secret, never more than it may."""

from __future__ import annotations

import io
import json
import logging
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import preloaded
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from skillyard.server.middleware.observability import LogFormat, configure_logs, log_event

Pack = Callable[..., bytes]
SCRIPT = "import json\nprint(json.dumps({'output': 'done'}))\n"
FORMS = pytest.mark.parametrize("form", ["text", "json"])


@pytest.fixture
def written() -> Iterator[Callable[[LogFormat], io.StringIO]]:
    """Give a function that lets everything logged be written in a form, and gives where; after the test all is as before."""
    root = logging.getLogger()
    before = root.handlers[:], root.level, {name: logging.getLogger(name).level for name in logging.root.manager.loggerDict}

    def configure(form: LogFormat) -> io.StringIO:
        stream = io.StringIO()
        configure_logs(form, stream)
        return stream

    yield configure
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    for name, level in before[2].items():
        logging.getLogger(name).setLevel(level)


def sample(client: TestClient, name: str) -> float:
    """The value of one series."""
    found = [line for line in client.get("/metrics").text.splitlines() if line.startswith(name + " ")]
    return float(found[0].rpartition(" ")[2]) if found else 0.0


def test_requests_are_counted_by_the_template_of_their_route(client: TestClient, pack: Pack) -> None:
    client.post("/api/v1/skill-definitions/upload-create", files={"file": ("a.zip", pack("tidy"))})
    for name in ("tidy", "nothing", "x" * 200):
        client.get(f"/api/v1/skill-definitions/{name}")
        client.get(f"/{name}")
    client.request("BREW", "/api/v1/catalog")
    text = client.get("/metrics").text
    base = 'skillyard_http_requests_total{method="GET",route="/api/v1/skill-definitions/{id}"'
    assert sample(client, f'{base},status="200"}}') == 1
    assert sample(client, f'{base},status="404"}}') == 2
    assert sample(client, 'skillyard_http_requests_total{method="GET",route="unmatched",status="404"}') == 3
    assert 'method="other"' in text
    assert "xxx" not in text
    assert 'skillyard_http_request_duration_seconds_bucket{le="0.001"' in text
    assert sample(client, "skillyard_http_streams_open") == 0


def test_runs_sandboxes_and_installs_are_counted_by_how_they_went(client: TestClient, pack: Pack) -> None:
    header = "resources: {entry: ./scripts/main.py}\n"
    good = pack("runner", header=header, files={"scripts/main.py": SCRIPT})
    assert client.post("/api/v1/skill-definitions/upload-create", files={"file": ("a.zip", good)}).status_code == 201
    assert client.post("/api/v1/skill-definitions/upload-create", files={"file": ("a.zip", b"nonsense")}).status_code == 422
    assert client.post("/api/v1/runs", json={"skill": "runner"}).json()["data"]["status"] == "ok"
    assert sample(client, 'skillyard_skill_operations_total{operation="install",outcome="success"}') == 1
    assert sample(client, 'skillyard_skill_operations_total{operation="install",outcome="failed"}') == 1
    assert sample(client, 'skillyard_runs_total{status="ok"}') == 1
    starts = [line for line in client.get("/metrics").text.splitlines() if line.startswith("skillyard_sandbox_starts_total{")]
    assert [line.rpartition(" ")[2] for line in starts] == ["1.0"]


def test_the_work_of_helper_processes_is_counted(client: TestClient, pack: Pack) -> None:
    large = pack("large", files={"scripts/a.sh": "curl " * 20_000})
    assert client.post("/api/v1/skill-definitions/upload-create", files={"file": ("a.zip", large)}).status_code == 201
    before = sample(client, 'skillyard_helper_calls_total{outcome="done"}')
    assert client.get("/api/v1/skill-definitions/large/scan").status_code == 200
    assert sample(client, 'skillyard_helper_calls_total{outcome="done"}') == before + 1


@pytest.mark.abuse("H16")
def test_metrics_are_for_who_manages_the_server_and_no_other_organisation(keyed: Any) -> None:
    assert keyed.client("skills:read").get("/metrics").status_code == 403
    refused = keyed.client("admin", organisation="acme").get("/metrics")
    assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
    assert "skillyard_http_requests_total" in keyed.client("admin").get("/metrics").text


@FORMS
def test_each_request_is_one_line_without_what_it_was_about(
    app: FastAPI, written: Callable[[LogFormat], io.StringIO], form: LogFormat
) -> None:
    log = written(form)
    with TestClient(app, base_url="http://127.0.0.1:8787") as client:
        client.get("/api/v1/catalog/search?q=secret-question", headers={"Authorization": "Bearer secret-token"})
        client.get("/secret-path%0a%1b[31m")
        client.get("/healthz")
        client.get("/readyz")
    lines = log.getvalue().splitlines()
    assert len(lines) == 2, lines
    assert "secret" not in log.getvalue()
    if form == "json":
        first, second = (json.loads(line) for line in lines)
        assert {first[key] for key in ("event", "level", "method", "caller")} == {"request", "info", "GET", "local user"}
        assert (first["route"], first["status"], second["route"]) == ("/api/v1/catalog/search", 200, "unmatched")
        assert first["ms"] >= 0
    else:
        assert "method=GET route=/api/v1/catalog/search status=200 ms=" in lines[0]
        assert 'caller="local user"' in lines[0]


@FORMS
@given(text=st.text())
def test_no_text_of_anybody_begins_a_line_or_reaches_the_terminal(form: LogFormat, text: str) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    try:
        configure_logs(form, stream)
        log_event("request", caller=text, route=text)
        logging.getLogger("somebody").error("failed: %s", text)
        try:
            raise ValueError(text)
        except ValueError:
            logging.getLogger("somebody").exception("failed")
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        lines = stream.getvalue().split("\n")
    assert lines.pop() == ""
    kinds = {unicodedata.category(character) for line in lines for character in line if character != "\t"}
    assert not kinds & {"Cc", "Zl", "Zp", "Cs"}
    heads = [line for line in lines if not line.startswith("  | ")]
    assert len(heads) == 3
    assert all(line.startswith("{") if form == "json" else line[:2] == "20" for line in heads)
    assert form == "text" or [json.loads(line)["level"] for line in heads] == ["info", "error", "error"]


def test_what_fails_unforeseen_is_logged_with_its_traceback(app: FastAPI, written: Callable[[LogFormat], io.StringIO]) -> None:
    def broken() -> None:
        raise RuntimeError("\x1b[31mboom\nforged line")

    app.add_api_route("/broken", broken)
    log = written("text")
    with TestClient(app, base_url="http://127.0.0.1:8787", raise_server_exceptions=False) as client:
        assert client.get("/broken").status_code == 500
    said = log.getvalue()
    assert "boom" in said
    assert "\x1b" not in said
    assert not [line for line in said.splitlines() if line.startswith("forged")]
    assert "route=/broken status=500" in said


def test_a_request_is_a_span_below_the_caller_s_and_above_its_run(
    client: TestClient, spans: InMemorySpanExporter, pack: Pack
) -> None:
    header = "resources: {entry: ./scripts/main.py}\n"
    data = pack("runner", header=header, files={"scripts/main.py": SCRIPT})
    client.post("/api/v1/skill-definitions/upload-create", files={"file": ("a.zip", data)})
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    client.post("/api/v1/runs", json={"skill": "runner"}, headers={"traceparent": caller})
    finished = spans.get_finished_spans()
    found, above = {span.name: span for span in finished}, {span.context.span_id: span.parent for span in finished}
    request, run = found["POST /api/v1/runs"], found["skillyard.run"]
    assert request.attributes is not None
    assert request.attributes["http.route"] == "/api/v1/runs"
    assert request.context.trace_id == run.context.trace_id == int("0af7651916cd43dd8448eb211c80319c", 16)
    parent = run.parent
    while parent is not None and parent.span_id != request.context.span_id:
        parent = above.get(parent.span_id)
    assert parent is not None


def test_streams_of_events_are_counted_while_they_are_open(app: FastAPI) -> None:
    from starlette.responses import StreamingResponse

    seen: list[Any] = []

    def stream() -> StreamingResponse:
        async def events() -> Any:
            seen.append(app.state.metrics.text().decode())
            yield b"data: 1\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    app.add_api_route("/stream", stream)
    with TestClient(app, base_url="http://127.0.0.1:8787") as client:
        assert client.get("/stream").content
        after = client.get("/metrics").text
    assert "skillyard_http_streams_open 1.0" in seen[0]
    assert "skillyard_http_streams_open 0.0" in after


def test_a_log_form_is_written_as_the_command_says(home: Path) -> None:
    import sys

    command = [
        sys.executable,
        "-c",
        "from skillyard.server.middleware.observability import configure_logs, log_event;"
        " configure_logs('json'); log_event('x')",
    ]
    done = preloaded.run(command, capture_output=True, text=True, cwd=home, timeout=60, check=True)
    assert json.loads(done.stderr)["event"] == "x"
    assert done.stdout == ""
