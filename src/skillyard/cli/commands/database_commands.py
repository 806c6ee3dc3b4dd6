"""`skillyard db`: status, check, repair, upgrade and copy of the database; `backup` and `restore`: everything in one file."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.command_options import configured_database, configured_store
from skillyard.cli.install_support import open_lock
from skillyard.cli.screen import FAILURE, OK, counted
from skillyard.engine.run_files import workspace_manifests
from skillyard.errors import DigestMismatch, InvalidInput, MalformedArchive, PackageMissing, RecordNotFound, UsageProblem
from skillyard.packages import shown_address
from skillyard.packages.digest import DIGEST_PATTERN
from skillyard.wire import WireForm
from skillyard.workspace import snapshot_blobs, snapshot_store

if TYPE_CHECKING:
    from skillyard.access import CopiedRecords
    from skillyard.cli.screen import Screen
    from skillyard.database import Database, DatabaseCheck, DatabaseStatus, RepairReport
    from skillyard.packages import PackageCopyReport
    from skillyard.registry.backup_archive import BackupHome, StoredContents

_MAIN: Final = "default"
_BELOW: Final = "organisations/"
_CONVERSATION: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True)
class ContentsReport(WireForm):
    """What a copy of workspaces' contents moved.

    `workspaces` and `blobs` are how many there are, `new` how many blobs the other store lacked, `missing` the conversations
    some of whose contents are not in the first store any more.
    """

    workspaces: int
    blobs: int
    new: int
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkspaceContents:
    """What is in the store at `address` of the workspaces of conversations (a `StoredContents`)."""

    address: str

    @property
    def stays(self) -> str:
        """The address of a bucket, whose contents a backup does not hold; empty for a folder."""
        return shown_address(self.address) if "://" in self.address else ""

    def of(self, records: Database) -> Iterator[tuple[str, str]]:
        """The workspaces by their conversations, each with the digests of its contents; an empty one cannot be known."""
        for conversation, manifest in workspace_manifests(records):
            blobs = snapshot_blobs(manifest) if _CONVERSATION.fullmatch(conversation) else None
            for digest in sorted({""} if blobs is None else blobs):
                yield conversation, digest

    def read(self, workspace: str, digest: str) -> bytes | None:
        """One content; None when the store does not have it any more, as it was.

        Raises:
            StoreFailed: the store cannot be read.
        """
        if not DIGEST_PATTERN.fullmatch(digest):
            return None
        try:
            return snapshot_store(self.address, workspace).get(digest)
        except (PackageMissing, DigestMismatch):
            return None

    def write(self, workspace: str, digest: str, data: bytes) -> None:
        """Put one content there.

        Raises:
            MalformedArchive: there is no such workspace or digest.
            DigestMismatch: it is another content.
            StoreFailed: the store cannot be written.
        """
        if not _CONVERSATION.fullmatch(workspace) or not DIGEST_PATTERN.fullmatch(digest):
            raise MalformedArchive(f"{workspace[:100]!r} is not a workspace of a conversation", hint="use another backup")
        snapshot_store(self.address, workspace).put(data, digest)


def copy_contents(
    homes: Iterable[BackupHome], source: WorkspaceContents, target: WorkspaceContents, *, check: bool = False
) -> ContentsReport:
    """Copy the contents that the records of `homes` name; with `check` only count what `target` lacks.

    Raises:
        StoreFailed: one of the two cannot be used; what was copied stays.
        DatabaseUnavailable: records cannot be read.
    """
    workspaces, missing, blobs, new = set(), set(), 0, 0
    for home in homes:
        with contextlib.closing(home.database()) as records:
            for workspace, digest in source.of(records):
                workspaces.add(workspace)
                blobs += 1
                if digest and snapshot_store(target.address, workspace).has(digest):
                    continue
                data = source.read(workspace, digest)
                if data is None:
                    missing.add(workspace)
                    continue
                new += 1
                if not check:
                    target.write(workspace, digest, data)
    return ContentsReport(len(workspaces), blobs, new, tuple(sorted(missing)))


def backup_homes(data: str, database_url: str | None, contents: StoredContents | None = None) -> list[BackupHome]:
    """Skillyard's own folder and records, then those of each organisation; the `contents` of workspaces are in one store."""
    from skillyard.access import Organisations

    main = backup_home(_MAIN, data, database_url, contents)
    assert main is not None  # noqa: S101 # that one there always is
    with contextlib.closing(main.database()) as database:
        names = [each.name for each in Organisations(lambda: database).all() if each.name != _MAIN]
    return [main, *(home for name in names if (home := backup_home(_BELOW + name, data, database_url, contents)))]


def backup_home(name: str, data: str, database_url: str | None, contents: StoredContents | None = None) -> BackupHome | None:
    """The home that a backup calls so, with room for its records; None when it can be none of ours."""
    from skillyard.access import Organisation
    from skillyard.document import is_name  # lower-case letters, digits and single dashes
    from skillyard.registry.backup_archive import BackupHome

    main = BackupHome(_MAIN, Path(data), database_url, contents)
    if name == _MAIN:
        return main
    if not name.startswith(_BELOW) or not is_name(name.removeprefix(_BELOW)):
        return None
    organisation = Organisation(name.removeprefix(_BELOW))
    with contextlib.closing(main.database()) as database, database.write() as connection:
        organisation.make_schema(connection)
    return BackupHome(name, Path(organisation.home(data)), organisation.database_url(data, database_url), contents)


def check_or_repair(arguments: argparse.Namespace) -> int:
    """Check a database, and with the action `repair` replace a damaged file by a new one.

    Raises:
        RecordNotFound: there is no database there.
        InvalidInput: PostgreSQL is to be repaired.
        DatabaseUnavailable: it cannot be reached, or another process uses the file that is to be repaired.
    """
    screen: Screen = arguments.screen
    database = _opened(arguments)
    with closing(database):
        check = database.check()
    if arguments.action == "check" or check.whole:
        return _show_check(screen, check)
    if database.file is None:
        raise InvalidInput(
            f"{check.url} is not a file that can be repaired from here: {check.problems[0]}",
            hint="check the log of PostgreSQL, and restore a backup: `skillyard restore`, or a point-in-time recovery",
        )
    from skillyard.database import repair_file

    return _show_repair(screen, repair_file(database.file))


def _opened(arguments: argparse.Namespace) -> Database:
    """The database that is meant; none is made for the question."""
    from skillyard.access import DEFAULT_ORGANISATION, Organisation
    from skillyard.database import Database
    from skillyard.document import is_name  # lower-case letters, digits and single dashes

    data, configured = configured_database(arguments)
    name = arguments.organisation or DEFAULT_ORGANISATION
    if name != DEFAULT_ORGANISATION:
        if not is_name(name):
            raise RecordNotFound(f"there is no organisation {name[:60]!r}", hint="`skillyard organisations` lists them")
        organisation = Organisation(name)
        data, configured = organisation.home(data), organisation.database_url(data, configured)
    database = Database.at(data, configured)
    if database.file is not None and not Path(database.file).exists():
        raise RecordNotFound(f"there is no database at {database.file}", hint="the first run makes one")
    return database


def _show_check(screen: Screen, check: DatabaseCheck) -> int:
    if screen.as_json:
        screen.data(check.to_dict())
    elif check.whole:
        screen.line(f"{check.url}: no errors")
    else:
        screen.line(f"{check.url}: {counted(len(check.problems), 'problem')}", style="error")
        for problem in check.problems:
            screen.line(f"  {problem}")
        screen.hint("stop what uses it, then `skillyard db repair` recovers what can be read")
    return OK if check.whole else FAILURE


def _show_repair(screen: Screen, report: RepairReport) -> int:
    if screen.as_json:
        screen.data(report.to_dict())
        return OK
    rows = [
        (table.table, f"{table.rows:,}", "unknown" if table.lost is None else f"{table.lost:,}")
        for table in report.tables
        if table.rows or table.lost != 0
    ]
    screen.table(rows, header=("TABLE", "RECOVERED", "LOST"))
    if report.unplaced:
        screen.line(f"{counted(report.unplaced, 'row')} could belong to several tables, and stayed in the old file")
    screen.line(f"{report.file} was rebuilt; the damaged file is kept as {report.kept}")
    return OK


def add_db_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `db`."""
    parser.add_argument(
        "action",
        choices=("status", "upgrade", "check", "repair", "backfill", "copy"),
        help="status shows where the records are, and exits with 1 when their tables are out of date; upgrade updates them, "
        "after copying a database file; check reads everything, and exits with 1 when the database is damaged; "
        "repair recovers what can be read of a damaged file into a new one and keeps the old one, while nothing else uses it; "
        "backfill records installed skills that are on disk, with their text and files, and puts their packages into "
        "the store, if one is configured; copy copies all records into another database, those of organisations too",
    )
    parser.add_argument(
        "--organisation", metavar="NAME", help="with check and repair: the organisation (default: the server's own)"
    )
    parser.add_argument("--to", metavar="URL", help="with copy: the other database; existing records are not copied again")
    parser.add_argument(
        "--to-store",
        metavar="PLACE",
        help="with copy: bring the packages, and the contents of conversations' workspaces, into this store, a folder or "
        "s3://bucket/prefix",
    )
    parser.add_argument("--check", action="store_true", help="with copy: change nothing; exit with 1 when something is missing")


def db_command(arguments: argparse.Namespace) -> int:
    """Report the status, after an upgrade where requested."""
    from skillyard.database import Database  # half a second

    if arguments.action == "copy":
        return _copy(arguments)
    if arguments.action in ("check", "repair"):
        return check_or_repair(arguments)
    data, configured = configured_database(arguments)
    database = Database.open(data, configured, migrate=False)
    if arguments.action == "backfill":
        return _backfill(arguments)
    if arguments.action == "upgrade":
        database.upgrade()
        if database.upgrade_copy:
            arguments.screen.note(f"as they were before, the records are kept in {database.upgrade_copy}")
    return _report_status(arguments.screen, database)


def _copy(arguments: argparse.Namespace) -> int:
    """Copy records, packages or both elsewhere; `lacking` is what was missing."""
    from skillyard.access import move_records
    from skillyard.database import database_url, redacted_url
    from skillyard.packages import shown_address

    screen: Screen = arguments.screen
    if not arguments.to and not arguments.to_store:
        raise UsageProblem("the target database is not given", hint="skillyard db copy --to postgresql://user@host/skillyard")
    moved: tuple[CopiedRecords, ...] = ()
    if arguments.to:
        data, configured = configured_database(arguments)
        there = database_url(data, arguments.to)
        if there == database_url(data, configured):
            raise UsageProblem(f"{redacted_url(there)} is the database that is copied", hint="name another one with --to")
        moved = move_records(data, configured, arguments.to, check=arguments.check)
    packages = _copy_packages(arguments) if arguments.to_store else None
    contents = _copy_contents(arguments) if arguments.to_store else None
    lacking = sum(one.new_rows for one in moved) + sum(one.new for one in (packages, contents) if one)
    if screen.as_json:
        screen.data(_copy_report(moved, packages, contents))
    else:
        _show(screen, moved, packages, contents, check=arguments.check)
    if moved and not arguments.to_store and (store := _workspace_contents(arguments)) is not None:
        screen.note(f"the contents of conversations' workspaces stay in {shown_address(store.address)}: keep using that store")
    return FAILURE if (arguments.check and lacking) or (contents and contents.missing) else OK


def _copy_packages(arguments: argparse.Namespace) -> PackageCopyReport:
    from skillyard.packages import copy_packages, open_store

    source = configured_store(arguments)
    if source is None:
        raise UsageProblem(
            "no store of packages is configured", hint="`skillyard db backfill` fills a new one from what is installed"
        )
    if source == arguments.to_store:
        raise UsageProblem(f"{source} is the store that is copied", hint="name another one with --to-store")
    return copy_packages(open_store(source), open_store(arguments.to_store), check=arguments.check)


def _workspace_contents(arguments: argparse.Namespace) -> WorkspaceContents | None:
    """What the configured store has of conversations' workspaces; None without a store."""
    store = configured_store(arguments)
    return WorkspaceContents(store) if store is not None else None


def _copy_contents(arguments: argparse.Namespace) -> ContentsReport:

    source = _workspace_contents(arguments)
    assert source is not None  # noqa: S101 # packages were copied from it
    homes = backup_homes(*configured_database(arguments), source)
    return copy_contents(homes, source, WorkspaceContents(arguments.to_store), check=arguments.check)


def _copy_report(
    moved: Sequence[CopiedRecords], packages: PackageCopyReport | None, contents: ContentsReport | None
) -> dict[str, object]:
    """The copy as plain data; the server's own records stand at the top, as they did before there were organisations."""
    report: dict[str, object] = {}
    if moved:
        main = moved[0].to_dict()
        report = {"from": main["from"], "to": main["to"], "tables": main["tables"]}
        report["organisations"] = [one.to_dict() for one in moved[1:]]
    named = {"packages": packages, "workspaces": contents}
    return report | {name: one.to_dict() for name, one in named.items() if one}


def _show(
    screen: Screen,
    moved: Sequence[CopiedRecords],
    packages: PackageCopyReport | None,
    contents: ContentsReport | None,
    *,
    check: bool,
) -> None:
    what = "MISSING" if check else "COPIED"
    rows = [
        (one.organisation, table.table, f"{table.rows:,}", f"{table.new:,}")
        for one in moved
        for table in one.tables
        if table.rows or one is moved[0]
    ]
    if rows:
        screen.table(rows, header=("ORGANISATION", "TABLE", "ROWS", what))
    for one in moved:
        if not one.tables:
            screen.line(f"{one.organisation} stays where it is: {one.source}")
    if packages:
        screen.line(f"{counted(packages.packages, 'package')} in the store, {packages.new:,} {what.lower()}")
    if contents and contents.workspaces:
        held = f"{counted(contents.blobs, 'content')} of {counted(contents.workspaces, 'workspace')}"
        screen.line(f"{held} in the store, {contents.new:,} {what.lower()}")
        _show_missing(screen, contents.missing)


def _show_missing(screen: Screen, missing: Sequence[str]) -> None:
    """Name the conversations some of whose files are lost, unless the disk of the machine where they worked has them."""
    for name in missing[:_MOST_NAMED]:
        screen.line(f"{name}: files of its workspace are not in the store any more", style="warning")
    if len(missing) > _MOST_NAMED:
        screen.line(f"… and {len(missing) - _MOST_NAMED:,} more workspaces", style="warning")


def _backfill(arguments: argparse.Namespace) -> int:
    from skillyard.cli.install_support import open_registry

    screen: Screen = arguments.screen
    filled = open_registry(arguments).backfill()
    if screen.as_json:
        screen.data(filled.to_dict())
    else:
        screen.line(f"{counted(len(filled.versions), 'version')} on the disk, {len(filled.added):,} of them new to the records")
        for problem in filled.problems:
            screen.line(problem, style="warning")
    return FAILURE if filled.problems else OK


def _report_status(screen: Screen, database: Database) -> int:
    status = database.status()
    if screen.as_json:
        screen.data(status.to_dict())
    else:
        facts = [("database", status.url), ("revision", status.revision or "none"), ("status", _words(status))]
        if status.current:
            facts.append(("search", "by an index" if status.indexed_search else f"reads every skill: {status.search_hint}"))
        screen.table(facts)
    return OK if status.current else FAILURE


def _words(status: DatabaseStatus) -> str:
    if status.newer:
        return f"made by a newer Skillyard; this one, which knows {status.newest}, can still use it"
    if status.current:
        return "up to date"
    if status.too_new:
        return f"made by a newer Skillyard; this one, which knows {status.newest}, cannot use it: upgrade skillyard"
    if status.unreleased:
        return f"made by a Skillyard between two releases; cannot be brought to {status.newest}: name another database"
    return "no tables yet; the first run makes them" if status.revision is None else f"to be upgraded to {status.newest}"


_MOST_NAMED: Final = 10


def add_backup_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `backup`."""
    parser.add_argument("file", metavar="FILE", help="where to write it; it holds keys and records, only you may read it")
    parser.add_argument("--force", action="store_true", help="replace an existing file")


def backup_command(arguments: argparse.Namespace) -> int:
    """Write a backup, and report its content."""
    from skillyard.registry.backup import write_backup

    screen: Screen = arguments.screen
    lock = open_lock(arguments)
    report = write_backup(
        backup_homes(*configured_database(arguments), _workspace_contents(arguments)),
        Path(arguments.file),
        beside=[lock.path] if lock.path.is_file() else [],
        force=arguments.force,
    )
    if screen.as_json:
        screen.data(report.to_dict())
        return OK
    held = (counted(report.skills, "skill"), counted(report.versions, "version"), counted(report.records, "record"))
    screen.line(f"{report.file}: {', '.join(held)}; {report.bytes:,} bytes")
    for name in report.gone:
        screen.line(f"{name} was deleted before it could be read", style="warning")
    if report.contents:
        screen.line(f"{counted(report.contents, 'content')} of conversations' workspaces")
    _show_missing(screen, report.missing)
    if report.contents_in:
        screen.line(f"the contents of conversations' workspaces are not in it: they stay in {report.contents_in}")
        screen.hint("back up that bucket separately, or copy them into a folder with `skillyard db copy --to-store FOLDER`")
    return OK


def add_restore_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `restore`."""
    parser.add_argument("file", metavar="FILE", help="a file written by `skillyard backup`; stop the server first")
    parser.add_argument("--force", action="store_true", help="replace everything that is there")
    parser.add_argument("--check", action="store_true", help="only read the whole backup and verify every file in it")


def restore_command(arguments: argparse.Namespace) -> int:
    """Verify a backup, restore it, and report what was restored."""
    from skillyard.registry.backup import restore_backup
    from skillyard.registry.backup_archive import check_backup

    screen: Screen = arguments.screen
    file = Path(arguments.file)
    if arguments.check:
        manifest = check_backup(file)
        made = {key: manifest.facts.get(key) for key in ("made_at", "made_by")}
        if screen.as_json:
            screen.data({"file": str(file), "files": len(manifest.entries), **made})
        else:
            screen.line(f"{file} is intact: {counted(len(manifest.entries), 'file')}, made {made['made_at']}")
        return OK
    done = restore_backup(
        file, lambda name: _backup_home(arguments, name), project=open_lock(arguments).folder, force=arguments.force
    )
    if screen.as_json:
        screen.data(done.to_dict())
    else:
        screen.line(f"restored {counted(done.versions, 'version')} and {counted(done.records, 'record')}")
        if done.contents:
            screen.line(f"put {counted(done.contents, 'content')} of conversations' workspaces into the store")
        if done.unplaced:
            screen.line(f"{counted(done.unplaced, 'content')} of conversations' workspaces had no place", style="warning")
            screen.hint("set `store` in [packages] of your skillyard.toml, then restore again with --force")
        if done.contents_in:
            screen.line(f"the contents of conversations' workspaces were in {done.contents_in}: keep using that store")
    return OK


def _backup_home(arguments: argparse.Namespace, name: str) -> BackupHome:

    home = backup_home(name, *configured_database(arguments), _workspace_contents(arguments))
    if home is None:
        raise UsageProblem(f"this Skillyard has no place for {name!r}", hint="upgrade skillyard")
    return home
