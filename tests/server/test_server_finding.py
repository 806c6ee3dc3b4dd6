"""Finding skills over HTTP: filters, what each would leave, searches, and everything about one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

API = "/api/v1/catalog"


@pytest.fixture
def shop(home: Path, make_skill: Any) -> Path:
    """The user's skills, of several tags and states."""
    root = home / ".claude/skills"
    make_skill(root, "forms", front_matter="name: forms\ndescription: Fills in PDF forms.\ntags: [pdf, office]\nversion: 1.2.0")
    make_skill(root, "merge", front_matter="name: merge\ndescription: Merges PDF files.\ntags: [pdf]\ndisplayName: The Merger")
    make_skill(root, "weather", description="Tells the weather.", files={"references/cities.md": "Rome"})
    make_skill(root, "broken", front_matter="name: broken")
    make_skill(home / "project/.claude/skills", "weather", description="The project's own weather.")
    return root


def ids(client: TestClient, **filters: str) -> list[str]:
    return [skill["id"] for skill in client.get(API, params=filters).json()["data"]]


def test_a_facet_says_how_many_skills_its_filter_leaves(shop: Path, client: TestClient) -> None:
    facets = client.get(f"{API}/facets").json()["data"]
    assert facets == {
        "source": {"project": 1, "user": 4},
        "status": {"ok": 3, "broken": 1, "shadowed": 1},
        "tag": {"pdf": 2, "office": 1},
        "state": {"automatic": 5},
    }
    for name, counts in facets.items():
        for value, count in counts.items():
            answer = client.get(API, params={name: value}).json()
            assert answer["meta"]["total"] == len(answer["data"]) == count


def test_filters_narrow_together_and_text_looks_into_names_and_descriptions(shop: Path, client: TestClient) -> None:
    assert ids(client, tag="pdf") == ["user:forms", "user:merge"]
    assert ids(client, tag="pdf", text="MERGES") == ["user:merge"]
    assert ids(client, status="shadowed") == ["user:weather"]
    assert ids(client, status="shadowed", source="project") == []
    assert ids(client, tag="nothing") == []
    assert client.get(API, params={"source": "moon"}).status_code == 400


def test_a_search_gives_usable_skills_and_its_filters_hold(shop: Path, client: TestClient) -> None:
    found = client.get(f"{API}/search", params={"q": "fill in a pdf form"}).json()["data"]
    assert found[0]["id"] == "user:forms"
    assert 0 < found[0]["confidence"] <= 1
    assert found[0]["skill"]["tags"] == ["pdf", "office"]
    told = client.get(f"{API}/search", params={"q": "weather"}).json()["data"]
    assert [fit["id"] for fit in told] == ["project:weather"], "a shadowed skill is not offered"
    assert client.get(f"{API}/search", params={"q": "pdf", "source": "project"}).json()["data"] == []
    assert {fit["id"] for fit in client.get(f"{API}/search", params={"q": "pdf", "tag": "office"}).json()["data"]} == {
        "user:forms"
    }


def test_the_detail_has_everything_about_a_skill_also_about_one_that_is_not_offered(shop: Path, client: TestClient) -> None:
    told = client.get(f"{API}/skill", params={"skill": "merge"}).json()["data"]
    assert (told["id"], told["display_name"], told["tags"], told["status"]) == ("user:merge", "The Merger", ["pdf"], "ok")
    assert told["front_matter"]["displayName"] == "The Merger"
    assert told["permission"] == {"decision": "allow", "pattern": None}
    assert told["run"]["possible"] is False
    assert told["digest"].startswith("sha256:")
    shadowed = client.get(f"{API}/skill", params={"skill": "user:weather"}).json()["data"]
    assert (shadowed["status"], [one["id"] for one in shadowed["namesakes"]]) == ("shadowed", ["project:weather"])
    assert [file["name"] for file in shadowed["files"]] == ["references/cities.md"]
    broken = client.get(f"{API}/skill", params={"skill": "broken"}).json()["data"]
    assert (broken["status"], broken["diagnostics"][-1]["rule"]) == ("broken", "description-not-found")
    assert client.get(f"{API}/skill", params={"skill": "merg"}).json()["data"]["id"] == "user:merge", "a part is enough"
    assert client.get(f"{API}/skill", params={"skill": "nowhere"}).json()["code"] == "skill_not_found"
