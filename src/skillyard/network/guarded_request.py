"""One HTTP request from this process to a host of an allow-list, for skills that are a service and have no script.

The same rules hold as for a run's proxy. Redirects are not followed: their target would have to pass the list first, so the
answer is given back and the caller may ask again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from skillyard.errors import InvalidInput, NetworkRefused
from skillyard.network.hosts import GuardedResponse, MalformedHost, permits, read_destination, read_rules

_METHOD: Final = re.compile(r"[A-Z]{1,20}")
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# What belongs to the connection is decided here; a caller that could set it could smuggle a second request.
_OURS: Final = frozenset({
    "connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip


async def guarded_request(
    method: str,
    url: str,
    *,
    allow: Sequence[str],
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    timeout_s: float = 30.0,
    max_bytes: int = 1024 * 1024,
    allow_private: bool = False,
) -> GuardedResponse:
    """Send a request to `url`, when `allow` names its host; gives the whole response.

    `allow` has the entries of a `network_allowlist`; `*` is not among them. `timeout_s` is for everything together, `max_bytes`
    for the answer's body. `allow_private` lets hosts of the list have addresses of this machine and of private networks. A
    redirect is an answer like any other.

    Raises:
        InvalidInput: the URL, the method or a header cannot be used, or an entry of `allow` is malformed.
        NetworkRefused: the host is not on the list, or its address may not be reached.
        NetworkFailed: the host was not found, did not answer in time, could not prove its name, or answered too much.
    """
    destination = read_destination(url)
    _check_request(method, headers or {})
    try:
        rules = read_rules(allow)
    except MalformedHost as error:
        raise InvalidInput(f"an entry of the allow-list {error}", hint="name each host") from None
    if not permits(rules, destination.scheme, destination.host, destination.port):
        raise NetworkRefused(
            f"{destination.scheme}://{destination.authority} is not on the allow-list",
            hint="add the host to network_allowlist, and to the operator's when there is one",
        )
    from skillyard.network.connections import send_request  # loads asyncio and h11
    from skillyard.network.hosts import OutgoingRequest

    question = OutgoingRequest(method, destination, tuple((headers or {}).items()), body, max_bytes)
    return await send_request(question, timeout_s=timeout_s, private=allow_private)


def _check_request(method: str, headers: Mapping[str, str]) -> None:
    if not _METHOD.fullmatch(method) or method in ("CONNECT", "TRACE"):
        raise InvalidInput(f"{method[:30]!r} is not a method that can be used", hint="for example GET or POST")
    for name, value in headers.items():
        lower = name.lower()
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise InvalidInput(
                f"the header {name[:60]!r} cannot be sent", hint="one line of plain text, without control characters"
            )
        if lower in _OURS or lower.startswith("proxy-"):
            raise InvalidInput(f"the header {name!r} belongs to the connection", hint="leave it out")
