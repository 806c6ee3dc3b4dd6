"""The way out for the runs of an ordinary user, without root and without cgroups."""

from __future__ import annotations

import json

import h11
import pytest
from ordinary_user import ordinary_user

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


@pytest.mark.row("000-20", "D-14")
@pytest.mark.abuse("D5", "D6", on="bwrap")
def test_an_ordinary_users_run_reaches_its_hosts_and_nothing_else() -> None:
    with ordinary_user(61_235, h11) as user:
        status, value, stderr, verdicts = json.loads(user.run("-c", PROGRAM))
    assert status == "ok", stderr
    assert value == ["hello", 403, "in"]
    assert verdicts == ["allowed", "denied"]
