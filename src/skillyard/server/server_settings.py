"""How a server is configured: by its start options (`AccessPolicy`) and by `[server]` of the user's skillyard.toml."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self, get_args

from skillyard.errors import InvalidConfiguration, InvalidInput
from skillyard.mcp.handshake import read_prefix
from skillyard.network.hosts import read_destination
from skillyard.settings_reader import Settings, SettingsReader, flag, number, text, texts

if TYPE_CHECKING:
    from skillyard.catalog import Configuration


LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_HOST: Final = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]+)|\[(?P<address>[0-9A-Fa-f:.]+)\])(?::(?P<port>[0-9]{0,5}))?")
"""Read by hand: the standard library finds `::1` in `evil[::1]` too."""


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Who may use the server: without `keys_required` a caller without a key is the local user.

    `hosts` are names the server answers to beside those of this machine, with `any_address` also every IP address: names that
    somebody else may point here are the danger, addresses are not. What a request says of whom it was passed on for is believed
    of `trusted_proxies`, and of nobody else, not even of this machine.
    """

    keys_required: bool = False
    hosts: frozenset[str] = frozenset()
    any_address: bool = False
    trusted_proxies: tuple[str, ...] = ()

    @classmethod
    def listening(
        cls,
        host: str,
        *,
        allowed_hosts: Iterable[str] = (),
        require_keys: bool = False,
        trusted_proxies: Iterable[str] = (),
    ) -> Self:
        """What fits a server that listens on `host`: open only where nobody else comes in.

        Raises:
            InvalidInput: one of `allowed_hosts` is no host name, or one of `trusted_proxies` no address and no network.
        """
        proxies = read_proxies(trusted_proxies)
        names = set()
        for given in allowed_hosts:
            name = host_name(given)
            if name is None:
                raise InvalidInput(f"{given!r} is not a host name", hint="name it as clients will, such as skills.example.org")
            names.add(name)
        if host in LOOPBACK:
            return cls(require_keys, frozenset(names), trusted_proxies=proxies)
        return cls(True, frozenset({host.lower(), *names}), any_address=True, trusted_proxies=proxies)

    def answers_to(self, host: str) -> bool:
        """Whether a `Host` header names this server."""
        name = host_name(host)
        return name is not None and (name in LOOPBACK or name in self.hosts or (self.any_address and _is_address(name)))


def read_proxies(given: Iterable[str]) -> tuple[str, ...]:
    """The addresses and networks of proxies, each in its usual form.

    Raises:
        InvalidInput: one is neither.
    """
    networks = []
    for one in map(str.strip, given):
        try:
            networks.append(str(ipaddress.ip_network(one)) if "/" in one else str(ipaddress.ip_address(one)))
        except ValueError as error:
            message = f"{one!r} is neither an address nor a network: {error}"
            raise InvalidInput(message, hint="name a proxy as 10.0.0.7, or where it is as 10.0.0.0/24") from None
    return tuple(networks)


def host_name(host: str) -> str | None:
    """The name in `name`, `name:port` or `[address]:port`, in lower case; None when it is none of them."""
    match = _HOST.fullmatch(host)
    if match is None or int(match["port"] or 0) > 65_535:
        return None
    return (match["name"] or match["address"]).lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


RequestKind = Literal["read", "write", "download"]


class RateLimit(NamedTuple):
    """So many in so many seconds."""

    many: int
    seconds: float = 60


_RATES: Final[Mapping[RequestKind, int]] = MappingProxyType({"read": 3000, "write": 300, "download": 1200})
_MOST: Final = 1_000_000
_LONGEST_S: Final = 3600
_LARGEST_PACKAGE_MB: Final = 100
NotificationKind = Literal["approval", "failure", "update"]


def _webhook_address(url: str) -> str:
    read_destination(url)
    return url


def _notification_kinds(names: Sequence[str]) -> tuple[NotificationKind, ...]:
    known: tuple[NotificationKind, ...] = get_args(NotificationKind)
    if unknown := [name for name in names if name not in known]:
        raise InvalidInput(f"{unknown[0][:60]!r} is not an event that is reported", hint=f"name some of {', '.join(known)}")
    return tuple(name for name in known if name in names)


_SETTINGS: Final[Settings] = {
    "limits": {kind: number(_MOST) for kind in get_args(RequestKind)},
    "session-hours": number(24 * 90, name="session", convert=lambda hours: timedelta(hours=hours)),
    "mcp": {
        "sessions": number(_MOST, name="total"),
        "sessions-each": number(_MOST, name="each"),
        "idle-minutes": number(60 * 24, name="idle_s", convert=lambda minutes: 60 * minutes),
        "tool-prefix": text("at most 30 letters, digits, _ and -", name="tool_prefix")._replace(convert=read_prefix),
    },
    "workspaces": {
        "each": number(_MOST),
        "sessions": number(_MOST),
        "sessions-each": number(_MOST, name="sessions_each"),
    },
    "connections": {
        "each": number(_MOST),
        "total": number(_MOST),
        "head-seconds": number(_LONGEST_S, name="head_s"),
        "body-seconds": number(_LONGEST_S, name="body_s"),
    },
    "notifications": {
        "url": text("the address of a webhook")._replace(convert=_webhook_address),
        "events": texts(f"a list of {', '.join(get_args(NotificationKind))}", _notification_kinds),
        "secret-variable": text("the name of an environment variable"),
    },
    "skills-api-mb": number(_LARGEST_PACKAGE_MB, name="skills_api_bytes", convert=lambda megabytes: megabytes * 1_000_000),
    "oauth": {"enabled": flag(), "client-documents": flag("client_documents")},
    "trusted-proxies": texts("a list of addresses and networks", read_proxies),
}


class McpSessions(NamedTuple):
    """How many sessions of MCP are kept: of `each` caller, and in `total`; one ends after `idle_s` seconds without any.

    `tool_prefix` stands before the names of the tools.
    """

    each: int = 32
    total: int = 1000
    idle_s: float = 1800
    tool_prefix: str = ""


class OAuthSettings(NamedTuple):
    """Whether people may let clients of MCP sign in, where keys are needed.

    `client_documents` lets a client be known by the address of a document about it, which the server then fetches. Where it is
    set clients that have one do not register, so it is for servers that reach the internet.
    """

    enabled: bool = True
    client_documents: bool = False


class WorkspaceLimits(NamedTuple):
    """How many workspaces `each` caller may have, and how many sessions one process.

    `sessions` are those of all callers, `sessions_each` those of one.
    """

    each: int = 20
    sessions: int = 32
    sessions_each: int = 4


class ConnectionLimits(NamedTuple):
    """How many connections are open in one process, and how long a client may take to send a request.

    `each` counts those of one address, `total` all, None as many as half of the files that the process may open. The head of a
    request comes within `head_s` seconds, its body within `body_s` and one more for every `bytes_a_second` that have come.
    """

    each: int = 256
    total: int | None = None
    head_s: float = 15
    body_s: float = 60
    bytes_a_second: int = 16_384


class NotificationSettings(NamedTuple):
    """Which events are reported to the webhook at `url`; none without one.

    A request is signed with the secret in the environment variable `secret_variable`, where one is named.
    """

    url: str = ""
    events: tuple[NotificationKind, ...] = get_args(NotificationKind)
    secret_variable: str = ""

    def secret(self, environment: Mapping[str, str]) -> str:
        """What requests are signed with; empty where they are not.

        Raises:
            InvalidConfiguration: the variable that is named is not set.
        """
        if not self.secret_variable:
            return ""
        if not (secret := environment.get(self.secret_variable, "")):
            hint = "set it for the server, or take secret-variable out of [server.notifications]"
            raise InvalidConfiguration(f"the variable {self.secret_variable} of [server.notifications] is not set", hint=hint)
        return secret


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of the table `[server]`.

    `rates` are requests a minute of one caller, by kind; `session` is how long a page stays signed in. What a client says of
    whom it asks for is only believed of `trusted_proxies`, addresses and networks. The files of a skill that comes through
    Anthropic's Skills API are at most `skills_api_bytes` together.
    """

    rates: Mapping[RequestKind, RateLimit] = field(
        default_factory=lambda: {kind: RateLimit(many) for kind, many in _RATES.items()}
    )
    session: timedelta = timedelta(hours=12)
    mcp: McpSessions = field(default_factory=McpSessions)
    workspaces: WorkspaceLimits = field(default_factory=WorkspaceLimits)
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    oauth: OAuthSettings = field(default_factory=OAuthSettings)
    notifications: NotificationSettings = field(default_factory=NotificationSettings)
    skills_api_bytes: int = 30_000_000
    trusted_proxies: tuple[str, ...] = ()

    @classmethod
    def of(cls, configuration: Configuration) -> Self:
        """The checked settings of a configuration.

        Raises:
            InvalidConfiguration: an unknown key, or a value that cannot be meant.
        """
        file = configuration.user_file or "skillyard.toml"
        values = SettingsReader(file).read(_SETTINGS, configuration.server, "server")
        rates = {kind: RateLimit(many) for kind, many in (_RATES | values.pop("limits")).items()}
        return cls(
            rates=rates,
            mcp=McpSessions(**values.pop("mcp")),
            oauth=OAuthSettings(**values.pop("oauth")),
            notifications=NotificationSettings(**values.pop("notifications")),
            workspaces=WorkspaceLimits(**values.pop("workspaces")),
            connections=ConnectionLimits(**values.pop("connections")),
            **values,
        )
