"""The tools a model may call, over one service: load, list, read, run and search skills."""

from __future__ import annotations

from skillyard.permissions import Consent
from skillyard.tools.access import Access
from skillyard.tools.definition import Dialect, ToolDefinition
from skillyard.tools.result import ToolResult
from skillyard.tools.service import SkillTools
from skillyard.tools.textform import TextAnswer
from skillyard.tools.wording import Language

__all__ = ["Access", "Consent", "Dialect", "Language", "SkillTools", "TextAnswer", "ToolDefinition", "ToolResult"]
