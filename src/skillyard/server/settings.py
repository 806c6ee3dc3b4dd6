"""What `[server]` of the user's skillyard.toml says: how much may be asked and held open, and whom a proxy may speak for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Self, get_args

from skillyard.errors import InvalidConfiguration, InvalidInput
from skillyard.server.admission import read_proxies
from skillyard.server.limits import Kind, Rate

if TYPE_CHECKING:
    from skillyard.catalog import Configuration

__all__ = ["ConnectionLimits", "McpSessions", "ServerSettings"]

_RATES: Final[Mapping[Kind, int]] = MappingProxyType({"read": 3000, "write": 300, "download": 1200})
_MOST: Final = 1_000_000
_SESSION_H: Final = 12
_LONGEST_H: Final = 24 * 90
_LONGEST_S: Final = 3600


class McpSessions(NamedTuple):
    """How many sessions of MCP are kept: of `each` caller, and in `total`; one ends after `idle_s` seconds without any."""

    each: int = 32
    total: int = 1000
    idle_s: float = 1800


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


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What the table says.

    `rates` are requests a minute of one caller, by kind; `session` is how long a page stays signed in. What a client says of
    whom it asks for is only believed of `trusted_proxies`, addresses and networks.
    """

    rates: Mapping[Kind, Rate] = field(default_factory=lambda: {kind: Rate(many) for kind, many in _RATES.items()})
    session: timedelta = timedelta(hours=_SESSION_H)
    mcp: McpSessions = field(default_factory=McpSessions)
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    trusted_proxies: tuple[str, ...] = ()

    @classmethod
    def of(cls, configuration: Configuration) -> Self:
        """The checked settings of a configuration.

        Raises:
            InvalidConfiguration: an unknown key, or a value that cannot be meant.
        """
        table, file = configuration.server, configuration.user_file or "skillyard.toml"
        _refuse_unknown(table, ("limits", "session-hours", "mcp", "connections", "trusted-proxies"), "server", file)
        limits = _table(table, "limits", get_args(Kind), file)
        rates: dict[Kind, Rate] = {
            kind: Rate(_number(limits.get(kind, many), _MOST, f"server.limits.{kind}", file)) for kind, many in _RATES.items()
        }
        hours = _number(table.get("session-hours", _SESSION_H), _LONGEST_H, "server.session-hours", file)
        return cls(
            rates,
            timedelta(hours=hours),
            _mcp(_table(table, "mcp", ("sessions", "sessions-each", "idle-minutes"), file), file),
            _connections(_table(table, "connections", ("each", "total", "head-seconds", "body-seconds"), file), file),
            _proxies(table.get("trusted-proxies", []), file),
        )


def _table(table: Mapping[str, object], name: str, known: tuple[str, ...], file: str) -> Mapping[str, object]:
    found = table.get(name, {})
    if not isinstance(found, Mapping):
        raise _wrong(file, f"server.{name}", "a table", found)
    _refuse_unknown(found, known, f"server.{name}", file)
    return found


def _mcp(table: Mapping[str, object], file: str) -> McpSessions:
    usual = McpSessions()
    return McpSessions(
        each=_number(table.get("sessions-each", usual.each), _MOST, "server.mcp.sessions-each", file),
        total=_number(table.get("sessions", usual.total), _MOST, "server.mcp.sessions", file),
        idle_s=60 * _number(table.get("idle-minutes", 30), 60 * 24, "server.mcp.idle-minutes", file),
    )


def _connections(table: Mapping[str, object], file: str) -> ConnectionLimits:
    usual = ConnectionLimits()
    total = table.get("total")
    return ConnectionLimits(
        each=_number(table.get("each", usual.each), _MOST, "server.connections.each", file),
        total=None if total is None else _number(total, _MOST, "server.connections.total", file),
        head_s=_number(table.get("head-seconds", usual.head_s), _LONGEST_S, "server.connections.head-seconds", file),
        body_s=_number(table.get("body-seconds", usual.body_s), _LONGEST_S, "server.connections.body-seconds", file),
    )


def _proxies(given: object, file: str) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise _wrong(file, "server.trusted-proxies", "a list of addresses and networks", given)
    try:
        return read_proxies(given)
    except InvalidInput as error:
        message, key = f"{file}: server.trusted-proxies: {error.message}", "server.trusted-proxies"
        raise InvalidConfiguration(message, hint=error.hint, file=file, key=key) from None


def _number(value: object, most: int, key: str, file: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise _wrong(file, key, f"a number from 1 to {most:,}", value)
    return value


def _refuse_unknown(table: Mapping[str, object], known: tuple[str, ...], name: str, file: str) -> None:
    for key in table:
        if key not in known:
            raise _wrong(file, f"{name}.{key}", f"one of {', '.join(known)}", key)


def _wrong(file: str, key: str, wanted: str, value: object) -> InvalidConfiguration:
    message = f"{file}: {key} must be {wanted}, not {value!r}"
    return InvalidConfiguration(message, hint=f"change {key} in {file}", file=file, key=key)
