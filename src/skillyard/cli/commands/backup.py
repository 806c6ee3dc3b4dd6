"""`skillyard backup`: everything that is kept here, in one file; `skillyard restore`: bring it back."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.failures import OK, UsageProblem
from skillyard.cli.installation import open_lock
from skillyard.cli.openers import configured_database
from skillyard.cli.screen import counted

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.registry.backup import BackupHome


_MAIN: Final = "default"
_BELOW: Final = "organisations/"


def backup_homes(data: str, database_url: str | None) -> list[BackupHome]:
    """Skillyard's own folder and records, then those of each organisation."""
    from skillyard.access import Organisations

    main = backup_home(_MAIN, data, database_url)
    assert main is not None  # noqa: S101 # that one there always is
    with contextlib.closing(main.database()) as database:
        names = [found.name for found in Organisations(lambda: database).all() if found.name != _MAIN]
    return [main, *(place for name in names if (place := backup_home(_BELOW + name, data, database_url)))]


def backup_home(name: str, data: str, database_url: str | None) -> BackupHome | None:
    """The home that a backup calls so, with room for its records; None when it can be none of ours."""
    from skillyard.access import Organisation
    from skillyard.document import is_name  # lower-case letters, digits and single dashes
    from skillyard.registry.backup import BackupHome

    main = BackupHome(_MAIN, Path(data), database_url)
    if name == _MAIN:
        return main
    if not name.startswith(_BELOW) or not is_name(name.removeprefix(_BELOW)):
        return None
    organisation = Organisation(name.removeprefix(_BELOW))
    with contextlib.closing(main.database()) as database, database.write() as connection:
        organisation.make_schema(connection)
    return BackupHome(name, Path(organisation.home(data)), organisation.database_url(data, database_url))


def add_backup_arguments(parser: argparse.ArgumentParser) -> None:
    """What `backup` takes."""
    parser.add_argument("file", metavar="FILE", help="where to write it; it holds keys and records, only you may read it")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def backup_command(arguments: argparse.Namespace) -> int:
    """Write it, and tell what is in it."""
    from skillyard.registry.backup import write_backup

    screen: Screen = arguments.screen
    lock = open_lock(arguments)
    report = write_backup(
        backup_homes(*configured_database(arguments)),
        Path(arguments.file),
        beside=[lock.path] if lock.path.is_file() else [],
        force=arguments.force,
    )
    if screen.as_json:
        screen.data(report.to_dict())
        return OK
    held = (counted(report.skills, "skill"), counted(report.versions, "version"), counted(report.records, "record"))
    screen.line(f"{report.file}: {', '.join(held)}; {report.bytes / 1e6:,.1f} MB")
    for name in report.gone:
        screen.line(f"{name} was deleted before it could be read", style="warning")
    return OK


def add_restore_arguments(parser: argparse.ArgumentParser) -> None:
    """What `restore` takes."""
    parser.add_argument("file", metavar="FILE", help="what `skillyard backup` wrote; stop the server first")
    parser.add_argument("--force", action="store_true", help="replace everything that is there")
    parser.add_argument("--check", action="store_true", help="only read the backup to its end and prove every file in it")


def restore_command(arguments: argparse.Namespace) -> int:
    """Prove it, bring it back, and tell what there is now."""
    from skillyard.registry.backup import check_backup, restore_backup

    screen: Screen = arguments.screen
    file = Path(arguments.file)
    if arguments.check:
        manifest = check_backup(file)
        made = {key: manifest.facts.get(key) for key in ("made_at", "made_by")}
        if screen.as_json:
            screen.data({"file": str(file), "files": len(manifest.entries), **made})
        else:
            screen.line(f"{file} is whole: {counted(len(manifest.entries), 'file')}, made {made['made_at']}")
        return OK
    done = restore_backup(
        file, lambda name: _place(arguments, name), project=open_lock(arguments).folder, force=arguments.force
    )
    if screen.as_json:
        screen.data(done.to_dict())
    else:
        screen.line(f"restored {counted(done.versions, 'version')} and {counted(done.records, 'record')}")
    return OK


def _place(arguments: argparse.Namespace, name: str) -> BackupHome:
    home = backup_home(name, *configured_database(arguments))
    if home is None:
        raise UsageProblem(f"this Skillyard has no place for {name!r}", hint="upgrade skillyard")
    return home
