"""The scanner: looks for harm in the files of a skill and reports where it is, why it matters and how to fix it.

`scan_skill(folder)` reads every file once and runs nothing; its `Report` is advice, but for what the operator lets stop an
install (`stopping_severities`). `RULES` is what is looked for, `to_sarif` what code hosts read. `watch_skill(folder)` runs what is in
a skill, in a sandbox, and reports what it does; `scan_skill` puts that among the findings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.lazy_exports import lazy_exports
from skillyard.scanner.finding import (
    LINK,
    NEVER_PACKED,
    NOT_TEXT,
    SEVERITIES,
    SUBJECTS,
    Effect,
    Finding,
    Report,
    ScanRule,
    Severity,
    Skipped,
    Subject,
    WatchedCommand,
    WatchReport,
    at_least_severity,
)
from skillyard.scanner.names import BUILT_IN

if TYPE_CHECKING:
    from skillyard.scanner.scanner_rules import (
        RULES,
        Suppression,
        accepting_callers,
        read_suppressions,
        stopping_severities,
        to_sarif,
        watches_installs,
    )
    from skillyard.scanner.skill_scan import scan_skill
    from skillyard.scanner.watch import watch_skill

__all__ = [
    "BUILT_IN",
    "LINK",
    "NEVER_PACKED",
    "NOT_TEXT",
    "RULES",
    "SEVERITIES",
    "SUBJECTS",
    "Effect",
    "Finding",
    "Report",
    "ScanRule",
    "Severity",
    "Skipped",
    "Subject",
    "Suppression",
    "WatchReport",
    "WatchedCommand",
    "accepting_callers",
    "at_least_severity",
    "read_suppressions",
    "scan_skill",
    "stopping_severities",
    "to_sarif",
    "watch_skill",
    "watches_installs",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "scanner_rules": (
            "RULES", "Suppression", "accepting_callers", "read_suppressions", "stopping_severities", "to_sarif",
            "watches_installs",
        ),
        "skill_scan": ("scan_skill",),
        "watch": ("watch_skill",),
    },
)  # fmt: skip
