"""One HTTP request from this process to a host of an allow-list, for skills that are a service and have no script.

The same rules hold as for a run's proxy: one canonical form of the host, addresses judged once and dialled as judged, private
networks only when the operator opens them. Redirects are not followed: their target would have to pass the list first, so the
answer is given back and the caller may ask again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from skillyard.errors import InvalidInput, NetworkRefused
from skillyard.sandbox.hosts import MalformedHost, Scheme, canonical_host, permits, read_rules

__all__ = ["Destination", "GuardedResponse", "guarded_request", "read_destination"]

_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]*\]|[^\s/?#@:\[\]\\]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>(?:[/?][^\s#\\\x00-\x1f\x7f]*)?)",
    re.IGNORECASE,
)
_METHOD: Final = re.compile(r"[A-Z]{1,20}")
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# What belongs to the connection is decided here; a caller that could set it could smuggle a second request.
_OURS: Final = frozenset({
    "connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class GuardedResponse:
    """An answer: its status, its headers (lower-case names, equal names joined by a comma) and its whole body."""

    status: int
    headers: Mapping[str, str] = field(hash=False)
    body: bytes


@dataclass(frozen=True, slots=True)
class Destination:
    """A URL taken apart, its host canonical; `target` is the path and query as they go over the wire."""

    scheme: Scheme
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        usual = {"http": 80, "https": 443}[self.scheme]
        return self.host if self.port == usual else f"{self.host}:{self.port}"


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
    """Ask `url`, when `allow` names its host, and give the whole answer.

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
    from skillyard.sandbox.network.exchange import Question, ask  # loads asyncio and h11

    question = Question(method, destination, tuple((headers or {}).items()), body, max_bytes)
    return await ask(question, timeout_s=timeout_s, private=allow_private)


def read_destination(url: str) -> Destination:
    """Take a URL apart.

    Raises:
        InvalidInput: it is no `http` or `https` URL, or could be read in two ways.
    """
    match = _URL.fullmatch(url)
    port = int(match["port"]) if match and match["port"] else None
    if not match or port == 0 or (port or 0) > 65_535:
        raise InvalidInput(f"{_shown(url)} is not a URL that can be asked", hint="for example https://api.example.com/v1/items")
    try:
        host = canonical_host(match["host"])
    except MalformedHost as error:
        raise InvalidInput(f"the host of {_shown(url)} {error}", hint="write the host's plain name") from None
    scheme: Scheme = "https" if match["scheme"].lower() == "https" else "http"
    target = quote(match["target"], safe="/?:@!$&'()*+,;=-._~%[]")
    return Destination(scheme, host, port or (443 if scheme == "https" else 80), target if target[:1] == "/" else "/" + target)


def _shown(url: str) -> str:
    """The URL without its query, which may hold secrets."""
    return repr(re.sub(r"//[^/@]*@", "//", url.partition("?")[0])[:200])


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
