"""The skills one agent can see: where they are found, which one wins a name, what state each is in, and their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.catalog.catalog import SkillCatalog
from skillyard.catalog.configuration import (
    AllowedToolsMode,
    Configuration,
    DisabledSkill,
    Permission,
    PermissionMatch,
    SkillSettings,
    home_directory,
    load_settings,
)
from skillyard.catalog.records import Changes, Root, RootStatus, Source, Status
from skillyard.catalog.scan import Progress
from skillyard.catalog.skill import Skill
from skillyard.catalog.state import Overlay

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
    "Source",
    "Status",
    "home_directory",
    "load_settings",
    "media_type",
    "read_file",
]

_LATER = {
    "FileContent": "skillyard.catalog.skill_files",
    "FileType": "skillyard.catalog.skill_files",
    "Inventory": "skillyard.catalog.skill_files",
    "SkillFile": "skillyard.catalog.skill_files",
    "HasFolder": "skillyard.catalog.skill_files",
    "media_type": "skillyard.catalog.skill_files",
    "read_file": "skillyard.catalog.skill_files",
}


def __getattr__(name: str) -> object:
    """Import what only some callers name when they name it: a list must start quickly."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LATER[name]), name)
