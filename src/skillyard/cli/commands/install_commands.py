"""`skillyard install`, `update`, `sync`, `rollback` and `uninstall` skills; `versions`, `history`, `deprecate` and `yank`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.command_options import parse_positive
from skillyard.cli.commands.coding_agent_commands import add_to_options, draw_links, link_installed, target_folders
from skillyard.cli.commands.preview_commands import preview_install, preview_updates
from skillyard.cli.commands.publish_commands import add_server_options, open_server
from skillyard.cli.confirmation import confirm
from skillyard.cli.install_support import (
    InstallProgress,
    add_accept_options,
    add_dependency_option,
    add_finding_option,
    draw_lock_states,
    draw_results,
    installed_code,
    missing_lock_error,
    note_left_out,
    open_lock,
    open_registry,
    power_consent,
    replacement_acceptance,
)
from skillyard.cli.screen import FAILURE, OK, require_existing
from skillyard.errors import NetworkFailed, SkillyardError, UsageProblem, VersionPinned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillyard.cli.screen import Screen
    from skillyard.coding_agents import SkillsFolder
    from skillyard.registry import InstalledSkill, InstallLog, InstallRefusal, OperationResult, Registry, SkillVersion


def add_install_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `install`."""
    parser.add_argument(
        "source",
        nargs="?",
        metavar="SOURCE",
        help="a folder, an archive, owner/repo[/path][@ref], a git, https or oci address; else what skillyard.lock names",
    )
    parser.add_argument(
        "--skill", action="append", default=[], metavar="NAME", help="only this skill of the source; may be repeated"
    )
    parser.add_argument(
        "-y",
        "--yes",
        action="store_true",
        help="agree to required skills that are installed too, and to new powers of installed ones",
    )
    parser.add_argument(
        "--force", action="store_true", help="install over local edits, yanked content, and the same content again"
    )
    add_accept_options(parser)
    add_finding_option(parser)
    add_dependency_option(parser, "install without the skills that it requires, and whatever others require of it")
    parser.add_argument("--save", action="store_true", help="write source and digest to the project's skillyard.lock")
    parser.add_argument(
        "--skills-lock", action="store_true", help="like --save, and create the skills-lock.json of `npx skills` too"
    )
    add_to_options(parser)
    looking = parser.add_mutually_exclusive_group()
    looking.add_argument("--list", action="store_true", help="list the skills of the source, and install nothing")
    looking.add_argument("--dry-run", action="store_true", help="show what would be installed, or why not, and install nothing")


def install_command(arguments: argparse.Namespace) -> int:
    """Install and report the results; a repository that cannot be reached may have been meant as a folder."""
    from skillyard.packages.package_source import is_shorthand

    try:
        return _install(arguments)
    except NetworkFailed as error:
        if arguments.source is not None and is_shorthand(arguments.source):
            error.hint = f"{error.hint}; if a folder is meant, write ./{arguments.source}"
        raise


def _install(arguments: argparse.Namespace) -> int:
    screen: Screen = arguments.screen
    if arguments.source is not None and arguments.source.startswith(("/", "./", "../", "~")):
        require_existing(str(Path(arguments.source).expanduser()))
    consent = power_consent(screen, yes=arguments.yes)
    if (arguments.in_project or arguments.copy) and not arguments.to:
        raise UsageProblem("into the folders of which agents?", hint="add --to claude,codex or --to auto")
    folders = target_folders(arguments) if arguments.to else ()
    registry = open_registry(arguments)
    if arguments.list or arguments.dry_run:
        if arguments.source is None:
            raise UsageProblem(
                "which source?", hint="skillyard install SOURCE --list; `skillyard sync --check` compares the lock"
            )
        return preview_install(screen, registry, arguments)
    if arguments.source is None:
        lock = open_lock(arguments)
        if not lock.exists() or arguments.skill or arguments.save or arguments.skills_lock:
            raise (
                missing_lock_error(lock)
                if not lock.exists()
                else UsageProblem("install what?", hint="skillyard install SOURCE")
            )
        with InstallProgress(screen) as progress:
            results = lock.sync(
                registry,
                consent=consent,
                force=arguments.force,
                accept=arguments.accept,
                progress=progress,
                **replacement_acceptance(arguments),
            )
        return _report_installed(arguments, results, folders, tuple(entry.skill_id for entry in lock.entries()))
    saved = open_lock(arguments) if arguments.save or arguments.skills_lock else None
    with InstallProgress(screen) as progress:
        report = registry.install(
            arguments.source,
            skills=arguments.skill,
            consent=consent,
            force=arguments.force,
            accept=arguments.accept,
            dependencies=arguments.dependencies,
            signers=saved.signers() if saved is not None else None,
            progress=progress,
            skip_refused=not arguments.skill,
            **replacement_acceptance(arguments),
        )
    if saved is not None:
        if arguments.skills_lock:
            saved.begin_skills_lock()
        # the person who answered has accepted what the lock did not name
        note_left_out(screen, saved.record(report.results, registry, accept_signer=True))
    installed = tuple(result.skill_id for result in report.results)
    return _report_installed(arguments, report.results, folders, installed, report.refused)


def _report_installed(
    arguments: argparse.Namespace,
    results: Sequence[OperationResult],
    folders: Sequence[SkillsFolder],
    skill_ids: Sequence[str],
    refused: Sequence[InstallRefusal] = (),
) -> int:
    """Show what was installed and what was not, then put these skills into the folders of agents; 1 when one was refused."""
    screen: Screen = arguments.screen
    absent = {result.skill_id for result in results if result.status == "waiting" and result.previous is None}
    there = [name for name in skill_ids if name not in absent]
    links = link_installed(arguments, folders, there) if folders else []
    if screen.as_json:
        shown = {"results": [result.to_dict() for result in results]}
        shown |= {"failed": [one.to_dict() for one in refused]} if refused else {}
        screen.data(shown | ({"links": [link.to_dict() for link in links]} if folders else {}))
    else:
        draw_results(screen, results)
        if not results:
            screen.line("everything is installed as locked", style="ok")
        draw_links(screen, links)
        for one in refused:
            _draw_failed(screen, one.message, one.hint)
    return FAILURE if refused or any(link.status == "refused" for link in links) else installed_code(results)


def add_update_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `update`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the skill to update (default: every installed skill)")
    parser.add_argument("-y", "--yes", action="store_true", help="agree when a skill would be allowed more than before")
    parser.add_argument(
        "--force", action="store_true", help="update over local edits, to yanked content, and to what was rolled back from"
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 when there is an update")
    parser.add_argument(
        "--theirs", action="store_true", help="replace an adopted edit with the version of the source; the edit stays a version"
    )
    add_accept_options(parser)
    add_finding_option(parser)
    add_dependency_option(parser, "update without the skills that it requires, and whatever others require of it")


def update_command(arguments: argparse.Namespace) -> int:
    """Update; 1 when one of the skills could not be, after the others were. Locked skills are locked again."""
    screen: Screen = arguments.screen
    registry = open_registry(arguments)
    skills = [registry.installed.skill(arguments.name)] if arguments.name else registry.installed.skills()
    if arguments.check:
        return preview_updates(screen, registry, [skill.skill_id for skill in skills])
    lock = open_lock(arguments)
    signers = lock.signers()
    results: list[OperationResult] = []
    failed: list[tuple[str, SkillyardError]] = []
    with InstallProgress(screen) as progress:
        for skill in skills:
            try:
                report = registry.update(
                    skill.skill_id,
                    consent=power_consent(screen, yes=arguments.yes),
                    force=arguments.force,
                    accept=arguments.accept,
                    dependencies=arguments.dependencies,
                    signers=signers,
                    theirs=arguments.theirs,
                    progress=progress,
                    **replacement_acceptance(arguments),
                )
                results += report.results
            except SkillyardError as error:
                if arguments.name:
                    raise
                if isinstance(error, VersionPinned):
                    screen.note(f"kept {error.message}")
                    continue
                failed.append((skill.skill_id, error))
    if lock.exists():
        # the person who answered has accepted what the lock did not name
        note_left_out(screen, lock.record(tuple(results), registry, accept_signer=True, begin=False))
    _draw_update(screen, results, failed)
    if not skills and not screen.as_json:
        screen.note("nothing is installed")
    return FAILURE if failed else installed_code(results)


def _draw_update(screen: Screen, results: list[OperationResult], failed: list[tuple[str, SkillyardError]]) -> None:
    if screen.as_json:
        problems = [{"skill_id": name, **error.to_dict()} for name, error in failed]
        screen.data({"results": [result.to_dict() for result in results], "failed": problems})
        return
    draw_results(screen, results)
    for name, problem in failed:
        _draw_failed(screen, f"{name}: {problem.message}", problem.hint)


def _draw_failed(screen: Screen, message: str, hint: str | None) -> None:
    screen.line(f"failed {message}", style="error")
    if hint:
        screen.hint(hint)


def add_sync_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `sync`."""
    parser.add_argument(
        "--check", "--frozen", action="store_true", help="change nothing; exit with 1 when something is not as locked"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="agree when a skill would be allowed more than before")
    parser.add_argument("--force", action="store_true", help="install over local edits and yanked content")
    add_accept_options(parser)
    add_finding_option(parser)


def sync_command(arguments: argparse.Namespace) -> int:
    """Install what differs, or say what does."""
    screen: Screen = arguments.screen
    lock, registry = open_lock(arguments), open_registry(arguments)
    if not lock.exists():
        raise missing_lock_error(lock)
    if arguments.check:
        good = draw_lock_states(screen, lock.states(registry))
        if not good:
            screen.note("`skillyard sync` installs what is locked; `install SOURCE --save` locks what it requires, too")
        return OK if good else FAILURE
    with InstallProgress(screen) as progress:
        results = lock.sync(
            registry,
            consent=power_consent(screen, yes=arguments.yes),
            force=arguments.force,
            accept=arguments.accept,
            progress=progress,
            **replacement_acceptance(arguments),
        )
    draw_results(screen, results)
    if not results and not screen.as_json:
        screen.line("everything is installed as locked", style="ok")
    return installed_code(results)


def add_rollback_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `rollback`."""
    parser.add_argument("name", metavar="NAME", help="the skill's name or id; one that was uninstalled comes back")
    parser.add_argument(
        "version", nargs="?", metavar="VERSION", help="the version (default: the newest usable one before the current)"
    )
    parser.add_argument("--force", action="store_true", help="also to a deprecated version, or one that was changed by hand")
    add_accept_options(parser)
    add_dependency_option(parser, "whatever other skills require of it")


def rollback_command(arguments: argparse.Namespace) -> int:
    """Switch the current version and report it."""
    screen: Screen = arguments.screen
    result = open_registry(arguments).rollback(
        arguments.name,
        arguments.version,
        force=arguments.force,
        dependencies=arguments.dependencies,
        **replacement_acceptance(arguments),
    )
    draw_results(screen, [result])
    return OK


def add_uninstall_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `uninstall`."""
    parser.add_argument("name", metavar="NAME", help="the installed skill's name or id")
    parser.add_argument("--prune", action="store_true", help="delete its files too, so that `rollback` cannot bring it back")
    parser.add_argument("--force", action="store_true", help="with --prune: also files that were changed by hand")
    parser.add_argument("--save", action="store_true", help="remove it from the project's skillyard.lock")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before files are deleted")
    add_dependency_option(parser, "also when other skills require it")
    parser.add_argument("--unneeded", action="store_true", help="also dependencies that no skill requires any more")


def uninstall_command(arguments: argparse.Namespace) -> int:
    """Uninstall it; files are only deleted when that is requested and confirmed, and what others require stays unless asked."""
    screen: Screen = arguments.screen
    registry = open_registry(arguments)
    skill = registry.installed.skill(arguments.name)
    if arguments.prune and not arguments.yes:
        if screen.as_json or not screen.interactive:
            raise UsageProblem(
                "nobody can be asked whether to delete", hint=f"skillyard uninstall {skill.skill_id} --prune --yes"
            )
        if not confirm(f"Delete every version of {skill.skill_id}?"):
            screen.note("nothing was deleted")
            return FAILURE
    if (anyway := _goes_anyway(arguments, registry, skill.skill_id)) is None:
        screen.note("nothing was changed")
        return FAILURE
    before = set(registry.dependencies.unneeded())
    prune, force = arguments.prune, arguments.force
    results = [registry.uninstall(skill.skill_id, prune=prune, force=force, dependencies=not anyway)]
    left = [one for one in registry.dependencies.unneeded() if arguments.unneeded or one not in before]
    if left and (arguments.unneeded or _asks(screen, f"Nothing requires {', '.join(left)} any more. Uninstall that, too?")):
        results += [registry.uninstall(one, prune=prune, force=force) for one in left]
        left = []
    if arguments.save:
        lock = open_lock(arguments)
        if lock.exists():
            lock.write({}, dropped=tuple(result.skill_id for result in results))
    draw_results(screen, results)
    if not arguments.prune:
        screen.note(f"its files are kept; `skillyard rollback {skill.skill_id}` brings it back")
    if left:
        screen.note(f"nothing requires {', '.join(left)} any more: `skillyard uninstall {left[0]} --unneeded`")
    return OK


def _asks(screen: Screen, question: str) -> bool:
    """The answer of the person at the terminal; no where there is none."""
    return screen.interactive and not screen.as_json and confirm(question)


def _goes_anyway(arguments: argparse.Namespace, registry: Registry, skill_id: str) -> bool | None:
    """Whether a skill goes although others require it; None when the person at the terminal wants it to stay."""
    screen: Screen = arguments.screen
    if not arguments.dependencies:
        return True
    needed = registry.dependencies.broken_by(skill_id, None, gone=True)
    if not needed or not screen.interactive or screen.as_json:
        return False
    screen.note(f"{skill_id} is needed: {'; '.join(needed)}")
    return True if confirm("Uninstall it all the same?") else None


def add_versions_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `versions`."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the skill (default: every installed skill, its current version)"
    )
    parser.add_argument("--all", action="store_true", help="also skills that were uninstalled")


def versions_command(arguments: argparse.Namespace) -> int:
    """List the versions, the newest first."""
    screen: Screen = arguments.screen
    registry = open_registry(arguments)
    if arguments.name is None:
        skills = registry.installed.skills(uninstalled=arguments.all)
        if screen.as_json:
            screen.data({"skills": [skill.to_dict() for skill in skills]})
        elif skills:
            rows = ((*_skill_row(skill), screen.description(skill.description, wide=False)) for skill in skills)
            screen.table(rows, header=("SKILL", "VERSION", "DESCRIPTION"), stretch=2)
        else:
            screen.note("nothing is installed; `skillyard install SOURCE` does it")
        return OK
    versions = registry.installed.versions(arguments.name)
    if screen.as_json:
        screen.data(
            {
                "skill": registry.installed.skill(arguments.name, installed=False).to_dict(),
                "versions": [v.to_dict() for v in versions],
            }
        )
    else:
        screen.table(map(_row_versions, versions), header=("VERSION", "DECLARED", "STATUS", "SIZE", "FROM"), stretch=4)
    return OK


def _skill_row(skill: InstalledSkill) -> tuple[str, str]:
    return skill.skill_id, skill.current_version or "uninstalled"


def _row_versions(version: SkillVersion) -> tuple[str, str, str, str, str]:
    origin = version.origin
    where = str(origin.get("address", "")) + (f" {origin['path']}" if origin.get("path") else "")
    commit = f" @{str(origin['commit'])[:12]}" if origin.get("commit") else ""
    return version.version, version.declared_version or "", _status(version), f"{version.size_bytes:,}", where + commit


_APPROVALS: Final = {"waiting": "waits for approval", "approved": "approved", "withdrawn": "approval withdrawn"}


def _status(version: SkillVersion) -> str:
    words: list[str] = ["current" if version.current else version.status]
    if version.current and version.status == "deprecated":
        words.append("deprecated")
    if version.yanked:
        words.append("yanked")
    if version.approval:
        words.append(_APPROVALS[version.approval])
    if version.removed:
        words.append("pruned")
    return ", ".join(words)


def add_history_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `history`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="only of this skill")
    parser.add_argument(
        "--limit", type=parse_positive, default=20, metavar="N", help="at most this many (default: %(default)s)"
    )


def history_command(arguments: argparse.Namespace) -> int:
    """List the operations, the newest first; `--json` has every step with its time."""
    screen: Screen = arguments.screen
    logs = open_registry(arguments).installed.history(arguments.name, limit=arguments.limit)
    if screen.as_json:
        screen.data({"logs": [log.to_dict() for log in logs]})
    elif logs:
        screen.table(
            map(_row_history, logs),
            header=("WHEN (UTC)", "OPERATION", "SKILL", "VERSION", "STATUS", "TOOK", "REMARK"),
            stretch=6,
        )
    else:
        screen.note("nothing was installed yet")
    return OK


def _row_history(log: InstallLog) -> tuple[str, ...]:
    when = f"{log.started_at:%Y-%m-%d %H:%M:%S}" if log.started_at else ""
    took = "" if log.duration_ms is None else f"{log.duration_ms:,} ms"
    remark = f"{log.error_code}: {log.error_message}" if log.error_code else log.message or log.source or ""
    return when, log.operation, log.skill_id or "", log.version or "", log.status, took, remark


def add_mark_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of both commands."""
    parser.add_argument("name", metavar="NAME", help="the skill's name or id, or NAME@VERSION")
    parser.add_argument("version", nargs="?", metavar="VERSION", help="the version (default: the current one)")
    parser.add_argument("--reason", "--message", default="", metavar="TEXT", help="the reason, shown to users of the skill")
    parser.add_argument("--undo", action="store_true", help="undo the mark")
    add_server_options(
        parser, "--on", says="what was published to this server, or with no SERVER to the usual one", optional=True
    )


def mark_command(arguments: argparse.Namespace) -> int:
    """Mark the version and say so."""
    screen: Screen = arguments.screen
    if "@" in arguments.name and arguments.version is None:
        arguments.name, _, arguments.version = arguments.name.rpartition("@")
    if arguments.server is not None:
        return _mark_there(arguments)
    registry = open_registry(arguments)
    mark = registry.versions.yank if arguments.command == "yank" else registry.versions.deprecate
    version = mark(arguments.name, arguments.version, reason=arguments.reason, undo=arguments.undo)
    if screen.as_json:
        screen.data({"version": version.to_dict()})
        return OK
    state = "yanked" if arguments.command == "yank" else "deprecated"
    screen.line(f"{version.skill_id} {version.version} is {'no longer ' if arguments.undo else ''}{state}", style="ok")
    if version.current and not arguments.undo:
        screen.note(f"it is still the current version; `skillyard rollback {version.skill_id}` goes back")
    return OK


def _mark_there(arguments: argparse.Namespace) -> int:
    """Mark what was published to a server; what is yanked there gives way to the version before."""
    screen: Screen = arguments.screen
    server, name = open_server(arguments), arguments.name
    label, serves = server.mark(name, arguments.version, arguments.command, reason=arguments.reason, undo=arguments.undo)
    state = "yanked" if arguments.command == "yank" else "deprecated"
    if screen.as_json:
        screen.data({"server": server.address, "skill": name, "version": label, state: not arguments.undo, "serves": serves})
        return OK
    screen.line(f"{name} {label} is {'no longer ' if arguments.undo else ''}{state} on {server.address}", style="ok")
    if not arguments.undo and not serves:
        screen.note("it is no longer available; `skillyard update --check` reports it to those who have it")
    return OK
