"""A token for a mirror is sent to the host it was given for, and to no other mirror or redirect."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from skillyard.errors import InvalidConfiguration, SkillyardError
from skillyard.registry.logins import Login, Logins
from skillyard.registry.mirror_locations import MirrorIndex, open_mirror
from skillyard.registry.source_host_policy import download

TOKEN = "SKILLYARD_MIRROR_TOKEN"
EMPTY_INDEX = MirrorIndex()
EMPTY = EMPTY_INDEX.to_bytes()


class _Site:
    """A web server on loopback that redirects some paths and remembers the credentials of every request."""

    def __init__(self) -> None:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append((self.path, self.headers.get("Authorization")))
                target = site.moved.get(self.path)
                self.send_response(302 if target else 200)
                if target:
                    self.send_header("Location", target)
                self.end_headers()
                self.wfile.write(b"" if target else EMPTY)

            def log_message(self, *_: object) -> None:
                return

        self.asked: list[tuple[str, str | None]] = []
        self.moved: dict[str, str] = {}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def sites() -> Iterator[tuple[_Site, _Site]]:
    """Two servers: the one whose token we have, and another."""
    both = _Site(), _Site()
    threads = [threading.Thread(target=site.server.serve_forever) for site in both]
    for thread in threads:
        thread.start()
    yield both
    for site, thread in zip(both, threads, strict=True):
        site.server.shutdown()
        site.server.server_close()
        thread.join()


@pytest.mark.abuse("E8")
def test_a_token_is_sent_to_its_own_host_alone(sites: tuple[_Site, _Site], monkeypatch: pytest.MonkeyPatch) -> None:
    ours, stranger = sites
    monkeypatch.setenv(TOKEN, f"mirror.example.org=other {ours.address}=secret==")
    for site in sites:
        open_mirror(f"{site.address}/m", allow_private=True).index()
    assert ours.asked == [("/m/skillyard-mirror.json", "Bearer secret==")]
    assert stranger.asked == [("/m/skillyard-mirror.json", None)]


def test_a_token_for_a_host_is_not_sent_to_it_without_encryption(
    sites: tuple[_Site, _Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, _ = sites
    monkeypatch.setenv(TOKEN, f"{ours.address.removeprefix('http://')}=secret")
    open_mirror(ours.address, allow_private=True).index()
    assert ours.asked == [("/skillyard-mirror.json", None)]


@pytest.mark.abuse("E8")
def test_no_credentials_follow_a_redirect_to_another_port_and_none_come_back_from_there(sites: tuple[_Site, _Site]) -> None:
    ours, stranger = sites
    ours.moved = {"/a": "/b", "/b": f"{stranger.address}/c"}
    stranger.moved = {"/c": f"{ours.address}/d"}
    download(f"{ours.address}/a", limit=1000, allow_private=True, headers={"Authorization": "Bearer secret"})
    assert ours.asked == [("/a", "Bearer secret"), ("/b", "Bearer secret"), ("/d", None)]
    assert stranger.asked == [("/c", None)]


@pytest.mark.parametrize("text", ["sk_secret", "=secret", "host=", "https://u@host=secret", "a/b=secret", "host=a\tb\x07"])
def test_a_token_without_a_host_is_refused_and_not_shown(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, text)
    with pytest.raises(InvalidConfiguration, match=TOKEN) as refused:
        open_mirror("https://mirror.example.org/skills")
    assert "secret" not in refused.value.message
    assert "HOST=TOKEN" in (refused.value.hint or "")


def test_a_mirror_on_this_machine_needs_no_token(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "sk_secret")
    with pytest.raises(SkillyardError, match="is not a mirror"):
        open_mirror(str(tmp_path)).index()


@pytest.mark.abuse("E8")
def test_the_key_of_a_login_is_sent_to_its_own_server_alone(sites: tuple[_Site, _Site], tmp_path: Path) -> None:
    ours, stranger = sites
    logins = Logins(str(tmp_path))
    logins.save(Login(ours.address, "sky_ours"))
    assert open_mirror(f"{ours.address}/mirror", logins=logins).index() == EMPTY_INDEX
    assert ours.asked == [("/mirror/skillyard-mirror.json", "Bearer sky_ours")]
    with pytest.raises(SkillyardError):  # another server has no login, and so no private address either
        open_mirror(f"{stranger.address}/mirror", logins=logins).index()
    ours.moved["/away/skillyard-mirror.json"] = f"{stranger.address}/skillyard-mirror.json"
    with pytest.raises(SkillyardError):  # nor does ours lead there
        open_mirror(f"{ours.address}/away", logins=logins).index()
    open_mirror(f"{ours.address}/away", logins=logins, allow_private=True).index()
    assert stranger.asked == [("/skillyard-mirror.json", None)]
