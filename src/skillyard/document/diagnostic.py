"""What was found in a SKILL.md, where, and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

Severity = Literal["error", "warning", "info"]


class DiagnosticShape(TypedDict):
    """A diagnostic as plain data, the same in every `--json` answer."""

    rule: str
    severity: Severity
    message: str
    file: str
    line: int
    fix: str | None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: the rule's id, its severity, what, where (1-based line) and how to fix it."""

    rule: str
    severity: Severity
    message: str
    file: str = "SKILL.md"
    line: int = 1
    fix: str | None = None

    def to_dict(self) -> DiagnosticShape:
        """The finding as plain data."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            "fix": self.fix,
        }
