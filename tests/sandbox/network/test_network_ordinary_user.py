"""The way out for the runs of an ordinary user, without root and without cgroups."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import h11
import pytest

import skillyard
from skillyard.sandbox.runtimes import runtime_for

USER = 61_235

PROGRAM = r"""
import asyncio, json, os
from pathlib import Path
from skillyard.sandbox import Job, Policy, backends, preparation

preparation.make_cgroup = lambda **_: None
tree = Path(os.environ["HOME"]) / "skill"
tree.mkdir()
(tree / "fetch.py").write_text('''
import json, os, sys, socket, urllib.error, urllib.request
found = []
for url in json.load(sys.stdin):
    try:
        found.append(urllib.request.urlopen(url, timeout=5).read().decode())
    except urllib.error.HTTPError as error:
        found.append(error.code)
try:
    socket.create_connection(("1.1.1.1", 443), timeout=2)
    found.append("out")
except OSError:
    found.append("in")
os.write(3, json.dumps(found).encode())
''')

async def serve(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    await writer.drain()
    writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    entry = f"http://localhost:{server.sockets[0].getsockname()[1]}"
    policy = Policy(network="allowlist", network_allowlist=(entry,), private_networks=True)
    stdin = json.dumps([entry, "http://evil.test/"]).encode()
    result = await backends()[0].run(Job(str(tree), "fetch.py", stdin, policy))
    print(json.dumps([result.status, result.value, result.stderr.decode(), [item.verdict for item in result.contacts]]))

asyncio.run(main())
"""


@pytest.fixture
def ground() -> Iterator[Path]:
    """A home for the user and a copy of the libraries that the user can read."""
    folder = Path(tempfile.mkdtemp(prefix="ordinary-"))
    folder.chmod(0o755)
    for package in (skillyard, h11):
        source = Path(package.__file__).parent
        shutil.copytree(source, folder / "lib" / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder / "lib", *(folder / "lib").rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (folder / "home").mkdir()
    if os.geteuid() == 0:
        os.chown(folder / "home", USER, USER)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.row("000-20", "D-14")
@pytest.mark.abuse("D5", "D6", on="bwrap")
def test_an_ordinary_users_run_reaches_its_hosts_and_nothing_else(ground: Path) -> None:
    root = os.geteuid() == 0
    done = subprocess.run(
        [runtime_for("x.py", as_other=True).program if root else sys.executable, "-c", PROGRAM],
        env={
            "HOME": str(ground / "home"),
            "PYTHONPATH": str(ground / "lib"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        cwd=ground,
        timeout=60,
        check=False,
        **({"user": USER, "group": USER, "extra_groups": []} if root else {}),
    )
    assert done.returncode == 0, done.stderr.decode()
    status, value, stderr, verdicts = json.loads(done.stdout)
    assert status == "ok", stderr
    assert value == ["hello", 403, "in"]
    assert verdicts == ["allowed", "denied"]
