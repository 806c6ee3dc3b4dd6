"""`skillyard scan`: what in a skill may do harm, where, why, and how to fix it; and what it and `check` do for a code host."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from skillyard.cli.command_options import discover_catalog, nothing_to_look_at, open_catalog
from skillyard.cli.screen import FAILURE, OK, ScanProgress, counted
from skillyard.errors import SkillNotFound, UsageProblem
from skillyard.plain_json import encodable_json
from skillyard.scanner import LINK, NEVER_PACKED, NOT_TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog
    from skillyard.packages import FoundSkill
    from skillyard.scanner import Finding, Report, Severity, WatchReport


_T = TypeVar("_T")
_AT_A_TIME: Final = 2
_MANY: Final = 4
_SOURCE_HINT: Final = "name a skill, a folder with skills, a SKILL.md, or an archive (.zip, .skill, .tar.gz)"


def scan_targets(arguments: argparse.Namespace) -> Iterator[Report]:
    """A report for each skill that the targets hold; without targets for each skill of the catalog.

    Raises:
        UsageProblem: a target is neither there nor a skill's name, or is no archive; or `--again` without `--run`.
        SandboxUnavailable: skills are to be run, and bubblewrap does not hold here.
        SkillNotFound: there is no skill in it.
        ArchiveRefused: an archive breaks a rule.
    """
    if arguments.again and not arguments.run:
        raise UsageProblem("--again needs --run", hint="add --run")
    if not arguments.targets:
        catalog = open_catalog(arguments)
        yield from _each(lambda skill: catalog.scan(skill, run=arguments.run, again=arguments.again), catalog.all(), arguments)
        return
    settings = discover_catalog(arguments, roots=())
    for target in arguments.targets:
        path = Path(target)
        if path.is_dir():
            yield from _in_tree(path, target, settings, arguments)
        elif path.name.lower() == "skill.md" and path.is_file():
            yield _scanned(path.parent, str(path.parent), settings, arguments)
        elif path.exists():
            yield from _in_archive(path, settings, arguments)
        else:
            yield _named(target, arguments)


def _in_tree(tree: Path, shown: str, settings: Catalog, arguments: argparse.Namespace) -> Iterator[Report]:
    from skillyard.packages import find_skills

    skills = find_skills(tree)
    if not skills:
        raise SkillNotFound(f"there is no SKILL.md at or below {shown}", hint=_SOURCE_HINT)

    def scan(skill: FoundSkill) -> Report:
        where = shown if skill.path == "." else f"{shown.rstrip('/')}/{skill.path}"
        return _scanned(skill.directory, where, settings, arguments)

    yield from _each(scan, skills, arguments)


def _each(scan: Callable[[_T], Report], skills: Sequence[_T], arguments: argparse.Namespace) -> Iterator[Report]:
    """The reports in the order of the skills; two are scanned at a time, and one is watched at a time."""
    with ScanProgress(arguments.screen, what="scanning") as progress:
        for number, report in enumerate(_scans(scan, skills, one_at_a_time=arguments.run or len(skills) < _MANY), 1):
            progress(number, len(skills))
            yield report


def _scans(scan: Callable[[_T], Report], skills: Sequence[_T], *, one_at_a_time: bool) -> Iterator[Report]:
    if one_at_a_time:
        yield from map(scan, skills)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        try:
            yield from pool.map(scan, skills)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _in_archive(archive: Path, settings: Catalog, arguments: argparse.Namespace) -> Iterator[Report]:
    import tempfile

    from skillyard.packages import extract, sniff

    if not archive.is_file():
        raise UsageProblem(f"{archive} is neither a file nor a folder", hint=_SOURCE_HINT)
    with archive.open("rb") as file:
        if sniff(file.read(512)) is None:
            raise UsageProblem(f"{archive} is not an archive", hint=_SOURCE_HINT)
    with tempfile.TemporaryDirectory(prefix="skillyard-") as scratch:
        yield from _in_tree(extract(archive, scratch).tree, str(archive), settings, arguments)


def _named(name: str, arguments: argparse.Namespace) -> Report:
    catalog = open_catalog(arguments)
    try:
        return catalog.scan(catalog.get(name), run=arguments.run, again=arguments.again)
    except SkillNotFound as error:
        raise SkillNotFound(error.message, hint=error.hint or _SOURCE_HINT, **error.details) from None


def _scanned(directory: Path, shown: str, settings: Catalog, arguments: argparse.Namespace) -> Report:
    from skillyard.scanner import scan_skill, watch_skill

    watched = watch_skill(directory, again=arguments.again) if arguments.run else None
    return replace(scan_skill(directory, suppressions=settings.suppressions(), watched=watched), folder=shown)


_LEVELS: Final = ("high", "medium", "low", "info")
_SKIPPED: Final = 5


def add_scan_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `scan`."""
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="a skill, a folder with skills, a SKILL.md or an archive (default: every skill of the roots)",
    )
    parser.add_argument(
        "--at-least",
        choices=_LEVELS,
        default="high",
        metavar="LEVEL",
        help=f"exit with 1 from this severity on: {', '.join(_LEVELS)} (default: high)",
    )
    parser.add_argument(
        "--run",
        action="store_true",
        help="also run its scripts and commands in a sandbox with fake secrets and a fake network, and report what they do",
    )
    parser.add_argument(
        "--again", action="store_true", help="with --run: run it again although the same content was watched before"
    )
    parser.add_argument("--sarif", metavar="FILE", help="also write the findings as SARIF 2.1.0")
    parser.add_argument("--rules", action="store_true", help="list the rules")
    add_code_host_options(parser)


def scan_command(arguments: argparse.Namespace) -> int:
    """Scan and report; 1 when a finding that nobody suppressed weighs as much as `--at-least` says."""
    from skillyard.scanner import at_least_severity
    from skillyard.scanner.names import with_same_texts

    screen: Screen = arguments.screen
    if arguments.rules:
        _draw_rules(screen)
        return OK
    reports = with_same_texts(list(scan_targets(arguments)))
    if not reports:
        raise nothing_to_look_at("scan", arguments)
    if arguments.changed is not None:
        changed = ChangedFiles(arguments.changed)
        reports = [report for report in reports if changed.touch([report.folder])]
        reports = _with_suppressions_of_before(reports, changed, arguments)
    if arguments.sarif:
        _write_sarif(Path(arguments.sarif), reports)
    if screen.as_json:
        screen.data({"reports": [report.to_dict() for report in reports], "summary": _summary(reports)})
    elif arguments.format == "github":
        for report in reports:
            for finding in report.open:
                path = f"{report.folder.rstrip('/')}/{finding.file}"
                annotate(screen, path, finding.line, finding.severity, finding.rule, f"{finding.message}; fix: {finding.fix}")
        _draw_summary(screen, reports)
    else:
        for report in reports:
            _draw(screen, report, arguments.at_least)
        _draw_summary(screen, reports)
        _note_unseen(screen, reports, arguments.at_least)
    return FAILURE if any(at_least_severity(report.open, arguments.at_least) for report in reports) else OK


def _with_suppressions_of_before(reports: list[Report], changed: ChangedFiles, arguments: argparse.Namespace) -> list[Report]:
    """A change does not suppress its own findings: where it changes the project's settings, those of before it hold."""
    import tomllib

    from skillyard.scanner import read_suppressions, scan_skill

    settings = discover_catalog(arguments, roots=())
    file = settings.configuration.file
    if file is None or not changed.touch([file]):
        return reports
    try:
        table = tomllib.loads(changed.before(file) or "").get("scan", {})
    except tomllib.TOMLDecodeError:
        table = {}
    kept = (*settings.suppressions(user_only=True), *read_suppressions(table, file))
    return [
        replace(scan_skill(Path(report.folder), suppressions=kept, watched=report.watched), folder=report.folder)
        if len(report.open) < len(report.findings) and Path(report.folder).is_dir()
        else report
        for report in reports
    ]


def _write_sarif(path: Path, reports: Sequence[Report]) -> None:
    from skillyard.files import write_output
    from skillyard.scanner import to_sarif

    write_output(path, encodable_json(json.dumps(to_sarif(reports), indent=2)).encode("utf-8") + b"\n")


def _summary(reports: Sequence[Report]) -> dict[str, int]:
    counts = Counter(finding.severity for report in reports for finding in report.open)
    suppressed = sum(len(report.findings) - len(report.open) for report in reports)
    return {"skills": len(reports), **{level: counts[level] for level in _LEVELS}, "suppressed": suppressed}


def _draw(screen: Screen, report: Report, level: Severity) -> None:
    """Findings from `level` on in full, those below in one line, `info` only when wanted; a skill without any is not named."""
    shown = [finding for finding in report.findings if finding.severity != "info" or level == "info"]
    for finding in shown:
        if finding.allowed is not None:
            screen.line(f"{_where(report, finding)} suppressed {finding.rule}: {finding.allowed}", style="dim")
            continue
        screen.line(f"{_where(report, finding)} {finding.severity} {finding.rule}: {finding.message}", style=finding.severity)
        if _LEVELS.index(finding.severity) <= _LEVELS.index(level):
            screen.line(f"> {finding.evidence}", indent=4)
            screen.line(f"why: {finding.why}", indent=4)
            screen.line(f"fix: {finding.fix}", indent=4)
        if finding.claimed is not None:
            screen.line(f"claimed by the skill, and ignored: {finding.claimed}", indent=4)
        if finding.expired is not None:
            screen.line(f"no longer {finding.expired}", indent=4)
    _note_skipped(screen, report)
    if report.watched is not None:
        _draw_watched(screen, report.watched)
    if shown:
        screen.line()


def _draw_watched(screen: Screen, watched: WatchReport) -> None:
    """What was run, for how long, whom it asked for, and what was not run."""
    if not watched.commands:
        screen.note("watched: it has no script and no command that could be run")
    else:
        times, commands = sum(one.runs for one in watched.commands), counted(len(watched.commands), "command")
        screen.note(f"watched: {commands}, {counted(times, 'run')} in {watched.seconds:.1f} s, at {watched.at}")
        if watched.hosts:
            more = f" and {len(watched.hosts) - _SKIPPED} more" if len(watched.hosts) > _SKIPPED else ""
            screen.note(f"it requested these hosts: {', '.join(watched.hosts[:_SKIPPED])}{more}")
    for missed in watched.missed[:_SKIPPED]:
        screen.note(f"not watched: {missed}")


def _note_skipped(screen: Screen, report: Report) -> None:
    binary = sum(skipped.reason == NOT_TEXT for skipped in report.skipped)
    others = [skipped for skipped in report.skipped if skipped.reason != NOT_TEXT]
    for skipped in others[:_SKIPPED]:
        screen.note(f"not scanned: {report.folder.rstrip('/')}/{skipped.file}: {skipped.reason}")
    if len(others) > _SKIPPED:
        screen.note(f"not scanned: {len(others) - _SKIPPED} more in {report.folder}; --json lists them")
    if binary:
        screen.note(f"not scanned: {counted(binary, 'file')} in {report.folder} without text")


def _where(report: Report, finding: Finding) -> str:
    return f"{report.folder.rstrip('/')}/{finding.file}:{finding.line}"


def _draw_summary(screen: Screen, reports: Sequence[Report]) -> None:
    summary = _summary(reports)
    counts = ", ".join(f"{summary[level]} {level}" for level in _LEVELS if summary[level])
    suppressed = f", {summary['suppressed']} suppressed" if summary["suppressed"] else ""
    worst = next((level for level in _LEVELS if summary[level]), "ok")
    screen.line(f"{counted(summary['skills'], 'skill')}: {counts or _nothing(reports)}{suppressed}", style=worst)


def _note_unseen(screen: Screen, reports: Sequence[Report], level: Severity) -> None:
    if (unseen := _summary(reports)["info"]) and level != "info":
        screen.note(f"{counted(unseen, 'info finding')} not shown: `--at-least info` shows them")


def _nothing(reports: Sequence[Report]) -> str:
    """That nothing was found, and how much was not scanned."""
    reasons = [skipped.reason for report in reports for skipped in report.skipped]
    links, others = reasons.count(LINK), sum(reason not in (LINK, NOT_TEXT, NEVER_PACKED) for reason in reasons)
    missed = [counted(count, noun) for count, noun in ((links, "link"), (others, "other file")) if count]
    return f"nothing found in what was scanned; {' and '.join(missed)} not scanned" if missed else "nothing found"


def _draw_rules(screen: Screen) -> None:
    from skillyard.scanner import RULES

    if screen.as_json:
        shapes = [
            {
                "id": rule.id,
                "subject": rule.subject,
                "severity": rule.severity,
                "in_text": rule.in_text or rule.severity,
                "title": rule.title,
                "why": rule.why,
                "fix": rule.fix,
            }
            for rule in RULES.values()
        ]
        screen.data({"rules": shapes})
        return
    rows = [(rule.id, rule.severity, rule.in_text or rule.severity, rule.title) for rule in RULES.values()]
    screen.table(rows, header=("RULE", "SCRIPT", "TEXT", "FINDS"))


_HOST_LEVELS: Final = {"error": "error", "high": "error", "warning": "warning", "medium": "warning"}
_DEADLINE_S: Final = 60
_IN_TEXT: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def add_code_host_options(parser: argparse.ArgumentParser) -> None:
    """The options for continuous integration, the same for `check` and `scan`."""
    parser.add_argument(
        "--format", choices=("text", "github"), default="text", help="github: findings as annotations of a workflow"
    )
    parser.add_argument(
        "--changed",
        nargs="?",
        const="HEAD",
        metavar="REF",
        help="only skills with files that differ from this commit of git, or are new (default of REF: HEAD)",
    )


def annotate(screen: Screen, path: str, line: int, severity: str, rule: str, message: str) -> None:
    """Write one finding as a workflow command of GitHub, which draws it beside the line."""
    level = _HOST_LEVELS.get(severity, "notice")
    where = os.path.relpath(path) if Path(path).is_absolute() else path
    properties = f"file={where.translate(_IN_PROPERTY)},line={line},title={rule.translate(_IN_PROPERTY)}"
    screen.text(f"::{level} {properties}::{message.translate(_IN_TEXT)}")


class ChangedFiles:
    """The files of the git repository around the working folder that differ from a commit, and those git does not know yet.

    Raises:
        UsageProblem: there is no git, no repository or no such commit.
    """

    def __init__(self, ref: str) -> None:
        if ref.startswith("-"):
            raise UsageProblem(f"--changed {ref} is not a commit", hint="name a commit or branch, such as origin/main")
        self._ref = ref
        self._top = top = Path(_git("rev-parse", "--show-toplevel").rstrip("\n"))
        names = _git("-C", str(top), "diff", "--name-only", "-z", ref, "--")
        new = _git("-C", str(top), "ls-files", "--others", "--exclude-standard", "-z")
        self._paths = tuple((top / name).resolve() for name in (names + new).split("\0") if name)

    def touch(self, folders: Iterable[str | Path]) -> bool:
        """Whether a changed file is in one of the folders."""
        reals = [Path(folder).resolve() for folder in folders]
        return any(path.is_relative_to(real) for path in self._paths for real in reals)

    def before(self, file: str | Path) -> str | None:
        """The text of a file in the commit; None where it had none."""
        name = Path(file).resolve().relative_to(self._top.resolve()).as_posix()
        if not _git("-C", str(self._top), "ls-tree", "--name-only", "-z", self._ref, "--", name):
            return None
        return _git("-C", str(self._top), "show", f"{self._ref}:{name}")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, timeout=_DEADLINE_S, check=False)  # noqa: S603, S607
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageProblem(f"--changed asks git, which does not answer: {error}", hint="install git, or name paths") from None
    if done.returncode:
        problem = done.stderr.decode(errors="replace").strip().splitlines()
        reason = problem[0] if problem else f"git ended with {done.returncode}"
        raise UsageProblem(
            f"--changed cannot compare: {reason}", hint="call it in a git repository, with a commit that was fetched"
        )
    return os.fsdecode(done.stdout)
