"""Real servers on loopback, plain and encrypted, that remember what reached them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Answer = Callable[[bytes], bytes]


def plain_answer(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


@dataclass
class Upstream:
    """A server that answers every request and keeps what it read."""

    answer: Answer = field(default=lambda head: plain_answer(b"hello from " + head.split(b"\r\n")[0]))
    seen: list[bytes] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.seen.append(b"")
        place = len(self.seen) - 1
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                before, self.seen[place] = self.seen[place], self.seen[place] + data
                if b"\r\n\r\n" in self.seen[place] and b"\r\n\r\n" not in before:
                    writer.write(self.answer(self.seen[place]))
                    await writer.drain()
        writer.close()

    @property
    def heads(self) -> list[str]:
        """What each connection said, as text."""
        return [data.decode("latin-1") for data in self.seen]


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """A plain HTTP server."""
    found = Upstream()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    yield found
    server.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for `localhost`, with its key in the same file; it is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("certificate") / "localhost.pem"
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(secret + built.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
async def secure_upstream(certificate: Path) -> AsyncIterator[Upstream]:
    """The same behind TLS."""
    found = Upstream()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0, ssl=context)
    found.port = server.sockets[0].getsockname()[1]
    yield found
    server.close()
