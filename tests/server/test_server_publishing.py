"""Publishing: who claims a name owns it, a version keeps its content, and what is withdrawn is served no more."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.access import Keys
from skillyard.errors import ArchiveTooLarge
from skillyard.registry import Registry
from skillyard.registry.remote_server import RemoteServer
from skillyard.server import AccessPolicy, create_app

Pack = Callable[..., bytes]
_DEFINITIONS = "/api/v1/skill-definitions"


class Member:
    """Somebody with a key of their own."""

    def __init__(self, client: TestClient, key: str) -> None:
        self._client, self._headers = client, {"Authorization": f"Bearer {key}"}

    def get(self, path: str) -> httpx.Response:
        return self._client.get(f"{_DEFINITIONS}{path}", headers=self._headers)

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return self._client.post(f"{_DEFINITIONS}{path}", json=body, headers=self._headers)

    def delete(self, path: str) -> httpx.Response:
        return self._client.delete(f"{_DEFINITIONS}{path}", headers=self._headers)

    def put(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return self._client.put(f"{_DEFINITIONS}{path}", json=body, headers=self._headers)

    def publish(self, data: bytes, **query: str) -> httpx.Response:
        files = {"file": ("skill.zip", data)}
        return self._client.post(f"{_DEFINITIONS}/upload-create", params=query, files=files, headers=self._headers)

    def inspect(self, data: bytes, **query: str) -> dict[str, Any]:
        files = {"file": ("skill.zip", data)}
        answer = self._client.post(f"{_DEFINITIONS}/inspect", params=query, files=files, headers=self._headers)
        return dict(answer.json()["data"][0])


@pytest.fixture
def member(home: Path, database_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Member]]:
    """Give a function that makes a key of that name, with the scopes, on a server that requires one."""
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", database_address)
    catalog = Catalog.discover(cwd=home / "project", home=home)
    app = create_app(catalog, Registry.of(catalog), access_policy=AccessPolicy(keys_required=True))
    keys = Keys(lambda: catalog.records().database)
    with TestClient(app, base_url="http://127.0.0.1:8787") as client:
        yield lambda name, *scopes: Member(client, keys.create(name, scopes or ("skills:read", "skills:write"))[1])


@pytest.mark.both_databases
def test_the_first_publisher_owns_the_name(member: Callable[..., Member], pack: Pack) -> None:
    ada, bob, root = member("ada"), member("bob"), member("root", "admin")
    assert ada.publish(pack(), version="1.0.0").status_code == 201
    assert ada.get("/tidy/owners").json()["data"]["owners"] == ["ada"]
    current = ada.get("/tidy/versions/current").json()["data"]["version"]
    refused = [
        bob.publish(pack(body="Mine."), version="1.1.0"),
        bob.publish(pack()),  # the same content is somebody else's too
        bob.post("/tidy/versions/current/yank", {}),
        bob.post("/tidy/versions/current/deprecate", {}),
        bob.post("/tidy/rollback", {"version": current}),
        bob.post("/tidy/owners", {"add": ["bob"]}),
        bob.put("/tidy", {"category": "mine"}),
        bob.delete("/tidy"),
    ]
    assert len(refused) == 8
    for answer in refused:
        assert (answer.status_code, answer.json()["code"]) == (403, "not_yours"), answer.text
        assert "belongs to ada" in answer.json()["detail"]
    assert bob.inspect(pack(body="Mine."))["refusals"][0]["code"] == "not_yours"
    assert bob.get("/tidy/versions/current").json()["data"]["version"] == current  # he may read it
    assert root.publish(pack(body="Fixed."), version="1.0.1").status_code == 201
    assert ada.get("/tidy/owners").json()["data"]["owners"] == ["ada"]


@pytest.mark.both_databases
def test_a_name_is_shared_and_transferred(member: Callable[..., Member], pack: Pack) -> None:
    ada, bob = member("ada"), member("bob")
    assert ada.publish(pack(), version="1.0.0").status_code == 201
    unknown = ada.post("/tidy/owners", {"add": ["nobody"]})
    assert (unknown.status_code, unknown.json()["code"]) == (400, "invalid_input")
    assert ada.post("/tidy/owners", {"remove": ["ada"]}).status_code == 400  # it would be nobody's
    moved = ada.post("/tidy/owners", {"add": ["bob"], "remove": ["ada"]})
    assert moved.json()["data"]["owners"] == ["bob"]
    assert bob.publish(pack(body="Mine."), version="1.1.0").status_code == 201
    assert ada.publish(pack(body="Again."), version="1.2.0").status_code == 403
    assert bob.post("/tidy/owners", {"add": ["*"]}).json()["data"]["owners"] == ["bob", "*"]
    assert ada.publish(pack(body="Again."), version="1.2.0").status_code == 201


def test_a_name_is_claimed_by_an_upload_that_goes_on_alone(member: Callable[..., Member], pack: Pack) -> None:
    ada, bob = member("ada"), member("bob")
    operation = ada.publish(pack(), version="1.0.0", wait="false").json()["data"]["operation_id"]
    assert '"state":"success"' in ada.get(f"/operations/{operation}/events").text
    assert ada.get("/tidy/owners").json()["data"]["owners"] == ["ada"]
    refused = bob.publish(pack(body="Mine."), version="1.1.0", wait="false").json()["data"]["operation_id"]
    assert '"not_yours"' in ada.get(f"/operations/{refused}/events").text


def test_what_was_there_before_is_nobodys_until_an_admin_says_so(member: Callable[..., Member], pack: Pack, home: Path) -> None:
    folder = home / "old"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: old\ndescription: Old. Use when asked to.\n---\nDo it.\n")
    registry = Registry.of(Catalog.discover(cwd=home / "project", home=home))
    registry.install(str(folder))
    registry.close()
    ada, root = member("ada"), member("root", "admin")
    assert ada.get("/old/owners").json()["data"]["owners"] == []
    assert ada.post("/old/owners", {"add": ["ada"]}).status_code == 403
    assert root.post("/old/owners", {"add": ["ada"]}).json()["data"]["owners"] == ["ada"]


def test_a_version_keeps_its_content(member: Callable[..., Member], pack: Pack) -> None:
    ada = member("ada")
    assert ada.publish(pack(), version="1.0.0").json()["data"]["results"][0]["status"] == "installed"
    assert ada.publish(pack(), version="1.0.0").json()["data"]["results"][0]["status"] == "unchanged"
    other = ada.publish(pack(body="Other."), version="1.0.0")
    assert (other.status_code, other.json()["code"]) == (409, "version_unusable")
    assert ada.inspect(pack(body="Other."), version="1.0.0")["refusals"][0]["code"] == "version_unusable"
    assert ada.publish(pack(body="Other."), version="1.1.0", notes="Other words.").status_code == 201
    assert ada.get("/tidy/versions/current").json()["data"]["origin"]["notes"] == "Other words."
    late = ada.publish(pack(), version="1.0.0")  # a retry that comes late takes nothing back
    assert (late.status_code, late.json()["code"]) == (409, "version_unusable")
    assert ada.publish(pack(), version="one").status_code == 400


def test_what_is_withdrawn_gives_way_to_the_version_before(member: Callable[..., Member], pack: Pack) -> None:
    ada = member("ada")
    assert ada.publish(pack(), version="1.0.0").status_code == 201
    assert ada.publish(pack(body="Bad."), version="1.1.0").status_code == 201
    bad = ada.get("/tidy/versions/current").json()["data"]["version"]
    body = {"reason": "it deletes too much", "stop_serving": True}
    answer = ada.post(f"/tidy/versions/{bad}/yank", body).json()["data"]
    assert (answer["yanked"], answer["current"]) == (True, False)
    left = ada.get("/tidy/versions/current").json()["data"]
    assert left["origin"]["version"] == "1.0.0"
    assert ada.post(f"/tidy/versions/{left['version']}/yank", body).json()["data"]["current"] is False
    assert ada.get("").json()["data"][0]["isActive"] is False
    again = ada.publish(pack(body="Bad."), version="1.2.0").json()
    assert again["code"] == "version_unusable" and f"`skillyard yank tidy {bad} --undo`" in again["hint"]
    assert ada.publish(pack(body="Good."), version="1.2.0").status_code == 201


def test_of_two_who_publish_a_name_at_once_exactly_one_has_it(member: Callable[..., Member], pack: Pack) -> None:
    people = [member(name) for name in ("ada", "bob", "cleo", "dan")]
    answers: list[httpx.Response] = []

    def publish(number: int) -> None:
        answers.append(people[number].publish(pack(body=f"By {number}."), version="1.0.0"))

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [201, 403, 403, 403]
    owners = people[0].get("/tidy/owners").json()["data"]["owners"]
    assert len(owners) == 1
    assert len(people[0].get("/tidy/versions").json()["data"]) == 1


def test_of_two_contents_under_one_version_exactly_one_is_taken(member: Callable[..., Member], pack: Pack) -> None:
    ada = member("ada")
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda n=number: answers.append(ada.publish(pack(body=f"{n}."), version="1.0.0").status_code))
        for number in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201, 409, 409]
    assert len(ada.get("/tidy/versions").json()["data"]) == 1


def test_who_has_not_the_scope_publishes_nothing(member: Callable[..., Member], pack: Pack) -> None:
    reader = member("reader", "skills:read")
    answer = reader.publish(pack(), version="1.0.0")
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")
    assert reader.get("").json()["data"] == []


def test_an_upload_that_breaks_off_leaves_nothing_and_is_sent_again(address: str, app: FastAPI, pack: Pack) -> None:
    data = pack(files={"notes.md": "x" * 50_000})
    where = urlsplit(address)
    border = "------cut"
    head = f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="tidy.zip"\r\n\r\n'.encode()
    whole = head + data + f"\r\n--{border}--\r\n".encode()
    lines = (
        f"POST {_DEFINITIONS}/upload-create?version=1.0.0 HTTP/1.1", f"Host: {where.netloc}",
        f"Content-Type: multipart/form-data; boundary={border}", f"Content-Length: {len(whole)}",
    )  # fmt: skip
    with socket.create_connection((where.hostname or "", where.port or 0)) as connection:
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + whole[: len(whole) // 2])
    registry = app.state.pool.main.registry
    assert registry.installed.skills(uninstalled=True) == ()
    server = RemoteServer(address)
    assert server.preview(data, "tidy", version="1.0.0").state == "new"
    assert server.publish(data, "tidy", version="1.0.0") == "installed"
    assert server.publish(data, "tidy", version="1.0.0") == "unchanged"  # the answer was lost, and it is sent once more
    assert len(registry.installed.versions("tidy")) == 1


def test_what_is_too_large_is_not_sent(address: str) -> None:
    with pytest.raises(ArchiveTooLarge, match="50 MB"):
        RemoteServer(address).publish(b"0" * (50 * 1024 * 1024 + 1), "tidy", version="1.0.0")
