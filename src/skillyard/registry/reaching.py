"""Which hosts may be asked for a source: the judgement of the sandbox's network, in the words of an installation.

Git dials by itself, so the addresses that were judged are given to it: it asks no resolver again, and follows no redirect.
Where a repository has moved to is asked here, and judged like a first address. Over ssh nobody is sent elsewhere; a host that
only the user's ssh settings know cannot be judged, and is theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, Final, TypeVar
from urllib.parse import urljoin, urlsplit

from skillyard.errors import InvalidSource, NetworkFailed, NetworkRefused
from skillyard.packages import shown_address

__all__ = ["MOVED", "apart", "judged_repository", "moved_to", "private_told"]

MOVED: Final = frozenset((301, 302, 303, 307, 308))
_REFS: Final = "/info/refs?service=git-upload-pack"
_LARGEST_REFS: Final = 64 * 1024 * 1024
_T = TypeVar("_T")


def apart(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """The outcome of a coroutine, run in a thread of its own: the caller may be inside a loop."""
    outcome: list[_T] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(asyncio.run(coroutine))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


@contextlib.contextmanager
def private_told() -> Iterator[None]:
    """Say of a refused address what opens it to installations."""
    try:
        yield
    except NetworkRefused as error:
        hint = "`private-hosts = true` in [packages] of your own skillyard.toml opens addresses that are not public"
        raise NetworkRefused(error.message, hint=hint, **error.details) from None


def judged_repository(url: str, *, allow_private: bool) -> tuple[str, tuple[str, ...]]:
    """The address for git, and the settings with which it asks only those hosts of it that may be asked.

    They need git 2.37; an older one asks the resolver a second time.

    Raises:
        InvalidSource: it is neither an https nor an ssh address; with `allow_private` http is one too.
        NetworkRefused: it leads to an address that may not be reached.
        NetworkFailed: its host was not found.
    """
    scheme = url.partition("://")[0].lower()
    if scheme == "ssh":
        _judge_ssh(url, allow_private=allow_private)
        return url, ()
    if scheme != "https" and not (allow_private and scheme == "http"):
        raise InvalidSource(f"{shown_address(url)} is not fetched by git", hint="use https:// or ssh://")
    from skillyard.sandbox.network.guarded import read_destination

    to = read_destination(url)
    addresses = ",".join(_judged(to.host, allow_private=allow_private))
    pinned = f"http.curloptResolve={to.host}:{to.port}:{addresses}"
    settings = ("http.followRedirects=false", "http.proxy=", *(() if to.host.startswith("[") else (pinned,)))
    return f"{to.scheme}://{to.authority}{to.target}", settings


def moved_to(url: str, *, allow_private: bool) -> str:
    """Where the repository at `url` is now; `url` itself when it has not moved.

    Raises:
        InvalidSource: it moved to what is no repository.
        NetworkRefused, NetworkFailed: it may not be asked, or did not answer properly.
    """
    from skillyard.sandbox import guarded_request
    from skillyard.sandbox.network.guarded import read_destination

    asked = url.rstrip("/") + _REFS
    destination = read_destination(asked)
    with private_told():
        answer = apart(
            guarded_request(
                "GET", asked, allow=(f"{destination.scheme}://{destination.authority}",), max_bytes=_LARGEST_REFS,
                headers={"Git-Protocol": "version=2"}, allow_private=allow_private,
            )
        )  # fmt: skip
    target = urljoin(asked, answer.headers.get("location", ""))
    if answer.status not in MOVED or target == asked:
        return url
    if not target.endswith(_REFS):
        raise InvalidSource(f"{shown_address(url)} leads to what is no repository", hint="check the address")
    return target.removesuffix(_REFS)


def _judge_ssh(url: str, *, allow_private: bool) -> None:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        raise InvalidSource(
            f"{shown_address(url)} is no address", hint="for example ssh://git@example.com/owner/repo"
        ) from None
    with contextlib.suppress(NetworkFailed):  # a name of the user's ssh settings
        _judged(host, allow_private=allow_private)


def _judged(host: str, *, allow_private: bool) -> list[str]:
    from skillyard.sandbox.network.dialling import judged_addresses, system_lookup

    with private_told():
        found = apart(judged_addresses(host, private=allow_private, lookup=system_lookup))
    return [f"[{address}]" if address.version == 6 else str(address) for address in found]
