"""What the commands that install skills share: the registry with its scanner, consent to wider powers, progress, results.

Findings of the scanner are shown; those that the operator's `[scan] stops` names stop an install, unless they are accepted.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

from skillyard.cli.confirmation import confirm
from skillyard.cli.screen import CLEAR_LINE, FAILURE, OK, ProgressLine
from skillyard.errors import HelpersBusy, InvalidConfiguration, SandboxUnavailable, UsageProblem
from skillyard.text import nearest, sanitize, shorten, single_line

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog
    from skillyard.registry import (
        KeptLinkState,
        LockState,
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
_FILES: Final = 20  # of a kind that are shown of one skill


def make_scanner(catalog: Catalog, skills: Callable[[], Iterable[Skill]] | None = None) -> Scanner:
    """The scanner for a registry: open findings above the severity `info`, the most severe first, at most a hundred.

    Only what the user's own file suppresses is left out: a project may come from the author of the skill. Where that file says
    so, what is to be installed is run in a sandbox and watched, too; that it could not be is a finding, and so is, a grave one,
    that the scanner itself fails. No name may imitate one of `skills`, by default those of the catalog.
    """

    def scan(directory: Path) -> Sequence[Finding]:
        from skillyard.scanner import BUILT_IN, Finding, at_least_severity, scan_skill, watch_skill, watches_installs

        settings = catalog.configuration
        watched, unwatched = None, list[Finding]()
        try:
            if watches_installs(settings.user_scan, settings.user_file or ""):
                try:
                    watched = watch_skill(directory)
                except SandboxUnavailable as error:
                    unwatched.append(_failed("not-all-read", f"nothing was watched: {error}"))
            known = {
                skill.name.casefold(): BUILT_IN if skill.source == "builtin" else "this catalog"
                for skill in (skills or catalog.all)()
            }
            suppressions = catalog.suppressions(user_only=True)
            report = scan_skill(directory, suppressions=suppressions, watched=watched, known=known)
        except (HelpersBusy, InvalidConfiguration):
            raise  # it has nothing to do with the skill
        except Exception as error:
            return (_failed("not-scanned", f"nothing was looked for: {error}"),)
        return (*unwatched, *at_least_severity(report.open, "low"))[:_KEPT]

    return scan


def _failed(rule_name: str, what: str) -> Finding:
    """A finding that says what was not done, and why."""
    from skillyard.scanner import RULES, Finding

    rule = RULES[rule_name]
    summary = shorten(single_line(what), 200)
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


_SHOWN: Final = 3  # of each kind; of more the number
_COUNTED: Final = {  # how a sentence begins, longer ones first, and what is said of many
    "has the script ": "has {} scripts",
    "installs the package ": "installs {} packages",
    "asks for npm:": "asks for {} npm packages",
    "asks for program:": "asks for {} programs",
    "asks for ": "asks for {} Python packages",
    "brings the hidden file ": "brings {} hidden files",
    "tells its reader to fetch ": "tells its reader to fetch {} things that nothing pins",
}
_STYLES: Final = {"unchanged": "dim", "waiting": "warning"}
"""The others are good news."""


def open_registry(arguments: argparse.Namespace) -> Registry:
    """The registry of the configuration; skills are only looked for when something is scanned, for their names."""
    from skillyard.library import Catalog
    from skillyard.registry import Registry

    catalog = Catalog.discover(roots=(), cwd=arguments.project, cache=False)
    registry = Registry.of(catalog, scanner=make_scanner(catalog, lambda: Catalog.discover(cwd=arguments.project).all()))
    registry.others = lambda: {
        skill.slug: skill.version for skill in Catalog.discover(cwd=arguments.project).all() if skill.source != "installed"
    }
    return registry


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


def draw_lock_states(
    screen: Screen,
    states: Sequence[LockState],
    *,
    locked: Collection[str] | None = None,
    links: Sequence[KeptLinkState] = (),
) -> bool:
    """Show how skills are installed, with the files that are other than locked; gives whether all are as they should be.

    With `locked`, the ids of the skills in the lock, the others are marked. Of `links` those are shown that are not as
    they were kept; one that does not answer is no reason to fail.
    """
    good = all(state.state == "ok" for state in states) and all(one.state in ("ok", "unknown") for one in links)
    if screen.as_json:
        skills = [state.to_dict() | ({} if locked is None else {"locked": state.entry.skill_id in locked}) for state in states]
        screen.data({"ok": good, "skills": skills} | ({"links": [one.to_dict() for one in links]} if links else {}))
        return good
    for state in states:
        word = state.state if locked is None or state.entry.skill_id in locked else f"{state.state}, not locked"
        screen.line(f"{word:<10} {state.entry.skill_id}", style="ok" if state.state == "ok" else "error")
        _draw_lock_state(screen, state)
    for one in links:
        if one.state != "ok":
            style = "warning" if one.state == "unknown" else "error"
            screen.line(f"{one.state:<10} {one.skill_id}: {single_line(one.address)}: {single_line(one.reason)}", style=style)
    if any(one.state in ("changed", "damaged") for one in links):
        screen.note("`skillyard update NAME` asks about what is different now; with `--force` it replaces damaged copies")
    return good


def _draw_lock_state(screen: Screen, state: LockState) -> None:
    """What of a locked skill is other than locked, or missing."""
    for sentence in state.requires:
        screen.line(f"requires: {single_line(sentence)}", indent=4)
    for kind, paths in (("changed", state.changed_files), ("missing", state.missing_files), ("extra", state.extra_files)):
        for path in paths[:_FILES]:
            screen.line(f"{kind:<8} {single_line(path)}", indent=4)
        if len(paths) > _FILES:
            screen.line(f"{kind:<8} and {len(paths) - _FILES} more", indent=4)
    if state.state == "conflict":
        screen.line("skillyard.lock and skills-lock.json name different content", indent=4)


def note_withdrawn(screen: Screen, catalog: Catalog, skills: Sequence[Skill]) -> None:
    """Say of which installed skills the current version was deprecated or yanked, and the way out."""
    from skillyard.catalog import load_withdrawn

    withdrawn = load_withdrawn(catalog.data_directory)
    for skill in skills if withdrawn else ():
        if skill.source == "installed" and (sentence := withdrawn.get(skill.slug)):
            screen.note(f"warning: {skill.slug}: {single_line(sentence)}")


def note_left_out(screen: Screen, skill_ids: Sequence[str]) -> None:
    """Say which skills `skills-lock.json` has no words for."""
    if skill_ids:
        names = ", ".join(single_line(name) for name in skill_ids)
        screen.note(f"skills-lock.json cannot express the source of {names}: only skillyard.lock has it")


class Acceptance(TypedDict):
    """The approver of a change of source or signer of the current version, in the form the registry takes."""

    accept_signer: bool
    accept_source: bool
    replacing: Callable[[Sequence[SourceReplacement]], bool] | None


def add_accept_options(parser: argparse.ArgumentParser) -> None:
    """The options of commands that may install a version of another signer or source."""
    parser.add_argument(
        "--accept-signer", action="store_true", help="accept a version with another signer than before, or without a signature"
    )
    parser.add_argument(
        "--accept-source", action="store_true", help="accept a version from another source than the current one"
    )


def add_dependency_option(parser: argparse.ArgumentParser, says: str) -> None:
    """The option of commands that look at what skills require of each other; `says` is what it does there."""
    parser.add_argument("--no-deps", dest="dependencies", action="store_false", help=says)


def add_finding_option(parser: argparse.ArgumentParser) -> None:
    """The option of commands that may install what the scanner found harm in."""
    parser.add_argument(
        "--accept",
        action="append",
        type=_scanner_rule,
        default=[],
        metavar="RULE",
        help="install in spite of this finding of the scanner; may be repeated",
    )


def _scanner_rule(name: str) -> str:
    from skillyard.scanner import RULES  # only where one is accepted

    if name in RULES:
        return name
    near = nearest(name, RULES, limit=1)
    meant = f"; did you mean {near[0]}?" if near else "; `skillyard scan` names the rules of what it finds"
    raise argparse.ArgumentTypeError(f"there is no rule {name[:80]!r} of the scanner{meant}")


def replacement_acceptance(arguments: argparse.Namespace) -> Acceptance:
    """What the options accept; the person at the terminal confirms the rest, which `--yes` does not."""
    screen: Screen = arguments.screen

    def ask(changes: Sequence[SourceReplacement]) -> bool:
        if sys.stderr.isatty():
            sys.stderr.write(CLEAR_LINE)  # the line of progress
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
            sys.stderr.write(CLEAR_LINE)  # the line of progress
        sys.stderr.write("\n".join(sanitize(line) for line in lines) + "\n")
        return yes or confirm("Allow this?")

    return ask if yes or (screen.interactive and not screen.as_json) else None


def _story(change: PowerChange) -> list[str]:
    if change.required_by:
        why = single_line("; ".join(change.required_by))
        head = f"{single_line(change.skill_id)} would be installed as a dependency from {single_line(change.source)} ({why}):"
        lines = power_lines(change.widened) or ["has instructions only, no scripts"]
        return [head, *(f"  + {single_line(sentence)}" for sentence in lines)]
    return [
        f"{single_line(change.skill_id)} would be allowed more than the installed version:",
        *(f"  + {single_line(sentence)}" for sentence in power_lines(change.widened)),
    ]


def power_lines(sentences: Sequence[str]) -> list[str]:
    """What a skill may do, for people: what weighs first, then one line for each kind of which there are many."""
    groups: dict[str, list[str]] = {text: [] for text in _COUNTED.values()}
    lines = []
    for sentence in sentences:
        begin = next((begin for begin in _COUNTED if sentence.startswith(begin)), None)
        if begin is None:
            lines.append(sentence)
        else:
            groups[_COUNTED[begin]].append(sentence)
    for text, members in groups.items():
        many = len(members) > _SHOWN
        lines += [text.format(len(members)) + "; --json names them"] if many else members
    return lines


class InstallProgress(ProgressLine):
    """The current step and skill of an installation."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(screen, patience=0, every=0)

    def __call__(self, event: ProgressEvent) -> None:
        """Show a step."""
        if self.due():
            what = f"{event.skill_id}: " if event.skill_id else ""
            self.show(f"{event.percent:3}%  {what}{event.step.replace('_', ' ')}")


def installed_code(results: Sequence[OperationResult]) -> int:
    """The exit code of an installation: 1 when something of it waits for approval and does not serve yet."""
    return FAILURE if any(result.status == "waiting" for result in results) else OK


def draw_results(screen: Screen, results: Sequence[OperationResult], *, key: str = "results") -> None:
    """Report the result of each skill, what it may do when it is new here, and what it lacks."""
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
    for reason in result.required_by:
        screen.line(f"because {single_line(reason)}", indent=2)
    if result.signer and result.status in ("installed", "updated"):
        screen.line(f"signed by {result.signer}", indent=2)
    if result.status == "installed" and result.powers is not None:
        sentences = power_lines(result.powers.sentences())
        for sentence in sentences:
            screen.line(sentence, indent=2)
        if not sentences:
            screen.line("has instructions only, no scripts", indent=2)
    draw_findings(screen, result)
    if result.status != "unchanged":
        for warning in result.warnings:
            screen.note(f"warning: {result.skill_id}: {warning}")
    for sentence in result.unmet:
        screen.note(f"needs: {result.skill_id}: {shorten(sentence, 300)}")
