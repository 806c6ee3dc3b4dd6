"""Which addresses may be dialled: only those of the public internet, and private ones where the operator says so.

From the IANA special-purpose registries. Forms of IPv6 that carry an IPv4 address inside are refused whole: what they reach is
decided elsewhere.
"""

from __future__ import annotations

import ipaddress
from typing import Final

__all__ = ["Address", "denied_class"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Never, whatever the operator allows; the first that fits names the class.
_NEVER: Final = (
    ("metadata service", ("169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32",
                          "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::254/128")),
    ("link-local", ("169.254.0.0/16", "fe80::/10", "fec0::/10")),
    ("multicast", ("224.0.0.0/4", "ff00::/8")),
    ("unspecified", ("0.0.0.0/8", "::/128")),
    ("IPv4 inside IPv6", ("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")),
    ("reserved", ("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
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


_NEVER_NETWORKS: Final = _networks(_NEVER)
_PRIVATE_NETWORKS: Final = _networks(_PRIVATE)


def denied_class(address: Address, *, private: bool) -> str | None:
    """Why the address may not be dialled, as the name of its class; `None` when it may.

    `private` allows loopback, private and carrier networks; the others stay denied.
    """
    for network, name in _NEVER_NETWORKS:
        if address.version == network.version and address in network:
            return name
    for network, name in _PRIVATE_NETWORKS:
        if address.version == network.version and address in network:
            return None if private else name
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_V6:
        return "reserved"
    return None
