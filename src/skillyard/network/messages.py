"""Requests and responses as plain data: the parsed destination of a URL, the request that is sent, the response that came."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from skillyard.errors import InvalidInput
from skillyard.network.hosts import MalformedHost, Scheme, canonical_host

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


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request that passed the allow-list."""

    method: str
    destination: Destination
    headers: tuple[tuple[str, str], ...]
    body: bytes
    max_bytes: int
