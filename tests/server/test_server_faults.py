"""What a server says while something below it fails, and that it goes on by itself when that is over."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import httpx
import preloaded
import pytest

from benchmarks.soak.relay import Relay

Pack = Callable[..., bytes]
UPLOAD = "/api/v1/skill-definitions/upload-create?force=true"
SMALL_DISK = 'mount -t tmpfs -o size=32m none "$1" && shift && exec "$@"'


@contextmanager
def serving(home: Path, *before: str, **environment: str) -> Iterator[tuple[httpx.Client, Any]]:
    """`skillyard serve` as a process of its own, started by `before`, and a client of it."""
    command = [*before, sys.executable, "-m", "skillyard", "serve", "--port", "0", "--json"]
    begin: Any = subprocess.Popen if before else preloaded.Popen
    with begin(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=home, env={**os.environ, **environment}
    ) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
                yield client, process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def send(client: httpx.Client, archive: bytes, name: str = "tidy") -> httpx.Response:
    return client.post(UPLOAD, files={"file": (f"{name}.zip", archive)})


def refused(answer: httpx.Response, *codes: str) -> None:
    """It is one of these, with the time after which to ask again and a way out."""
    reported = answer.json()
    assert (answer.status_code, reported["code"] in codes) == (503, True), answer.text
    assert int(answer.headers["Retry-After"]) > 0
    assert reported["hint"]
    assert "Traceback" not in answer.text


def until_it_is_well(client: httpx.Client) -> None:
    end = time.monotonic() + 30
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize("records", ["sqlite", "postgresql"])
def test_a_full_disk_refuses_what_would_be_written_and_all_goes_on_when_there_is_room(
    home: Path, pack: Pack, records: str, address_of: Callable[..., str]
) -> None:
    """The disk is a small one of its own, in a namespace that any user may make."""
    data = home / "data"
    data.mkdir()
    mapped = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    own = ("unshare", *mapped, "--mount", "sh", "-c", SMALL_DISK, "sh", str(data))
    environment = {"SKILLYARD_DATABASE_URL": address_of("postgresql", bare=False)} if records == "postgresql" else {}
    noise = os.urandom(1 << 20).hex()[: 1 << 20]
    with serving(home, *own, **environment) as (client, process):
        answer = send(client, pack("first"), "first")
        assert answer.status_code == 201, answer.text
        filler = Path(f"/proc/{process.pid}/root{data}/filler")
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
            while True:
                file.write(bytes(1 << 16))
        refused(send(client, pack("second", files={"noise.txt": noise}), "second"), "disk_full", "database_unavailable")
        assert client.get("/api/v1/skill-definitions/first/files/SKILL.md").status_code == 200
        filler.unlink()
        answer = send(client, pack("second", files={"noise.txt": noise}), "second")
        assert answer.status_code == 201, answer.text
        until_it_is_well(client)
        assert [one["id"] for one in client.get("/api/v1/skill-definitions").json()["data"]] == ["first", "second"]
        left = Path(f"/proc/{process.pid}/root{data}/skills/.work").iterdir()
        assert [path.name for path in left] == ["gate"]


def test_a_database_without_free_connections_is_reported_and_serves_again_when_there_are(home: Path, pack: Pack) -> None:
    import psycopg

    specification = spec_from_file_location("of_faults", Path(__file__).parents[1] / "postgresql.py")
    assert specification is not None
    assert specification.loader is not None
    postgresql = module_from_spec(specification)
    specification.loader.exec_module(postgresql)
    folder = Path(tempfile.mkdtemp(prefix="skillyard-pg-", dir="/tmp"))
    cluster = postgresql.Cluster(folder, "max_connections=12", "superuser_reserved_connections=0", "fsync=off")
    try:
        cluster.make()
        cluster.start()
        with serving(home, SKILLYARD_DATABASE_URL=cluster.url) as (client, _), ExitStack() as held:
            assert send(client, pack("first")).status_code == 201
            with psycopg.connect(cluster.url, autocommit=True) as ending:
                taken = [held.enter_context(psycopg.connect(cluster.url)) for _ in range(2)]
                with pytest.raises(psycopg.OperationalError):
                    while True:
                        ending.execute(
                            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                            " WHERE backend_type = 'client backend' AND NOT pid = ANY(%s)",
                            [[ending.info.backend_pid, *(one.info.backend_pid for one in taken)]],
                        )
                        taken.append(held.enter_context(psycopg.connect(cluster.url)))
                refused(client.get("/readyz"), "database_unavailable")
                refused(send(client, pack("second"), "second"), "database_unavailable")
                held.close()
            until_it_is_well(client)
            assert send(client, pack("second"), "second").status_code == 201
    finally:
        if cluster.processes():
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_store_that_fails_refuses_installs_and_takes_them_when_it_is_back(
    home: Path, pack: Pack, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = await Relay(int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2])).open()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{wire.port}")

    def talk(*steps: Callable[[httpx.Client], None]) -> None:
        with serving(home, SKILLYARD_STORE=bucket) as (client, _):
            for step in steps:
                step(client)

    loop = asyncio.get_running_loop()

    def well(client: httpx.Client) -> None:
        assert send(client, pack("first"), "first").status_code == 201

    def broken(client: httpx.Client) -> None:
        loop.call_soon_threadsafe(wire.cut)
        refused(send(client, pack("second"), "second"), "store_failed")
        assert client.get("/api/v1/skill-definitions/first/files/SKILL.md").status_code == 200
        assert [one["id"] for one in client.get("/api/v1/skill-definitions?isActive=true").json()["data"]] == ["first"]
        loop.call_soon_threadsafe(wire.heal)

    def well_again(client: httpx.Client) -> None:
        assert send(client, pack("second"), "second").status_code == 201

    await asyncio.to_thread(talk, well, broken, well_again)
    await wire.close()
