"""The command itself: it listens where it says, and stops when it is asked to."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import httpx
import preloaded
import pytest
import uvicorn
from fastapi import FastAPI

from skillyard.cli import main
from skillyard.engine import Records
from skillyard.server import http_server

COMMAND = [sys.executable, "-m", "skillyard", "serve", "--port", "0", "--json"]


def _start(home: Path, *options: str) -> preloaded.Popen:
    command = [*COMMAND, *options]
    return preloaded.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home, env=dict(os.environ))


def _address(process: preloaded.Popen | subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    found, _ = json.JSONDecoder().raw_decode(process.stdout.readline())
    return str(found["address"])


def test_the_command_serves_until_it_is_asked_to_stop(home: Path) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(COMMAND, stdout=pipe, stderr=pipe, text=True, cwd=home) as process:  # the command itself
        try:
            with urllib.request.urlopen(f"{_address(process)}/readyz", timeout=60) as answer:
                assert json.load(answer) == {"status": "ok"}
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert "Traceback" not in said


def test_what_mcp_needs_is_there_before_the_server_is_announced(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def run(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        server.started = True
        done.append("served")

    monkeypatch.setattr(http_server, "import_module", done.append)
    monkeypatch.setattr(uvicorn.Server, "run", run)
    with socket.socket() as listening:
        http_server.serve_in_process(lambda: app, listening, http_server.ListenOptions(), lambda: done.append("announced"))
    assert done == ["skillyard.mcp.transports", "announced", "served"]
    assert gc.isenabled()


def test_a_server_that_cannot_begin_leaves_the_garbage_collector_as_it_was(home: Path) -> None:
    assert main(["serve", "--port", "0", "--workers", "1000"]) != 0
    assert gc.isenabled()


def test_an_address_that_is_no_database_is_refused_before_anybody_is_served(home: Path) -> None:
    with _start(home, "--database-url", "nonsense") as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the database URL cannot be understood" in said


def test_a_home_that_cannot_be_made_is_reported_before_anybody_is_served(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLYARD_HOME", "/proc/nowhere")
    with _start(home) as process:
        out, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert json.loads(out)["error"]["code"] == "invalid_configuration"
    assert said.splitlines() == [
        "error: /proc/nowhere cannot be used: No such file or directory",
        "hint: set SKILLYARD_HOME to a folder you own",
    ]


def test_a_server_says_at_once_that_it_waits_for_its_database_and_goes_on_when_it_comes(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="skillyard-cluster-", dir="/tmp"))
    cluster = sys.modules["postgresql"].Cluster(folder, "fsync=off", listen=port)
    cluster.make()
    url = f"postgresql://skillyard:verysecret@127.0.0.1:{port}/postgres"
    with _start(home, "--database-url", url) as process:
        try:
            assert process.stderr is not None
            received = [process.stderr.readline(), process.stderr.readline()]
            assert received[0].startswith("waiting for the database (database_unavailable): the database postgresql")
            assert f"127.0.0.1:{port}" in received[0]
            assert received[1].startswith("hint: ")
            with httpx.Client(base_url=_address(process), timeout=60) as client:
                assert (client.get("/readyz").status_code, client.get("/healthz").status_code) == (503, 200)
                cluster.start()
                for line in process.stderr:
                    received.append(line)
                    if line.startswith("the database postgresql") and line.endswith("answers\n"):
                        break
                assert client.get("/readyz").status_code == 200
            assert "verysecret" not in "".join(received)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            if cluster.processes():
                cluster.stop()
            shutil.rmtree(folder)


def test_a_database_that_takes_connections_and_says_nothing_is_named_too(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"postgresql://skillyard@127.0.0.1:{mute.getsockname()[1]}/postgres?connect_timeout=60"
        with _start(home, "--database-url", url) as process:
            try:
                assert process.stderr is not None
                assert "does not answer; until it answers, /readyz says so too" in process.stderr.readline()
            finally:
                process.kill()
                process.communicate(timeout=60)


def test_a_server_that_is_asked_to_stop_ends_its_streams_and_finishes_its_runs(home: Path, script: Callable[..., Path]) -> None:
    """The stream is open and the run at work: were either waited for without end, this would never return."""
    script("import time\nprint('begun', flush=True)\ntime.sleep(2)\nprint('done')\n")
    with _start(home / "project") as process:
        with httpx.Client(base_url=_address(process), timeout=60) as client:
            run = client.post("/api/v1/runs", json={"skill": "adder", "wait": False}).json()["data"]["run_id"]
            with client.stream("GET", f"/api/v1/runs/{run}/events") as events:
                for line in events.iter_lines():
                    if "begun" in line:
                        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert "Traceback" not in said
    records = Records(str(home / "data"))
    assert records.journal.get(run).state == "succeeded"
    records.close()


def test_an_address_that_others_reach_is_one_error_with_a_way_out(home: Path) -> None:
    command = [sys.executable, "-m", "skillyard", "serve", "--host", "0.0.0.0"]
    done = preloaded.run(command, capture_output=True, text=True, cwd=home, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[1].startswith("hint: ")


def test_a_queue_without_a_database_that_has_one_is_refused_before_anybody_is_served(home: Path) -> None:
    command = [sys.executable, "-m", "skillyard", "serve", "--engine", "procrastinate"]
    done = preloaded.run(command, capture_output=True, text=True, cwd=home, timeout=60)
    assert done.returncode == 2
    assert "--database-url postgresql://" in done.stderr


@pytest.mark.parametrize("options", [("--host", "0.0.0.0"), ("--require-keys",)], ids=["elsewhere", "here"])
def test_with_a_key_to_manage_it_the_server_serves_others_and_asks_each_for_one(home: Path, options: tuple[str, ...]) -> None:
    refused = preloaded.run(
        [sys.executable, "-m", "skillyard", "serve", *options], capture_output=True, text=True, cwd=home, timeout=60
    )
    assert refused.returncode == 1
    assert "skillyard keys create admin --scope admin" in refused.stderr
    made = [sys.executable, "-m", "skillyard", "keys", "create", "admin", "--scope", "admin"]
    secret = preloaded.run(made, capture_output=True, text=True, cwd=home, timeout=60, check=True).stdout.strip()
    with _start(home, *options) as process:
        try:
            address = _address(process).replace("0.0.0.0", "127.0.0.1")
            listing = urllib.request.Request(f"{address}/api/v1/keys")
            with pytest.raises(urllib.error.HTTPError) as nobody:
                urllib.request.urlopen(listing, timeout=60)
            with nobody.value as refusal:
                assert refusal.code == 401
            listing.add_header("Authorization", f"Bearer {secret}")
            with urllib.request.urlopen(listing, timeout=60) as answer:
                assert [key["name"] for key in json.load(answer)["data"]] == ["admin"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def test_what_is_installed_is_served_beside_the_named_folders(home: Path, pack: Callable[..., bytes]) -> None:
    folder = home / "named/given"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: given\ndescription: Given.\n---\n", "utf-8")
    with _start(home, "--root", str(home / "named")) as process:
        try:
            with httpx.Client(base_url=_address(process), timeout=60) as client:
                files = {"file": ("tidy.zip", pack())}
                assert client.post("/api/v1/skill-definitions/upload-create", files=files).status_code == 201
                found = [skill["id"] for skill in client.get("/api/v1/catalog").json()["data"]]
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
    assert found == ["config:given", "installed:tidy"]
    assert said.count("warning") == 0, said
