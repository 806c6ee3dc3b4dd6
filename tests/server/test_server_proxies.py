"""Who asks, and how, is believed of configured proxies and of nobody else, not even of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.access import Keys
from skillyard.errors import InvalidInput
from skillyard.registry import Registry
from skillyard.server import AccessPolicy, create_app

SAID = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "Forwarded": "for=203.0.113.7;proto=https"}


def recorded(home: Path, *proxies: str, peer: str, **said: str) -> tuple[str | None, int]:
    """The address in the trail of a change that somebody made from `peer`, and the status when it comes from a page."""
    access_policy = AccessPolicy.listening("127.0.0.1", require_keys=True, trusted_proxies=proxies)
    catalog = Catalog.discover(cwd=home / "project", home=home)
    app: Any = create_app(catalog, Registry.of(catalog), access_policy=access_policy)
    secret = Keys(app.state.pool.database).create("admin", ["admin"])[1]
    headers = {"Authorization": f"Bearer {secret}", **said}
    with TestClient(app, base_url="http://127.0.0.1:8787", client=(peer, 5000), headers=headers) as client:
        assert client.post("/api/v1/organisations", json={"name": "acme"}).status_code == 201
        page = client.post("/api/v1/catalog/refresh", headers={"Origin": "https://127.0.0.1:8787"})
        events = client.get("/api/v1/audit").json()["data"]
    return next(event["address"] for event in events if event["action"] == "organisations.create"), page.status_code


@pytest.mark.abuse("H17")
@pytest.mark.parametrize("proxies", [(), ("10.0.0.0/24",)])
def test_nobody_else_is_believed(home: Path, proxies: tuple[str, ...]) -> None:
    assert recorded(home, *proxies, peer="127.0.0.1", **SAID) == ("127.0.0.1", 403)


@pytest.mark.parametrize("proxies", [("127.0.0.1",), ("10.0.0.0/24", "127.0.0.0/8")])
def test_a_configured_proxy_is_believed(home: Path, proxies: tuple[str, ...]) -> None:
    assert recorded(home, *proxies, peer="127.0.0.1", **SAID) == ("203.0.113.9", 200)


@pytest.mark.abuse("H17")
@pytest.mark.parametrize("name", ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded", "Via"])
def test_what_was_passed_on_is_nobody_of_this_machine(client: TestClient, name: str) -> None:
    assert client.get("/api/v1/catalog").status_code == 200
    assert client.get("/api/v1/catalog", headers={name: "127.0.0.1"}).status_code == 401


@pytest.mark.parametrize("proxy", ["*", "10.0.0.1/8", "proxy.example.org", ""])
def test_what_is_no_address_is_refused(proxy: str) -> None:
    with pytest.raises(InvalidInput, match="neither an address nor a network"):
        AccessPolicy.listening("127.0.0.1", trusted_proxies=[proxy])
