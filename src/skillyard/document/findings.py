"""Collecting what is wrong with one document under one profile."""

from __future__ import annotations

from skillyard.document.diagnostic import Diagnostic
from skillyard.document.rule import Profile
from skillyard.document.rules import RULES

__all__ = ["Findings"]


class Findings:
    """The findings about one file so far, and whether they leave it usable."""

    def __init__(self, file: str, profile: Profile) -> None:
        self.file = file
        self.profile = profile
        self.usable = True
        self._found: list[Diagnostic] = []

    def add(self, rule: str, *, line: int = 1, message: str = "", fix: str = "") -> None:
        """Note a finding, if the profile looks for the rule; the rule's own words stand in for a missing message or fix."""
        known = RULES[rule]
        if self.profile in known.breaks:
            self.usable = False
        severity = known.severity.get(self.profile)
        if severity:
            words = message or known.title
            self._found.append(Diagnostic(rule, severity, words, self.file, max(line, 1), fix or known.remedy))

    def wants(self, rule: str) -> bool:
        """Whether the profile looks for a rule at all."""
        return self.profile in RULES[rule].severity

    def sorted(self) -> tuple[Diagnostic, ...]:
        """The findings in the order of the file's lines, those on one line in the order they were found."""
        return tuple(sorted(self._found, key=lambda found: found.line))
