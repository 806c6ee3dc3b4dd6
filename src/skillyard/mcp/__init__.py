"""MCP: the tools and the skills of a catalog for any client of the Model Context Protocol, over two transports.

The SDK takes most of a second to import: it is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from skillyard.mcp.mcp_server import ToolUse
    from skillyard.mcp.stdio import serve_stdio
    from skillyard.mcp.transports import McpHttpApp

__all__ = ["McpHttpApp", "ToolUse", "serve_stdio"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "stdio": ("serve_stdio",),
        "mcp_server": ("ToolUse",),
        "transports": ("McpHttpApp",),
    },
)
