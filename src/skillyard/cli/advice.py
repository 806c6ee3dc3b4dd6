"""What an install tells of the scanner: how many findings, the worst of them, and where to see all. It stops nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog
    from skillyard.registry import Result, Scanner
    from skillyard.scanner import Finding

__all__ = ["draw_advice", "scanner_of"]

_WORST: Final = 3
_KEPT: Final = 100


def scanner_of(catalog: Catalog) -> Scanner:
    """The scanner for a registry: what is more than a note and not suppressed, the gravest first, at most a hundred.

    Only what the user's own file suppresses is left out: a project may come from whoever wrote the skill. Advice stops no
    install: where the scanner itself fails, that is the finding.
    """

    def scan(directory: Path) -> Sequence[Finding]:
        from skillyard.scanner import at_least, scan_skill

        try:
            report = scan_skill(directory, suppressions=catalog.suppressions(user_only=True))
        except Exception as error:
            return (_failed(error),)
        return at_least(report.open, "low")[:_KEPT]

    return scan


def _failed(error: Exception) -> Finding:
    """A finding that says that nothing was looked for, and why."""
    from skillyard.scanner import RULES, Finding

    rule = RULES["not-all-read"]
    told = shorten(single_line(f"nothing was looked for: {error}"), 200)
    return Finding(rule.id, rule.severity, told, rule.why, "SKILL.md", 1, 1, "", "fix what it names, then `skillyard scan`")


def draw_advice(screen: Screen, result: Result) -> None:
    """Count the findings about a skill that is new here by severity, and show the worst three."""
    if not result.findings or result.status not in ("installed", "updated"):
        return
    counts = Counter(str(finding["severity"]) for finding in result.findings)
    told = ", ".join(f"{count} {severity}" for severity, count in counts.items())
    screen.line(f"the scanner found {told}; `skillyard scan {result.skill_id}` shows all", indent=2, style=next(iter(counts)))
    for finding in result.findings[:_WORST]:
        screen.line(_line(finding), indent=4)


def _line(finding: Mapping[str, object]) -> str:
    where = single_line(f"{finding['file']}:{finding['line']}")
    return f"{finding['severity']} {where} {shorten(single_line(str(finding['message'])), 200)}"
