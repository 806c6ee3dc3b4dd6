"""One file from the web: https only, within a size, every redirect judged like a first address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urljoin

from skillyard.errors import InvalidSource, NetworkFailed
from skillyard.registry.reaching import MOVED, apart, private_told

__all__ = ["download"]

_ENCRYPTED: Final = "use its https:// address; `private-hosts = true` in [packages] of your own skillyard.toml opens http://"
_REDIRECTS: Final = 5
_TIMEOUT_S: Final = 60.0


def download(url: str, *, limit: int, allow_private: bool = False, headers: Mapping[str, str] | None = None) -> bytes:
    """The content at `url`, at most `limit` bytes. Addresses of this machine and of private networks are not asked.

    `headers` are for the scheme, host and port of `url` alone: once a redirect leads elsewhere they are not sent any more.

    Raises:
        InvalidSource: it is no https address, or there is no such file.
        NetworkRefused, NetworkFailed: it may not be reached, or it did not answer properly.
    """
    with private_told():
        return apart(_download(url, limit, allow_private, headers or {}))


async def _download(url: str, limit: int, allow_private: bool, headers: Mapping[str, str]) -> bytes:
    from skillyard.sandbox import guarded_request
    from skillyard.sandbox.network.guarded import read_destination

    first = read_destination(url)
    for _ in range(_REDIRECTS + 1):
        destination = read_destination(url)
        if (destination.scheme, destination.authority) != (first.scheme, first.authority):
            headers = {}
        if destination.scheme != "https" and not allow_private:
            raise InvalidSource(f"{url.partition('?')[0]} is not asked without encryption", hint=_ENCRYPTED)
        allow = (f"{destination.scheme}://{destination.authority}",)
        answer = await guarded_request(
            "GET", url, allow=allow, timeout_s=_TIMEOUT_S, max_bytes=limit, allow_private=allow_private,
            headers=headers,
        )  # fmt: skip
        if answer.status in MOVED and (target := answer.headers.get("location")):
            url = urljoin(url, target)
        elif answer.status == 200:
            return answer.body
        elif answer.status in (429, 500, 502, 503, 504):
            raise NetworkFailed(f"{destination.authority} answered {answer.status}", hint="try again later")
        else:
            raise InvalidSource(f"{url.partition('?')[0]} answered {answer.status}", hint="check the address")
    raise InvalidSource(f"{url.partition('?')[0]} leads in a circle", hint="check the address")
