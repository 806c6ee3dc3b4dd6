"""The MCP door: the tools and the skills of a catalog for any client of the Model Context Protocol, over two transports."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from skillyard.mcp.stdio import serve_stdio

if TYPE_CHECKING:
    from skillyard.mcp.http import HttpDoor
    from skillyard.mcp.server import ToolUse

__all__ = ["HttpDoor", "ToolUse", "serve_stdio"]

_LATER: Final = {"HttpDoor": "http", "ToolUse": "server"}
"""The module of what needs the SDK, which takes most of a second to import."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"skillyard.mcp.{_LATER[name]}"), name)
