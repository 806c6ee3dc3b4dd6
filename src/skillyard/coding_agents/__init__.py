"""The coding agents of this machine: which there are, skills in their folders, our server in their configuration.

`coding_agents` knows them, `SkillLinks` puts skills where they look, `connect` writes our MCP server where they list theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from skillyard.coding_agents.coding_agent_table import (
        AUTO,
        CodingAgent,
        Scope,
        SkillsFolder,
        chosen_agents,
        coding_agents,
        skills_folders,
    )
    from skillyard.coding_agents.mcp_configuration import (
        ConfigurationChange,
        McpServerEntry,
        connect,
        connection,
        disconnect,
    )
    from skillyard.coding_agents.skill_links import LinkCheck, LinkReport, SkillLink, SkillLinks

__all__ = [
    "AUTO",
    "CodingAgent",
    "ConfigurationChange",
    "LinkCheck",
    "LinkReport",
    "McpServerEntry",
    "Scope",
    "SkillLink",
    "SkillLinks",
    "SkillsFolder",
    "chosen_agents",
    "coding_agents",
    "connect",
    "connection",
    "disconnect",
    "skills_folders",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "mcp_configuration": ("ConfigurationChange", "McpServerEntry", "connect", "connection", "disconnect"),
        "skill_links": ("LinkCheck", "LinkReport", "SkillLink", "SkillLinks"),
        "coding_agent_table": (
            "AUTO", "CodingAgent", "Scope", "SkillsFolder", "chosen_agents", "coding_agents", "skills_folders",
        ),
    },
)  # fmt: skip
