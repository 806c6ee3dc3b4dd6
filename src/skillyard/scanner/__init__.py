"""The scanner: looks for harm in the files of a skill and reports where it is, why it matters and how to fix it.

`scan_skill(folder)` reads every file once and runs nothing; its `Report` is advice: no room lets a finding block or allow
anything. `RULES` is what is looked for, `to_sarif` what code hosts read.
"""

from __future__ import annotations

from skillyard.scanner.finding import (
    LINK,
    NEVER_PACKED,
    NOT_TEXT,
    SEVERITIES,
    SUBJECTS,
    Finding,
    Report,
    ScanRule,
    Severity,
    Skipped,
    Subject,
    at_least_severity,
)
from skillyard.scanner.rules import RULES, Suppression, read_suppressions, to_sarif
from skillyard.scanner.scan import scan_skill

__all__ = [
    "LINK",
    "NEVER_PACKED",
    "NOT_TEXT",
    "RULES",
    "SEVERITIES",
    "SUBJECTS",
    "Finding",
    "Report",
    "ScanRule",
    "Severity",
    "Skipped",
    "Subject",
    "Suppression",
    "at_least_severity",
    "read_suppressions",
    "scan_skill",
    "to_sarif",
]
