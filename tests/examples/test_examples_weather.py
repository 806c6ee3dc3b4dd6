"""The weather examples, run as they are but for the address: a server on loopback stands for the weather service."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from skillyard import Catalog, Executor, Policy, SkillTools
from skillyard.execution import RunRequest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "skills"


class Weather(BaseHTTPRequestHandler):
    """Answers every city with the same weather, from the query or from a JSON body."""

    asked: ClassVar[list[tuple[str, dict[str, Any]]]] = []

    def do_GET(self) -> None:
        self._answer({name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()})

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, parameters: dict[str, Any]) -> None:
        self.asked.append((self.command, parameters))
        weather = {"place": f"{parameters['location']}, 中国", "temperature": 18.2, "conditions": "light rain"}
        body = json.dumps(weather | {"unit": parameters["unit"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def host() -> Iterator[str]:
    Weather.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Weather)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    with contextlib.closing(server.socket):
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def catalog(host: str, skills_root: Path) -> Catalog:
    """The two examples with the address of the server in place of the public service's."""
    for name, method in (("weather-query", "GET"), ("weather-query-abp", "POST")):
        text = (EXAMPLES / name / "SKILL.md").read_text("utf-8")
        text = text.replace("    - https://geocoding-api.open-meteo.com\n", "").replace("https://api.open-meteo.com", host)
        text = text.replace("\ncacheable:", f"\nconfig:\n  endpoint: {host}/weather\n  method: {method}\ncacheable:", 1)
        (skills_root / name).mkdir()
        (skills_root / name / "SKILL.md").write_text(text, "utf-8")
    return Catalog.discover(roots=[skills_root], cache=False)


@pytest.fixture
def executor(host: str) -> Executor:
    return Executor(ceiling=Policy.ceiling({"network-allowlist": [host], "private-networks": True}))


@pytest.mark.row("000-11", "000-18", "000-35")
async def test_the_weather_comes_from_the_service(catalog: Catalog, executor: Executor) -> None:
    run = await executor.run(RunRequest(catalog.get("weather-query"), {"location": "北京", "days": 1}))
    assert (run.status, run.kind, run.warnings) == ("ok", "service", ())
    assert run.output == {"place": "北京, 中国", "temperature": 18.2, "conditions": "light rain", "unit": "celsius"}
    assert Weather.asked == [("GET", {"location": "北京", "days": "1", "unit": "celsius"})]


@pytest.mark.row("000-29", "000-33", "000-34")
async def test_the_call_in_the_instructions_is_a_call(catalog: Catalog, executor: Executor) -> None:
    tools = SkillTools(catalog, executor=executor)
    assert "- getWeather: 获取指定城市的天气信息" in tools.text_prompt()
    answer = await tools.answer_text(catalog.get("weather-query-abp").document().body)
    assert [(call.tool, call.action) for call in answer.calls] == [("getWeather", "query")]
    assert answer.results[0].data["output"] == {
        "place": "上海, 中国", "temperature": 18.2, "conditions": "light rain", "unit": "celsius",
    }  # fmt: skip
    assert Weather.asked == [("POST", {"location": "上海", "unit": "celsius"})]


async def test_without_an_address_the_examples_say_what_is_missing() -> None:
    run = await Catalog.discover(roots=[EXAMPLES], cache=False).run("weather-query", {"location": "Oslo"})
    assert (run.status, run.error and run.error.code) == ("unavailable", "kind_unavailable")
    assert run.error is not None
    assert "it has no config.endpoint" in run.error.message
