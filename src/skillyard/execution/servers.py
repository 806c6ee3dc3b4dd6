"""The MCP servers an operator registered for skills of kind `distributed`: `[servers.NAME]` in the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from skillyard.errors import InvalidConfiguration

__all__ = ["McpServer", "read_servers"]

_KEYS: Final = ("command", "args", "env", "cwd", "url", "headers", "tools")


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server: a `command` to start with `args`, `env` and `cwd`, or the `url` of one that runs, with `headers`.

    Values of `env` and `headers` may hold `${NAME}` for a secret the operator grants. `tools` are the tools that skills may
    call; None means all. A started server runs outside the sandbox: it is the operator's own program.

    Raises:
        InvalidConfiguration: it has both a command and a url, or neither.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    tools: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise InvalidConfiguration(
                "a server has either a command or a url", hint='for example url = "http://localhost:9000/mcp"'
            )

    def permits(self, tool: str) -> bool:
        """Whether skills may call this tool."""
        return self.tools is None or tool in self.tools


def read_servers(tables: Mapping[str, object]) -> dict[str, McpServer]:
    """The servers of a configuration by their names.

    Raises:
        InvalidConfiguration: a table has an unknown key or a value that cannot be meant.
    """
    return {name: _server(name, table) for name, table in tables.items()}


def _server(name: str, table: object) -> McpServer:
    if not isinstance(table, Mapping):
        raise _wrong(name, "a table")
    for key in table:
        if key not in _KEYS:
            raise _wrong(f"{name}.{key}", f"one of {', '.join(_KEYS)}")
    tools = table.get("tools")
    try:
        return McpServer(
            command=_text(name, table, "command"),
            args=_texts(name, table, "args"),
            env=_table(name, table, "env"),
            cwd=_text(name, table, "cwd"),
            url=_text(name, table, "url"),
            headers=_table(name, table, "headers"),
            tools=None if tools is None else _texts(name, table, "tools"),
        )
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"servers.{name}: {error.message}", hint=error.hint) from None


def _text(name: str, table: Mapping[str, object], key: str) -> str | None:
    value = table.get(key)
    if value is None or (isinstance(value, str) and value.strip()):
        return value
    raise _wrong(f"{name}.{key}", "text")


def _texts(name: str, table: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise _wrong(f"{name}.{key}", "a list of texts")


def _table(name: str, table: Mapping[str, object], key: str) -> dict[str, str]:
    value = table.get(key, {})
    if isinstance(value, Mapping) and all(isinstance(item, str) for item in value.values()):
        return dict(value)
    raise _wrong(f"{name}.{key}", "a table of texts")


def _wrong(key: str, wanted: str) -> InvalidConfiguration:
    return InvalidConfiguration(
        f"servers.{key} must be {wanted}", hint="change it in your own skillyard.toml", key=f"servers.{key}"
    )
