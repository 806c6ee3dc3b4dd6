"""The skills one agent can see: where they are found, which one wins a name, what state each is in, and their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.catalog.catalog import SkillCatalog
from skillyard.catalog.configuration import AllowedToolsMode, Configuration, Permission, PermissionMatch
from skillyard.catalog.records import Changes, Root, RootStatus, Source, Status
from skillyard.catalog.scan import Progress
from skillyard.catalog.settings import DisabledSkill, SkillSettings, home_directory, load_settings
from skillyard.catalog.skill import Skill
from skillyard.catalog.state import Overlay

if TYPE_CHECKING:
    from skillyard.catalog.file_content import FileContent, HasFolder, read_file
    from skillyard.catalog.inventory import FileType, Inventory, SkillFile, media_type

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
    "FileContent": "skillyard.catalog.file_content",
    "FileType": "skillyard.catalog.inventory",
    "Inventory": "skillyard.catalog.inventory",
    "SkillFile": "skillyard.catalog.inventory",
    "HasFolder": "skillyard.catalog.file_content",
    "media_type": "skillyard.catalog.inventory",
    "read_file": "skillyard.catalog.file_content",
}


def __getattr__(name: str) -> object:
    """Import what only some callers name when they name it: a list must start quickly."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LATER[name]), name)
