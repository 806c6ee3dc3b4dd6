"""One file from the web: https only, within a size, every redirect judged like a first address."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Final, TypeVar
from urllib.parse import urljoin

from skillyard.errors import InvalidSource, NetworkFailed

__all__ = ["download", "judge_host"]

_REDIRECTS: Final = 5
_MOVED: Final = frozenset((301, 302, 303, 307, 308))
_TIMEOUT_S: Final = 60.0
_Value = TypeVar("_Value")


def download(url: str, *, limit: int, allow_private: bool = False) -> bytes:
    """The content at `url`, at most `limit` bytes. Addresses of this machine and of private networks are not asked.

    Raises:
        InvalidSource: it is no https address, or there is no such file.
        NetworkRefused, NetworkFailed: it may not be reached, or it did not answer properly.
    """
    return _apart(_download(url, limit, allow_private))


def judge_host(url: str, *, allow_private: bool) -> None:
    """Make sure that the host of an address is a public one, for programs that connect to it by themselves.

    Raises:
        NetworkRefused: it is this machine or in a private network.
        NetworkFailed: it cannot be looked up.
    """
    from skillyard.sandbox.network.dialling import judged_addresses, system_lookup
    from skillyard.sandbox.network.guarded import read_destination

    _apart(judged_addresses(read_destination(url).host, private=allow_private, lookup=system_lookup))


def _apart(work: Coroutine[object, object, _Value]) -> _Value:
    """Wait for something asynchronous in a thread of its own: the caller may be inside a loop."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


async def _download(url: str, limit: int, allow_private: bool) -> bytes:
    from skillyard.sandbox import guarded_request
    from skillyard.sandbox.network.guarded import read_destination

    for _ in range(_REDIRECTS + 1):
        destination = read_destination(url)
        if destination.scheme != "https" and not allow_private:
            raise InvalidSource(f"{url.partition('?')[0]} is not asked without encryption", hint="use its https:// address")
        allow = (f"{destination.scheme}://{destination.authority}",)
        answer = await guarded_request(
            "GET", url, allow=allow, timeout_s=_TIMEOUT_S, max_bytes=limit, allow_private=allow_private
        )
        if answer.status in _MOVED and (target := answer.headers.get("location")):
            url = urljoin(url, target)
        elif answer.status == 200:
            return answer.body
        elif answer.status in (429, 500, 502, 503, 504):
            raise NetworkFailed(f"{destination.authority} answered {answer.status}", hint="try again later")
        else:
            raise InvalidSource(f"{url.partition('?')[0]} answered {answer.status}", hint="check the address")
    raise InvalidSource(f"{url.partition('?')[0]} leads in a circle", hint="check the address")
