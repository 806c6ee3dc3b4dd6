"""The network that a watched skill is shown: answers every host from a canned world, and records all that is sent.

It serves the one listener in the sandbox's network, in threads of its own. A connection begins with a request to a proxy
(`http://host/path`, or `CONNECT host:port`), or with `TUNNEL host port` from our hooks in Python and node, after which the program
believes to speak with the host itself. TLS is ended here, with certificates of an authority that exists for one watch and that
nobody else trusts. Nothing is passed on to a real network.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import socket
import ssl
import threading
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import h11
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from skillyard.network import Contact

MARK: Final = "skillyard:canned"
"""What every canned download contains."""
RAN_DOWNLOAD: Final = "/workspace/.world/bin/ran-download"
"""The program inside the sandbox that records that a canned download was run."""

SHELL: Final = "shell"
"""The scheme of a connection at whose other end a shell runs commands."""
_MAIL_PORTS: Final = (21, 25, 465, 587, 2525)
_IS_SHELL: Final = b"echo skillyard-$((6*7))\n"
_SHELL_SAYS: Final = b"skillyard-42"
_MOST_REQUESTS: Final = 500
_MOST_BYTES: Final = 2 * 1024 * 1024
_MOST_BODY: Final = 1024 * 1024
_CONNECTIONS: Final = 32
_IDLE_SECONDS: Final = 4.0
_SILENT_SECONDS: Final = 0.3
_FIRST_LINE: Final = re.compile(rb"(TUNNEL|CONNECT) (\S{1,300}?)[ :](\d{1,5})(?: HTTP/1\.[01])?\r?\n")
_METHOD: Final = re.compile(rb"[A-Z]{3,10} ")
_REGISTRIES: Final = re.compile(
    r"(?:^|\.)(?:pypi\.org|pythonhosted\.org|npmjs\.org|npmjs\.com|yarnpkg\.com|crates\.io|debian\.org|ubuntu\.com)$"
)
_SHELL: Final = f"#!/bin/sh\n# {MARK}\n{RAN_DOWNLOAD}\n".encode()
_PYTHON: Final = f"# {MARK}\nimport os\nos.system('{RAN_DOWNLOAD}')\n".encode()
_NODE: Final = f"// {MARK}\nrequire('child_process').spawnSync('{RAN_DOWNLOAD}');\n".encode()
_PAGE: Final = f"<!doctype html><html><head><title>{MARK}</title></head><body><p>{MARK}</p></body></html>".encode()
_JSON: Final = b'{"skillyard":"canned"}'  # a shell that is given it runs a program of the name `{skillyard:canned}`


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request, or one connection in no protocol that is known: what was sent, and to whom.

    `head` are the request line and the headers as text, `body` at most a mebibyte of what followed.
    """

    host: str
    port: int
    scheme: str
    head: str
    body: bytes

    @property
    def sent(self) -> bytes:
        """Everything that was sent, with the host's name, which can carry data too."""
        return f"{self.host}\n{self.head}\n".encode("utf-8", "replace") + self.body


class RecordingNetwork:
    """Serves the listener of one sandbox; `taken()` gives what has come since the last time."""

    def __init__(self, authority: RecordingAuthority) -> None:
        self._authority = authority
        self._requests: list[RecordedRequest] = []
        self._contacts: dict[tuple[str, int], None] = {}
        self._bytes = 0
        self._lost = False
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(_CONNECTIONS)
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._closed = False

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """The hosts that were asked for; nobody was reached."""
        with self._lock:
            return tuple(Contact(host, port, "denied", "answered by the recorder") for host, port in self._contacts)

    def taken(self) -> tuple[tuple[RecordedRequest, ...], bool]:
        """What was recorded since the last call, and whether it is all that came."""
        with self._lock:
            new, every = tuple(self._requests), not self._lost
            self._requests, self._bytes, self._lost = [], 0, False
            return new, every

    def record(self, request: RecordedRequest) -> None:
        """Keep a request; beyond 500, or 2 MiB in all, until they are taken, no more is kept, and that is said."""
        with self._lock:
            if len(self._requests) < _MOST_REQUESTS and self._bytes < _MOST_BYTES:
                self._requests.append(request)
                self._bytes += len(request.sent)
                if len(self._contacts) < _MOST_REQUESTS:
                    self._contacts[request.host, request.port] = None
            else:
                self._lost = True

    def open(self, listener: socket.socket) -> None:
        """Start to serve a listening socket; takes ownership of it."""
        listener.setblocking(True)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    async def close(self) -> None:
        """End the listener and every connection."""
        self._closed = True
        with self._lock:
            sockets = [*self._open, *([self._listener] if self._listener else [])]
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        if self._listener is not None:
            self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while not self._closed:
            self._slots.acquire()
            try:
                connection, _ = listener.accept()
            except OSError:
                self._slots.release()
                return
            with self._lock:
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        stream = connection
        try:
            connection.settimeout(_IDLE_SECONDS)
            first = connection.recv(2048, socket.MSG_PEEK)
            if match := _FIRST_LINE.match(first):
                self._skip_head(connection)
                host, port = match[2].decode("ascii", "replace").strip("[]").lower(), int(match[3])
                if match[1] == b"CONNECT":
                    connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                stream = self._speak(connection, host, port)
            else:
                self._speak_http(connection, "", 80, "http")
        except (OSError, ValueError, h11.ProtocolError):
            return  # whatever was understood is recorded
        finally:
            with self._lock:
                self._open.discard(connection)
            stream.close()
            connection.close()
            self._slots.release()

    @staticmethod
    def _skip_head(connection: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n") and len(head) < 16_384:
            piece = connection.recv(1)
            if not piece:
                return
            head += piece

    def _speak(self, connection: socket.socket, host: str, port: int) -> socket.socket:
        """Play a host: TLS, HTTP, or whatever it is; the result is the socket that is to be closed."""
        connection.settimeout(_SILENT_SECONDS)
        try:
            first = connection.recv(16, socket.MSG_PEEK)
        except TimeoutError:
            first = b""  # whoever waits for a greeting gets that of a mail server
        connection.settimeout(_IDLE_SECONDS)
        if first.startswith(b"\x16\x03"):
            try:
                secured = self._authority.context(host).wrap_socket(connection, server_side=True)
            except (OSError, ssl.SSLError):
                self.record(RecordedRequest(host, port, "tls", "TLS that trusts no configured authority", b""))
                return connection
            self._speak_http(secured, host, port, "https")
            return secured
        if _METHOD.match(first):
            self._speak_http(connection, host, port, "http")
        else:
            self._speak_lines(connection, host, port, greet=not first)
        return connection

    def _speak_lines(self, connection: socket.socket, host: str, port: int, *, greet: bool) -> None:
        """Answer each line of an unknown protocol as a mail server does that agrees with everything; ask whether it is a shell."""
        received, scheme = b"", "tcp"
        mail = port in _MAIL_PORTS
        try:
            if greet or not mail:
                connection.sendall(b"220 ready\r\n" if mail else _IS_SHELL)
            while len(received) < _MOST_BODY and (piece := connection.recv(16_384)):
                received += piece
                if _SHELL_SAYS in received:
                    scheme = SHELL
                    break
                if mail:
                    connection.sendall(b"354 go on\r\n" if piece.strip().upper() == b"DATA" else b"250 ok\r\n")
        except OSError:
            pass  # it has gone; what it sent is recorded
        self.record(RecordedRequest(host, port, scheme, "a connection without HTTP", received))

    def _speak_http(self, stream: socket.socket, host: str, port: int, scheme: str) -> None:
        """Record one request and answer it; the connection ends with that."""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=64 * 1024)
        request, body = _read_request(stream, connection)
        if request is None:
            return
        recorded = _recorded(request, body, host, port, scheme)
        self.record(recorded)
        status, kind, content = canned_answer(recorded)
        headers = [("Content-Type", kind), ("Content-Length", str(len(content))), ("Connection", "close")]
        answer = connection.send(h11.Response(status_code=status, headers=headers)) or b""
        if request.method != b"HEAD":
            answer += connection.send(h11.Data(data=content)) or b""
        stream.sendall(answer + (connection.send(h11.EndOfMessage()) or b""))


def _read_request(stream: socket.socket, connection: h11.Connection) -> tuple[h11.Request | None, bytes]:
    """The next request and at most a mebibyte of its body."""
    request, body = None, b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                stream.sendall(connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            connection.receive_data(stream.recv(65_536))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body = (body + bytes(event.data))[:_MOST_BODY]
        else:
            return request, body  # the end of the message, or of the connection


def _recorded(request: h11.Request, body: bytes, host: str, port: int, scheme: str) -> RecordedRequest:
    target = bytes(request.target).decode("utf-8", "replace")
    headers = [(bytes(n).decode("latin-1"), bytes(v).decode("latin-1")) for n, v in request.headers]
    if "://" in target:
        parts = urlsplit(target)
        host, port = (parts.hostname or host).lower(), _port_of(parts.netloc) or port
        target = parts.path + (f"?{parts.query}" if parts.query else "")
    elif not host:
        host = next((value.partition(":")[0].lower() for name, value in headers if name == "host"), "")
    head = "\n".join(
        [f"{request.method.decode('ascii', 'replace')} {target}", *(f"{name}: {value}" for name, value in headers)]
    )
    return RecordedRequest(host, port, scheme, head, body)


def _port_of(netloc: str) -> int:
    ending = netloc.rpartition(":")[2]
    return int(ending) if ending.isdigit() and len(ending) <= 5 else 0


def canned_answer(request: RecordedRequest) -> tuple[int, str, bytes]:
    """The status, media type and content that the canned world has for a request; programs in it record that they are run."""
    target = request.head.partition("\n")[0].partition(" ")[2]
    path = target.partition("?")[0].lower()
    if _REGISTRIES.search(request.host):
        return 404, "text/plain", b"not here"
    if path.endswith((".zip", ".skill", ".whl")):
        return 200, "application/zip", _archive()
    if path.endswith((".py", ".pyw")):
        return 200, "text/x-python", _PYTHON
    if path.endswith((".js", ".cjs", ".mjs", ".ts")):
        return 200, "text/javascript", _NODE
    if path.endswith((".sh", ".bash", ".command", ".run", ".bin", ".exe", ".msi", ".pkg", ".appimage", ".elf", ".out")):
        return 200, "application/octet-stream", _SHELL
    if path.endswith((".md", ".txt")):
        return 200, "text/plain", MARK.encode()
    if "\naccept: text/html" in request.head.lower():
        return 200, "text/html", _PAGE
    return 200, "application/json", _JSON


def _archive() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in (("install.sh", _SHELL), ("setup.py", _PYTHON), ("index.js", _NODE), ("run", _SHELL)):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o755 << 16
            archive.writestr(entry, content)
    return data.getvalue()


class RecordingAuthority:
    """Signs a certificate for every name; its key exists in memory, and in a file of this process for a moment."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Skillyard recorder")])
        self._leaf = ec.generate_private_key(ec.SECP256R1())
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()
        self._lock = threading.Lock()
        own = self._certificate(self._name, self._key.public_key())
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        own = own.add_extension(usage, critical=True)
        own = own.add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        self.certificate = own.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _certificate(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)  # a year before and after it, because a watched skill is shown another month too
        builder = x509.CertificateBuilder(issuer_name=self._name, subject_name=subject, public_key=key)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - timedelta(days=30)).not_valid_after(now + timedelta(days=365))

    def context(self, host: str) -> ssl.SSLContext:
        """What a server for a host speaks TLS with."""
        with self._lock:
            if host not in self._contexts:
                if len(self._contexts) >= 100:
                    self._contexts.popitem(last=False)
                self._contexts[host] = self._make_context(host)
            return self._contexts[host]

    def _make_context(self, host: str) -> ssl.SSLContext:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:60] or "unnamed")])
        leaf = self._certificate(subject, self._leaf.public_key())
        leaf = leaf.add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=False)
        leaf = leaf.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        leaf = leaf.add_extension(issuer, critical=False)
        signed = leaf.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        key = self._leaf.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        file = os.memfd_create("skillyard", os.MFD_CLOEXEC)
        try:
            os.write(file, signed + key)
            context.load_cert_chain(str(Path("/proc/self/fd", str(file))))
        finally:
            os.close(file)
        return context


def _general_name(host: str) -> x509.GeneralName:
    import ipaddress

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.encode("idna", "ignore").decode("ascii") if not host.isascii() else host)
