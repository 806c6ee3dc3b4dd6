"""Agents that were defined: a system prompt, a model and skills under a name, and the exact prompt that each comes to.

`AgentBook` keeps them in the records; `write_agent_prompt` also works on a draft that was never kept. What an agent does in a
conversation is not this room's concern.
"""

from __future__ import annotations

from skillyard.agents.book import AgentBook
from skillyard.agents.model import Agent, AgentDraft, AgentSkill
from skillyard.agents.prompting import AgentPrompt, SkillShare, write_agent_prompt
from skillyard.agents.skills import choose_skill, limited

__all__ = [
    "Agent",
    "AgentBook",
    "AgentDraft",
    "AgentPrompt",
    "AgentSkill",
    "SkillShare",
    "choose_skill",
    "limited",
    "write_agent_prompt",
]
