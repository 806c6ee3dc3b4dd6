"""Environments: the packages and programs that skills need, agreed to, locked, installed once, and seen read-only.

`EnvironmentRequest(entry, grant)(folder)` gives the `GrantedEnvironment` that a run or a session of the sandbox takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.environments.grants import NO_GRANT, GrantStore, SkillGrant
from skillyard.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from skillyard.environments.declared import (
        DeclaredNeeds,
        Requirements,
        ScriptBlock,
        declared_needs,
        read_requirements,
        read_script_block,
    )
    from skillyard.environments.installer import CacheReport, environments_folder, index_settings, prune_environments
    from skillyard.environments.locked_packages import find_npm, find_uv
    from skillyard.environments.program_table import find_program
    from skillyard.environments.proposal import ProposedItem, SkillNeeds, missing_hint, session_hint, skill_needs
    from skillyard.environments.provision import (
        EnvironmentRequest,
        SkillGrants,
        granted_programs,
        require_programs,
        with_registries,
    )

__all__ = [
    "NO_GRANT",
    "CacheReport",
    "DeclaredNeeds",
    "EnvironmentRequest",
    "GrantStore",
    "ProposedItem",
    "Requirements",
    "ScriptBlock",
    "SkillGrant",
    "SkillGrants",
    "SkillNeeds",
    "declared_needs",
    "environments_folder",
    "find_npm",
    "find_program",
    "find_uv",
    "granted_programs",
    "index_settings",
    "missing_hint",
    "prune_environments",
    "read_requirements",
    "read_script_block",
    "require_programs",
    "session_hint",
    "skill_needs",
    "with_registries",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "declared": (
            "DeclaredNeeds",
            "Requirements",
            "ScriptBlock",
            "declared_needs",
            "read_requirements",
            "read_script_block",
        ),
        "installer": ("CacheReport", "environments_folder", "index_settings", "prune_environments"),
        "locked_packages": ("find_npm", "find_uv"),
        "program_table": ("find_program",),
        "proposal": ("ProposedItem", "SkillNeeds", "missing_hint", "session_hint", "skill_needs"),
        "provision": ("EnvironmentRequest", "SkillGrants", "granted_programs", "require_programs", "with_registries"),
    },
)
