"""Agents that use skills: a toolset for pydantic-ai.

    agent = Agent("openai:gpt-5", toolsets=[SkillToolset(Catalog.discover())])

It needs `pip install 'skillyard[agent]'`.
"""

from __future__ import annotations

from skillyard.agent.toolset import SkillToolset

__all__ = ["SkillToolset"]
