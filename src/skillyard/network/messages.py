"""What the network room gives and takes as plain data: destinations, requests, responses, and the contacts of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import quote

from skillyard.errors import InvalidInput
from skillyard.network.hosts import MalformedHost, Scheme, canonical_host
from skillyard.wire import WireForm

_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]*\]|[^\s/?#@:\[\]\\]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>(?:[/?][^\s#\\\x00-\x1f\x7f]*)?)",
    re.IGNORECASE,
)


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


def read_destination(url: str) -> Destination:
    """Take a URL apart.

    Raises:
        InvalidInput: it is no `http` or `https` URL, or could be read in two ways.
    """
    match = _URL.fullmatch(url)
    port = int(match["port"]) if match and match["port"] else None
    if not match or port == 0 or (port or 0) > 65_535:
        raise InvalidInput(
            f"{_shown(url)} is not a URL that can be requested", hint="for example https://api.example.com/v1/items"
        )
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


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request that passed the allow-list."""

    method: str
    destination: Destination
    headers: tuple[tuple[str, str], ...]
    body: bytes
    max_bytes: int


Verdict = Literal["allowed", "denied", "refused", "failed"]
"""`denied`: not on the list, or an address that is closed. `refused`: no proper request. `failed`: no proper answer."""


@dataclass(frozen=True, slots=True)
class Contact(WireForm):
    """Requests of one run to one host and port that ended in the same way.

    `reason` says in a few words why it was not allowed, or how it was cut. `address` is what was dialled, empty when nothing
    was. Bytes sent and received are the run's.
    """

    host: str
    port: int
    verdict: Verdict
    reason: str = ""
    address: str = ""
    requests: int = 1
    sent_bytes: int = 0
    received_bytes: int = 0
