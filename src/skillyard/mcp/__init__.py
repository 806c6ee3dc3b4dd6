"""MCP: the tools and the skills of a catalog for any client of the Model Context Protocol, over two transports.

Everything here needs the SDK, which takes most of a second to import: it is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from skillyard.mcp.tool_calls import ToolUse
    from skillyard.mcp.transports import McpHttpApp, serve_stdio

__all__ = ["McpHttpApp", "ToolUse", "serve_stdio"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "tool_calls": ("ToolUse",),
        "transports": ("McpHttpApp", "serve_stdio"),
    },
)
