"""Findings, reports and rules: what a rule looks for, what a scan found, and what it left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from skillyard.wire import WireForm, wire

Severity = Literal["high", "medium", "low", "info"]
"""`high`: harm whoever wrote it; `medium`: harm unless there is a good reason; `low`: worth a look; `info`: a note."""

NOT_TEXT: Final = "it holds no text"
"""Why pictures, fonts and the like are not scanned."""
LINK: Final = "a link, which is not followed"
NEVER_PACKED: Final = "never part of a package"
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)


@dataclass(frozen=True, slots=True)
class Finding(WireForm):
    """One position where a rule matched; line and column are counted from 1, `evidence` is fit to be shown."""

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
    """A note on an expired suppression that would have covered it."""
    claimed: str | None = None
    """The justification in the skill's own files; the finding counts all the same."""


@dataclass(frozen=True, slots=True)
class Skipped(WireForm):
    """A file, or the rest of one, that was not scanned, and why."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Effect(WireForm):
    """Something a skill did while it was watched: the rule it breaks, how grave it is here, who did it, and the evidence.

    `by` is the file that ran, `line` that of the command in it; `round` says under which conditions it happened first.
    `target` is what it was done to: a host, a file, a secret.
    """

    rule: str
    severity: Severity
    by: str
    line: int
    round: str
    target: str
    evidence: str


@dataclass(frozen=True, slots=True)
class WatchedCommand(WireForm):
    """One script, or one block of commands of a text; how often it was run, for how many seconds, and how it ended last."""

    by: str
    line: int
    runs: int = 0
    seconds: float = 0.0
    end: str = "not run"


@dataclass(frozen=True, slots=True)
class WatchReport(WireForm):
    """What a skill did while it was watched, and under which conditions; `at` is when, in UTC.

    `hosts` are those that it asked for. `complete` says whether everything was run in every round, `missed` what was not, and
    why.
    """

    digest: str
    at: str
    seconds: float
    complete: bool
    rounds: tuple[str, ...]
    commands: tuple[WatchedCommand, ...]
    effects: tuple[Effect, ...]
    hosts: tuple[str, ...]
    missed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report(WireForm, also=("worst",)):
    """All findings about one folder, the most severe first, and the files that were read."""

    folder: str
    findings: tuple[Finding, ...]
    files: tuple[str, ...]
    """The files that were read, relative to the folder."""
    skipped: tuple[Skipped, ...]
    watched: WatchReport | None = field(default=None, metadata=wire(omit_empty=True))
    """What it did when it was run and watched; its effects are among the findings."""
    sample: frozenset[int] = field(default=frozenset(), metadata=wire(hidden=True))
    """What its instructions are compared by with those of other skills (`text_sample`)."""

    @property
    def open(self) -> tuple[Finding, ...]:
        """The findings that nobody suppressed."""
        return tuple(finding for finding in self.findings if finding.allowed is None)

    @property
    def worst(self) -> Severity | None:
        """The highest severity among the open findings."""
        return min((finding.severity for finding in self.open), key=SEVERITIES.index, default=None)


def at_least_severity(findings: Iterable[Finding], severity: Severity) -> tuple[Finding, ...]:
    """The findings that weigh as much as `severity` or more."""
    return tuple(finding for finding in findings if SEVERITIES.index(finding.severity) <= SEVERITIES.index(severity))


def lower_severity(severity: Severity, steps: int) -> Severity:
    """A severity that weighs `steps` less, but no less than a note."""
    return SEVERITIES[min(SEVERITIES.index(severity) + steps, len(SEVERITIES) - 1)]


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
    "identity",
    "behavior",
]
"""What kind of harm a rule looks for."""

SUBJECTS: Final[tuple[Subject, ...]] = get_args(Subject)


@dataclass(frozen=True, slots=True)
class ScanRule:
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
