"""What a server was started with that decides who comes in: the names it answers to, and whether a key is needed."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from skillyard.errors import InvalidInput

__all__ = ["LOOPBACK", "Admission", "host_name", "read_proxies"]

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_HOST: Final = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]+)|\[(?P<address>[0-9A-Fa-f:.]+)\])(?::(?P<port>[0-9]{0,5}))?")
"""Read by hand: the standard library finds `::1` in `evil[::1]` too."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Who comes in: without `keys_required` whoever asks without a key is the local user.

    `hosts` are names the server answers to beside those of this machine, with `any_address` also every IP address: names that
    somebody else may point here are the danger, addresses are not. What a request says of whom it was passed on for is believed
    of `trusted_proxies`, and of nobody else, not even of this machine.
    """

    keys_required: bool = False
    hosts: frozenset[str] = frozenset()
    any_address: bool = False
    trusted_proxies: tuple[str, ...] = ()

    @classmethod
    def listening(
        cls,
        host: str,
        *,
        allowed_hosts: Iterable[str] = (),
        require_keys: bool = False,
        trusted_proxies: Iterable[str] = (),
    ) -> Self:
        """What fits a server that listens on `host`: open only where nobody else comes in.

        Raises:
            InvalidInput: one of `allowed_hosts` is no host name, or one of `trusted_proxies` no address and no network.
        """
        proxies = read_proxies(trusted_proxies)
        names = set()
        for given in allowed_hosts:
            name = host_name(given)
            if name is None:
                raise InvalidInput(f"{given!r} is no host name", hint="name it as clients will, such as skills.example.org")
            names.add(name)
        if host in LOOPBACK:
            return cls(require_keys, frozenset(names), trusted_proxies=proxies)
        return cls(True, frozenset({host.lower(), *names}), any_address=True, trusted_proxies=proxies)

    def answers_to(self, host: str) -> bool:
        """Whether a `Host` header names this server."""
        name = host_name(host)
        return name is not None and (name in LOOPBACK or name in self.hosts or (self.any_address and _is_address(name)))


def read_proxies(given: Iterable[str]) -> tuple[str, ...]:
    """The addresses and networks of proxies, each in its usual form.

    Raises:
        InvalidInput: one is neither.
    """
    found = []
    for text in given:
        try:
            found.append(str(ipaddress.ip_network(text.strip())) if "/" in text else str(ipaddress.ip_address(text.strip())))
        except ValueError as error:
            message = f"{text!r} is neither an address nor a network: {error}"
            raise InvalidInput(message, hint="name a proxy as 10.0.0.7, or where it is as 10.0.0.0/24") from None
    return tuple(found)


def host_name(host: str) -> str | None:
    """The name in `name`, `name:port` or `[address]:port`, in lower case; None when it is none of them."""
    found = _HOST.fullmatch(host)
    if found is None or int(found["port"] or 0) > 65_535:
        return None
    return (found["name"] or found["address"]).lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
