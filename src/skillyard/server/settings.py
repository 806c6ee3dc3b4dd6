"""What `[server]` of the user's skillyard.toml says: how much may be asked, and how long a page stays signed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self, get_args

from skillyard.errors import InvalidConfiguration
from skillyard.server.limits import Kind, Rate

if TYPE_CHECKING:
    from skillyard.catalog import Configuration

__all__ = ["ServerSettings"]

_RATES: Final[Mapping[Kind, int]] = MappingProxyType({"read": 3000, "write": 300, "download": 1200})
_MOST: Final = 1_000_000
_SESSION_H: Final = 12
_LONGEST_H: Final = 24 * 90


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """`rates` are requests a minute of one caller, by kind; `session` is how long a page stays signed in."""

    rates: Mapping[Kind, Rate] = field(default_factory=lambda: {kind: Rate(many) for kind, many in _RATES.items()})
    session: timedelta = timedelta(hours=_SESSION_H)

    @classmethod
    def of(cls, configuration: Configuration) -> Self:
        """The checked settings of a configuration.

        Raises:
            InvalidConfiguration: an unknown key, or a value that cannot be meant.
        """
        table, file = configuration.server, configuration.user_file or "skillyard.toml"
        _refuse_unknown(table, ("limits", "session-hours"), "server", file)
        limits = table.get("limits", {})
        if not isinstance(limits, Mapping):
            raise _wrong(file, "server.limits", "a table", limits)
        _refuse_unknown(limits, get_args(Kind), "server.limits", file)
        rates: dict[Kind, Rate] = {
            kind: Rate(_number(limits.get(kind, many), _MOST, f"server.limits.{kind}", file)) for kind, many in _RATES.items()
        }
        hours = _number(table.get("session-hours", _SESSION_H), _LONGEST_H, "server.session-hours", file)
        return cls(rates, timedelta(hours=hours))


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
