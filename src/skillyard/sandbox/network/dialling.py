"""From a canonical host to a connection: resolved once, every address judged, and only a judged address dialled."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from skillyard.errors import NetworkFailed, NetworkRefused
from skillyard.sandbox.network.addresses import Address, denied_class

if TYPE_CHECKING:
    import ssl

__all__ = ["HEAD_LIMIT", "Lookup", "Streams", "all_addresses", "dial", "judged_addresses", "system_lookup"]

HEAD_LIMIT: Final = 32 * 1024
"""The most bytes a head of a request or an answer may have."""

Lookup = Callable[[str], Awaitable[Sequence[str]]]
"""Asks for the addresses of a name."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_ANSWERS: Final = 16
_LOOKUP_SECONDS: Final = 5.0
_DIAL_SECONDS: Final = 10.0


async def judged_addresses(host: str, *, private: bool, lookup: Lookup) -> tuple[Address, ...]:
    """The addresses of a host that may be dialled, in the resolver's order.

    Raises:
        NetworkRefused: it has only addresses that may not; the message names their class and not the address. The machine's own
            addresses are a class too, public ones as well.
        NetworkFailed: it has no address, or the resolver does not answer in five seconds.
    """
    found = await all_addresses(host, lookup=lookup)
    denied = {address: denied_class(address, private=private) or _own_class(address, private=private) for address in found}
    allowed = tuple(address for address in found if denied[address] is None)
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


async def all_addresses(host: str, *, lookup: Lookup) -> tuple[Address, ...]:
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
    """Ask the machine's own resolver.

    In a thread that nobody waits for: a resolver may take half a minute to give up, and neither a run nor the end of the
    program should.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def tell(found: list[str] | None) -> None:
        if not answer.done():
            answer.set_exception(OSError("not found")) if found is None else answer.set_result(found)

    def ask() -> None:
        found: list[str] | None = None
        with contextlib.suppress(OSError, UnicodeError):
            found = [str(item[4][0]) for item in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, found)

    threading.Thread(target=ask, name="skillyard-lookup", daemon=True).start()
    return await answer


async def dial(host: str, port: int, addresses: Sequence[Address], *, context: ssl.SSLContext | None = None) -> Streams:
    """A connection to the first judged address that answers; with a `context` encrypted, for exactly this host.

    Raises:
        NetworkFailed: none answers within ten seconds, or the host cannot prove its name.
    """
    name = host.strip("[]") if context else None
    reason, hint = f"nothing came within {_DIAL_SECONDS:g} s", "check the address and the network, or try again later"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DIAL_SECONDS):
            for address in addresses:
                try:
                    return await asyncio.open_connection(
                        str(address), port, ssl=context, server_hostname=name, limit=HEAD_LIMIT
                    )
                except OSError as error:
                    if unproven := getattr(error, "verify_message", ""):
                        message = f"{host} cannot prove that it is {host}: {unproven}"
                        raise NetworkFailed(message, hint="its certificate must be valid for that name") from None
                    reason, hint = _why(error)
    raise NetworkFailed(f"{host} does not answer on port {port}: {reason}", hint=hint)


def _why(error: OSError) -> tuple[str, str]:
    """What kept a connection from coming about, and what to look at."""
    import ssl  # heavy: only where something went wrong

    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there (connection refused)", "check the address and its port, and whether the server runs"
    if isinstance(error, ssl.SSLError):
        return f"it does not speak TLS there ({error.reason or error})", "check the port, or whether it is an http:// address"
    return error.strerror or str(error) or type(error).__name__, "check the address and the network, or try again later"
