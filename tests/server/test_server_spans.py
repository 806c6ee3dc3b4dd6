"""Spans as a collector receives them, over OTLP, from a server of its own process: one trace, each span below its cause."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import preloaded
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from scripted_models import Call, Say

SERVE = """\
import sys
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from skillyard.cli import main

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
sys.exit(main(["serve", "--port", "0", "--json"]))
"""
PRINT = "print('done')\n"
SERVER_KIND = 2
ERROR = 2


class Received(NamedTuple):
    """One span as it came: ids in hexadecimal."""

    trace: str
    span: str
    parent: str
    name: str
    kind: int
    status: int
    attributes: Mapping[str, Any]


class Collector:
    """A receiver of OTLP over HTTP on loopback that keeps every span."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.keep(ExportTraceServiceRequest.FromString(body) if self.path == "/v1/traces" else None)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def keep(self, request: ExportTraceServiceRequest | None) -> None:
        assert request is not None, "spans go to /v1/traces"
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for one in scope.spans:
                    values = {item.key: getattr(item.value, item.value.WhichOneof("value") or "") for item in one.attributes}
                    ids = (one.trace_id.hex(), one.span_id.hex(), one.parent_span_id.hex())
                    self.spans.append(Received(*ids, one.name, one.kind, one.status.code, values))

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def _serve(home: Path, collector: Collector, use: Callable[[str], None]) -> list[Received]:
    """Serve while `use` is called with the address; the spans that had arrived when the server has ended."""
    environment = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.address}
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", SERVE]
    _until_stopped(preloaded.Popen(command, stdout=pipe, stderr=pipe, cwd=home / "project", env=environment), use)
    return collector.spans


def _until_stopped(server: preloaded.Popen | subprocess.Popen[str], use: Callable[[str], None]) -> None:
    """Call `use` with the address of a server that was started, and stop it."""
    with server as process:
        try:
            assert process.stdout is not None
            use(json.JSONDecoder().raw_decode(process.stdout.readline())[0]["address"])
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
    assert "Traceback" not in said


@pytest.fixture
def pdf(home: Path, make_skill: Callable[..., Path]) -> Path:
    front_matter = "name: pdf\ndescription: Works with PDF files.\nversion: 1.2.0"
    folder = home / "project/.claude/skills"
    return make_skill(folder, "pdf", front_matter=front_matter, files={"scripts/main.py": PRINT})


def _caller(number: int) -> tuple[str, str, dict[str, str]]:
    """The id of a trace, that of the caller's span in it, and the header that says so."""
    trace, span = f"{number:032x}", f"{number:016x}"
    return trace, span, {"traceparent": f"00-{trace}-{span}-01"}


def _chain(spans: list[Received], of: Received) -> list[str]:
    """The names of a span and everything above it, down to the caller's id."""
    by_id = {span.span: span for span in spans}
    names = [of.name]
    while of.parent in by_id:
        of = by_id[of.parent]
        names.append(of.name)
    return [*names, of.parent]


def _one(spans: list[Received], name: str, trace: str) -> Received:
    (found,) = [span for span in spans if span.name == name and span.trace == trace]
    return found


def _about(span: Received) -> tuple[Any, ...]:
    return tuple(span.attributes.get(name) for name in ("gen_ai.skill.name", "gen_ai.skill.version", "skillyard.skill.digest"))


def _ask_mcp(client: httpx.Client, body: dict[str, Any], headers: Mapping[str, str]) -> httpx.Response:
    accepts = {"Accept": "application/json, text/event-stream"}
    answer = client.post("/mcp", json={"jsonrpc": "2.0", **body}, headers={**accepts, **headers})
    assert answer.status_code == (200 if "id" in body else 202), answer.text  # a notification has no answer
    return answer


def _converse_and_run(address: str, header: dict[str, str], models: Any) -> None:
    """Have one turn of a conversation, with two calls about a skill and one of a tool that is none, and then run the skill."""
    models.script(
        [Call("skill", {"skill": "pdf"}), Call("made_up", {})],
        Call("run_skill", {"skill": "pdf", "entry": "scripts/main.py"}),
        Say("All is done."),
    )
    with httpx.Client(base_url=f"{address}/api/v1", timeout=60, trust_env=False, headers=header) as client:
        begun = client.post("/chat/conversations", json={"model": "openai-chat:gpt-5"}).json()["data"]["id"]
        said = client.post(f"/chat/conversations/{begun}/messages", json={"text": "Secret question"})
        assert "end" in client.get(f"/chat/conversations/{begun}/turns/{said.json()['data']['id']}/events").text
        ran = client.post("/runs", json={"skill": "pdf", "entry": "scripts/main.py"})
        assert ran.json()["data"]["status"] == "ok", ran.text


@pytest.mark.row("000-45")
def test_a_conversation_and_a_run_arrive_as_one_trace_of_their_caller(
    home: Path, pdf: Path, models: Any, collector: Collector
) -> None:
    trace, caller, header = _caller(1)
    spans = _serve(home, collector, lambda address: _converse_and_run(address, header, models))
    assert {span.trace for span in spans} == {trace}
    turn = _one(spans, "invoke_agent", trace)
    assert turn.attributes["gen_ai.provider.name"] == "openai"
    assert turn.attributes["gen_ai.request.model"] == "gpt-5"
    assert turn.attributes["gen_ai.usage.output_tokens"] > 0
    asked = [span for span in spans if span.name == "chat gpt-5"]
    assert [span.parent for span in asked] == [turn.span] * 3
    assert _chain(spans, turn)[-1] == caller
    load, run, unknown = (_one(spans, f"execute_tool {name}", trace) for name in ("skill", "run_skill", "other"))
    assert [span.parent for span in (load, run, unknown)] == [turn.span] * 3
    assert _about(load) == _about(run)
    assert _about(load)[:2] == ("pdf", "1.2.0")
    assert str(_about(load)[2]).startswith("sha256:")
    assert (unknown.status, unknown.attributes["error.type"]) == (ERROR, "unknown_tool")
    in_turn, alone = sorted((span for span in spans if span.name == "skillyard.run"), key=lambda span: span.parent != run.span)
    assert in_turn.parent == run.span
    assert _chain(spans, alone)[-2:] == ["POST /api/v1/runs", caller]
    assert _about(alone) == _about(in_turn) == _about(load)
    for name in ("skillyard.sandbox.start", "skillyard.sandbox.process"):
        assert {span.parent for span in spans if span.name == name} == {in_turn.span, alone.span}
    assert not any(word in repr(spans) for word in ("Secret question", "All is done")), "what is said is in none"
    calls = repr([span for span in spans if span not in asked])  # those have the tools as the model was given them
    assert not any(word in calls for word in ("made_up", "main.py")), "nor what tools were given, and no name that was made up"


NAMED = {"protocolVersion": "2026-07-28", "clientInfo": {"name": "t", "version": "1"}, "clientCapabilities": {}}
META = {f"io.modelcontextprotocol/{name}": value for name, value in NAMED.items()}
BEGIN = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def test_calls_over_mcp_arrive_in_the_trace_of_the_request_or_of_its_message(
    home: Path, pdf: Path, collector: Collector
) -> None:
    (a, span_a, header_a), (b, span_b, header_b), (c, span_c, header_c) = (_caller(number) for number in (1, 2, 3))
    d, span_d, header_d = _caller(4)

    def call(client: httpx.Client, name: str, headers: Mapping[str, str], modern: bool, **meta: str) -> None:
        arguments = {"skill": "pdf"} | ({"entry": "scripts/main.py"} if name == "run_skill" else {})
        params: dict[str, Any] = {"name": name, "arguments": arguments, "_meta": {**(META if modern else {}), **meta}}
        stated = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name} if modern else {}
        _ask_mcp(client, {"id": 7, "method": "tools/call", "params": params}, {**stated, **headers})

    def use(address: str) -> None:
        with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
            begun = _ask_mcp(client, {"id": 0, "method": "initialize", "params": BEGIN}, header_a)
            session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
            _ask_mcp(client, {"method": "notifications/initialized"}, session | header_a)
            call(client, "run_skill", session | header_b, modern=False)
            call(client, "run_skill", header_c, modern=True)
            call(client, "skill", header_c, modern=True, **header_d)
            client.post(
                "/mcp", json={"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "zzz"}}, headers=session
            )

    spans = _serve(home, collector, use)
    for trace, caller in ((b, span_b), (c, span_c)):
        called, run = _one(spans, "tools/call run_skill", trace), _one(spans, "skillyard.run", trace)
        assert run.parent == called.span
        assert _chain(spans, called)[-2:] == ["POST /mcp", caller]
        assert called.kind == SERVER_KIND
        assert called.attributes["gen_ai.operation.name"] == "execute_tool"
        assert (called.attributes["mcp.method.name"], called.attributes["gen_ai.tool.name"]) == ("tools/call", "run_skill")
        assert _about(called) == _about(run)
        assert _about(called)[:2] == ("pdf", "1.2.0")
    assert _one(spans, "tools/call skill", d).parent == span_d, "what the message says of its trace is stronger"
    assert _chain(spans, _one(spans, "initialize", a))[-1] == span_a
    unknown = next(span for span in spans if span.name == "tools/call other")
    assert (unknown.status, unknown.attributes["skillyard.error.code"]) == (ERROR, "unknown_tool")
    assert "zzz" not in repr(spans), "a name that a client made up is no label"
    executed = [span for span in spans if span.attributes.get("gen_ai.operation.name") == "execute_tool"]
    assert len(executed) == 4, "a call is counted once"


PHOENIX = {"PHOENIX_HOST": "127.0.0.1", "PHOENIX_TELEMETRY_ENABLED": "false"}
ROOT = Path(__file__).parents[2]


def _environment(folder: Path, *packages: str) -> Path:
    """The programs of a new environment with these packages."""
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    install = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin/python"), *packages]
    subprocess.run(install, check=True, env=os.environ | {"SKILLYARD_WITHOUT_PAGE": "1"})
    return folder / "bin"


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def phoenix(tmp_path: Path) -> Iterator[str]:
    """Arize Phoenix, a collector with a page for traces, at that address."""
    programs, port = _environment(tmp_path / "collector", "arize-phoenix"), _free_port()
    places = {"PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(_free_port()), "PHOENIX_WORKING_DIR": str(tmp_path)}
    command, address = [str(programs / "phoenix"), "serve"], f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        command, env=os.environ | PHOENIX | places, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as it:
        while it.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{address}/v1/projects", trust_env=False).status_code == httpx.codes.OK:
                    break
            time.sleep(0.2)
        yield address
        it.terminate()


@pytest.mark.long
def test_a_collector_of_somebody_else_shows_the_trace_whole(home: Path, pdf: Path, models: Any, phoenix: str) -> None:
    """The commands of docs/operating.md: `opentelemetry-instrument` loads the SDK, and its variables say where spans go."""
    with_sdk = ("opentelemetry-distro", "opentelemetry-exporter-otlp-proto-http")
    programs = _environment(home / "programs", "--editable", f"{ROOT}[server,agent]", *with_sdk)
    trace, caller, header = _caller(1)
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": phoenix,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
    }
    places: dict[str, Any] = {"cwd": home / "project", "env": os.environ | variables, "text": True}
    start = [str(programs / "opentelemetry-instrument"), str(programs / "skillyard")]
    pipe = subprocess.PIPE
    serving = subprocess.Popen([*start, "serve", "--port", "0", "--json"], stdout=pipe, stderr=pipe, **places)
    _until_stopped(serving, lambda address: _converse_and_run(address, header, models))
    call = {"name": "run_skill", "arguments": {"skill": "pdf", "entry": "scripts/main.py"}, "_meta": header}
    messages = (
        {"id": 0, "method": "initialize", "params": BEGIN},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": call},
    )
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    answered = subprocess.run([*start, "mcp"], input=lines, capture_output=True, timeout=120, check=True, **places)
    assert '"status":"ok"' in answered.stdout.splitlines()[-1]

    shown: list[Any] = []
    while len([span for span in shown if span["name"] == "skillyard.run"]) < 3:  # it writes what it got a moment later
        shown = httpx.get(f"{phoenix}/v1/projects/default/spans", params={"limit": 500}, trust_env=False).json()["data"]
    kept = {span["context"]["span_id"]: span for span in shown if span["context"]["trace_id"] == trace}
    above = {name: set[str]() for name in ("invoke_agent", "execute_tool run_skill", "tools/call run_skill", "skillyard.run")}
    for span in kept.values():
        parent = kept.get(span["parent_id"])
        above.setdefault(span["name"], set()).add(parent["name"] if parent else span["parent_id"])
    assert above["chat gpt-5"] == above["execute_tool skill"] == above["execute_tool run_skill"] == {"invoke_agent"}
    assert above["skillyard.run"] == {"execute_tool run_skill", "tools/call run_skill", "fastapi.endpoint"}
    assert above["tools/call run_skill"] == {caller}
    kinds = {span["name"]: span["span_kind"] for span in kept.values()}
    assert [kinds[name] for name in ("invoke_agent", "chat gpt-5", "execute_tool skill", "tools/call run_skill")] == [
        "AGENT", "LLM", "TOOL", "TOOL",
    ]  # fmt: skip
    about = [span["attributes"] for span in kept.values() if "gen_ai.skill.name" in span["attributes"]]
    assert len(about) == 6
    assert {(one["gen_ai.skill.name"], one["gen_ai.skill.version"]) for one in about} == {("pdf", "1.2.0")}
    assert len({one["skillyard.skill.digest"] for one in about}) == 1
