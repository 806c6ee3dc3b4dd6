"""Address rules, name resolution, connecting: a host is resolved once, only an allowed address is used; one HTTP request.

The rules follow the IANA special-purpose registries. IPv6 forms that embed an IPv4 address are refused whole. A request and its
response have a connection of their own, and are written and read by `h11`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import h11

from skillyard.errors import NetworkFailed, NetworkRefused
from skillyard.network.hosts import GuardedResponse, OutgoingRequest

if TYPE_CHECKING:
    import ssl


Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Never, whatever the operator allows; the first that fits names the class.
_NEVER: Final = (
    ("metadata service", ("169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32",
                          "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128",
                          "fd00:42::42/128", "fd00:a9fe:a9fe::1/128")),
    ("link-local", ("169.254.0.0/16", "fe80::/10", "fec0::/10")),
    ("multicast", ("224.0.0.0/4", "ff00::/8")),
    ("unspecified", ("0.0.0.0/8", "::/128")),
    ("IPv4 inside IPv6", ("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")),
)  # fmt: skip
_RESERVED: Final = "reserved"
# Nobody's in public; only what the operator names as a registry may be there.
_RESERVED_RANGES: Final = (
    (_RESERVED, ("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
                  "240.0.0.0/4", "2001::/23", "2001:db8::/32", "3fff::/20")),
)  # fmt: skip
_PRIVATE: Final = (
    ("loopback", ("127.0.0.0/8", "::1/128")),
    ("private network", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")),
    ("carrier-grade NAT", ("100.64.0.0/10",)),
)
_GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")


def _networks(
    table: tuple[tuple[str, tuple[str, ...]], ...],
) -> tuple[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, str], ...]:
    return tuple((ipaddress.ip_network(text), name) for name, texts in table for text in texts)


_UNNAMED: Final = ipaddress.IPv6Network("::/127")  # unspecified and loopback
_NEVER_NETWORKS: Final = (
    *_networks(_NEVER),
    *((network, "IPv4 inside IPv6") for network in ipaddress.IPv6Network("::/96").address_exclude(_UNNAMED)),
)
_RESERVED_NETWORKS: Final = _networks(_RESERVED_RANGES)
_PRIVATE_NETWORKS: Final = _networks(_PRIVATE)


def denied_class(address: Address, *, private: bool) -> str | None:
    """Why the address may not be dialled, as the name of its class; `None` when it may.

    `private` allows loopback, private and carrier networks; the others stay denied.
    """
    if never := _never_class(address):
        return never
    for network, name in (*_RESERVED_NETWORKS, *_PRIVATE_NETWORKS):
        if address.version == network.version and address in network:
            return None if private and name != _RESERVED else name
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_V6:
        return _RESERVED
    return None


def _never_class(address: Address) -> str | None:
    """The class of an address that is always refused."""
    for network, name in _NEVER_NETWORKS:
        if address.version == network.version and address in network:
            return name
    return None


HEAD_LIMIT: Final = 32 * 1024
"""The most bytes a head of a request or an answer may have."""

AddressLookup = Callable[[str], Awaitable[Sequence[str]]]
"""Looks up the addresses of a name."""
StreamPair = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_ANSWERS: Final = 16
_LOOKUP_SECONDS: Final = 5.0
_DIAL_SECONDS: Final = 10.0


async def allowed_addresses(host: str, *, private: bool, lookup: AddressLookup, trusted: bool = False) -> tuple[Address, ...]:
    """The addresses of a host that may be dialled, in the resolver's order.

    A `trusted` host is one that the operator has named as a registry of packages: it may have private, reserved and the
    machine's own addresses too, and still none of metadata services, of a link, of groups, and none in disguise.

    Raises:
        NetworkRefused: it has only addresses that may not; the message names their class and not the address. The machine's own
            addresses are a class too, public ones as well.
        NetworkFailed: it has no address, or the resolver does not answer in five seconds.
    """
    addresses = await all_addresses(host, lookup=lookup)
    if trusted:
        denied = {address: _never_class(address) for address in addresses}
    else:
        denied = {
            address: denied_class(address, private=private) or _own_class(address, private=private) for address in addresses
        }
    allowed = tuple(address for address in addresses if denied[address] is None)
    if not allowed:
        classes = sorted({reason for reason in denied.values() if reason})
        raise NetworkRefused(
            f"{host} leads to an address that may not be reached: {', '.join(classes)}",
            hint="private networks are opened by `private-networks = true` in your own [sandbox] settings",
        )
    return allowed


def _own_class(address: Address, *, private: bool) -> str | None:
    """`this machine` for one of its own addresses, whichever those are: what is sent there passes no firewall, as on loopback.

    Only an address that the machine has can be bound to.
    """
    if private:
        return None
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as trial:
        trial.bind((str(address), 0))
        return "this machine"
    return None


async def all_addresses(host: str, *, lookup: AddressLookup) -> tuple[Address, ...]:
    """The addresses of a host in the resolver's order, whatever they are.

    Raises:
        NetworkFailed: it has no address, or the resolver does not answer in five seconds.
    """
    with contextlib.suppress(ValueError):
        return (ipaddress.ip_address(host.strip("[]")),)
    try:
        async with asyncio.timeout(_LOOKUP_SECONDS):
            answers = await lookup(host)
    except (OSError, UnicodeError, TimeoutError):
        raise NetworkFailed(f"the address of {host} cannot be found", hint="check the name and the network") from None
    addresses = tuple(dict.fromkeys(ipaddress.ip_address(text) for text in answers))[:_ANSWERS]
    if not addresses:
        raise NetworkFailed(f"{host} has no address", hint="check the name")
    return addresses


async def system_lookup(name: str) -> Sequence[str]:
    """Ask the machine's own resolver, in a daemon thread: no run should wait half a minute until it gives up."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def resolve(texts: list[str] | None) -> None:
        if not answer.done():
            answer.set_exception(OSError("not found")) if texts is None else answer.set_result(texts)

    def ask() -> None:
        texts: list[str] | None = None
        with contextlib.suppress(OSError, UnicodeError):
            texts = [str(item[4][0]) for item in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(resolve, texts)

    threading.Thread(target=ask, name="skillyard-lookup", daemon=True).start()
    return await answer


async def connect(host: str, port: int, addresses: Sequence[Address], *, context: ssl.SSLContext | None = None) -> StreamPair:
    """A connection to the first judged address that answers; with a `context` encrypted, for exactly this host.

    Raises:
        NetworkFailed: none answers within ten seconds, or the host cannot prove its name.
    """
    name = host.strip("[]") if context else None
    reason, hint = f"no answer within {_DIAL_SECONDS:g} s", "check the address and the network, or try again later"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DIAL_SECONDS):
            for address in addresses:
                try:
                    return await asyncio.open_connection(
                        str(address), port, ssl=context, server_hostname=name, limit=HEAD_LIMIT
                    )
                except OSError as error:
                    if unproven := getattr(error, "verify_message", ""):
                        message = f"the certificate of {host} is not valid for {host}: {unproven}"
                        raise NetworkFailed(message, hint="its certificate must be valid for that name") from None
                    reason, hint = _why(error)
    raise NetworkFailed(f"{host} does not answer on port {port}: {reason}", hint=hint)


def _why(error: OSError) -> tuple[str, str]:
    """Why a connection failed, and what to check."""
    import ssl  # heavy: only where something went wrong

    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there (connection refused)", "check the address and its port, and whether the server runs"
    if isinstance(error, ssl.SSLError):
        return f"it does not speak TLS there ({error.reason or error})", "check the port, or whether it is an http:// address"
    return error.strerror or str(error) or type(error).__name__, "check the address and the network, or try again later"


_CHUNK: Final = 1 << 16


async def send_request(question: OutgoingRequest, *, timeout_s: float, private: bool) -> GuardedResponse:
    """Send the request, give the answer; `private` opens private networks.

    Raises:
        NetworkRefused: the address may not be reached.
        NetworkFailed: no proper answer in time, or one that is too long.
    """
    host = question.destination.host
    try:
        async with asyncio.timeout(timeout_s):
            return await _exchange(question, private)
    except TimeoutError:
        raise NetworkFailed(f"{host} did not answer within {timeout_s:g} s", hint="allow it more time") from None
    except (OSError, EOFError, h11.ProtocolError) as error:
        raise NetworkFailed(f"{host} did not answer properly: {error}", hint="try again later") from None


async def _exchange(question: OutgoingRequest, private: bool) -> GuardedResponse:
    to = question.destination
    try:
        addresses = await allowed_addresses(to.host, private=private, lookup=system_lookup)
        context = ssl.create_default_context() if to.scheme == "https" else None
        streams = await connect(to.host, to.port, addresses, context=context)
    except NetworkFailed as error:
        error.details["sent"] = False  # the caller may try another service
        raise
    sending: asyncio.Task[None] | None = None
    try:
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
        sending = asyncio.create_task(_send(question, connection.send(_head(question)), streams))
        for event in (h11.Data(data=question.body), h11.EndOfMessage()):
            connection.send(event)  # the state machine must know that the request is complete; the bytes went above
        return await _receive(question, connection, streams)
    finally:
        if sending is not None:
            sending.cancel()
        await _close(streams)


def _head(question: OutgoingRequest) -> h11.Request:
    to = question.destination
    headers = [("Host", to.authority), ("Connection", "close"), ("Content-Length", str(len(question.body)))]
    headers += [(name, value) for name, value in question.headers if name.lower() != "accept-encoding"]
    headers += [("Accept-Encoding", "identity")]  # what comes back is counted as it is
    raw = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers]
    return h11.Request(method=question.method, target=to.target, headers=raw)


async def _send(question: OutgoingRequest, head: bytes | None, streams: StreamPair) -> None:
    """Write the request; a server may answer before it has read all of it."""
    _, writer = streams
    with contextlib.suppress(OSError):
        writer.write((head or b"") + question.body)
        await writer.drain()


async def _receive(question: OutgoingRequest, connection: h11.Connection, streams: StreamPair) -> GuardedResponse:
    reader, _ = streams
    head: h11.Response | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > question.max_bytes:
                raise NetworkFailed(
                    f"{question.destination.host} answered more than {question.max_bytes} bytes",
                    hint="ask for less",
                    limit=question.max_bytes,
                    status=head.status_code if head is not None else None,
                )
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return GuardedResponse(head.status_code, _joined_headers(head), bytes(body))
        elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
            raise EOFError("the connection ended too early")


def _joined_headers(head: h11.Response) -> dict[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_value in head.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


async def _close(streams: StreamPair) -> None:
    """Close the connection at once; data still on its way is discarded."""
    _, writer = streams
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
