"""`skillyard check`: findings with file, line and a fix, for one skill or a tree of them.

Also `--as` (which clients load a skill), `--collisions` (skills that a model would confuse) and `--package` (packages).
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from skillyard.cli.check_targets import CheckedFile, CheckTarget, check_target, find_targets
from skillyard.cli.command_options import nothing_to_look_at, open_catalog, open_home
from skillyard.cli.commands.scan_commands import ChangedFiles, add_code_host_options, annotate
from skillyard.cli.screen import FAILURE, OK, ScanProgress, counted, require_existing
from skillyard.document import RULES, Diagnostic, Profile
from skillyard.errors import UsageProblem
from skillyard.text import nearest, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from skillyard.cli.screen import Screen
    from skillyard.extensions import Extensions
    from skillyard.interop import ClientCompatibility, ClientName


_SEVERITIES: Final = ("error", "warning", "info")


def check_for_clients(arguments: argparse.Namespace) -> int:
    """Report for each skill and client whether it loads; 1 when one does not.

    Raises:
        UsageProblem: an unknown client, or options that have no meaning with this.
    """
    from skillyard.interop import check_clients

    if arguments.fix or arguments.profile or arguments.package or arguments.collisions:
        raise UsageProblem("--as goes with no other way to check", hint="skillyard check PATH --as claude,codex")
    clients = _clients(arguments.clients)
    targets, _, _ = find_targets(arguments)
    results = [(target, check_clients(target.path, clients)) for target in targets]
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"skills": [{"path": str(t.path), "clients": [one.to_dict() for one in all_]} for t, all_ in results]})
    else:
        for target, loadings in results:
            screen.line(str(target.path), style="bold")
            for one in loadings:
                _draw_loading(screen, one)
    return OK if all(one.loads for _, loadings in results for one in loadings) else FAILURE


def _clients(text: str) -> tuple[ClientName, ...]:
    from skillyard.interop import CLIENTS

    names = [name.strip() for name in text.split(",") if name.strip()]
    chosen = tuple(client for client in CLIENTS if client in names or "all" in names)
    unknown = [name for name in names if name not in CLIENTS and name != "all"]
    if unknown or not chosen:
        near = nearest(unknown[0], CLIENTS, limit=1) if unknown else []
        hint = f"did you mean {near[0]}?" if near else f"all, or some of {', '.join(CLIENTS)}"
        raise UsageProblem(f"there is no client {unknown[0] if unknown else ''!r}", hint=hint)
    return chosen


def _draw_loading(screen: Screen, one: ClientCompatibility) -> None:
    answer = f"loads as {one.name}: {shorten(one.description, 80)}" if one.loads else "does not load it"
    screen.line(f"{one.client:10} {answer}", indent=2, style="ok" if one.loads else "error")
    for reason in (*one.problems, *one.notes):
        screen.line(f"- {reason}", indent=13)


def check_collisions(arguments: argparse.Namespace) -> int:
    """Compare the offered skills with each other; 1 when two of them collide.

    Raises:
        UsageProblem: paths or options are given that a comparison of all skills has no use for.
    """
    from skillyard.search import find_collisions

    if arguments.paths or arguments.fix or arguments.profile:
        raise UsageProblem(
            "--collisions compares all skills of a catalog: it takes no PATH, no --fix and no --profile",
            hint="skillyard check --collisions --root FOLDER",
        )
    catalog = open_catalog(arguments)
    collisions = find_collisions(catalog.all())
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"collisions": [collision.to_dict() for collision in collisions]})
        return FAILURE if collisions else OK
    for collision in collisions:
        screen.line(f"{collision.alike:.0%}  {collision.first.id}  {collision.second.id}", style="warning")
        screen.line(f"same in both: {', '.join(collision.shared)}", indent=5)
        screen.line(f"fix: {collision.advice}", indent=5)
    screen.note(f"{counted(len(collisions), 'collision')} among {counted(len(catalog), 'skill')}")
    return FAILURE if collisions else OK


def check_packages(arguments: argparse.Namespace) -> int:
    """Check every folder named; 1 when one is not valid.

    Raises:
        UsageProblem: no folder is named, one is not there, or options are given that packages have no use for.
    """
    from skillyard.interop import check_package, closing_line, report_lines  # only this form of the command reads manifests

    if not arguments.paths or arguments.fix or arguments.profile:
        raise UsageProblem("--package takes folders, no --fix and no --profile", hint="skillyard check --package FOLDER")
    screen: Screen = arguments.screen
    hint = "name the folder of a package, with a SKILL.md"
    checks = [check_package(require_existing(path, hint=hint)) for path in arguments.paths]
    if screen.as_json:
        screen.data({"packages": [check.to_dict() for check in checks]})
    else:
        for check in checks:
            for line in report_lines(check):
                screen.line(line, style=line.partition(":")[0] if ": " in line else "")
        screen.line(closing_line(checks), style="ok" if all(check.ok for check in checks) else "error")
    return OK if all(check.ok for check in checks) else FAILURE


_WORTH_SHARING: Final = 200  # files to check from which a second process helps

_MANY: Final = 20  # findings, beyond which a person wants to know what they are mostly about


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `check`."""
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="a SKILL.md, a skill's folder or a tree of skills (default: the roots)"
    )
    parser.add_argument(
        "--profile",
        choices=get_args(Profile),
        metavar="PROFILE",
        help=f"which rules: {', '.join(get_args(Profile))} (default: as configured, else standard)",
    )
    parser.add_argument(
        "--package",
        action="store_true",
        help="check each PATH as a package: its structure, its manifest.json, its protocols; or a manifest alone",
    )
    parser.add_argument(
        "--collisions", action="store_true", help="compare all skills: which would a model mix up, and how to tell them apart"
    )
    parser.add_argument(
        "--as",
        dest="clients",
        metavar="CLIENTS",
        help="how these clients load it: all, or some of "
        "claude,codex,gemini,opencode,qwen,copilot,cline,continue,pi,kilo,vibe,openhands,cursor,api",
    )
    parser.add_argument("--fix", action="store_true", help="apply the fixes that cannot change what a skill means")
    parser.add_argument(
        "--select", metavar="RULES", help="only these rules, separated by commas; `style` means all rules that begin with it"
    )
    parser.add_argument("--ignore", metavar="RULES", help="not these rules, written like --select")
    parser.add_argument(
        "--severity",
        choices=_SEVERITIES,
        metavar="LEVEL",
        help=f"only findings of this severity or higher; any of them exits with 1: {', '.join(_SEVERITIES)}",
    )
    add_code_host_options(parser)


def check_command(arguments: argparse.Namespace) -> int:
    """Check, and fix when requested; 1 when errors remain or a fix could not be written."""
    screen: Screen = arguments.screen
    if arguments.clients is not None:
        return check_for_clients(arguments)
    if arguments.collisions:
        return check_collisions(arguments)
    if arguments.package:
        return check_packages(arguments)
    targets, profile, extensions = find_targets(arguments)
    for pattern in () if arguments.paths else open_home(arguments).rules().allowed_by_name_alone():
        fix = f"write '{pattern} source=…' or '{pattern} signer=…'"
        screen.note(f"warning: the rule {pattern!r} = 'allow' trusts any skill of that name: {fix}")
    if not targets:
        raise nothing_to_look_at("check", arguments)
    checked = _check_targets(targets, profile, arguments, extensions)
    for one in checked:
        if one.unwritten:
            screen.note(f"warning: {one.path} was not changed: {one.unwritten}")
    if screen.as_json:
        screen.data({"files": [one.to_dict() for one in checked], "summary": _summary(checked)})
    elif arguments.format == "github":
        _annotate_check(screen, checked, profile)
    else:
        _draw_check(screen, checked, profile)
    good = all((one.ok if arguments.severity is None else not one.diagnostics) and not one.unwritten for one in checked)
    return OK if good else FAILURE


def _check_targets(
    targets: list[CheckTarget], profile: Profile, arguments: argparse.Namespace, extensions: Extensions
) -> list[CheckedFile]:
    choice = FindingChoice.of(arguments)
    if arguments.changed is not None:
        changed = ChangedFiles(arguments.changed)
        targets = [one for one in targets if changed.touch([one.skill.directory if one.skill else one.path])]
    with ScanProgress(arguments.screen, what="checking") as progress:
        if arguments.fix:
            checked = []
            for number, target in enumerate(targets, 1):
                checked.append(check_target(target, profile=profile, fix=choice.includes, extensions=extensions))
                progress(number, len(targets))
        else:
            checked = _checked_by_two(targets, profile, extensions, progress)
    return [choice.applied(one) for one in checked]


def _checked_by_two(
    targets: list[CheckTarget], profile: Profile, extensions: Extensions, progress: ScanProgress
) -> list[CheckedFile]:
    """The files checked and not changed, with a second process where there are many."""
    from skillyard.offload.forked_map import forked_map

    def work(some: list[CheckTarget]) -> list[list[tuple[object, ...]]]:
        checked = (check_target(target, profile=profile, extensions=extensions) for target in some)
        return [[astuple(diagnostic) for diagnostic in one.diagnostics] for one in checked]

    found = forked_map(targets, work, progress=progress, least=_WORTH_SHARING)
    return [
        CheckedFile(target.path, tuple(Diagnostic(*values) for values in all_))  # type: ignore[arg-type] # of `astuple`
        for target, all_ in zip(targets, found, strict=True)
    ]


def _annotate_check(screen: Screen, checked: Sequence[CheckedFile], profile: Profile) -> None:
    for one in checked:
        for found in one.diagnostics:
            name = Path(one.path).name
            path = one.path if found.file == name else str(Path(one.path).parent / found.file)  # of another file of the skill
            annotate(screen, path, found.line, found.severity, found.rule, _with_fix(found))
    screen.note(_closing(checked, profile))


def _with_fix(found: Diagnostic) -> str:
    return f"{found.message}; fix: {found.fix}" if found.fix else found.message


@dataclass(frozen=True, slots=True)
class FindingChoice:
    """Which findings count: rules to `select` and to `ignore`, by their name or its first words, from a severity on."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: str = _SEVERITIES[-1]

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Self:
        """The choice of a command line.

        Raises:
            UsageProblem: it names a rule that there is not.
        """
        return cls(
            _rules("--select", arguments.select), _rules("--ignore", arguments.ignore), arguments.severity or _SEVERITIES[-1]
        )

    def includes(self, rule: str) -> bool:
        """Whether a rule counts, however severe its findings are."""
        return (not self.select or _named(rule, self.select)) and not _named(rule, self.ignore)

    def applied(self, checked: CheckedFile) -> CheckedFile:
        """The file with the findings that count."""
        return replace(checked, diagnostics=tuple(filter(self._counts, checked.diagnostics)))

    def _counts(self, found: Diagnostic) -> bool:
        return self.includes(found.rule) and _SEVERITIES.index(found.severity) <= _SEVERITIES.index(self.severity)


def _rules(option: str, written: str | None) -> tuple[str, ...]:
    words = tuple(word.strip() for word in (written or "").split(",") if word.strip())
    for word in words:
        if not any(_named(rule, (word,)) for rule in RULES):
            near = nearest(word, RULES, limit=1)
            raise UsageProblem(
                f"{option}: there is no rule {word!r}", hint=f"did you mean {near[0]}?" if near else "docs/rules.md lists them"
            )
    return words


def _named(rule: str, words: Sequence[str]) -> bool:
    return any(rule == word or rule.startswith(f"{word}-") for word in words)


def _summary(checked: Sequence[CheckedFile]) -> dict[str, int]:
    severities = [diagnostic.severity for one in checked for diagnostic in one.diagnostics]
    return {
        "files": len(checked),
        "ok": sum(one.ok for one in checked),
        "errors": severities.count("error"),
        "warnings": severities.count("warning"),
    }


def _draw_check(screen: Screen, checked: Sequence[CheckedFile], profile: Profile) -> None:
    for one in checked:
        for diagnostic in one.fixed:
            screen.line(f"{one.path}:{diagnostic.line} fixed {diagnostic.rule}: {diagnostic.message}", style="ok")
        for diagnostic in one.diagnostics:
            _draw_finding(screen, one.path, diagnostic)
        if one.fixed or one.diagnostics:
            screen.line()
    rules = Counter(diagnostic.rule for one in checked for diagnostic in one.diagnostics)
    if rules.total() > _MANY:
        screen.line("most frequent: " + ", ".join(f"{rule} {count}" for rule, count in rules.most_common(5)))
    summary = _summary(checked)
    screen.line(_closing(checked, profile), style="ok" if summary["ok"] == summary["files"] else "error")


def _closing(checked: Sequence[CheckedFile], profile: Profile) -> str:
    summary = _summary(checked)
    counts = f"{counted(summary['errors'], 'error')}, {counted(summary['warnings'], 'warning')}"
    fixed = sum(len(one.fixed) for one in checked)
    noun = "file is" if len(checked) == 1 else "files are"
    also = f", {fixed} fixed" if fixed else ""
    return f"{summary['ok']:,} of {summary['files']:,} {noun} fine under profile {profile}: {counts}{also}"


def _draw_finding(screen: Screen, path: str, diagnostic: Diagnostic) -> None:
    screen.line(
        f"{path}:{diagnostic.line} {diagnostic.severity} {diagnostic.rule}: {diagnostic.message}", style=diagnostic.severity
    )
    if diagnostic.fix:
        screen.line(f"fix: {diagnostic.fix}", indent=4)
