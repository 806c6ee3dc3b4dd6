"""Every rule by its id, and the findings that are made from them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from skillyard.document.diagnostic import Diagnostic
from skillyard.document.field_rules import FIELD_RULES, PROFILE_RULES
from skillyard.document.rule import Profile, Rule
from skillyard.document.syntax_rules import READING_RULES

RULES: Final = MappingProxyType({rule.id: rule for rule in (*READING_RULES, *FIELD_RULES, *PROFILE_RULES)})
"""Every rule that exists, by id, in the order of `docs/rules.md`."""


def diagnose(
    rule: str, *, file: str = "SKILL.md", line: int = 1, message: str = "", fix: str = "", profile: Profile = "standard"
) -> Diagnostic:
    """A finding of the rule `rule`, worded by the rule where no message or fix is given.

    For findings about the file itself, such as `file-not-regular`, which only the caller can see. A rule that the profile does
    not look for is reported as a note.
    """
    known: Rule = RULES[rule]
    severity = known.severity.get(profile, "info")
    return Diagnostic(rule, severity, message or known.title, file, line, fix or known.remedy)


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
        if self.wants(rule):
            self._found.append(
                diagnose(rule, file=self.file, line=max(line, 1), message=message, fix=fix, profile=self.profile)
            )

    def wants(self, rule: str) -> bool:
        """Whether the profile looks for a rule at all."""
        return self.profile in RULES[rule].severity

    def sorted(self) -> tuple[Diagnostic, ...]:
        """The findings in the order of the file's lines, those on one line in the order they were found."""
        return tuple(sorted(self._found, key=lambda found: found.line))
