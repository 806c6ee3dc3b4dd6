"""Organisations on one server: whatever one of them has, no key of another sees, reads, runs, changes or takes back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

DEFINITIONS = "/api/v1/skill-definitions"
CATALOG = "/api/v1/catalog"
RUNS = "/api/v1/runs"
EVERYTHING = ("skills:read", "skills:write", "runs:execute", "admin")
ADDER = "def execute(parameters):\n    return {'output': parameters['a'] + parameters['b']}\n"
HEADER = "type: direct\nresources:\n  entry: ./scripts/add.py\n"


@pytest.fixture
def ours(keyed: Any) -> TestClient:
    """An admin of the organisation `ours`."""
    client: TestClient = keyed.client(*EVERYTHING, organisation="ours", name="ada")
    return client


@pytest.fixture
def theirs(keyed: Any) -> TestClient:
    """An admin of the organisation `theirs`."""
    client: TestClient = keyed.client(*EVERYTHING, organisation="theirs", name="eve")
    return client


@pytest.fixture
def server(keyed: Any) -> TestClient:
    """An admin of the server."""
    client: TestClient = keyed.client(*EVERYTHING)
    return client


@pytest.fixture
def secret(ours: TestClient, pack: Callable[..., bytes]) -> Iterator[dict[str, Any]]:
    """A skill of `ours` in two versions, a run of it, and everything whose name somebody could know."""
    for body in ("Secret.", "Secret, again."):
        data = pack("hidden", body=body, header=HEADER, files={"scripts/add.py": ADDER})
        answer = ours.post(f"{DEFINITIONS}/upload-create", files={"file": ("hidden.zip", data)})
        assert answer.status_code == 201, answer.text
    mine = ours.post(CATALOG, json={"name": "private", "description": "Says: nothing."}).json()["data"]
    run = ours.post(RUNS, json={"skill": "installed:hidden", "parameters": {"a": 1, "b": 2}}).json()["data"]
    assert run["output"] == 3, run
    versions = ours.get(f"{DEFINITIONS}/hidden/versions").json()["data"]
    yield {
        "run": run["run_id"],
        "versions": [one["version"] for one in versions],
        "digest": versions[0]["digest"],
        "own": mine["id"],
    }


@pytest.mark.both_databases
def test_another_organisation_sees_nothing_of_it(theirs: TestClient, server: TestClient, secret: dict[str, Any]) -> None:
    start, rest = secret["digest"].removeprefix("sha256:")[:2], secret["digest"].removeprefix("sha256:")[2:]
    for other in (theirs, server):
        for listing in (DEFINITIONS, CATALOG, RUNS, f"{CATALOG}/search?q=hidden+secret", "/mirror/skillyard-mirror.json",
                        "/.well-known/agent-skills/index.json", "/api/v1/audit"):  # fmt: skip
            answer = other.get(listing)
            assert answer.status_code == 200, listing
            assert not any(word in answer.text for word in ("hidden", "private", "Secret", secret["run"])), listing
        for path in (
            f"{DEFINITIONS}/hidden", f"{DEFINITIONS}/hidden/preview", f"{DEFINITIONS}/hidden/files/SKILL.md",
            f"{DEFINITIONS}/installed:hidden/files/scripts/add.py", f"{DEFINITIONS}/hidden/versions",
            f"{DEFINITIONS}/hidden/install-logs", f"{CATALOG}/file?skill=hidden", f"{CATALOG}/file?skill={secret['own']}",
            f"{RUNS}/{secret['run']}", "/.well-known/agent-skills/hidden.zip", f"/mirror/packages/{start}/{rest}",
        ):  # fmt: skip
            answer = other.get(path)
            assert answer.status_code == 404, path
            assert "Secret" not in answer.text


def test_another_organisation_changes_nothing_of_it(
    ours: TestClient, theirs: TestClient, server: TestClient, secret: dict[str, Any], pack: Callable[..., bytes]
) -> None:
    def state() -> list[object]:
        versions = ours.get(f"{DEFINITIONS}/hidden/versions").json()["data"]
        logs = ours.get(f"{DEFINITIONS}/hidden/install-logs").json()["data"]
        return [versions, logs, ours.get(CATALOG).json()["data"], ours.get(RUNS).json()["data"]]

    before = state()
    for other in (theirs, server):
        for answer in (
            other.delete(f"{DEFINITIONS}/hidden"),
            other.post(f"{DEFINITIONS}/hidden/rollback", json={"version": secret["versions"][-1], "force": True}),
            other.post(f"{DEFINITIONS}/hidden/upload-install", files={"file": ("hidden.zip", pack("hidden"))}),
            other.post(RUNS, json={"skill": "hidden"}),
            other.post(RUNS, json={"skill": "installed:hidden", "digest": secret["digest"]}),
            other.post(f"{CATALOG}/toggle", json={"skill": "installed:hidden"}),
            other.delete(CATALOG, params={"skill": secret["own"]}),
        ):
            assert answer.status_code == 404, answer.text
        other.post(f"{CATALOG}/refresh")
    assert state() == before


@pytest.mark.both_databases
def test_agents_and_memories_are_an_organisation_s_own(ours: TestClient, theirs: TestClient, server: TestClient) -> None:
    agent = ours.post("/api/v1/agents", json={"name": "hidden agent"}).json()["data"]["id"]
    memory = ours.post("/api/v1/memories", json={"content": "The secret is tea."}).json()["data"]["id"]
    for other in (theirs, server):
        for listing in ("/api/v1/agents", "/api/v1/memories", "/api/v1/memories/recall?q=secret+tea&threshold=0"):
            answer = other.get(listing)
            assert (answer.status_code, answer.json()["data"]) == (200, []), listing
        assert other.get(f"/api/v1/agents/{agent}").status_code == 404
        assert other.put(f"/api/v1/agents/{agent}", json={"name": "mine"}).status_code == 404
        assert other.delete(f"/api/v1/agents/{agent}").status_code == 404
        assert other.delete(f"/api/v1/memories/{memory}").status_code == 404
    assert ours.get(f"/api/v1/agents/{agent}").json()["data"]["name"] == "hidden agent"
    assert [one["id"] for one in ours.get("/api/v1/memories").json()["data"]] == [memory]


@pytest.mark.both_databases
def test_the_same_names_in_two_organisations_are_two_things(
    ours: TestClient, theirs: TestClient, secret: dict[str, Any], pack: Callable[..., bytes]
) -> None:
    theirs.post(f"{DEFINITIONS}/upload-create", files={"file": ("hidden.zip", pack("hidden", body="Of others."))})
    assert theirs.post(f"{CATALOG}/toggle", json={"skill": "installed:hidden"}).json()["data"]["status"] == "disabled"
    assert "Of others." in theirs.get(f"{DEFINITIONS}/hidden/preview").text
    assert "Secret, again." in ours.get(f"{DEFINITIONS}/hidden/preview").text
    assert {skill["status"] for skill in ours.get(CATALOG).json()["data"]} == {"ok"}
    assert theirs.delete(f"{DEFINITIONS}/hidden").status_code == 200
    assert len(ours.get(DEFINITIONS, params={"isActive": True}).json()["data"]) == 1
    assert ours.post(f"{DEFINITIONS}/hidden/rollback", json={}).status_code == 200


TRICKS = (
    "../hidden", "..%2Fhidden", "..%2F..%2Fours%2Fskills%2Fhidden", "%2e%2e/%2e%2e/organisations/ours/skills/hidden",
    "installed:../../ours/skills/hidden", "hidden%00", "./hidden", "organisations/ours/skills/hidden",
)  # fmt: skip


def test_no_way_of_writing_a_path_leads_to_another_home(
    theirs: TestClient, secret: dict[str, Any], home: Path, pack: Callable[..., bytes]
) -> None:
    theirs.post(f"{DEFINITIONS}/upload-create", files={"file": ("tidy.zip", pack("tidy"))})
    absolute = str(home / "data/organisations/ours/skills/hidden/current/SKILL.md")
    tricks = [
        path
        for name in TRICKS
        for path in (
            f"{DEFINITIONS}/{name}", f"{DEFINITIONS}/{name}/files/SKILL.md", f"{DEFINITIONS}/tidy/files/{name}/SKILL.md",
            f"{CATALOG}/file?skill={name}", f"/.well-known/agent-skills/{name}.zip", f"{RUNS}/{name}",
        )
    ]  # fmt: skip
    statuses = Counter[int]()
    for path in (
        *tricks,
        f"{DEFINITIONS}/tidy/files/..%2F..%2F..%2F..%2Fours%2Fskills%2Fhidden%2Fcurrent%2FSKILL.md",
        f"{DEFINITIONS}/tidy/files/{absolute}", f"{CATALOG}/file?skill=tidy&path={absolute}",
        f"{CATALOG}/file?skill={absolute}", f"{CATALOG}/file?skill={absolute.removesuffix('/SKILL.md')}",
        f"{RUNS}/..%2F{secret['run']}",
    ):  # fmt: skip
        answer = theirs.get(path)
        statuses[answer.status_code] += 1
        assert "Secret" not in answer.text
    assert statuses == {404: 47, 403: 7}
    address = theirs.post(f"{DEFINITIONS}/install/address", json={"address": absolute})
    assert address.status_code == 400
    assert theirs.post(RUNS, json={"skill": absolute.removesuffix("/SKILL.md")}).status_code == 404


PEEKS = """import os, pathlib
def execute(parameters):
    home, found = pathlib.Path(parameters["home"]), []
    for folder in (home, *home.parents):
        for place, folders, files in os.walk(folder / "organisations"):
            found += files
    return {"output": found}
"""


def test_a_script_of_one_organisation_does_not_find_the_home_of_another(
    theirs: TestClient, secret: dict[str, Any], home: Path, pack: Callable[..., bytes]
) -> None:
    data = pack("peek", header=HEADER, files={"scripts/add.py": PEEKS})
    theirs.post(f"{DEFINITIONS}/upload-create", files={"file": ("peek.zip", data)})
    body = {"skill": "installed:peek", "parameters": {"home": str(home / "data")}}
    run = theirs.post(RUNS, json=body).json()["data"]
    assert (run["status"], run["output"]) == ("ok", [])


@pytest.mark.both_databases
def test_each_organisation_has_a_folder_and_records_of_its_own(
    keyed: Any, ours: TestClient, secret: dict[str, Any], home: Path, database_address: str
) -> None:
    own = home / "data/organisations/ours"
    assert (own / "skills/hidden/current/SKILL.md").is_file()
    assert not (home / "data/skills/hidden").exists()
    assert not (home / ".claude/skills/private").exists()
    assert (own / ".claude/skills/private/SKILL.md").is_file()
    assert own.stat().st_mode & 0o077 == 0
    if database_address.startswith("postgresql"):
        import psycopg

        with psycopg.connect(database_address) as connection:
            found = connection.execute("SELECT count(*) FROM org_ours.runs").fetchone()
            others = connection.execute("SELECT count(*) FROM public.runs").fetchone()
        assert (found, others) == ((1,), (0,))
    else:
        assert (own / "skillyard.db").is_file()


def test_what_the_server_shares_is_there_for_all_and_nobody_s_to_change(
    keyed: Any, ours: TestClient, theirs: TestClient, home: Path
) -> None:
    for place, name in (("project/.claude/skills", "common"), (".claude/skills", "personal"), ("data/skills", "stray")):
        folder = home / place / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Is {name}.\n---\nText.\n", "utf-8")
    for one in (ours, theirs):
        assert one.post(f"{CATALOG}/refresh").status_code == 200
        assert [skill["id"] for skill in one.get(CATALOG).json()["data"]] == ["project:common"]
        assert "Text." in one.get(f"{CATALOG}/file", params={"skill": "common"}).text
        assert one.delete(CATALOG, params={"skill": "common"}).json()["code"] == "delete_refused"
    assert ours.post(f"{CATALOG}/toggle", json={"skill": "common"}).json()["data"]["status"] == "disabled"
    assert theirs.get(CATALOG).json()["data"][0]["status"] == "ok"
    assert (home / "project/.claude/skills/common/SKILL.md").is_file()


def test_an_admin_of_an_organisation_manages_its_keys_and_no_others(keyed: Any, ours: TestClient, server: TestClient) -> None:
    other = keyed.keys.create("x", ["admin"])[0]
    made = ours.post("/api/v1/keys", json={"name": "bot", "scopes": ["skills:read"]}).json()["data"]["key"]
    assert made["organisation"] == "ours"
    assert {key["organisation"] for key in ours.get("/api/v1/keys").json()["data"]} == {"ours"}
    for organisation in ("default", "theirs", "ours2"):
        body = {"name": "spy", "scopes": ["admin"], "organisation": organisation}
        assert ours.post("/api/v1/keys", json=body).status_code == 403
        assert ours.get("/api/v1/keys", params={"organisation": organisation}).status_code == 403
    assert ours.delete(f"/api/v1/keys/{other.id}").status_code == 404
    for path in ("/api/v1/organisations", "/api/v1/settings", "/api/v1/doctor"):
        assert ours.get(path).status_code == 403, path
    assert ours.post("/api/v1/organisations", json={"name": "mine"}).status_code == 403
    assert {key["organisation"] for key in server.get("/api/v1/keys").json()["data"]} == {"default", "ours"}
    assert server.delete(f"/api/v1/keys/{made['id']}").status_code == 200


def test_a_new_organisation_is_made_and_used_while_the_server_runs(
    keyed: Any, server: TestClient, pack: Callable[..., bytes]
) -> None:
    assert server.post("/api/v1/organisations", json={"name": "new-one"}).status_code == 201
    assert server.post("/api/v1/organisations", json={"name": "new-one"}).json()["code"] == "record_exists"
    assert server.post("/api/v1/organisations", json={"name": "../new"}).status_code == 400
    assert [one["name"] for one in server.get("/api/v1/organisations").json()["data"]] == ["default", "new-one"]
    body = {"name": "bot", "scopes": ["skills:read", "skills:write"], "organisation": "new-one"}
    secret = server.post("/api/v1/keys", json=body).json()["data"]["secret"]
    bot = {"Authorization": f"Bearer {secret}"}
    sent = keyed.nobody.post(f"{DEFINITIONS}/upload-create", headers=bot, files={"file": ("tidy.zip", pack())})
    assert sent.status_code == 201
    assert server.get(DEFINITIONS).json()["data"] == []


def test_a_home_that_many_ask_for_at_once_is_opened_once(keyed: Any) -> None:
    clients = [keyed.client("skills:read", organisation="ours") for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(lambda client: client.get(DEFINITIONS).status_code, clients))
    assert codes == [200] * 6
    assert list(keyed.app.state.pool._open) == ["ours"]
    ours = keyed.app.state.pool._open["ours"]
    for _ in range(200):  # the clock of schedules may be looking into it
        if ours.users == 0:
            break
        time.sleep(0.05)
    assert ours.users == 0


def test_services_that_are_long_unused_are_closed_and_opened_again(keyed: Any, pack: Callable[..., bytes]) -> None:
    keyed.app.state.pool._kept = 2
    clients = {name: keyed.client("skills:read", "skills:write", organisation=name) for name in ("a", "b", "c", "d")}
    for name, client in clients.items():
        client.post(f"{DEFINITIONS}/upload-create", files={"file": ("x.zip", pack(f"of-{name}"))})
    assert len(keyed.app.state.pool._open) == 2
    for name, client in clients.items():
        assert [one["id"] for one in client.get(DEFINITIONS).json()["data"]] == [f"of-{name}"]


def test_named_roots_are_shared_and_each_organisation_has_its_own_beside_them(home: Path, pack: Callable[..., bytes]) -> None:
    from skillyard import Catalog
    from skillyard.access import Keys, Organisations
    from skillyard.registry import Registry
    from skillyard.server import AccessPolicy, create_app

    folder = home / "shared/common"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: common\ndescription: Is common.\n---\n", "utf-8")
    catalog = Catalog.discover(roots=[home / "shared"], cwd=home / "project", home=home)
    app = create_app(catalog, Registry.of(catalog), access_policy=AccessPolicy(keys_required=True))
    Organisations(app.state.pool.database).create("ours")
    secret = Keys(app.state.pool.database).create("ada", ["skills:read", "skills:write"], organisation="ours")[1]
    with TestClient(app, base_url="http://localhost", headers={"X-Api-Key": secret}) as client:
        client.post(f"{DEFINITIONS}/upload-create", files={"file": ("tidy.zip", pack())})
        assert {skill["id"] for skill in client.get(CATALOG).json()["data"]} == {"config:common", "installed:tidy"}
