"""Hosts, URLs and guarded connections: allow-list rules, address rules, guarded HTTP requests, and the allow-list proxy.

It knows nothing of sandboxes or skills; several components use it. What loads asyncio and `h11` (`connections`, `proxy`,
`proxy_relay`) is imported from its module, where it is used.
"""

from __future__ import annotations

from skillyard.network.guarded_request import guarded_request
from skillyard.network.hosts import (
    ANY_HOST,
    Contact,
    Destination,
    GuardedResponse,
    HostRule,
    MalformedHost,
    RunProxy,
    canonical_host,
    covers,
    host_problem,
    permits,
    read_destination,
    read_rules,
)

__all__ = [
    "ANY_HOST",
    "Contact",
    "Destination",
    "GuardedResponse",
    "HostRule",
    "MalformedHost",
    "RunProxy",
    "canonical_host",
    "covers",
    "guarded_request",
    "host_problem",
    "permits",
    "read_destination",
    "read_rules",
]
