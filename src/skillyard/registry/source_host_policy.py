"""Which hosts may be contacted for a source, and downloads under that policy: https only, size limit, every redirect checked.

What a skill tells its reader to fetch is downloaded under the same policy (`LinkFetcher`).

Git connects by itself, so it is given the checked addresses: it does not resolve again, and follows no redirect. Where a
repository has moved to is checked here. Over ssh there are no redirects; a host that only ssh settings name cannot be
checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urljoin, urlsplit

from skillyard.catalog.skill_files import KeptLink
from skillyard.errors import InvalidInput, InvalidSource, NetworkFailed, NetworkRefused, SkillyardError
from skillyard.packages import shown_address
from skillyard.packages.package_source import SHARED_SITES
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.network import GuardedResponse
    from skillyard.scanner.late_links import LateLink

REDIRECT_STATUSES: Final = frozenset((301, 302, 303, 307, 308))
_REFS: Final = "/info/refs?service=git-upload-pack"
_LARGEST_REFS: Final = 64 * 1024 * 1024
_T = TypeVar("_T")


def run_in_thread(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """The outcome of a coroutine, run in a thread of its own: the caller may be inside a loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


@contextlib.contextmanager
def explain_private_hosts() -> Iterator[None]:
    """Give a refused address the hint that is for installations."""
    try:
        yield
    except NetworkRefused as error:
        hint = "`private-hosts = true` in [packages] of your own skillyard.toml opens addresses that are not public"
        raise NetworkRefused(error.message, hint=hint, **error.details) from None


def checked_repository(url: str, *, allow_private: bool) -> tuple[str, tuple[str, ...]]:
    """The address for git, and the settings with which it contacts only the permitted addresses of its host.

    They need git 2.37; an older one resolves the name a second time.

    Raises:
        InvalidSource: it is neither an https nor an ssh address; with `allow_private` http is one too.
        NetworkRefused: it leads to an address that may not be reached.
        NetworkFailed: its host was not found.
    """
    scheme = url.partition("://")[0].lower()
    if scheme == "ssh":
        _check_ssh(url, allow_private=allow_private)
        return url, ()
    if scheme != "https" and not (allow_private and scheme == "http"):
        raise InvalidSource(f"{shown_address(url)} is not fetched by git", hint="use https:// or ssh://")
    from skillyard.network.hosts import read_destination

    to = read_destination(url)
    addresses = ",".join(_checked_addresses(to.host, allow_private=allow_private))
    pinned = f"http.curloptResolve={to.host}:{to.port}:{addresses}"
    settings = ("http.followRedirects=false", "http.proxy=", *(() if to.host.startswith("[") else (pinned,)))
    return f"{to.scheme}://{to.authority}{to.target}", settings


def repository_redirect(url: str, *, allow_private: bool) -> str:
    """Where the repository at `url` is now; `url` itself when it has not moved.

    Raises:
        InvalidSource: it moved to what is no repository.
        NetworkRefused, NetworkFailed: it may not be contacted, or did not answer properly.
    """
    from skillyard.network import guarded_request
    from skillyard.network.hosts import read_destination

    requested = url.rstrip("/") + _REFS
    destination = read_destination(requested)
    with explain_private_hosts():
        answer = run_in_thread(
            guarded_request(
                "GET", requested, allow=(f"{destination.scheme}://{destination.authority}",), max_bytes=_LARGEST_REFS,
                headers={"Git-Protocol": "version=2"}, allow_private=allow_private,
            )
        )  # fmt: skip
    target = urljoin(requested, answer.headers.get("location", ""))
    if answer.status not in REDIRECT_STATUSES or target == requested:
        return url
    if not target.endswith(_REFS):
        raise InvalidSource(f"{shown_address(url)} leads to something that is not a repository", hint="check the address")
    return target.removesuffix(_REFS)


def address_of_owner(asked: str, passed: Iterable[str]) -> str:
    """Where something that was `asked` for at one address, and that redirects led away from, is recorded to come from.

    That is the address asked as long as the owner stays the same, the host with the first part of the path: a repository that
    its owner renamed is the same source. One that was transferred, or whose owner has another name, is another source, and
    whoever has installed from the one before is asked about it.
    """
    recorded = asked
    for address in passed:
        if _owner(address) != _owner(recorded):
            recorded = address
    return recorded


def among_shared(passed: Iterable[str]) -> Iterator[str]:
    """The addresses of sites that many owners share: what lies elsewhere is what those serve their files from."""
    return (address for address in passed if (urlsplit(address).hostname or "").lower() in SHARED_SITES)


def _owner(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.netloc.rpartition("@")[2].lower(), parts.path.lstrip("/").partition("/")[0].lower()


def _check_ssh(url: str, *, allow_private: bool) -> None:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        raise InvalidSource(
            f"{shown_address(url)} is not an address", hint="for example ssh://git@example.com/owner/repo"
        ) from None
    with contextlib.suppress(NetworkFailed):  # a name of the user's ssh settings
        _checked_addresses(host, allow_private=allow_private)


def _checked_addresses(host: str, *, allow_private: bool) -> list[str]:
    from skillyard.network.connections import allowed_addresses, system_lookup

    with explain_private_hosts():
        addresses = run_in_thread(allowed_addresses(host, private=allow_private, lookup=system_lookup))
    return [f"[{address}]" if address.version == 6 else str(address) for address in addresses]


_ENCRYPTED: Final = "use its https:// address; `private-hosts = true` in [packages] of your own skillyard.toml opens http://"
_REDIRECTS: Final = 5
_TIMEOUT_S: Final = 60.0
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_BUSY: Final = frozenset((429, 500, 502, 503, 504))


def download(
    url: str,
    *,
    limit: int,
    allow_private: bool = False,
    allow_origin: bool = False,
    headers: Mapping[str, str] | None = None,
    passed: list[str] | None = None,
) -> bytes:
    """The content at `url`, at most `limit` bytes. Addresses of this machine and of private networks are refused.

    The addresses that redirects led to are added to `passed`.

    `headers` are for the scheme, host and port of `url` alone: once a redirect leads elsewhere they are not sent any more.
    With `allow_origin` these alone may be an address that is not public, and without encryption.

    Raises:
        InvalidSource: it is no https address, or there is no such file.
        NetworkRefused, NetworkFailed: it may not be reached, or it did not answer properly.
    """
    with explain_private_hosts():
        return run_in_thread(_download(url, limit, allow_private, allow_origin, headers or {}, passed))


async def _download(
    url: str, limit: int, allow_private: bool, allow_origin: bool, headers: Mapping[str, str], passed: list[str] | None
) -> bytes:
    answer, url = await follow_redirects(
        "GET", url, limit=limit, allow_private=allow_private, allow_origin=allow_origin, secret=headers, passed=passed
    )
    if answer.status == 200:
        return answer.body
    raise refused_answer(answer.status, url)


_UNAUTHORIZED: Final = 401


def refused_answer(status: int, url: str) -> InvalidSource | NetworkFailed:
    """The error for an answer with that status: NetworkFailed where another try may help."""
    if status in _BUSY:
        return NetworkFailed(f"{urlsplit(url).netloc} answered {status}", hint="try again later")
    parts, hint = urlsplit(url), "check the address"
    if status == _UNAUTHORIZED:
        hint = f"it wants a key: `skillyard login {parts.scheme}://{parts.netloc.rpartition('@')[2]}` keeps one"
    return InvalidSource(f"{url.partition('?')[0]} answered {status}", hint=hint, answered=status)


def joined_address(url: str, target: str) -> str:
    """Where `target`, which a server named in its answer from `url`, is. Raises InvalidSource: it is no address of the web."""
    from skillyard.network.hosts import read_destination

    try:
        joined = urljoin(url, target)
        read_destination(joined)
    except (ValueError, InvalidInput):
        raise InvalidSource(
            f"{urlsplit(url).netloc} leads to {target[:200]!r}, which is not an address", hint="check it"
        ) from None
    return joined


async def follow_redirects(
    method: str,
    url: str,
    *,
    limit: int,
    allow_private: bool,
    allow_origin: bool = False,
    headers: Mapping[str, str] = _NONE,
    secret: Mapping[str, str] = _NONE,
    body: bytes = b"",
    timeout_s: float = _TIMEOUT_S,
    passed: list[str] | None = None,
) -> tuple[GuardedResponse, str]:
    """The answer that is no redirect, of any status, and the address that gave it; only GET and HEAD are sent on.

    Every address that a redirect led to is added to `passed`.

    `headers` go everywhere, and `secret` only to the scheme, host and port of `url`, which alone may be private with
    `allow_origin`.

    Raises:
        InvalidSource: it is no https address, or redirects in a loop.
        NetworkRefused, NetworkFailed: it may not be reached, or did not answer properly.
    """
    from skillyard.network import guarded_request
    from skillyard.network.hosts import read_destination

    first = read_destination(url)
    for _ in range(_REDIRECTS + 1):
        destination = read_destination(url)
        if (destination.scheme, destination.authority) != (first.scheme, first.authority):
            secret, allow_origin = _NONE, False
        private = allow_private or allow_origin
        if destination.scheme != "https" and not private:
            raise InvalidSource(f"{url.partition('?')[0]} is not requested without encryption", hint=_ENCRYPTED)
        answer = await guarded_request(
            method, url, allow=(f"{destination.scheme}://{destination.authority}",), timeout_s=timeout_s, max_bytes=limit,
            allow_private=private, headers={**headers, **secret}, body=body,
        )  # fmt: skip
        target = answer.headers.get("location")
        if answer.status not in REDIRECT_STATUSES or not target or method not in ("GET", "HEAD"):
            return answer, url
        url = joined_address(url, target)
        if passed is not None:
            passed.append(url)
    raise InvalidSource(f"{url.partition('?')[0]} redirects in a loop", hint="check the address")


KEPT_KINDS: Final = ("document", "script")
"""The links that are fetched; of the others only an author can name a version."""
_MOST_FETCHED: Final = 40
_LARGEST_LINK: Final = 1024 * 1024
_LINKS_SECONDS: Final = 60.0
_BLOB: Final = re.compile(r"https://github\.com/([^/]+/[^/]+)/(?:blob|raw)/(.+)")
_PAGE: Final = re.compile(rb"\s{0,200}(?:<!--[^>]{0,500}-->\s{0,20})?<(?:!doctype html|html)\b", re.IGNORECASE)
_NO_KIND: Final[Mapping[str, str]] = {
    "archive": "archives are not fetched",
    "repository": "repositories are not fetched: name a commit",
    "package": "it names no version",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFetcher:
    """Fetches once the documents and scripts among a skill's late links: at most 40, of 1 MiB each, in a minute."""

    allow_private: bool = False
    clock: Callable[[], float] = time.monotonic
    get: Callable[..., bytes] = download

    def fetch(
        self, links: Sequence[LateLink], before: Mapping[str, KeptLink]
    ) -> tuple[tuple[KeptLink, ...], Mapping[str, bytes]]:
        """What each link is now, and the bytes by SHA-256; what does not answer stays what it was `before`."""
        kept, contents = [], {}
        until, fetched = self.clock() + _LINKS_SECONDS, 0
        for link in links:
            one = KeptLink(link.kind, link.address, link.file, link.line)
            if link.kind not in KEPT_KINDS:
                kept.append(replace(one, problem=_NO_KIND[link.kind]))
                continue
            fetched += 1
            data, problem = b"", "there are too many of them, or they took too long"
            if fetched <= _MOST_FETCHED and self.clock() < until:
                data, problem = self._content(link.address)
            known = before.get(link.address)
            if problem and known is not None and known.sha256:
                kept.append(replace(one, sha256=known.sha256, size=known.size, problem=problem))
            elif problem:
                kept.append(replace(one, problem=problem))
            else:
                sha256 = hashlib.sha256(data).hexdigest()
                contents[sha256] = data
                kept.append(replace(one, sha256=sha256, size=len(data)))
        return tuple(kept), contents

    def _content(self, address: str) -> tuple[bytes, str]:
        """The bytes at an address, or why there are none."""
        blob = _BLOB.fullmatch(address)
        try:
            url = f"https://raw.githubusercontent.com/{blob[1]}/{blob[2]}" if blob else address
            data = self.get(url, limit=_LARGEST_LINK, allow_private=self.allow_private)
        except SkillyardError as error:
            return b"", single_line(error.message)
        return (b"", "it is a web page, and no document") if _PAGE.match(data) else (data, "")
