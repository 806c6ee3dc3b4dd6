"""The index of skills in a system prompt: six styles, one budget, nothing untrusted unescaped."""

from __future__ import annotations

from skillyard.prompt.budget import Index, Omission
from skillyard.prompt.index_entry import Stage, count_tokens, describe_skill, disclosure_stage
from skillyard.prompt.prompt_index import IndexOptions, append_index, build_index, entry_costs, usage_guidance, write_index
from skillyard.prompt.styles import Style

__all__ = [
    "Index",
    "IndexOptions",
    "Omission",
    "Stage",
    "Style",
    "append_index",
    "build_index",
    "count_tokens",
    "describe_skill",
    "disclosure_stage",
    "entry_costs",
    "usage_guidance",
    "write_index",
]
