"""What an install or update would bring, before it does; `diff` compares versions, `pin` keeps one, `deps` says why."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.command_options import open_home
from skillyard.cli.install_support import open_registry, power_lines
from skillyard.cli.screen import FAILURE, OK, ScanProgress, counted
from skillyard.errors import UsageProblem
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillyard.cli.screen import Screen
    from skillyard.packages import FolderDifference
    from skillyard.registry import DependencyTree, Need, PendingUpdate, Registry, SkillComparison, SkillInspection

_CELL: Final = 80
_MARKS: Final = {"added": "+", "removed": "-", "changed": "~"}


def preview_install(screen: Screen, registry: Registry, arguments: argparse.Namespace) -> int:
    """List the skills of a source, or with `--dry-run` say what installing them would do; 1 when one would be refused."""
    with ScanProgress(screen, what="looking at skills") as progress:
        inspected = registry.inspect(
            arguments.source, skills=arguments.skill, dependencies=arguments.dependencies, progress=progress
        )
    refused = any(one.refusals for one in inspected)
    if screen.as_json:
        screen.data({"skills": [_shape(one) for one in inspected]})
    elif arguments.list:
        header = ["SKILL", "VERSION", "HERE", "DESCRIPTION"]
        rows = [[one.skill_id, one.declared_version or "", _state(one), one.description] for one in inspected]
        if not any(one.declared_version for one in inspected):
            for cells in (header, *rows):
                del cells[1]
        screen.table(rows, header=header, stretch=len(header) - 1)
        screen.note(f"{counted(len(inspected), 'skill')}; `--skill NAME` installs only that one")
        return OK
    else:
        for one in inspected:
            _draw_inspection(screen, one)
        screen.note("nothing was installed")
    return FAILURE if refused and not arguments.list else OK


def _state(one: SkillInspection) -> str:
    if one.refusals:
        return "refused"
    if one.installed is None:
        return "new"
    return "installed" if one.unchanged else "other version"


def _shape(one: SkillInspection) -> dict[str, object]:
    return {
        "skill_id": one.skill_id,
        "name": one.name,
        "description": one.description,
        "declared_version": one.declared_version,
        "digest": one.digest,
        "state": _state(one),
        "powers": list(one.powers.sentences()),
        "needs_consent": list(one.change.widened) if one.change else [],
        "refusals": [{"code": refusal.code, "message": refusal.message, "hint": refusal.hint} for refusal in one.refusals],
        "findings": [dict(finding) for finding in one.findings],
        "unmet": list(one.unmet),
        "dependencies": [each.to_dict() for each in one.dependencies],
        "warnings": list(one.warnings),
    }


def _draw_inspection(screen: Screen, one: SkillInspection) -> None:
    declared = f" ({one.declared_version})" if one.declared_version else ""
    what = {"new": "would install", "installed": "has already", "other version": "would update", "refused": "would refuse"}
    screen.line(f"{what[_state(one)]} {one.skill_id}{declared}", style="error" if one.refusals else "ok")
    for refusal in one.refusals:
        screen.line(f"{refusal.code}: {refusal.message}", indent=2)
    if one.change:
        screen.line(f"needs your consent: {'; '.join(power_lines(one.change.widened))}", indent=2, style="warning")
    for finding in one.findings[:3]:
        screen.line(
            f"{finding['severity']} {finding['file']}:{finding['line']} {finding['message']}", indent=2, style="warning"
        )
    for sentence in power_lines(one.powers.sentences()):
        screen.line(sentence, indent=2)
    _draw_dependencies(screen, one)
    for sentence in one.unmet:
        screen.line(f"needs: {shorten(sentence, 300)}", indent=2)
    if one.difference is not None and not one.unchanged:
        _draw_files(screen, one.difference, lines=False)


def _draw_dependencies(screen: Screen, one: SkillInspection) -> None:
    """What would be installed beside it: which version, from where, who requires it, and what it may do."""
    for each in one.dependencies:
        named = " ".join(part for part in (each.skill_id, each.version) if part)
        screen.line(f"would also install {single_line(named)} from {single_line(each.source)}", indent=2)
        for sentence in each.required_by:
            screen.line(f"because {single_line(sentence)}", indent=4)
        for sentence in power_lines(each.powers):
            screen.line(single_line(sentence), indent=4)
    shown = {each.sentence for each in one.dependencies}
    for warning in one.warnings:
        if warning not in shown:
            screen.note(f"warning: {one.skill_id}: {warning}")


def preview_updates(screen: Screen, registry: Registry, names: Sequence[str]) -> int:
    """Say for each skill whether there is an update; 1 when there is one, or what is here was withdrawn without one."""
    pending = [registry.pending_update(name) for name in names]
    if screen.as_json:
        screen.data({"skills": [one.to_dict() for one in pending]})
    elif pending:
        screen.table(map(_pending_row, pending), header=("SKILL", "STATE", "HAS", "AVAILABLE", "REMARK"), stretch=4)
        for one in pending:
            if one.notice:
                screen.note(f"warning: {one.skill_id} {one.declared_version or one.version}: {one.notice}")
    else:
        screen.note("nothing is installed")
    return FAILURE if any(one.state in ("update", "diverged", "withdrawn") for one in pending) else OK


def _pending_row(one: PendingUpdate) -> tuple[str, str, str, str, str]:
    remark = one.reason or (f"`skillyard diff {one.skill_id}` shows it" if one.state == "update" else "")
    return one.skill_id, one.state, one.declared_version or one.version, one.available or "", shorten(remark, _CELL)


def add_diff_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `diff`."""
    parser.add_argument(
        "name", metavar="NAME", help="an installed skill, by name, id or NAME@VERSION; or a folder, written with a /"
    )
    parser.add_argument(
        "before",
        nargs="?",
        metavar="BEFORE",
        help="one of its versions, NAME@VERSION or a folder (default: the current one with its source)",
    )
    parser.add_argument("after", nargs="?", metavar="AFTER", help="another version (default: the current one)")
    parser.add_argument(
        "--in", dest="agent", metavar="AGENT", help="instead: the current version with the copy in this coding agent's folder"
    )
    parser.add_argument("--files", action="store_true", help="only the names of files, without their lines")


def diff_command(arguments: argparse.Namespace) -> int:
    """Show the differences of files and powers; 1 when they cannot be compared."""
    from skillyard.registry import compare_skills

    screen: Screen = arguments.screen
    registry = open_registry(arguments)
    if arguments.agent is not None or arguments.before is not None or _is_folder(arguments.name) or "@" in arguments.name:
        _draw_comparison(screen, compare_skills(*_compared(arguments, registry)), lines=not arguments.files)
        return OK
    pending = registry.pending_update(arguments.name)
    if pending.difference is None and pending.state != "current":
        screen.note(f"{pending.skill_id}: {pending.reason}")
        return FAILURE
    if screen.as_json:
        powers = {"widened": list(pending.widened), "narrowed": list(pending.narrowed)}
        screen.data({"difference": pending.difference.to_dict() if pending.difference else None, "powers": powers})
    elif pending.difference is None or not pending.difference.files:
        screen.note("no file differs: the current version is what its source has")
    else:
        _draw_powers(screen, pending.widened, pending.narrowed)
        _draw_files(screen, pending.difference, lines=not arguments.files)
    return OK


def _compared(arguments: argparse.Namespace, registry: Registry) -> tuple[Path, Path]:
    """The two folders that are compared, the older first."""
    name, before, after = arguments.name, arguments.before, arguments.after
    if arguments.agent is not None:
        if before is not None:
            raise UsageProblem("a version or --in", hint=f"skillyard diff {name} --in {arguments.agent}")
        skill_id, current = registry.current_folder(name)
        project = open_home(arguments).project_root
        return current, Path(registry.links.copy_of(skill_id, arguments.agent, project=project).path)
    if before is None and _is_folder(name):
        raise UsageProblem("one folder is compared with nothing", hint=f"skillyard diff {name} NAME, or another folder")
    if before is None or _is_folder(name) or _is_folder(before) or "@" in f"{name}{before}":
        if after is not None:
            raise UsageProblem("two are compared, and there are three", hint="skillyard diff NAME@1 NAME@2")
        first = _operand(registry, name, "")
        return first, _operand(registry, before or name.partition("@")[0], name.partition("@")[0])
    return _version_folder(registry, name, before), _version_folder(registry, name, after)


def _is_folder(word: str) -> bool:
    """Whether it is written as a folder: no name of a skill has such characters."""
    return word in (".", "..") or any(mark in word for mark in ("/", "\\")) or word.startswith("~")


def _operand(registry: Registry, word: str, name: str) -> Path:
    """The folder of one side: a folder, `NAME@VERSION`, an installed skill, or a version of the skill `name`."""
    if _is_folder(word):
        folder = Path(word).expanduser()
        if not (folder / "SKILL.md").is_file():
            raise UsageProblem(f"there is no SKILL.md in {word}", hint="name the folder of a skill")
        return folder
    skill, at, version = word.partition("@")
    if at:
        return _version_folder(registry, skill, version)
    known = any(word in (one.skill_id, one.name) for one in registry.installed.skills())
    return _version_folder(registry, word, None) if known or not name else _version_folder(registry, name, word)


def _version_folder(registry: Registry, name: str, version: str | None) -> Path:
    found = registry.installed.version(name, version)
    return registry.storage.versions.path(found.skill_id, found.version)


def _draw_comparison(screen: Screen, found: SkillComparison, *, lines: bool) -> None:
    if screen.as_json:
        powers = {
            "before": found.before and found.before.to_dict(),
            "after": found.after and found.after.to_dict(),
            "widened": None if found.widened is None else list(found.widened),
            "narrowed": None if found.narrowed is None else list(found.narrowed),
        }
        effects = {
            "added": None if found.added_effects is None else [one.to_dict() for one in found.added_effects],
            "removed": None if found.removed_effects is None else [one.to_dict() for one in found.removed_effects],
        }
        screen.data({"difference": found.difference.to_dict(), "powers": powers, "effects": effects})
        return
    if not found.difference.files:
        screen.note("no file differs: the two are the same")
        return
    _draw_powers(screen, found.widened, found.narrowed)
    for name, done in (("new", found.added_effects), ("gone", found.removed_effects)):
        for one in done or ():
            where = f"{single_line(one.target)} ({single_line(one.by)})"
            screen.line(f"{name} when watched: {one.severity} {one.rule} {where}", style=one.severity)
    _draw_files(screen, found.difference, lines=lines)


def _draw_powers(screen: Screen, widened: Sequence[str] | None, narrowed: Sequence[str] | None) -> None:
    if widened is None or narrowed is None:
        screen.note("the powers cannot be compared: a SKILL.md cannot be read")
        return
    for sentence in power_lines(widened):
        screen.line(f"wider: {single_line(sentence)}", style="warning")
    for sentence in power_lines(narrowed):
        screen.line(f"no longer: {single_line(sentence)}", style="dim")
    if not widened:
        screen.note("no new powers")


def _draw_files(screen: Screen, difference: FolderDifference, *, lines: bool) -> None:
    for file in difference.files:
        screen.line(f"{_MARKS[file.change]} {single_line(file.path)}", style="bold" if lines else "", indent=0 if lines else 2)
        if lines and file.lines:
            screen.text(file.lines.rstrip("\n"))
        if lines and file.unshown:
            screen.line(file.unshown, indent=2, style="dim")
    screen.note(f"{counted(len(difference.files), 'file')} changed, {difference.unchanged} the same")


def add_pin_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `pin`."""
    parser.add_argument("name", metavar="NAME", help="the installed skill's name or id")
    parser.add_argument("--undo", action="store_true", help="let updates replace it again")


def pin_command(arguments: argparse.Namespace) -> int:
    """Pin the current version, or take the pin away."""
    screen: Screen = arguments.screen
    registry = open_registry(arguments)
    version = registry.unpin(arguments.name) if arguments.undo else registry.pin(arguments.name)
    if screen.as_json:
        screen.data({"version": version.to_dict(), "pinned": not arguments.undo})
    else:
        state = "follows updates again" if arguments.undo else f"stays at version {version.version}"
        screen.line(f"{version.skill_id} {state}", style="ok")
    return OK


def add_deps_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `deps`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the installed skill (default: each that requires something)")


def deps_command(arguments: argparse.Namespace) -> int:
    """Draw the trees; 1 when something in them is missing."""
    screen: Screen = arguments.screen
    registry = open_registry(arguments)
    names = [arguments.name] if arguments.name else [skill.skill_id for skill in registry.installed.skills()]
    trees = [registry.dependencies.tree(name) for name in names]
    if arguments.name is None:
        trees = [tree for tree in trees if tree.needs]
    if screen.as_json:
        screen.data({"trees": [tree.to_dict() for tree in trees]})
    else:
        for tree in trees:
            _draw_tree(screen, tree)
        if not trees:
            screen.note("no installed skill requires anything")
    return FAILURE if any(tree.unmet for tree in trees) else OK


def _draw_tree(screen: Screen, tree: DependencyTree) -> None:
    screen.line(" ".join(part for part in (tree.skill_id, tree.version) if part), style="ok")
    _draw_needs(screen, tree.needs, "")
    if not tree.needs:
        screen.line("requires nothing", indent=2)
    for reason in tree.required_by:
        screen.line(f"needed: {single_line(reason)}", indent=2)
    if tree.installed_because:
        screen.line(f"installed because {single_line('; '.join(tree.installed_because))}", indent=2)
    elif not tree.required_by:
        screen.line("no skill requires it; it was installed by name", indent=2)


_KINDS: Final = {"mcp_server": "MCP server", "skill": "", "python": ""}


def _draw_needs(screen: Screen, needs: Sequence[Need], before: str) -> None:
    """One line for each need, below it what it requires; what stands elsewhere in the tree with that is marked `(*)`."""
    for index, need in enumerate(needs):
        last = index == len(needs) - 1
        named = need.name + (f" {need.version}" if need.version else "")
        kind = _KINDS.get(need.kind, need.kind)
        wanted = f"(wanted: {shorten(single_line(need.wanted), 80)})" if need.wanted != need.name else ""
        state = f"met, {need.where}" if need.met and need.where else "met" if need.met else f"MISSING: {need.hint}"
        words = (kind, single_line(named), wanted, single_line(state), "(*)" if need.repeated else "")
        branch = "└── " if last else "├── "
        screen.line(before + branch + " ".join(word for word in words if word), style="" if need.met else "error")
        _draw_needs(screen, need.needs, before + ("    " if last else "│   "))
