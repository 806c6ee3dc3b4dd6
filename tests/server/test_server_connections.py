"""Clients that open connections and do not send their requests: none of them keeps another client from being served."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import preloaded
import pytest
import uvicorn
from fastapi import FastAPI

from skillyard import Catalog
from skillyard.registry import Registry
from skillyard.server import create_app
from skillyard.server.http_server import limited_protocol
from skillyard.server.server_settings import ConnectionLimits

Served = Callable[..., contextlib.AbstractContextManager[int]]
HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = (
    b"POST /api/v1/catalog/toggle HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{"
)
PATIENCE_S = 60


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def configured(home: Path, connections: str) -> None:
    """Write the user's settings of connections."""
    folder = home / ".config/skillyard"
    folder.mkdir(parents=True)
    (folder / "skillyard.toml").write_text(f"[server.connections]\n{connections}\n", "utf-8")


@pytest.fixture
def served(home: Path) -> Served:
    """Give a function that serves with the limits it is given, and gives the port."""

    @contextmanager
    def serve(limits: ConnectionLimits) -> Iterator[int]:
        configured(home, f"body-seconds = {limits.body_s}")
        catalog = Catalog.discover(cwd=home / "project", home=home)
        app: FastAPI = create_app(catalog, Registry.of(catalog))
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", http=limited_protocol(limits)))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield server.servers[0].sockets[0].getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()

    return serve


def connected(port: int, *, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S, source_address=(source, 0))


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side ends the connection."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            said += piece
    return said


def status(answer: bytes) -> int:
    found = re.match(rb"HTTP/1\.1 (\d+) ", answer)
    assert found, answer
    return int(found[1])


def asked(port: int, *, source: str = "127.0.0.1") -> int:
    """The status that somebody gets who asks properly."""
    transport = httpx.HTTPTransport(local_address=source)
    with httpx.Client(transport=transport, trust_env=False, timeout=PATIENCE_S) as client:
        return client.get(f"http://127.0.0.1:{port}/healthz").status_code


@pytest.mark.abuse("H15")
@pytest.mark.parametrize("sent", [b"", b"G", HALF])
def test_a_connection_whose_head_does_not_come_is_ended(served: Served, sent: bytes) -> None:
    with served(ConnectionLimits(head_s=0.3)) as port, connected(port) as connection:
        connection.sendall(sent)
        assert status(everything(connection)) == 408
        assert asked(port) == 200


@pytest.mark.abuse("H15")
def test_bytes_one_by_one_do_not_put_the_deadline_off(served: Served) -> None:
    with served(ConnectionLimits(head_s=0.5)) as port, connected(port) as connection:
        connection.settimeout(0.05)
        answer, sent = b"", 0
        for byte in HALF * 1000:
            with contextlib.suppress(TimeoutError):
                answer = connection.recv(1000)
                break
            connection.sendall(bytes([byte]))
            sent += 1
        assert status(answer) == 408
        assert 0 < sent < len(HALF) * 1000


@pytest.mark.abuse("H15")
def test_the_second_head_of_a_connection_has_a_deadline_too(served: Served) -> None:
    with served(ConnectionLimits(head_s=0.5)) as port, connected(port) as connection:
        connection.sendall(HALF + b"\r\n")
        first = b""
        while not first.endswith(b"}"):  # its head and its body may come one after the other
            first += (piece := connection.recv(65_536))
            assert piece, first
        assert status(first) == 200
        connection.sendall(HALF)
        assert status(everything(connection)) == 408


@pytest.mark.abuse("H15")
def test_a_head_without_an_end_is_cut_off(served: Served) -> None:
    with served(ConnectionLimits()) as port, connected(port) as connection:
        answer = b""
        with contextlib.suppress(ConnectionError):
            connection.sendall(HALF)
            for number in range(10_000):
                connection.sendall(b"X-%d: %s\r\n" % (number, b"x" * 1000))
        answer = everything(connection)
        assert answer == b"" or status(answer) == 431
        assert asked(port) == 200


@pytest.mark.abuse("H15")
def test_many_half_open_clients_do_not_keep_a_good_one_from_being_served(served: Served) -> None:
    with contextlib.ExitStack() as held, served(ConnectionLimits(each=1000, total=40, head_s=3600)) as port:
        crowd = []
        for _ in range(100):
            crowd.append(held.enter_context(connected(port)))
            crowd[-1].sendall(HALF)
        for _ in range(5):
            assert asked(port) == 200
        ended = [connection for connection in crowd if _is_over(connection)]
        assert len(ended) >= 60
        assert {status(everything(connection)) for connection in ended} == {408}


def _is_over(connection: socket.socket) -> bool:
    connection.settimeout(0.2)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False


@pytest.mark.abuse("H15")
def test_one_address_opens_only_so_many_connections(served: Served) -> None:
    with contextlib.ExitStack() as held, served(ConnectionLimits(each=5)) as port:
        crowd = [held.enter_context(connected(port)) for _ in range(5)]
        for connection in crowd:  # all of them are open and good
            connection.sendall(HALF)
        with connected(port) as one_more:
            assert status(everything(one_more)) == 503
        assert asked(port, source="127.0.0.2") == 200
        crowd[0].sendall(b"Connection: close\r\n\r\n")
        assert status(everything(crowd[0])) == 200
        assert asked(port) == 200


@pytest.mark.abuse("H15")
def test_a_body_that_does_not_come_is_a_request_that_timed_out(served: Served) -> None:
    with served(ConnectionLimits(body_s=1)) as port, connected(port) as connection:
        connection.sendall(POST)
        answer = everything(connection)
        assert status(answer) == 408
        assert b'"code":"request_timeout"' in answer
        assert asked(port) == 200


@pytest.mark.abuse("H15")
def test_who_goes_on_sending_after_the_answer_holds_no_connection(served: Served) -> None:
    """The answer is there before the body, which then comes byte by byte."""
    early = POST.replace(b"/api/v1/catalog/toggle", b"/nowhere")
    with served(ConnectionLimits(head_s=0.5)) as port, connected(port) as connection:
        connection.sendall(early)
        assert status(connection.recv(65_536)) == 404
        connection.settimeout(0.05)
        over = False
        for _ in range(900):
            try:
                connection.sendall(b" ")
                over = connection.recv(1000) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                over = True
            if over:
                break
        assert over


@pytest.mark.abuse("H15")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_command_has_the_limits_of_the_settings(home: Path, workers: str) -> None:
    configured(home, "head-seconds = 1")
    command = [sys.executable, "-m", "skillyard", "serve", "--port", "0", "--workers", workers, "--json"]
    with preloaded.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(re.findall(r":(\d+)\"", process.stdout.readline())[0])
            assert asked(port) == 200  # the address is said before all processes are there
            of_itself = httpx.get(  # what uvicorn believes of everybody on this machine, unless it is told not to
                f"http://127.0.0.1:{port}/.well-known/clawhub.json", headers={"X-Forwarded-Proto": "https"}, trust_env=False
            )
            assert of_itself.json()["apiBase"] == f"http://127.0.0.1:{port}"
            with connected(port) as connection:
                connection.settimeout(12)  # without the setting it would be fifteen seconds
                connection.sendall(HALF)
                assert status(everything(connection)) == 408
        finally:
            process.send_signal(signal.SIGTERM)
