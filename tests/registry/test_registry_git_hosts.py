"""Git asks only hosts that may be asked, at the addresses that were judged, wherever a repository has moved to."""

from __future__ import annotations

import http.server
import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from skillyard.errors import InvalidSource, NetworkRefused, SourceChanged
from skillyard.packages import Source
from skillyard.registry import GitFetcher, Registry, SourceFetcher
from skillyard.registry.source_host_policy import address_of_owner, among_shared

_AUTHOR = ("-c", "user.name=x", "-c", "user.email=x@example.com")


class _Backend(http.server.BaseHTTPRequestHandler):
    """Git's own program for HTTP, and addresses that lead elsewhere."""

    root: str
    hosts: list[str]
    moved: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        self.hosts.append(self.headers["Host"])
        path, _, query = self.path.partition("?")
        for name, target in self.moved.items():
            if path.startswith(name):
                self.send_response(301)
                self.send_header("Location", f"{target}{self.path.removeprefix(name)}")
                self.end_headers()
                return
        for name, target in (("/old", "/tidy"), ("/circle", "/circle"), ("/inward", "http://169.254.169.254/tidy")):
            if path.startswith(f"{name}/"):
                self.send_response(301)
                self.send_header("Location", f"{target}{self.path.removeprefix(name)}")
                self.end_headers()
                return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        done = subprocess.run(["git", "http-backend"], input=body, env=self._environment(path, query), stdout=-1, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        self.send_response(200)
        for line in head.decode().splitlines():
            self.send_header(*line.split(": ", 1))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def _environment(self, path: str, query: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": self.root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
        }  # fmt: skip

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def backend(tmp_path: Path, write: Any) -> Iterator[tuple[int, list[str]]]:
    """A site of this machine that serves the repository `/tidy`: its port, and the hosts it was asked as."""
    folder = write().rename(tmp_path / "tidy")
    for words in (["init", "-q"], ["add", "-A"], [*_AUTHOR, "commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    handler = type("Handler", (_Backend,), {"root": str(tmp_path), "hosts": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    _Backend.moved.clear()
    yield server.server_port, handler.hosts  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def fetched(tmp_path: Path) -> Path:
    """Where fetchers write."""
    made = tmp_path / "fetched"
    made.mkdir()
    return made


@pytest.mark.parametrize("path", ["tidy", "old"])
def test_a_repository_is_fetched_from_where_it_is_now(path: str, backend: tuple[int, list[str]], fetched: Path) -> None:
    source = Source("git", f"http://127.0.0.1:{backend[0]}/{path}")
    found = GitFetcher(allow_private=True).fetch(source, fetched)
    assert (found.tree / "SKILL.md").is_file()
    assert found.origin.address == f"http://127.0.0.1:{backend[0]}/tidy"


@pytest.fixture
def repository(backend: tuple[int, list[str]], tmp_path: Path, data: Path) -> Iterator[tuple[Registry, str, Path]]:
    """A registry with the skill of `/acme/tidy`, the address of the site, and the checkout behind it, with a new commit."""
    for owner in ("acme", "stranger"):
        (tmp_path / owner).mkdir()
        for name in ("tidy", "tidier"):
            (tmp_path / owner / name).symlink_to(tmp_path / "tidy")
    site = f"http://127.0.0.1:{backend[0]}"
    registry = Registry(str(data), fetcher=SourceFetcher(others={"git": GitFetcher(allow_private=True)}))
    registry.install(Source("git", f"{site}/acme/tidy"))
    skill = tmp_path / "tidy/SKILL.md"
    skill.write_text(f"{skill.read_text('utf-8')}More.\n", "utf-8")
    subprocess.run(["git", *_AUTHOR, "commit", "-qam", "two"], cwd=tmp_path / "tidy", check=True)
    yield registry, site, tmp_path / "tidy"
    registry.close()


@pytest.mark.abuse("F23")
def test_who_took_a_known_source_over_is_asked_about(repository: tuple[Registry, str, Path]) -> None:
    registry, site, _ = repository
    _Backend.moved["/acme/tidy/"] = "/stranger/tidy/"
    with pytest.raises(SourceChanged) as refused:
        registry.update("tidy")
    assert f"it comes from {site}/stranger/tidy, and no longer from {site}/acme/tidy" in refused.value.message
    assert registry.installed.current("tidy").origin["address"] == f"{site}/acme/tidy"
    assert registry.update("tidy", accept_source=True).results[0].status == "updated"
    assert registry.installed.current("tidy").origin["address"] == f"{site}/stranger/tidy"
    assert registry.update("tidy").results[0].status == "unchanged"


def test_a_repository_that_its_owner_has_renamed_is_the_same_source(repository: tuple[Registry, str, Path]) -> None:
    registry, site, _ = repository
    _Backend.moved["/acme/tidy/"] = "/acme/tidier/"
    assert registry.update("tidy").results[0].status == "updated"
    assert registry.installed.current("tidy").origin["address"] == f"{site}/acme/tidy"


def test_a_file_of_a_site_that_many_share_is_recorded_with_the_owner_it_was_redirected_to() -> None:
    asked, theirs = "https://github.com/acme/tidy/archive/v1.zip", "https://github.com/stranger/tidy/archive/v1.zip"
    cdn = "https://codeload.github.com/stranger/tidy/zip/v1"
    assert address_of_owner(asked, among_shared([theirs, cdn])) == theirs
    assert address_of_owner(asked, among_shared([cdn])) == asked, "where a site serves its files from is nobody's name"
    assert address_of_owner(asked, among_shared([asked.replace("v1", "v2")])) == asked


@pytest.mark.abuse("F17")
@pytest.mark.parametrize(("path", "error"), [("circle", InvalidSource), ("inward", NetworkRefused)])
def test_a_repository_that_leads_in_a_circle_or_inside_is_refused(
    path: str, error: type[Exception], backend: tuple[int, list[str]], fetched: Path
) -> None:
    with pytest.raises(error):
        GitFetcher(allow_private=True).fetch(Source("git", f"http://127.0.0.1:{backend[0]}/{path}"), fetched)


@pytest.mark.abuse("F17")
def test_git_asks_the_address_that_was_judged(
    backend: tuple[int, list[str]], fetched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lookup(name: str) -> Sequence[str]:
        return ["169.254.169.254", "127.0.0.1"]

    monkeypatch.setattr("skillyard.network.connections.system_lookup", lookup)
    port, hosts = backend
    found = GitFetcher(allow_private=True).fetch(Source("git", f"http://skills.invalid:{port}/tidy"), fetched)
    assert (found.tree / "SKILL.md").is_file()
    assert set(hosts) == {f"skills.invalid:{port}"}


@pytest.mark.abuse("F17")
@pytest.mark.parametrize("scheme", ["https", "ssh"])
def test_git_does_not_ask_this_machine(scheme: str, fetched: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        with pytest.raises(NetworkRefused, match="loopback") as refused:
            GitFetcher().fetch(Source("git", f"{scheme}://127.0.0.1:{server.getsockname()[1]}/x"), fetched)
        assert "private-hosts" in (refused.value.hint or "")
        with pytest.raises(BlockingIOError):
            server.accept()
