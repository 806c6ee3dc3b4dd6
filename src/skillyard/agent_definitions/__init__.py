"""Definitions of agents: a system prompt, a model and skills under a name, and the exact prompt of each.

`AgentStore` keeps them in the records; `write_agent_prompt` also works on a draft that was never kept. What an agent does in a
conversation is the concern of the room `conversations`.
"""

from __future__ import annotations

from skillyard.agent_definitions.model import (
    Agent,
    AgentDraft,
    AgentPrompt,
    AgentSkill,
    SkillPromptShare,
    catalog_for_agent,
    choose_agent_skill,
    write_agent_prompt,
)
from skillyard.agent_definitions.store import AgentStore

__all__ = [
    "Agent",
    "AgentDraft",
    "AgentPrompt",
    "AgentSkill",
    "AgentStore",
    "SkillPromptShare",
    "catalog_for_agent",
    "choose_agent_skill",
    "write_agent_prompt",
]
