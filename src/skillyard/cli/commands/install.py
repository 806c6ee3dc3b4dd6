"""`skillyard install`, `update`, `sync`, `rollback` and `uninstall`: which skills, in which versions, this machine has."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.confirmation import confirm
from skillyard.cli.failures import FAILURE, OK, UsageProblem
from skillyard.cli.installation import (
    InstallProgress,
    add_accept_options,
    draw_results,
    missing_lock_error,
    open_lock,
    open_registry,
    power_consent,
    replacement_acceptance,
)
from skillyard.errors import SkillyardError

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.registry import OperationResult


def add_install_arguments(parser: argparse.ArgumentParser) -> None:
    """What `install` takes."""
    parser.add_argument(
        "source",
        nargs="?",
        metavar="SOURCE",
        help="a folder, an archive, owner/repo[/path][@ref], a git or https address; without one, what skillyard.lock names",
    )
    parser.add_argument(
        "--skill", action="append", default=[], metavar="NAME", help="only this skill of the source; may be given several times"
    )
    parser.add_argument(
        "-y", "--yes", action="store_true", help="agree when an installed skill would be allowed more than before"
    )
    parser.add_argument(
        "--force", action="store_true", help="install over local edits, yanked content, and the same content again"
    )
    add_accept_options(parser)
    parser.add_argument("--save", action="store_true", help="write source and digest to the project's skillyard.lock")


def install_command(arguments: argparse.Namespace) -> int:
    """Install and tell what came of it."""
    screen: Screen = arguments.screen
    consent = power_consent(screen, yes=arguments.yes)
    registry = open_registry(arguments)
    if arguments.source is None:
        lock = open_lock(arguments)
        if not lock.exists() or arguments.skill or arguments.save:
            raise (
                missing_lock_error(lock)
                if not lock.exists()
                else UsageProblem("install what?", hint="skillyard install SOURCE")
            )
        with InstallProgress(screen) as progress:
            results = lock.sync(
                registry, consent=consent, force=arguments.force, progress=progress, **replacement_acceptance(arguments)
            )
        draw_results(screen, results)
        if not results and not screen.as_json:
            screen.line("everything is installed as locked", style="ok")
        return OK
    saved = open_lock(arguments) if arguments.save else None
    with InstallProgress(screen) as progress:
        report = registry.install(
            arguments.source,
            skills=arguments.skill,
            consent=consent,
            force=arguments.force,
            signers=saved.signers() if saved is not None else None,
            progress=progress,
            **replacement_acceptance(arguments),
        )
    if saved is not None:
        saved.record(report.results, accept_signer=True)  # whoever answered has accepted what the lock did not name
    draw_results(screen, report.results)
    return OK


def add_update_arguments(parser: argparse.ArgumentParser) -> None:
    """What `update` takes."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the skill to update (default: every installed skill)")
    parser.add_argument("-y", "--yes", action="store_true", help="agree when a skill would be allowed more than before")
    parser.add_argument("--force", action="store_true", help="update over local edits and yanked content")
    add_accept_options(parser)


def update_command(arguments: argparse.Namespace) -> int:
    """Update; 1 when one of the skills could not be, after the others were. Locked skills are locked anew."""
    screen: Screen = arguments.screen
    registry = open_registry(arguments)
    skills = [registry.installed.skill(arguments.name)] if arguments.name else registry.installed.skills()
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
                    signers=signers,
                    progress=progress,
                    **replacement_acceptance(arguments),
                )
                results += report.results
            except SkillyardError as error:
                if arguments.name:
                    raise
                failed.append((skill.skill_id, error))
    if lock.exists():
        locked = {entry.skill_id for entry in lock.entries()}
        again = tuple(result for result in results if result.skill_id in locked)
        lock.record(again, accept_signer=True)  # who was asked has accepted what the lock did not name
    if screen.as_json:
        problems = [{"skill_id": name, **error.to_dict()} for name, error in failed]
        screen.data({"results": [result.to_dict() for result in results], "failed": problems})
    else:
        draw_results(screen, results)
        for name, problem in failed:
            screen.line(f"failed {name}: {problem.message}", style="error")
            if problem.hint:
                screen.hint(problem.hint)
        if not skills:
            screen.note("nothing is installed")
    return FAILURE if failed else OK


def add_sync_arguments(parser: argparse.ArgumentParser) -> None:
    """What `sync` takes."""
    parser.add_argument("--check", action="store_true", help="change nothing; end with 1 when something is not as locked")
    parser.add_argument("-y", "--yes", action="store_true", help="agree when a skill would be allowed more than before")
    parser.add_argument("--force", action="store_true", help="install over local edits and yanked content")
    add_accept_options(parser)


def sync_command(arguments: argparse.Namespace) -> int:
    """Install what differs, or say what does."""
    screen: Screen = arguments.screen
    lock, registry = open_lock(arguments), open_registry(arguments)
    if not lock.exists():
        raise missing_lock_error(lock)
    if arguments.check:
        states = lock.states(registry)
        good = all(state.state == "ok" for state in states)
        if screen.as_json:
            screen.data({"ok": good, "skills": [state.to_dict() for state in states]})
        else:
            screen.table((state.state, state.entry.skill_id, state.entry.digest) for state in states)
            if not good:
                screen.note("`skillyard sync` installs what is locked")
        return OK if good else FAILURE
    with InstallProgress(screen) as progress:
        results = lock.sync(
            registry,
            consent=power_consent(screen, yes=arguments.yes),
            force=arguments.force,
            progress=progress,
            **replacement_acceptance(arguments),
        )
    draw_results(screen, results)
    if not results and not screen.as_json:
        screen.line("everything is installed as locked", style="ok")
    return OK


def add_rollback_arguments(parser: argparse.ArgumentParser) -> None:
    """What `rollback` takes."""
    parser.add_argument("name", metavar="NAME", help="the skill's name or id; one that was uninstalled comes back")
    parser.add_argument(
        "version", nargs="?", metavar="VERSION", help="which (default: the newest usable one before the current)"
    )
    parser.add_argument("--force", action="store_true", help="also to a deprecated version, or one that was changed by hand")
    add_accept_options(parser)


def rollback_command(arguments: argparse.Namespace) -> int:
    """Move the link and tell where it leads."""
    screen: Screen = arguments.screen
    result = open_registry(arguments).rollback(
        arguments.name, arguments.version, force=arguments.force, **replacement_acceptance(arguments)
    )
    draw_results(screen, [result])
    return OK


def add_uninstall_arguments(parser: argparse.ArgumentParser) -> None:
    """What `uninstall` takes."""
    parser.add_argument("name", metavar="NAME", help="the installed skill's name or id")
    parser.add_argument("--prune", action="store_true", help="delete its files too, so that `rollback` cannot bring it back")
    parser.add_argument("--force", action="store_true", help="with --prune: also files that were changed by hand")
    parser.add_argument("--save", action="store_true", help="take it out of the project's skillyard.lock")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before files are deleted")


def uninstall_command(arguments: argparse.Namespace) -> int:
    """Uninstall it; files are only deleted when that is asked for and agreed to."""
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
    result = registry.uninstall(skill.skill_id, prune=arguments.prune, force=arguments.force)
    if arguments.save:
        lock = open_lock(arguments)
        if lock.exists():
            lock.write({}, dropped=(result.skill_id,))
    draw_results(screen, [result])
    if not arguments.prune:
        screen.note(f"its files are kept; `skillyard rollback {result.skill_id}` brings it back")
    return OK
