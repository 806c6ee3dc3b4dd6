"""MCP: the tools and the skills of a catalog for any client of the Model Context Protocol, over two transports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.mcp.stdio import serve_stdio

if TYPE_CHECKING:
    from skillyard.mcp.http import McpHttpApp
    from skillyard.mcp.server import ToolUse

__all__ = ["McpHttpApp", "ToolUse", "serve_stdio"]


def __getattr__(name: str) -> object:  # these need the SDK, which takes most of a second to import
    if name == "McpHttpApp":
        from skillyard.mcp.http import McpHttpApp

        return McpHttpApp
    if name == "ToolUse":
        from skillyard.mcp.server import ToolUse

        return ToolUse
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
