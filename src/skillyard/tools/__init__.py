"""The tools a model may call, over one service: load, list, read, run and search skills."""

from __future__ import annotations

from skillyard.permissions import SkillAccess, SkillConsent
from skillyard.tools.skill_tools import SkillTools
from skillyard.tools.tool_context import WorkspaceSource
from skillyard.tools.tool_definitions import Dialect, Language, ToolDefinition
from skillyard.tools.tool_results import TextAnswer, ToolResult

__all__ = [
    "Dialect",
    "Language",
    "SkillAccess",
    "SkillConsent",
    "SkillTools",
    "TextAnswer",
    "ToolDefinition",
    "ToolResult",
    "WorkspaceSource",
]
