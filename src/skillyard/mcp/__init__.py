"""The MCP door: the tools and the skills of a catalog for any client of the Model Context Protocol, over two transports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.mcp.stdio import serve_stdio

if TYPE_CHECKING:
    from skillyard.mcp.http import HttpDoor

__all__ = ["HttpDoor", "serve_stdio"]


def __getattr__(name: str) -> object:
    if name != "HttpDoor":  # it needs the SDK, which takes most of a second
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skillyard.mcp.http import HttpDoor

    return HttpDoor
