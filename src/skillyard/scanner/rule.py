"""What a rule of the scanner is: its id, its subject, what it weighs in a script and in a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from skillyard.scanner.finding import Severity

__all__ = ["SUBJECTS", "Rule", "Subject"]

Subject = Literal[
    "prompt injection",
    "hidden text",
    "credentials",
    "download and run",
    "persistence",
    "obfuscation",
    "permissions",
    "network",
    "data flow",
    "dangerous calls",
    "resource abuse",
]
"""What kind of harm a rule looks for."""

SUBJECTS: Final[tuple[Subject, ...]] = get_args(Subject)


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is looked for: what it is, why it does harm, what to do about it, and how much it weighs."""

    id: str
    subject: Subject
    title: str
    """A sentence without an end: what was found."""
    why: str
    fix: str
    severity: Severity
    """In a file that runs or that a model reads as instructions, as the rule's subject demands."""
    in_text: Severity | None = None
    """In an example inside a document, which only shows what somebody may do; None: as `severity`."""

    def weighs(self, *, example: bool) -> Severity:
        """The severity of a finding, in an example or elsewhere."""
        return self.in_text if example and self.in_text else self.severity
