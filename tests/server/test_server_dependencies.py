"""Skills that require others over HTTP: what comes along with consent, the tree, and what is not taken away."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from typing import Any

from starlette.testclient import TestClient

Pack = Callable[..., bytes]
API = "/api/v1/skill-definitions"
REQUIRES = "version: 1.0.0\nrequires: {skills: ['tables@^1'], mcp_servers: [crm], bins: [sh]}\n"


def _both(*archives: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as joined:
        for archive in archives:
            with zipfile.ZipFile(io.BytesIO(archive)) as one:
                for name in one.namelist():
                    joined.writestr(name, one.read(name))
    return stream.getvalue()


def _send(client: TestClient, data: bytes, **query: Any) -> Any:
    return client.post(f"{API}/upload-create", files={"file": ("skills.zip", data)}, params=query)


def test_what_is_required_comes_along_with_consent_and_stays_while_it_is_needed(client: TestClient, pack: Pack) -> None:
    archive = _both(
        pack("report", header=REQUIRES), pack("tables", header="version: 1.2.0\n", files={"scripts/t.py": "print(1)\n"})
    )
    refused = _send(client, archive, skills="report")
    assert (refused.status_code, refused.json()["code"]) == (403, "consent_required")
    (change,) = refused.json()["changes"]
    assert (change["skill_id"], change["required_by"]) == ("tables", ["report requires tables@^1"])
    assert (change["source"], change["widened"]) == ("an upload", ["has the script scripts/t.py"])
    installed = _send(client, archive, skills="report", consent=refused.json()["consent"])
    assert installed.status_code == 201, installed.text
    results = {one["skill_id"]: one["required_by"] for one in installed.json()["data"]["results"]}
    assert results == {"report": [], "tables": ["report requires tables@^1"]}

    tree = client.get(f"{API}/report/dependencies").json()["data"]
    assert {(one["kind"], one["name"]): (one["met"], one["where"]) for one in tree["needs"]} == {
        ("program", "sh"): (True, "PATH"), ("mcp_server", "crm"): (False, None), ("skill", "tables"): (True, "installed"),
    }  # fmt: skip
    assert tree["unmet"] == ["report: the MCP server crm is missing: register it in [servers]"]
    why = client.get(f"{API}/tables/dependencies").json()["data"]
    assert (why["required_by"], why["installed_because"]) == (["report requires tables@^1"],) * 2
    assert client.get(f"{API}/nothing/dependencies").status_code == 404

    kept = client.delete(f"{API}/tables")
    assert (kept.status_code, kept.json()["code"]) == (409, "skill_required")
    assert "?dependencies=false" in kept.json()["hint"]
    assert client.delete(f"{API}/tables", params={"dependencies": False}).status_code == 200


def test_conflicts_say_who_asks_for_what_and_can_be_overruled(client: TestClient, pack: Pack) -> None:
    assert _send(client, pack("tables", header="version: 2.0.0\n")).status_code == 201
    refused = _send(client, pack("report", header=REQUIRES))
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    assert refused.json()["required"] == [{"by": "report", "skill": "tables", "requires": "tables@^1"}]
    assert refused.json()["available"] == {"tables": ["2.0.0 (installed)"]}
    assert _send(client, pack("report", header=REQUIRES), dependencies=False).status_code == 201
