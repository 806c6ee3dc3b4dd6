"""The registry: skills that were installed, each version whole and unchanged, and the record of everything done to them.

`Registry.open()` installs, updates, rolls back and uninstalls; `ProjectLock` holds a project to exact content. Consent to more
power, a scanner and the fetching of sources are ports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.registry.backfill import Backfilled
from skillyard.registry.candidate import Finding, Scanner
from skillyard.registry.editing import Edited
from skillyard.registry.fetched import Fetched, Fetcher
from skillyard.registry.fetching import SourceFetcher
from skillyard.registry.git import GitFetcher
from skillyard.registry.hearing import hear_operations
from skillyard.registry.inspection import Inspected, Refusal
from skillyard.registry.model import (
    AgreeReplacement,
    Consent,
    InstalledSkill,
    InstallLog,
    InstallReport,
    Operation,
    Progress,
    ProgressEvent,
    Replacement,
    Result,
    SkillVersion,
)
from skillyard.registry.operations import new_operation_id
from skillyard.registry.powers import PowerChange, Powers, read_powers
from skillyard.registry.project_lock import LOCK_FILE, LockEntry, LockState, ProjectLock
from skillyard.registry.registry import Registry
from skillyard.registry.requirements import Requirements
from skillyard.registry.stored import skill_with_content
from skillyard.registry.version_locks import locked_to

if TYPE_CHECKING:
    from skillyard.registry.popularity import Counts
    from skillyard.registry.version_tags import LATEST, check_tag

__all__ = [
    "LATEST",
    "LOCK_FILE",
    "AgreeReplacement",
    "Backfilled",
    "Consent",
    "Counts",
    "Edited",
    "Fetched",
    "Fetcher",
    "Finding",
    "GitFetcher",
    "Inspected",
    "InstallLog",
    "InstallReport",
    "InstalledSkill",
    "LockEntry",
    "LockState",
    "Operation",
    "PowerChange",
    "Powers",
    "Progress",
    "ProgressEvent",
    "ProjectLock",
    "Refusal",
    "Registry",
    "Replacement",
    "Requirements",
    "Result",
    "Scanner",
    "SkillVersion",
    "SourceFetcher",
    "check_tag",
    "hear_operations",
    "locked_to",
    "new_operation_id",
    "read_powers",
    "skill_with_content",
]

_LATER = {"LATEST": "version_tags", "Counts": "popularity", "check_tag": "version_tags"}  # they need the database


def __getattr__(name: str) -> object:
    """Import what speaks to the database when it is named."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
