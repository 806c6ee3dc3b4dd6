"""What the commands that install skills share: the registry with its scanner, consent to wider powers, progress, results.

Findings of the scanner are advice: they are shown and stop nothing.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypedDict

from skillyard.cli.confirmation import confirm
from skillyard.cli.failures import UsageProblem
from skillyard.text import sanitize, shorten, single_line

if TYPE_CHECKING:
    import argparse
    from typing import Self

    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog
    from skillyard.registry import (
        OperationResult,
        PowerChange,
        ProgressEvent,
        ProjectLock,
        Registry,
        Scanner,
        SourceReplacement,
    )
    from skillyard.scanner import Finding


_WORST: Final = 3
_KEPT: Final = 100


def make_scanner(catalog: Catalog) -> Scanner:
    """The scanner for a registry: what is more than a note and not suppressed, the gravest first, at most a hundred.

    Only what the user's own file suppresses is left out: a project may come from the author of the skill. Advice stops no
    install: where the scanner itself fails, that is the finding.
    """

    def scan(directory: Path) -> Sequence[Finding]:
        from skillyard.scanner import at_least_severity, scan_skill

        try:
            report = scan_skill(directory, suppressions=catalog.suppressions(user_only=True))
        except Exception as error:
            return (_failed(error),)
        return at_least_severity(report.open, "low")[:_KEPT]

    return scan


def _failed(error: Exception) -> Finding:
    """A finding that says that nothing was looked for, and why."""
    from skillyard.scanner import RULES, Finding

    rule = RULES["not-all-read"]
    summary = shorten(single_line(f"nothing was looked for: {error}"), 200)
    return Finding(rule.id, rule.severity, summary, rule.why, "SKILL.md", 1, 1, "", "fix what it names, then `skillyard scan`")


def draw_findings(screen: Screen, result: OperationResult) -> None:
    """Count the findings about a skill that is new here by severity, and show the worst three."""
    if not result.findings or result.status not in ("installed", "updated"):
        return
    counts = Counter(str(finding["severity"]) for finding in result.findings)
    summary = ", ".join(f"{count} {severity}" for severity, count in counts.items())
    screen.line(
        f"the scanner found {summary}; `skillyard scan {result.skill_id}` shows all", indent=2, style=next(iter(counts))
    )
    for finding in result.findings[:_WORST]:
        screen.line(_line(finding), indent=4)


def _line(finding: Mapping[str, object]) -> str:
    where = single_line(f"{finding['file']}:{finding['line']}")
    return f"{finding['severity']} {where} {shorten(single_line(str(finding['message'])), 200)}"


_SHOWN: Final = 8
_CLEAR: Final = "\r\x1b[2K"
_STYLES: Final = {"unchanged": "dim"}
"""The others are good news."""


def open_registry(arguments: argparse.Namespace) -> Registry:
    """The registry of the configuration; no skill is looked for."""
    from skillyard.library import Catalog
    from skillyard.registry import Registry

    catalog = Catalog.discover(roots=(), cwd=arguments.project, cache=False)
    return Registry.of(catalog, scanner=make_scanner(catalog))


def open_lock(arguments: argparse.Namespace) -> ProjectLock:
    """The lock of the project: in its git root, else beside its configuration, else in the working folder."""
    from skillyard.library import Catalog
    from skillyard.registry import ProjectLock

    return ProjectLock(Catalog.discover(roots=(), cwd=arguments.project, cache=False).project_root)


def missing_lock_error(lock: ProjectLock) -> UsageProblem:
    """The message where there is nothing to install from."""
    return UsageProblem(
        f"there is no {lock.path.name} in {lock.folder}",
        hint="`skillyard install SOURCE --save` begins one; SOURCE is for example a folder, an archive or owner/repo",
    )


class Acceptance(TypedDict):
    """The approver of a change of source or signer of the current version, in the form the registry takes."""

    accept_signer: bool
    accept_source: bool
    replacing: Callable[[Sequence[SourceReplacement]], bool] | None


def add_accept_options(parser: argparse.ArgumentParser) -> None:
    """The options of commands that may install a version of another signer or source."""
    parser.add_argument(
        "--accept-signer", action="store_true", help="take a version that another key signed than the one before, or none"
    )
    parser.add_argument(
        "--accept-source", action="store_true", help="accept a version from another source than the current one"
    )


def replacement_acceptance(arguments: argparse.Namespace) -> Acceptance:
    """What the options accept; the person at the terminal confirms the rest, which `--yes` does not."""
    screen: Screen = arguments.screen

    def ask(changes: Sequence[SourceReplacement]) -> bool:
        if sys.stderr.isatty():
            sys.stderr.write(_CLEAR)  # the line of progress
        for change in changes:
            sys.stderr.write(sanitize(f"{single_line(change.skill_id)}: {single_line(change.sentence)}") + "\n")
        return confirm("Replace what is installed?")

    return {
        "accept_signer": arguments.accept_signer,
        "accept_source": arguments.accept_source,
        "replacing": ask if screen.interactive and not screen.as_json else None,
    }


def power_consent(screen: Screen, *, yes: bool) -> Callable[[Sequence[PowerChange]], bool] | None:
    """The approver of wider powers: `--yes`, the person at the terminal, or None."""

    def ask(changes: Sequence[PowerChange]) -> bool:
        lines = [line for change in changes for line in _story(change)]
        if sys.stderr.isatty():
            sys.stderr.write(_CLEAR)  # the line of progress
        sys.stderr.write("\n".join(sanitize(line) for line in lines) + "\n")
        return yes or confirm("Allow this?")

    return ask if yes or (screen.interactive and not screen.as_json) else None


def _story(change: PowerChange) -> list[str]:
    return [
        f"{single_line(change.skill_id)} would be allowed more than the installed version:",
        *(f"  + {single_line(sentence)}" for sentence in change.widened),
    ]


class InstallProgress:
    """One line on standard error with the current step and skill; nothing without a terminal."""

    def __init__(self, screen: Screen) -> None:
        self._active = sys.stderr.isatty() and not screen.quiet
        self._drawn = False

    def __call__(self, event: ProgressEvent) -> None:
        """Show a step."""
        if self._active:
            self._drawn = True
            what = f"{event.skill_id}: " if event.skill_id else ""
            sys.stderr.write(f"{_CLEAR}{event.percent:3}%  {what}{event.step.replace('_', ' ')}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._drawn:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.clear()


def draw_results(screen: Screen, results: Sequence[OperationResult], *, key: str = "results") -> None:
    """Report what became of each skill, what it may do when it is new here, and what it lacks."""
    if screen.as_json:
        screen.data({key: [result.to_dict() for result in results]})
        return
    for result in results:
        _draw(screen, result)


def _draw(screen: Screen, result: OperationResult) -> None:
    declared = f" ({result.declared_version})" if result.declared_version else ""
    version = f" {result.version}{declared}" if result.version else ""
    before = f" (was version {result.previous})" if result.previous and result.previous != result.version else ""
    called = "" if result.name == result.skill_id else f" ({result.name})"
    screen.line(f"{result.status} {result.skill_id}{called}{version}{before}", style=_STYLES.get(result.status, "ok"))
    if result.signer and result.status in ("installed", "updated"):
        screen.line(f"signed by {result.signer}", indent=2)
    if result.status == "installed" and result.powers is not None:
        sentences = sorted(result.powers.sentences(), key=lambda sentence: sentence.startswith("has the script "))
        for sentence in sentences[:_SHOWN]:
            screen.line(sentence, indent=2)
        if len(sentences) > _SHOWN:
            screen.line(f"and {len(sentences) - _SHOWN} more; `skillyard show {result.skill_id}` shows all", indent=2)
        if not sentences:
            screen.line("holds instructions only, nothing that runs", indent=2)
    draw_findings(screen, result)
    if result.status != "unchanged":
        for warning in result.warnings:
            screen.note(f"warning: {result.skill_id}: {warning}")
    for sentence in result.unmet:
        screen.note(f"needs: {result.skill_id}: {sentence}")
