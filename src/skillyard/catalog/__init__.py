"""The skills one agent can see: where they are found, which one wins a name, what state each is in, and their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.catalog.catalog_rows import Changes, Root, RootStatus, SkillState, Source, Status
from skillyard.catalog.catalog_state import Overlay
from skillyard.catalog.configuration import (
    AllowedToolsMode,
    Configuration,
    Permission,
    PermissionMatch,
    home_directory,
)
from skillyard.catalog.root_scan import Progress
from skillyard.catalog.skill import Skill
from skillyard.catalog.skill_catalog import SkillCatalog
from skillyard.catalog.user_changes import DisabledSkill, SkillSettings, Withdrawal, load_settings, load_withdrawn, withdrawal
from skillyard.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from skillyard.catalog.skill_files import FileContent, FileType, HasFolder, Inventory, SkillFile, media_type, read_file

__all__ = [
    "AllowedToolsMode",
    "Changes",
    "Configuration",
    "DisabledSkill",
    "FileContent",
    "FileType",
    "HasFolder",
    "Inventory",
    "Overlay",
    "Permission",
    "PermissionMatch",
    "Progress",
    "Root",
    "RootStatus",
    "Skill",
    "SkillCatalog",
    "SkillFile",
    "SkillSettings",
    "SkillState",
    "Source",
    "Status",
    "Withdrawal",
    "home_directory",
    "load_settings",
    "load_withdrawn",
    "media_type",
    "read_file",
    "withdrawal",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {"skill_files": ("FileContent", "FileType", "HasFolder", "Inventory", "SkillFile", "media_type", "read_file")},
)
