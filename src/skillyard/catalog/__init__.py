"""The skills one agent can see: where they are found, which one wins a name, what state each is in, and their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.catalog.catalog import Catalog
from skillyard.catalog.configuration import AllowedToolsMode, Configuration, Permission, PermissionMatch
from skillyard.catalog.model import Changes, Root, RootStatus, Skill, Source, Status
from skillyard.catalog.overlays import Overlay
from skillyard.catalog.scan import Progress
from skillyard.catalog.settings import DisabledSkill, Settings, home_directory, load_settings

if TYPE_CHECKING:
    from skillyard.catalog.inventory import FileType, Inventory, SkillFile
    from skillyard.catalog.media import media_type
    from skillyard.catalog.reading import FileContent, Located, read_file

__all__ = [
    "AllowedToolsMode",
    "Catalog",
    "Changes",
    "Configuration",
    "DisabledSkill",
    "FileContent",
    "FileType",
    "Inventory",
    "Located",
    "Overlay",
    "Permission",
    "PermissionMatch",
    "Progress",
    "Root",
    "RootStatus",
    "Settings",
    "Skill",
    "SkillFile",
    "Source",
    "Status",
    "home_directory",
    "load_settings",
    "media_type",
    "read_file",
]

_LATER = {
    "FileContent": "skillyard.catalog.reading",
    "FileType": "skillyard.catalog.inventory",
    "Inventory": "skillyard.catalog.inventory",
    "SkillFile": "skillyard.catalog.inventory",
    "Located": "skillyard.catalog.reading",
    "media_type": "skillyard.catalog.media",
    "read_file": "skillyard.catalog.reading",
}


def __getattr__(name: str) -> object:
    """Import what only some callers name when they name it: a list must start quickly."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LATER[name]), name)
