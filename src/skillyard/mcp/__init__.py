"""The MCP door: the tools and the skills of a catalog for any client of the Model Context Protocol."""

from __future__ import annotations

from skillyard.mcp.stdio import serve_stdio

__all__ = ["serve_stdio"]
