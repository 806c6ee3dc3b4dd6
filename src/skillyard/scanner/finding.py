"""What a scan found in a skill's folder, what it left out, and the report that holds both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypedDict, get_args

__all__ = ["NOT_TEXT", "SEVERITIES", "Finding", "FindingShape", "Report", "Severity", "Skipped", "at_least", "lowered"]

Severity = Literal["high", "medium", "low", "info"]
"""`high`: harm whoever wrote it; `medium`: harm unless there is a good reason; `low`: worth a look; `info`: a note."""

NOT_TEXT: Final = "it holds no text"
"""Why pictures, fonts and the like are not looked into."""
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)


class FindingShape(TypedDict):
    """A finding as plain data, the same in every `--json` answer."""

    rule: str
    severity: Severity
    message: str
    why: str
    file: str
    line: int
    column: int
    evidence: str
    fix: str
    allowed: str | None
    expired: str | None
    claimed: str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where a rule found something; line and column are counted from 1, `evidence` is fit to be shown."""

    rule: str
    severity: Severity
    message: str
    why: str
    file: str
    line: int
    column: int
    evidence: str
    fix: str
    allowed: str | None = None
    """Why the operator suppressed it, until when, and in which file; it fails nothing, and is counted."""
    expired: str | None = None
    """What is said about a suppression that would have covered it and has run out."""
    claimed: str | None = None
    """What the skill's own files say in defence of it; it counts all the same."""

    def to_dict(self) -> FindingShape:
        """The finding as plain data."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "why": self.why,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "evidence": self.evidence,
            "fix": self.fix,
            "allowed": self.allowed,
            "expired": self.expired,
            "claimed": self.claimed,
        }


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file, or the rest of one, that was not looked into, and why."""

    file: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """The file as plain data."""
        return {"file": self.file, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Report:
    """All findings about one folder, the gravest first, and which files they rest on."""

    folder: str
    findings: tuple[Finding, ...]
    files: tuple[str, ...]
    """The files that were read, relative to the folder."""
    skipped: tuple[Skipped, ...]

    @property
    def open(self) -> tuple[Finding, ...]:
        """The findings that nobody suppressed."""
        return tuple(finding for finding in self.findings if finding.allowed is None)

    @property
    def worst(self) -> Severity | None:
        """The gravest severity among the open findings."""
        return min((finding.severity for finding in self.open), key=SEVERITIES.index, default=None)

    def to_dict(self) -> dict[str, object]:
        """The report as plain data."""
        return {
            "folder": self.folder,
            "worst": self.worst,
            "findings": [finding.to_dict() for finding in self.findings],
            "files": list(self.files),
            "skipped": [skipped.to_dict() for skipped in self.skipped],
        }


def at_least(findings: Iterable[Finding], severity: Severity) -> tuple[Finding, ...]:
    """The findings that weigh as much as `severity` or more."""
    return tuple(found for found in findings if SEVERITIES.index(found.severity) <= SEVERITIES.index(severity))


def lowered(severity: Severity, steps: int = 1) -> Severity:
    """A severity that weighs `steps` less; nothing weighs less than a note."""
    return SEVERITIES[min(SEVERITIES.index(severity) + steps, len(SEVERITIES) - 1)]
