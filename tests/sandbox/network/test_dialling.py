"""A connection that does not come about says why, and what to look at."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading

import pytest

from skillyard.errors import NetworkFailed
from skillyard.network.connections import connect

HERE = ipaddress.ip_address("127.0.0.1")


async def test_where_nothing_listens_that_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(NetworkFailed) as refused:
        await connect("127.0.0.1", port, [HERE])
    assert refused.value.message == f"127.0.0.1 does not answer on port {port}: nothing listens there (connection refused)"
    assert "whether the server runs" in str(refused.value.hint)


async def test_a_server_that_speaks_no_tls_is_told_as_that() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            client, _ = listening.accept()
            with client:
                client.recv(1024)
                client.sendall(b"HTTP/1.1 400 no\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(NetworkFailed, match="it does not speak TLS there") as mute:
            await connect("127.0.0.1", listening.getsockname()[1], [HERE], context=ssl.create_default_context())
        thread.join()
    assert "http://" in str(mute.value.hint)
