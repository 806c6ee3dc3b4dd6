"""Servers over folders of real skills, in this process and in another."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import preloaded
import pytest
from mcp import StdioServerParameters
from mcp.server.lowlevel import Server

from skillyard.catalog import SkillCatalog
from skillyard.mcp.mcp_server import create_server
from skillyard.tools import SkillTools


@pytest.fixture
def shop(skills_root: Path, make_skill: Any) -> Path:
    """A folder with skills of every sort: plain, with files, not to the specification, broken."""
    make_skill(
        skills_root,
        "pdf",
        front_matter=(
            "name: pdf\ndescription: Works with PDF files.\nlicense: Apache-2.0\n"
            'metadata:\n  version: 1.0\nuser-invocable: true\nnumber: "2"'
        ),
        body="# PDF\n\nSee FORMS.md.\n",
        files={
            "forms.md": "the forms\r\n",
            "templates/invoice.md": "an invoice",
            "templates/eu/vat rates.md": "rates: 20 %",
            "scripts/fill.py": "print('x')\n",
            "assets/logo.png": b"\x89PNG\r\n\x1a\n\x00\x00",
            "latin.txt": "café".encode("latin-1"),
            ".env": "SECRET=1",
        },
    )
    make_skill(skills_root, "weather", description="Tells the weather.")
    make_skill(skills_root, "miner", front_matter="name: PDF Miner\ndescription: Digs.\nallowed-tools: [Read, Write]")
    make_skill(skills_root, "broken", front_matter="name: broken")
    return skills_root


@pytest.fixture
def server(shop: Path) -> Callable[..., Server[Any]]:
    """A server in this process; takes the options of `SkillTools`."""

    def make(*, watch: bool = False, tool_prefix: str = "", **options: Any) -> Server[Any]:
        catalog = SkillCatalog.discover(roots=[shop], cache=False)
        return create_server(SkillTools(catalog, repeat="text", **options), watch=watch, tool_prefix=tool_prefix)

    return make


@pytest.fixture
def command(shop: Path) -> Callable[..., StdioServerParameters]:
    """How to start a server in another process; takes more arguments of its command line."""
    return lambda *more: StdioServerParameters(
        command=sys.executable,
        args=["-W", "error", "-m", "skillyard", "mcp", "--root", str(shop), *more],
        env=dict(os.environ),
    )


_STANDING_IN = """\
import socket, sys
asking = socket.socket(socket.AF_UNIX)
asking.connect(sys.argv[1])
socket.send_fds(asking, ["\\0".join(sys.argv[2:]).encode()], [0, 1, 2])
sys.exit(int(asking.recv(8) or b"1"))
"""


@pytest.fixture(scope="session")
def _lending(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a small program gives its streams to a fork (`tests/preloaded.py`), and is given its exit status."""
    place = tmp_path_factory.mktemp("lending") / "at"

    def serve(asking: socket.socket) -> None:
        with asking:
            words, streams, _, _ = socket.recv_fds(asking, 1 << 16, 3)
            try:
                command = [sys.executable, *words.decode().split("\0")]
                process = preloaded.Popen(command, stdin=streams[0], stdout=streams[1], stderr=streams[2])
            finally:
                for stream in streams:
                    os.close(stream)
            with suppress(OSError):  # who asked is gone
                asking.send(str(process.wait() & 0xFF).encode())

    def accept() -> None:
        with suppress(OSError):  # closed at the end
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()
        accepting = threading.Thread(target=accept)
        accepting.start()
        yield place
        listening.shutdown(socket.SHUT_RDWR)
        accepting.join()


@pytest.fixture
def forked(command: Callable[..., StdioServerParameters], _lending: Path) -> Callable[..., StdioServerParameters]:
    """The same by a fork: a client starts a small program that gives its streams away, in a tenth of the time."""

    def make(*more: str) -> StdioServerParameters:
        words = ["-S", "-I", "-c", _STANDING_IN, str(_lending), *command(*more).args]
        return StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))

    return make
