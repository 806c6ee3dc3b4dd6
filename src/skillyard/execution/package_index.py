"""The package index that the operator chose, and the only way that leads to it while packages are installed.

uv runs with an environment that is built here, without any settings of the machine, and reaches the network through a proxy
that knows the hosts of the index and no others: what an index or a package points to elsewhere, on this machine for example, is
not asked for.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from skillyard.errors import InvalidPolicy
from skillyard.sandbox.hosts import MalformedHost, read_rules

if TYPE_CHECKING:
    from skillyard.sandbox.network.proxy import Proxy

__all__ = ["PackageIndex", "index_proxy", "uv_environment"]

_USUAL: Final = "https://pypi.org/simple"
_USUAL_HOSTS: Final = ("https://files.pythonhosted.org",)
_VARIABLES: Final = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")  # uv's own names for what the operator uses everywhere
_KEPT: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "LANG", "LC_ALL")  # whom the operator trusts, and the language of messages
_MOST_BYTES: Final = 8 * 1024**3  # of all packages of one script
_PORTS: Final = {"http": 80, "https": 443}
_HINT: Final = 'write package-index = "https://…" and package-hosts = ["…"] into the [sandbox] table of your own skillyard.toml'


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """Where packages come from: the address of an index, and entries of an allow-list for it and for its files."""

    url: str
    hosts: tuple[str, ...]

    @classmethod
    def configured(cls, settings: Mapping[str, object], environ: Mapping[str, str] | None = None) -> Self:
        """The index of a `[sandbox]` table (`package-index`, `package-hosts`), else of uv's variables, else the usual one.

        Files of an index of one's own are expected on its own host, unless `package-hosts` names others.

        Raises:
            InvalidPolicy: the address or a host cannot be used.
        """
        environ = os.environ if environ is None else environ
        named = next((environ[name] for name in _VARIABLES if environ.get(name)), _USUAL)
        url = settings.get("package-index", named)
        others = settings.get("package-hosts", _USUAL_HOSTS if url == _USUAL else ())
        if not isinstance(url, str) or not isinstance(others, list | tuple) or not all(isinstance(one, str) for one in others):
            raise InvalidPolicy("package-index must be an address, package-hosts a list of hosts", hint=_HINT)
        try:
            parts = urlsplit(url)
            if parts.scheme not in _PORTS or not parts.hostname:
                raise ValueError
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            hosts = (f"{parts.scheme}://{host}:{parts.port or _PORTS[parts.scheme]}", *others)
            read_rules(hosts)
        except (MalformedHost, ValueError):
            raise InvalidPolicy("the package index or one of its hosts is no address that can be used", hint=_HINT) from None
        return cls(url, hosts)


def uv_environment(index: PackageIndex, proxy: str, home: str, cache: str) -> dict[str, str]:
    """All variables that uv gets: nothing of the machine's but whom it trusts; `home` is empty, `cache` keeps downloads."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    ways = {name: proxy for word in ("http", "https", "all") for name in (f"{word}_proxy", f"{word.upper()}_PROXY")}
    return kept | ways | {
        "PATH": os.defpath,
        "HOME": home,
        "TMPDIR": home,
        "UV_CACHE_DIR": cache,
        "UV_DEFAULT_INDEX": index.url,  # not on the command line: it may hold a password
        "UV_NO_CONFIG": "1",
        "UV_KEYRING_PROVIDER": "disabled",
        "UV_PYTHON_DOWNLOADS": "never",
    }  # fmt: skip


@contextmanager
def index_proxy(index: PackageIndex) -> Iterator[tuple[str, Proxy]]:
    """A proxy on loopback that leads to the index and nowhere else: its address, and the proxy; it ends with the block."""
    import asyncio  # only where something is installed

    from skillyard.sandbox.network.proxy import Proxy, ProxyLimits

    listener = socket.create_server(("127.0.0.1", 0))
    limits = ProxyLimits(connections=64, idle_s=60.0, received_bytes=_MOST_BYTES)
    proxy = Proxy(read_rules(index.hosts), judged=False, limits=limits)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="skillyard-index", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(_open(proxy, listener), loop).result()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", proxy
        finally:
            asyncio.run_coroutine_threadsafe(proxy.close(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        listener.close()


async def _open(proxy: Proxy, listener: socket.socket) -> None:
    proxy.open(listener)
