"""Every rule by its id, and the making of a finding from one."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from skillyard.document.diagnostic import Diagnostic
from skillyard.document.rule import Profile, Rule
from skillyard.document.rules_fields import FIELD_RULES
from skillyard.document.rules_profiles import PROFILE_RULES
from skillyard.document.rules_reading import READING_RULES

__all__ = ["RULES", "diagnose"]

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
