"""How much may be asked: buckets that fill evenly, said in every answer, kept for a bounded number of callers."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import preloaded
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.errors import InvalidConfiguration
from skillyard.registry import Registry
from skillyard.server import AccessPolicy, create_app
from skillyard.server.middleware.request_limits import SharedTokenBucket, TokenBucket, request_kind
from skillyard.server.server_settings import RateLimit

LIST = "/api/v1/skill-definitions"


def test_a_bucket_is_empty_after_so_many_and_fills_evenly() -> None:
    bucket = TokenBucket(RateLimit(3, 60))
    assert [bucket.take("a", 100.0)[0] for _ in range(5)] == [2, 1, 0, -1, -1]
    assert bucket.take("b", 100.0) == (2, 20.0)
    assert bucket.wait("a", 100.0) == 20
    assert bucket.take("a", 119.9)[0] == -1
    assert bucket.take("a", 120.0)[0] == 0
    assert bucket.take("a", 500.0) == (2, 20.0)


@given(st.integers(1, 50), st.lists(st.floats(0, 30), max_size=200))
def test_in_no_minute_more_passes_than_a_full_bucket_and_what_flows_in(many: int, pauses: list[float]) -> None:
    bucket, now, passed = TokenBucket(RateLimit(many, 60)), 1000.0, []
    for pause in pauses:
        now += pause
        left, full_in = bucket.take("a", now)
        assert 0 <= full_in <= 60.001
        if left >= 0:
            passed.append(now)
        else:
            assert bucket.wait("a", now) > 0
    for start in passed:
        assert sum(start <= moment <= start + 60 for moment in passed) <= 2 * many


def test_processes_that_share_a_bucket_take_from_the_same_one(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from skillyard.server.server_settings import RateLimit;"
        " from skillyard.server.middleware.request_limits import SharedTokenBucket;"
        " bucket = SharedTokenBucket(RateLimit(100, 6000), Path(sys.argv[1]));"
        " print(sum(bucket.take('ada', 1000.0)[0] >= 0 for _ in range(80)))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "read.limits")]
    started = [preloaded.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    passed = [int(process.communicate(timeout=120)[0]) for process in started]
    assert sum(passed) == 100
    shared = SharedTokenBucket(RateLimit(100, 6000), tmp_path / "read.limits")
    assert (shared.take("ada", 1000.0)[0], shared.wait("ada", 1000.0)) == (-1, 60)
    assert shared.take("grace", 1000.0)[0] == 99


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 30)), max_size=60))
def test_a_shared_bucket_counts_as_one_in_memory(taken: list[tuple[str, float]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        alone, shared, now = TokenBucket(RateLimit(3, 60)), SharedTokenBucket(RateLimit(3, 60), Path(folder, "x")), 1000.0
        for caller, pause in taken:
            now += pause
            assert shared.take(caller, now) == alone.take(caller, now)
            assert shared.wait(caller, now) == alone.wait(caller, now)
        shared.close()


def test_what_is_kept_of_callers_is_bounded() -> None:
    bucket = TokenBucket(RateLimit(10, 60), callers=5)
    for number in range(100):
        bucket.take(str(number), 1.0)
    assert len(bucket) == 5


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", LIST, "read"), ("HEAD", "/", "read"), ("POST", LIST, "write"), ("DELETE", "/x.zip", "write"),
        ("GET", "/.well-known/agent-skills/pdf.zip", "download"), ("GET", "/api/v1/download", "download"),
        ("GET", "/v1/skills/x/content", "download"), ("GET", "/a.tar.gz", "download"), ("GET", "/download/x", "read"),
    ],
)  # fmt: skip
def test_each_request_is_of_one_kind(method: str, path: str, kind: str) -> None:
    assert request_kind(method, path) == kind


def _limited(home: Path, limits: str) -> Any:
    folder = home / ".config/skillyard"
    folder.mkdir(parents=True)
    (folder / "skillyard.toml").write_text(f"[server]\n{limits}\n", "utf-8")
    catalog = Catalog.discover(cwd=home / "project", home=home)
    return create_app(catalog, Registry.of(catalog), access_policy=AccessPolicy(keys_required=True))


def test_every_answer_tells_the_limit_and_what_is_over_it_is_refused_with_a_time(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    app = _limited(home, "limits = { read = 3, write = 2 }")
    with TestClient(app, base_url="http://127.0.0.1") as client:
        keys = app.state.credentials.keys
        one, other = ({"Authorization": f"Bearer {keys.create(name, ['skills:read'])[1]}"} for name in ("one", "other"))
        answers = [client.get(LIST, headers=one) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert [answer.headers["ratelimit-remaining"] for answer in answers] == ["2", "1", "0", "0"]
        refused = answers[-1]
        assert refused.json()["code"] == "too_many_requests"
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.headers["ratelimit-limit"] == refused.headers["x-ratelimit-limit"] == "3"
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        assert int(refused.headers["x-ratelimit-reset"]) > 1_700_000_000
        assert 1 <= int(refused.headers["ratelimit-reset"]) <= 60
        assert refused.headers["x-frame-options"] == "DENY"
        assert client.get(LIST, headers=other).status_code == 200
        assert client.post("/api/v1/catalog/toggle", headers=one, json={"skill": "x"}).status_code == 403
        assert client.get("/healthz").headers["ratelimit-remaining"] == "2"


def test_the_local_user_is_not_limited(client: TestClient) -> None:
    assert "ratelimit-limit" not in client.get(LIST).headers


@pytest.mark.parametrize(
    "table",
    [
        "limits = 3",
        "limits = { read = 0 }",
        "limits = { reads = 3 }",
        "session-hours = true",
        "session-hours = 1e3",
        "port = 1",
        "skills-api-mb = 101",
        "connections = 5",
        "connections = { head-seconds = 0 }",
        "connections = { most = 5 }",
        "mcp = { sessions = -1 }",
        "mcp = { tool-prefix = 'a b' }",
        'trusted-proxies = "10.0.0.1"',
        'trusted-proxies = ["*"]',
    ],
)
def test_settings_that_cannot_be_meant_are_refused_with_file_and_key(
    home: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    with pytest.raises(InvalidConfiguration) as refused:
        _limited(home, table)
    assert "skillyard.toml" in refused.value.message
    assert str(refused.value.details["key"]).startswith("server.")


def test_a_project_says_nothing_about_the_server(home: Path) -> None:
    (home / "project/skillyard.toml").write_text("[server]\nsession-hours = 1\n", "utf-8")
    with pytest.raises(InvalidConfiguration):
        Catalog.discover(cwd=home / "project", home=home)
