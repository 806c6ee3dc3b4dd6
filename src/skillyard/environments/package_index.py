"""Where packages come from: the operator's Python index and npm registry, reached through a proxy that knows no other hosts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from skillyard.errors import InvalidPolicy
from skillyard.network.hosts import MalformedHost, read_rules

if TYPE_CHECKING:
    from skillyard.network.proxy import Proxy


_MOST_BYTES: Final = 8 * 1024**3  # of all packages of one environment
_PORTS: Final = {"http": 80, "https": 443}
KEPT_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "LANG", "LC_ALL")
"""Whom the operator trusts, and the language of messages: all that an installer gets of this process's variables."""
_TRUST_FILES: Final = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")


@dataclass(frozen=True, slots=True)
class _IndexKind:
    """One kind of index: its settings, the variables that name it everywhere, the usual address and where its files are."""

    setting: str
    hosts_setting: str
    variables: tuple[str, ...]
    usual: str
    usual_hosts: tuple[str, ...] = ()

    @property
    def hint(self) -> str:
        """How to write the settings."""
        return (
            f'write {self.setting} = "https://…" and {self.hosts_setting} = ["…"] into the [sandbox] table of your own '
            "skillyard.toml"
        )


PYTHON_INDEX: Final = _IndexKind(
    "package-index",
    "package-hosts",
    ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "https://pypi.org/simple",
    ("https://files.pythonhosted.org",),
)
NPM_REGISTRY: Final = _IndexKind(
    "npm-registry", "npm-hosts", ("NPM_CONFIG_REGISTRY", "npm_config_registry"), "https://registry.npmjs.org"
)
INDEX_SETTINGS: Final = tuple(name for kind in (PYTHON_INDEX, NPM_REGISTRY) for name in (kind.setting, kind.hosts_setting))
"""The keys of the `[sandbox]` table that name where packages come from."""


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """Where packages come from: the address of an index, and entries of an allow-list for it and for its files."""

    url: str
    hosts: tuple[str, ...]

    @classmethod
    def configured(
        cls, settings: Mapping[str, object], environ: Mapping[str, str] | None = None, *, kind: _IndexKind = PYTHON_INDEX
    ) -> Self:
        """The index of a `[sandbox]` table (`package-index`, `package-hosts`), else of uv's variables, else the usual one.

        For npm these are `npm-registry` and `npm-hosts`, and npm's variable. Files of an index of one's own are expected on its
        own host, unless the hosts name others.

        Raises:
            InvalidPolicy: the address or a host cannot be used.
        """
        from urllib.parse import urlsplit  # only for operators who name an index, or where something is installed

        environ = os.environ if environ is None else environ
        named = next((environ[name] for name in kind.variables if environ.get(name)), kind.usual)
        url = settings.get(kind.setting, named)
        others = settings.get(kind.hosts_setting, kind.usual_hosts if url == kind.usual else ())
        if not isinstance(url, str) or not isinstance(others, list | tuple) or not all(isinstance(one, str) for one in others):
            raise InvalidPolicy(f"{kind.setting} must be an address, {kind.hosts_setting} a list of hosts", hint=kind.hint)
        try:
            parts = urlsplit(url)
            if parts.scheme not in _PORTS or not parts.hostname:
                raise ValueError
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            hosts = (f"{parts.scheme}://{host}:{parts.port or _PORTS[parts.scheme]}", *others)
            read_rules(hosts)
        except (MalformedHost, ValueError):
            raise InvalidPolicy(
                "the package index or one of its hosts is no address that can be used", hint=kind.hint
            ) from None
        return cls(url, hosts)


def index_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Those of a `[sandbox]` table that name where packages come from.

    Raises:
        InvalidPolicy: they do not name one that can be used.
    """
    own = {name: settings[name] for name in INDEX_SETTINGS if name in settings}
    for kind in (PYTHON_INDEX, NPM_REGISTRY):
        if kind.setting in own or kind.hosts_setting in own:
            PackageIndex.configured(own, kind=kind)
    return own


def registry_variables(settings: Mapping[str, object]) -> tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]:
    """For commands that install packages themselves: the hosts of both registries, variables, and files that those name.

    An address with a password is not among the variables. The files are the certificates that this process is told to trust.

    Raises:
        InvalidPolicy: a registry cannot be used.
    """
    from urllib.parse import urlsplit  # only where registries are granted

    python = PackageIndex.configured(settings)
    npm = PackageIndex.configured(settings, kind=NPM_REGISTRY)
    named = (
        *(("PIP_INDEX_URL", python), ("UV_DEFAULT_INDEX", python)),
        *((name, npm) for name in ("npm_config_registry", "pnpm_config_registry", "YARN_NPM_REGISTRY_SERVER")),
    )
    variables = {name: index.url for name, index in named if "@" not in urlsplit(index.url).netloc}
    files = {name: os.environ[name] for name in _TRUST_FILES if Path(os.environ.get(name) or "/").is_file()}
    return (*python.hosts, *npm.hosts), variables | files, tuple(dict.fromkeys(files.values()))


def installer_environment(proxy: str, home: str) -> dict[str, str]:
    """The variables that every installer gets: nothing of the machine's but whom it trusts; `home` is empty."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    proxies = {name: proxy for scheme in ("http", "https", "all") for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")}
    return kept | proxies | {"PATH": os.defpath, "HOME": home, "TMPDIR": home}


@contextmanager
def index_proxy(index: PackageIndex) -> Iterator[tuple[str, Proxy]]:
    """A proxy on loopback that leads to the index and nowhere else: its address, and the proxy; it ends with the block."""
    import socket  # only where something is installed

    from anyio.from_thread import start_blocking_portal

    from skillyard.network.proxy import Proxy, ProxyLimits

    limits = ProxyLimits(connections=64, idle_s=60.0, received_bytes=_MOST_BYTES)
    rules = read_rules(index.hosts)
    proxy = Proxy(rules, trusted=rules, limits=limits)
    with socket.create_server(("127.0.0.1", 0)) as listener, start_blocking_portal("asyncio") as portal:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        portal.call(proxy.open, listener)
        try:
            yield address, proxy
        finally:
            portal.call(proxy.close)
