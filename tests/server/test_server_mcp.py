"""MCP over HTTP as stock clients see it: the official one and FastMCP's, in both generations of the protocol."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from fastmcp import Client as FastClient
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.skills import SkillsClientExtension
from mcp import Client, MCPError, types

from skillyard import Catalog
from skillyard.access import Keys
from skillyard.registry import Registry
from skillyard.server import Admission, create_app

CLIENTS = Path(__file__).parents[1] / "clients"
SUITE = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


@contextmanager
def live(app: FastAPI) -> Iterator[str]:
    """The address of the application, served on loopback in a thread."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        app.state.doors.stop_telling()
        server.should_exit = True
        thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def shop(home: Path, make_skill: Any) -> Path:
    """The user's folder of skills, with three of them."""
    root = home / ".claude/skills"
    script = "import json\nprint(json.dumps({'said': 'done'}))\n"
    make_skill(
        root,
        "pdf",
        front_matter="name: pdf\ndescription: Works with PDF files.\nargument-hint: which file",
        files={"forms.md": "the forms\r\n", "assets/logo.png": b"\x89PNG\r\n\x1a\n\x00"},
    )
    make_skill(
        root,
        "runner",
        front_matter="name: runner\ndescription: Runs.\nresources: {entry: ./scripts/main.py}\nuser-invocable: false",
        files={"scripts/main.py": script},
    )
    make_skill(root, "weather", description="Tells the weather.")
    return root


@pytest.fixture
def make_app(home: Path, shop: Path) -> Callable[[], FastAPI]:
    """Give a function that makes the application over those skills."""

    def make() -> FastAPI:
        catalog = Catalog.discover(cwd=home / "project", home=home)
        return create_app(catalog, Registry.of(catalog))

    return make


@pytest.fixture
def address(make_app: Callable[[], FastAPI]) -> Iterator[str]:
    """Where MCP is served."""
    with live(make_app()) as found:
        yield f"{found}/mcp"


def names(tools: types.ListToolsResult) -> list[str]:
    return [tool.name for tool in tools.tools]


@MODES
async def test_the_official_client_lists_loads_and_reads(mode: str, address: str, shop: Path) -> None:
    async with Client(address, mode=mode) as client:
        assert client.server_info is not None
        assert client.server_info.name == "skillyard"
        capabilities = client.server_capabilities
        for each in (capabilities.tools, capabilities.resources, capabilities.prompts):
            assert each is not None
            assert each.list_changed is True
        assert "run_skill" in names(await client.list_tools())
        result = await client.call_tool("skill", {"skill": "weather"})
        assert "Tells the weather." in result.content[0].text  # type: ignore[union-attr] # it is text
        assert (await client.call_tool("skill", {"skill": "nothing"})).is_error
        read = (await client.read_resource("skill://pdf/forms.md")).contents[0]
        assert isinstance(read, types.TextResourceContents)
        assert read.text.encode() == (shop / "pdf/forms.md").read_bytes()
        with pytest.raises(MCPError):
            await client.read_resource("skill://pdf/../../../etc/passwd")


@MODES
async def test_a_skill_runs_in_the_sandbox_and_the_run_is_recorded(mode: str, address: str) -> None:
    async with Client(address, mode=mode) as client:
        result = await client.call_tool("run_skill", {"skill": "runner"})
        assert not result.is_error, result
    runs = httpx2.get(address.replace("/mcp", "/api/v1/runs"), trust_env=False).json()["data"]
    assert [(run["skill"], run["status"]) for run in runs] == [("user:runner", "ok")]


@MODES
async def test_skills_are_prompts_that_a_person_picks(mode: str, address: str) -> None:
    async with Client(address, mode=mode) as client:
        prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        assert set(prompts) == {"pdf", "weather"}
        assert prompts["pdf"].description == "Works with PDF files."
        assert prompts["pdf"].arguments is not None
        assert [(wanted.name, wanted.description) for wanted in prompts["pdf"].arguments] == [("request", "which file")]
        plain = await client.get_prompt("weather")
        asked = await client.get_prompt("pdf", {"request": "fill in a.pdf"})
        texts = [message.content.text for message in asked.messages]  # type: ignore[union-attr] # they are text
        assert texts[0].startswith("# Skill: pdf")
        assert texts[1] == "fill in a.pdf"
        assert len(plain.messages) == 1
        for missing in ("runner", "nothing"):
            with pytest.raises(MCPError) as caught:
                await client.get_prompt(missing)
            assert caught.value.code == types.INVALID_PARAMS


async def test_fastmcps_client_lists_and_gets_skills_whose_digests_hold(address: str) -> None:
    transport = StreamableHttpTransport(address)
    async with FastClient(transport, extensions=[SkillsClientExtension()]) as client:
        skills = {skill.uri: skill for skill in await client.list_skills()}
        assert set(skills) == {"skill://pdf/SKILL.md", "skill://runner/SKILL.md", "skill://weather/SKILL.md"}
        pdf = await client.get_skill("skill://pdf/SKILL.md")
        assert pdf == skills["skill://pdf/SKILL.md"]
        assert isinstance(pdf.resources, list)
        assert len(pdf.resources) == 3
        for resource in pdf.resources:
            content = (await client.read_resource(resource.uri))[0]
            data = content.text.encode() if hasattr(content, "text") else base64.b64decode(content.blob)
            assert (resource.digest, resource.size) == (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))


@pytest.mark.row("001-14")
async def test_a_listening_client_hears_of_a_skill_that_comes(address: str, shop: Path, make_skill: Any) -> None:
    async with (
        Client(address) as client,
        client.listen(tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True) as events,
    ):
        heard: set[str] = set()
        make_skill(shop, "fresh")
        with anyio.fail_after(30):
            async for event in events:
                heard.add(type(event).__name__)
                if len(heard) == 3:
                    break
        assert heard == {"ToolsListChanged", "PromptsListChanged", "ResourcesListChanged"}
        assert "skill://fresh/SKILL.md" in {found.uri for found in (await client.list_resources()).resources}


async def test_clients_hear_of_what_is_installed_over_http(address: str, pack: Any) -> None:
    """The service looks at the folders itself then: whoever watches them sees nothing new any more."""
    place = address.replace("/mcp", "/api/v1/skill-definitions/upload-create")
    async with Client(address) as client, client.listen(prompts_list_changed=True) as events:
        assert httpx2.post(place, files={"file": ("tidy.zip", pack("tidy"))}, trust_env=False).status_code == 201
        with anyio.fail_after(30):
            async for _ in events:
                break
        assert "tidy" in {prompt.name for prompt in (await client.list_prompts()).prompts}


async def test_every_older_client_with_a_session_hears_of_it(address: str, shop: Path, make_skill: Any) -> None:
    heard: list[set[str]] = [set(), set()]
    told = [anyio.Event(), anyio.Event()]

    def listener(number: int) -> Any:
        async def listen(message: Any) -> None:
            heard[number].add(getattr(message, "method", ""))
            if len([method for method in heard[number] if method.endswith("list_changed")]) == 3:
                told[number].set()

        return listen

    async with (
        Client(address, mode="legacy", message_handler=listener(0)) as one,
        Client(address, mode="legacy", message_handler=listener(1)) as two,
    ):
        await one.list_tools()
        await two.list_tools()
        make_skill(shop, "fresh")
        with anyio.fail_after(30):
            for each in told:
                await each.wait()


LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


def plain() -> httpx2.Client:
    """A client that knows HTTP only."""
    return httpx2.Client(trust_env=False, headers={"Accept": "application/json, text/event-stream"})


def opened(client: httpx2.Client, address: str, **headers: str) -> dict[str, str]:
    """The headers of a new session of 2025-06-18."""
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}
    answer = client.post(address, json=message, headers=headers)
    return {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-06-18"}


def test_a_session_that_was_ended_is_gone(address: str) -> None:
    with plain() as client:
        session = opened(client, address)
        assert client.post(address, json=LIST, headers=session).status_code == 200
        assert client.delete(address, headers=session).status_code == 200
        assert client.post(address, json=LIST, headers=session).status_code == 404
        assert client.post(address, json=LIST, headers=session | {"Mcp-Session-Id": "made up"}).status_code == 404


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_no_page_from_elsewhere_speaks_it(address: str, headers: dict[str, str]) -> None:
    answer = httpx2.post(address, json=LIST, headers=headers, trust_env=False)
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")


def test_what_is_no_message_is_refused_and_the_server_goes_on(address: str) -> None:
    with plain() as client:
        kind = {"Content-Type": "application/json"}
        for body in (b"", b"nonsense", b"[]", b"\xff", json.dumps({"jsonrpc": "2.0", "id": 1}).encode(), b"[" * 100_000):
            assert 400 <= client.post(address, content=body, headers=kind).status_code < 500
        assert client.post(address, content=b" " * (5 << 20), headers=kind).status_code == 413
        assert client.put(address).status_code == 405
    test_a_session_that_was_ended_is_gone(address)


@pytest.fixture
def callers(home: Path, shop: Path, pack: Any) -> Iterator[tuple[str, Callable[..., FastClient[Any]], Callable[..., str]]]:
    """Where MCP is served to holders of keys, a client for somebody with scopes, and their key; `other` has its own skills."""
    catalog = Catalog.discover(cwd=home / "project", home=home)
    app = create_app(catalog, Registry.of(catalog), admission=Admission(keys_required=True))
    keys, made = Keys(app.state.homes.database), {}

    def key(name: str, *scopes: str, organisation: str = "default") -> str:
        if (name, organisation) not in made:
            _, made[name, organisation] = keys.create(name, scopes, organisation=organisation)
        return str(made[name, organisation])

    def client(name: str, *scopes: str, organisation: str = "default") -> FastClient[Any]:
        headers = {"Authorization": f"Bearer {key(name, *scopes, organisation=organisation)}"}
        return FastClient(StreamableHttpTransport(f"{found}/mcp", headers=headers))

    app.state.homes.organisations.create("other")
    with live(app) as found:
        writer = {"Authorization": f"Bearer {key('writer', 'skills:read', 'skills:write', organisation='other')}"}
        files = {"file": ("theirs.zip", pack("theirs"))}
        place = f"{found}/api/v1/skill-definitions/upload-create"
        assert httpx2.post(place, files=files, headers=writer, trust_env=False).status_code == 201
        yield f"{found}/mcp", client, key


Callers = tuple[str, Callable[..., FastClient[Any]], Callable[..., str]]


async def test_who_may_not_run_skills_is_not_offered_to(callers: Callers) -> None:
    _, client_of, _ = callers
    async with client_of("ada", "skills:read") as client:
        assert "run_skill" not in {tool.name for tool in await client.list_tools()}
        with pytest.raises(Exception, match="switched off"):
            await client.call_tool("run_skill", {"skill": "runner"})
    async with client_of("bob", "skills:read", "runs:execute") as client:
        assert "run_skill" in {tool.name for tool in await client.list_tools()}


def test_who_may_not_read_or_has_no_key_is_refused(callers: Callers) -> None:
    address, _, key = callers
    answer = httpx2.post(address, json=LIST, headers={"Authorization": f"Bearer {key('ada', 'runs:execute')}"}, trust_env=False)
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")
    assert httpx2.post(address, json=LIST, trust_env=False).status_code == 401


async def test_each_organisation_sees_its_own_skills(callers: Callers) -> None:
    _, client_of, _ = callers
    async with client_of("eve", "skills:read", organisation="other") as client:
        assert {prompt.name for prompt in await client.list_prompts()} == {"theirs"}
    async with client_of("ada", "skills:read") as client:
        assert {prompt.name for prompt in await client.list_prompts()} == {"pdf", "weather"}


def test_a_session_of_somebody_else_does_not_exist(callers: Callers) -> None:
    address, _, key = callers
    ada, eve = ({"Authorization": f"Bearer {key(name, 'skills:read')}"} for name in ("ada", "eve"))
    with plain() as client:
        session = opened(client, address, **ada)
        assert client.post(address, json=LIST, headers=ada | session).status_code == 200
        assert client.post(address, json=LIST, headers=eve | session).status_code == 404
        assert client.delete(address, headers=eve | session).status_code == 404
        assert client.post(address, json=LIST, headers=ada | session).status_code == 200


def test_the_protocol_s_own_conformance_suite_finds_nothing(address: str) -> None:
    """Run it whole: what its own example server alone can answer is listed in tests/clients/conformance.yml."""
    command = [node(), str(CLIENTS / SUITE), "server", "--url", address, "--suite", "all"]
    done = subprocess.run(
        [*command, "--expected-failures", str(CLIENTS / "conformance.yml")],
        capture_output=True,
        text=True,
        timeout=300,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    passed = set(re.findall(r"✓ (\S+): [1-9]\d* passed, 0 failed", done.stdout))
    assert {"server-initialize", "ping", "tools-list", "resources-list", "prompts-list"} <= passed
    assert {"dns-rebinding-protection", "server-sse-multiple-streams"} <= passed


def node() -> str:
    """The Node.js that the development environment brings along; the suite needs one newer than many systems have."""
    found = Path(sys.executable).with_name("node")
    assert found.exists(), "Node.js is missing; `make setup` installs it"
    assert (CLIENTS / SUITE).exists(), "the suite is missing; `make clients` installs it"
    return str(found)
