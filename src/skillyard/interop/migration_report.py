"""The report on skills that were migrated, adopted or validated: one result for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

Status = Literal["migrated", "validated", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """What became of one skill: `issues` are sentences for people, `details` the files that were or would be written."""

    skill_name: str
    status: Status
    issues: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    before: str = field(default="", repr=False)
    after: str = field(default="", repr=False)
    """SKILL.md before and after, where it changes."""

    def to_dict(self) -> dict[str, object]:
        """The result in the words of document 000: `{skillName, status, issues?, details?}`."""
        shape: dict[str, object] = {"skillName": self.skill_name, "status": self.status}
        if self.issues:
            shape["issues"] = list(self.issues)
        if self.details:
            shape["details"] = list(self.details)
        return shape


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What became of every skill of a folder (row 000-56)."""

    results: tuple[MigrationResult, ...]

    @property
    def ok(self) -> bool:
        """Whether none failed."""
        return all(result.status != "failed" for result in self.results)

    def to_dict(self) -> dict[str, object]:
        """`{total, migrated, validated, skipped, failed, results}`."""
        counts = {status: sum(result.status == status for result in self.results) for status in get_args(Status)}
        return {"total": len(self.results), **counts, "results": [result.to_dict() for result in self.results]}
