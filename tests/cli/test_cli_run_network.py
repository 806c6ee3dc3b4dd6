"""`skillyard run` for a skill that may reach hosts: what it asked for is shown."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]

_SCRIPT = """
import urllib.error, urllib.request

def execute(parameters):
    answers = []
    for url in parameters["urls"]:
        try:
            answers.append(urllib.request.urlopen(url, timeout=5).read().decode())
        except urllib.error.HTTPError as error:
            answers.append(error.code)
    return {"output": answers}
"""


class _Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hello) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def root(skills_root: Path, make_skill: Any, port: int) -> Path:
    header = (
        "name: fetcher\ndescription: Fetches pages. Use when a page is wanted.\n"
        f"security:\n  network: allowlist\n  network_allowlist: ['http://localhost:{port}', 'http://unlisted.test']"
    )
    make_skill(skills_root, "fetcher", front_matter=header, files={"scripts/execute.py": _SCRIPT})
    return skills_root


@pytest.fixture
def operator(home: Path, port: int) -> None:
    """The user's own settings open this machine for the one host."""
    folder = home / ".config/skillyard"
    folder.mkdir(parents=True)
    (folder / "skillyard.toml").write_text(
        f'[sandbox]\nprivate-networks = true\nnetwork-allowlist = ["http://localhost:{port}"]\n'
    )


@pytest.mark.row("000-20", "003-11")
def test_hosts_that_a_run_reached_and_was_denied_are_shown(call: Call, root: Path, operator: None, port: int) -> None:
    given = f'{{"urls": ["http://localhost:{port}/", "http://unlisted.test/"]}}'
    answer = call("run", "fetcher", "--root", root, "--input", given, "--json")
    assert answer.code == 0, answer.out
    assert answer.data["output"] == ["hello", 403]
    first, second = answer.data["contacts"]
    assert (first["host"], first["port"], first["verdict"], first["requests"]) == ("localhost", port, "allowed", 1)
    assert (second["host"], second["verdict"], second["received_bytes"]) == ("unlisted.test", "denied", 0)
    shown = call("run", "fetcher", "--root", root, "--input", given)
    assert "Network" in shown.out.splitlines()
    assert f"localhost:{port}" in shown.out
    assert "denied" in shown.out
    assert "unlisted.test" in shown.out + shown.err
