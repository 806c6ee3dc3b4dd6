"""The registry: skills that were installed, each version whole and unchanged, and the record of everything done to them.

`Registry.open()` installs, updates, rolls back and uninstalls; `ProjectLock` holds a project to exact content. Consent to more
power, a scanner and the fetching of sources are ports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.lazy_exports import lazy_exports
from skillyard.registry.candidate import Scanner, ScannerFinding
from skillyard.registry.package_cache import skill_with_content, version_skill, version_with_content
from skillyard.registry.powers import PowerChange, Powers, SkillComparison, compare_skills, read_powers
from skillyard.registry.project_lock import LOCK_FILE, LockEntry, LockState, ProjectLock
from skillyard.registry.registry import Registry
from skillyard.registry.registry_values import (
    PINNED,
    AgreeReplacement,
    Consent,
    EditValue,
    FetchedTree,
    Fetcher,
    InstalledSkill,
    InstallLog,
    InstallOptions,
    InstallRefusal,
    InstallReport,
    Operation,
    OperationResult,
    PendingUpdate,
    Progress,
    ProgressEvent,
    RollbackOptions,
    SkillVersion,
    SourceReplacement,
    check_edits,
)
from skillyard.registry.requirements import DependencyTree, Need, locked_versions
from skillyard.registry.skill_inspection import SkillInspection
from skillyard.registry.source_fetcher import GitFetcher, SourceFetcher
from skillyard.registry.version_files import BackfillReport, KeptLinkState
from skillyard.registry.version_store import new_operation_id, subscribe_operations

if TYPE_CHECKING:
    from skillyard.registry.registry_records import LATEST, PopularityCounts, check_tag

__all__ = [
    "LATEST",
    "LOCK_FILE",
    "PINNED",
    "AgreeReplacement",
    "BackfillReport",
    "Consent",
    "DependencyTree",
    "EditValue",
    "FetchedTree",
    "Fetcher",
    "GitFetcher",
    "InstallLog",
    "InstallOptions",
    "InstallRefusal",
    "InstallReport",
    "InstalledSkill",
    "KeptLinkState",
    "LockEntry",
    "LockState",
    "Need",
    "Operation",
    "OperationResult",
    "PendingUpdate",
    "PopularityCounts",
    "PowerChange",
    "Powers",
    "Progress",
    "ProgressEvent",
    "ProjectLock",
    "Registry",
    "RollbackOptions",
    "Scanner",
    "ScannerFinding",
    "SkillComparison",
    "SkillInspection",
    "SkillVersion",
    "SourceFetcher",
    "SourceReplacement",
    "check_edits",
    "check_tag",
    "compare_skills",
    "locked_versions",
    "new_operation_id",
    "read_powers",
    "skill_with_content",
    "subscribe_operations",
    "version_skill",
    "version_with_content",
]

__getattr__, __dir__ = lazy_exports(__name__, {"registry_records": ("LATEST", "PopularityCounts", "check_tag")})
