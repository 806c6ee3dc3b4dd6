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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from lazily import Lazily
from mcp import Client, MCPError, types

from skillyard import Catalog
from skillyard.access import Keys
from skillyard.registry import Registry
from skillyard.server import AccessPolicy, create_app

fastmcp, transports, extension = Lazily("fastmcp"), Lazily("fastmcp.client.transports"), Lazily("fastmcp.skills")

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
        app.state.endpoints.close_change_streams()
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
async def test_the_operator_puts_a_prefix_before_the_names_of_the_tools(
    mode: str, home: Path, make_app: Callable[[], FastAPI]
) -> None:
    (home / ".config/skillyard").mkdir(parents=True)
    (home / ".config/skillyard/skillyard.toml").write_text("[server]\nmcp = { tool-prefix = 'yard_' }\n", "utf-8")
    with live(make_app()) as found:
        async with Client(f"{found}/mcp", mode=mode) as client:
            assert {"yard_skill", "yard_run_skill"} <= set(names(await client.list_tools()))
            assert not (await client.call_tool("yard_skill", {"skill": "weather"})).is_error


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
        (text,) = [message.content.text for message in asked.messages]  # type: ignore[union-attr] # it is text
        assert text.startswith("# Skill: pdf")
        assert text.endswith("\nfill in a.pdf")
        assert len(plain.messages) == 1
        for missing in ("runner", "nothing"):
            with pytest.raises(MCPError) as caught:
                await client.get_prompt(missing)
            assert caught.value.code == types.INVALID_PARAMS


async def test_fastmcps_client_lists_and_gets_skills_whose_digests_hold(address: str) -> None:
    transport = transports.StreamableHttpTransport(address)
    async with fastmcp.Client(transport, extensions=[extension.SkillsClientExtension()]) as client:
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
        received: set[str] = set()
        make_skill(shop, "fresh")
        with anyio.fail_after(30):
            async for event in events:
                received.add(type(event).__name__)
                if len(received) == 3:
                    break
        assert received == {"ToolsListChanged", "PromptsListChanged", "ResourcesListChanged"}
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
    received: list[set[str]] = [set(), set()]
    reported = [anyio.Event(), anyio.Event()]

    def listener(number: int) -> Any:
        async def listen(message: Any) -> None:
            received[number].add(getattr(message, "method", ""))
            if len([method for method in received[number] if method.endswith("list_changed")]) == 3:
                reported[number].set()

        return listen

    async with (
        Client(address, mode="legacy", message_handler=listener(0)) as one,
        Client(address, mode="legacy", message_handler=listener(1)) as two,
    ):
        await one.list_tools()
        await two.list_tools()
        make_skill(shop, "fresh")
        with anyio.fail_after(30):
            for each in reported:
                await each.wait()


LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
PLAIN = {"Accept": "application/json, text/event-stream"}
BEGIN = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": BEGIN}


def plain() -> httpx2.Client:
    """A client that knows HTTP only."""
    return httpx2.Client(trust_env=False, headers=PLAIN, timeout=120)


def opened(client: httpx2.Client, address: str, **headers: str) -> dict[str, str]:
    """The headers of a new session of 2025-06-18."""
    answer = client.post(address, json=HELLO, headers=headers)
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
def callers(home: Path, shop: Path, pack: Any) -> Iterator[tuple[str, Callable[..., Any], Callable[..., str]]]:
    """Where MCP is served to holders of keys, a client for somebody with scopes, and their key; `other` has its own skills."""
    catalog = Catalog.discover(cwd=home / "project", home=home)
    app = create_app(catalog, Registry.of(catalog), access_policy=AccessPolicy(keys_required=True))
    keys, made = Keys(app.state.pool.database), {}

    def key(name: str, *scopes: str, organisation: str = "default") -> str:
        if (name, organisation) not in made:
            _, made[name, organisation] = keys.create(name, scopes, organisation=organisation)
        return str(made[name, organisation])

    def client(name: str, *scopes: str, organisation: str = "default") -> Any:
        headers = {"Authorization": f"Bearer {key(name, *scopes, organisation=organisation)}"}
        return fastmcp.Client(transports.StreamableHttpTransport(f"{found}/mcp", headers=headers))

    app.state.pool.organisations.create("other")
    with live(app) as found:
        writer = {"Authorization": f"Bearer {key('writer', 'skills:read', 'skills:write', organisation='other')}"}
        files = {"file": ("theirs.zip", pack("theirs"))}
        place = f"{found}/api/v1/skill-definitions/upload-create"
        assert httpx2.post(place, files=files, headers=writer, trust_env=False).status_code == 201
        yield f"{found}/mcp", client, key


Callers = tuple[str, Callable[..., Any], Callable[..., str]]


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


def test_requests_of_both_generations_are_answered_at_one_address(client: Any, shop: Path) -> None:
    """Of 2026-07-28 each stands for itself, named in headers that have to fit its body; older ones open a session."""
    client.headers["Accept"] = "application/json, text/event-stream"
    named = {"protocolVersion": "2026-07-28", "clientInfo": {"name": "t", "version": "1"}, "clientCapabilities": {}}
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in named.items()}

    def ask(method: str, headers: dict[str, str] | None = None, **params: Any) -> Any:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        sent = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **(headers or {})}
        answer = client.post("/mcp", json=request, headers=sent)
        assert "mcp-session-id" not in answer.headers
        return answer.status_code, json.loads(answer.text.partition("data: ")[2] or answer.text)

    status, found = ask("server/discover")
    assert (status, "2026-07-28" in found["result"]["supportedVersions"]) == (200, True)
    uri = {"Mcp-Name": "skill://index.json"}
    lists = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "skills/list")
    answers = [found, *(ask(method)[1] for method in lists), ask("resources/read", uri, uri="skill://index.json")[1]]
    for answer in answers:
        assert (answer["result"]["ttlMs"], answer["result"]["cacheScope"]) == (0, "private")
    assert ask("tools/call", {"Mcp-Name": "skills_list"}, name="skills_list", arguments={})[1]["result"]["isError"] is False
    for headers in ({"Mcp-Method": "prompts/list"}, {"Mcp-Method": ""}, {"MCP-Protocol-Version": "2027-01-01"}):
        assert ask("tools/list", headers)[0] == 400, headers
    assert ask("tools/call", {"Mcp-Name": "other"}, name="skills_list", arguments={})[0] == 400
    assert ask("initialize")[0] == 404
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    older = client.post("/mcp", json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begin})
    assert (older.status_code, "mcp-session-id" in older.headers) == (200, True)


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
    passed = {name: int(count) for name, count in re.findall(r"✓ (\S+): ([1-9]\d*) passed, 0 failed", done.stdout)}
    assert {"server-initialize", "ping", "tools-list", "resources-list", "prompts-list"} <= passed.keys()
    assert {"dns-rebinding-protection", "server-sse-multiple-streams", "caching", "http-header-validation"} <= passed.keys()
    assert "sep-2164-data-uri" not in done.stdout  # an address where nothing is comes back in the error
    skills = {name: count for name, count in passed.items() if name.startswith("sep-2640-")}
    assert skills.keys() == {f"sep-2640-skills-{name}" for name in ("directory", "enumeration", "manifest")}
    assert sum(skills.values()) >= 30


def node() -> str:
    """The Node.js that the development environment brings along; the suite needs one newer than many systems have."""
    found = Path(sys.executable).with_name("node")
    assert found.exists(), "Node.js is missing; `make setup` installs it"
    assert (CLIENTS / SUITE).exists(), "the suite is missing; `make clients` installs it"
    return str(found)


async def test_a_run_over_it_is_the_caller_s_own_in_the_records_and_in_the_trail(callers: Callers) -> None:
    address, client_of, key = callers
    async with client_of("bob", "skills:read", "runs:execute") as client:
        await client.call_tool("run_skill", {"skill": "runner"})
        await client.call_tool("skill", {"skill": "weather"})  # only looks
    admin = {"Authorization": f"Bearer {key('boss', 'admin')}"}
    with plain() as http:
        (run,) = http.get(address.replace("/mcp", "/api/v1/runs"), headers=admin).json()["data"]
        shown = http.get(address.replace("/mcp", f"/api/v1/runs/{run['run_id']}"), headers=admin).json()["data"]
        assert (shown["state"], shown["context"]["userId"]) == ("succeeded", "default/bob")
        events = http.get(address.replace("/mcp", "/api/v1/audit"), headers=admin).json()["data"]
    of_bob = [event for event in events if event["actor"] == "bob"]
    assert [(one["action"], one["subject"], one["outcome"], one["details"]) for one in of_bob] == [
        ("models.call_tool", "runner", "success", {"over": "mcp"})
    ]


SLOW = "import time\nprint('begun', flush=True)\ntime.sleep(600)\n"
RUN: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
RUN |= {"params": {"name": "run_skill", "arguments": {"skill": "slow"}}}


@contextmanager
def under_way(address: str, name: str, key: Callable[..., str]) -> Iterator[tuple[httpx2.Client, dict[str, str], str, Any]]:
    """Somebody's session over which a run goes on: the client, its headers, the run's id and what the call will answer."""
    mine = {"Authorization": f"Bearer {key(name, 'skills:read', 'runs:execute')}"}
    with plain() as client, ThreadPoolExecutor(1) as beside:
        headers = mine | opened(client, address, **mine)
        answer = beside.submit(client.post, address, json=RUN, headers=headers)
        run_id = ""
        while not run_id and not answer.done():
            going = client.get(address.replace("/mcp", "/api/v1/runs?state=running"), headers=mine).json()["data"]
            run_id = going[0]["run_id"] if going else ""
            time.sleep(0.05)
        assert run_id, answer.result().text
        yield client, headers, run_id, answer


def ended(client: httpx2.Client, address: str, run_id: str, headers: dict[str, str]) -> tuple[str, str]:
    """The state and the error of a run when it has ended."""
    while True:
        run = client.get(address.replace("/mcp", f"/api/v1/runs/{run_id}"), headers=headers).json()["data"]
        if run["finished_at"]:
            return run["state"], run["error"]["code"]
        time.sleep(0.05)


@pytest.fixture
def slow(shop: Path, make_skill: Any) -> None:
    """A skill that works until it is ended."""
    header = "name: slow\ndescription: Is slow.\nresources: {entry: ./scripts/main.py}"
    make_skill(shop, "slow", front_matter=header, files={"scripts/main.py": SLOW})


@pytest.mark.abuse("H2")
def test_who_began_a_run_over_it_ends_it_over_http_and_nobody_else_does(slow: None, callers: Callers) -> None:
    address, _, key = callers
    with under_way(address, "ada", key) as (client, headers, run_id, answer):
        place = address.replace("/mcp", f"/api/v1/runs/{run_id}/cancel")
        eve = {"Authorization": f"Bearer {key('eve', 'skills:read', 'runs:execute')}"}
        refused = client.post(place, headers=eve)
        assert (refused.status_code, refused.json()["code"]) == (403, "not_yours")
        assert client.post(place, headers=headers).json()["data"]["state"] == "cancelled"
        assert "CANCELLED" in answer.result(60).text
        assert ended(client, address, run_id, headers) == ("cancelled", "CANCELLED")


def test_a_client_that_cancels_its_call_ends_the_run(slow: None, callers: Callers) -> None:
    address, _, key = callers
    with under_way(address, "ada", key) as (client, headers, run_id, answer):
        no_more = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert client.post(address, json=no_more, headers=headers).status_code == 202
        assert ended(client, address, run_id, headers) == ("cancelled", "CANCELLED")
        answer.result(60)


@pytest.mark.abuse("H14")
def test_of_one_caller_only_the_newest_sessions_are_kept(callers: Callers) -> None:
    address, _, key = callers
    ada, eve = ({"Authorization": f"Bearer {key(name, 'skills:read')}"} for name in ("ada", "eve"))
    with plain() as client:
        other = opened(client, address, **eve)
        first, second = opened(client, address, **ada), opened(client, address, **ada)
        assert client.post(address, json=LIST, headers=ada | first).status_code == 200  # so the second is the oldest
        newer = [opened(client, address, **ada) for _ in range(31)]
        found = [client.post(address, json=LIST, headers=ada | one).status_code for one in (first, second, *newer)]
        assert found == [200, 404, *[200] * 31]
        assert client.post(address, json=LIST, headers=eve | other).status_code == 200


@pytest.mark.abuse("H14")
async def test_over_all_callers_so_many_sessions_are_open_at_once(shop: Path) -> None:
    from skillyard.mcp import McpHttpApp
    from skillyard.tools import SkillTools

    endpoint = McpHttpApp(SkillTools(Catalog.discover(roots=[shop], cache=False)), watch=False, total=2)

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        await endpoint.answer(scope, receive, send, caller=dict(scope["headers"])[b"x-caller"].decode())

    transport = httpx2.ASGITransport(app=asgi)  # type: ignore[arg-type] # it is an application
    async with endpoint.running(), httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answers = [await client.post("/", json=HELLO, headers=PLAIN | {"x-caller": str(caller)}) for caller in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 503]
    assert "Too many open sessions" in answers[2].text


@pytest.fixture
def asking(home: Path) -> None:
    """A project whose rule wants to be asked about one skill."""
    (home / "project/skillyard.toml").write_text('[permissions.skills]\n"weather" = "ask"\n', "utf-8")


@pytest.mark.parametrize(("decision", "shown"), [("once", "# Skill: weather"), ("reject", "was not approved: not today")])
async def test_a_call_waits_for_the_answer_of_a_person_and_goes_on(
    decision: str, shown: str, asking: None, address: str
) -> None:
    questions = address.replace("/mcp", "/api/v1/approvals/questions")
    async with Client(address) as client, httpx2.AsyncClient() as person, anyio.create_task_group() as tasks:
        results: list[types.CallToolResult] = []

        async def load() -> None:
            results.append(await client.call_tool("skill", {"skill": "weather"}))

        tasks.start_soon(load)
        with anyio.fail_after(30):
            while not (waiting := (await person.get(questions)).json()["data"]):
                await anyio.sleep(0.02)
        (question,) = waiting
        assert (question["skill_name"], question["run_id"]) == ("weather", None)
        answer = await person.post(f"{questions}/{question['id']}", json={"decision": decision, "reason": "not today"})
        assert answer.status_code == 200
    (result,) = results
    assert (result.is_error, shown in result.content[0].text) == (decision == "reject", True)  # type: ignore[union-attr]


async def test_a_call_about_which_nobody_decides_says_how_a_person_agrees(
    asking: None, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skillyard.cli import main

    monkeypatch.setattr("skillyard.server.background.approval_questions._PATIENCE_OF_CLIENTS_S", 0.01)
    async with Client(address) as client:
        result = await client.call_tool("skill", {"skill": "weather"})
        assert "nobody answered within 0.01 seconds" in result.content[0].text  # type: ignore[union-attr]
        assert "`skillyard approvals approve weather --project " in result.content[0].text  # type: ignore[union-attr]
        with pytest.raises(MCPError, match="`skillyard approvals approve weather --project "):
            await client.read_resource("skill://weather/SKILL.md")
        assert await anyio.to_thread.run_sync(main, ["approvals", "approve", "weather"]) == 0
        assert not (await client.call_tool("skill", {"skill": "weather"})).is_error
        assert (await client.read_resource("skill://weather/SKILL.md")).contents
