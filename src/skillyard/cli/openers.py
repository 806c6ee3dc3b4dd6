"""From the common options to what a command works on: the catalog, the database, the records, the audit log.

The permission rules of the configuration are applied to every catalog that is opened here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from skillyard.cli.failures import UsageProblem
from skillyard.cli.screen import ScanProgress
from skillyard.errors import DatabaseUnavailable, InvalidInput, ValueRefused
from skillyard.library import Catalog

if TYPE_CHECKING:
    import argparse
    from types import ModuleType

    from skillyard.cli.screen import Screen
    from skillyard.database import Database
    from skillyard.engine import Records
    from skillyard.permissions import SqlApprovalStore


def record_audit_event(screen: Screen, database: Callable[[], Database], action: str, *subjects: str) -> None:
    """Record what was done to each of `subjects`; a failure to record is reported and undoes nothing."""
    from skillyard.access import AuditLog  # half a second with the database

    audit_log = AuditLog(database)
    try:
        for subject in subjects:
            audit_log.record(action, subject)
    except (DatabaseUnavailable, ValueRefused) as error:
        screen.note(f"warning: the change was made but not recorded in the audit log: {error.message}")


LOCAL_OWNER: Final = "default/local user"
"""The owner of the runs and conversations of this machine's user; a server on this machine uses the same name."""


def open_catalog(arguments: argparse.Namespace, *, installed: bool = False) -> Catalog:
    """The skills the common options ask for; those a rule of the configuration denies have the status `denied`.

    With `installed` what is installed is there too, also beside named roots.
    """
    return discover_catalog(arguments, roots=arguments.root, installed=installed)


def discover_catalog(arguments: argparse.Namespace, *, roots: Sequence[str] | None, installed: bool = False) -> Catalog:
    """Scan the roots, or the default ones when there are none; problems with a root are reported on standard error."""
    screen: Screen = arguments.screen
    project = arguments.project
    if project is not None:
        _require_folder(project)
    if roots is not None and not all(root.strip() for root in roots):
        raise UsageProblem("a root without a name", hint="name a folder of skills")
    with ScanProgress(screen) as progress:
        catalog = Catalog.discover(
            roots=roots, cwd=project, cache=not arguments.no_cache, progress=progress, installed=installed
        )
    for root in catalog.roots:
        if root.reason and ((roots and root.source != "installed") or root.status not in ("ok", "missing")):
            screen.note(f"warning: {root.path}: {root.reason}")
    return catalog


def configured_database(arguments: argparse.Namespace) -> tuple[str, str | None]:
    """Skillyard's own folder and the database URL that is configured for the project, if any; no skill is looked for."""
    catalog = open_home(arguments)
    return catalog.data_directory, catalog.configuration.database_url


def configured_store(arguments: argparse.Namespace) -> str | None:
    """Where packages are kept, if it is configured."""
    return open_home(arguments).configuration.package_store


def open_database(arguments: argparse.Namespace, organisation: str | None = None) -> Database:
    """The server's main database, or that of an organisation.

    Raises:
        RecordNotFound: there is no such organisation.
    """
    return _of_organisation(open_home(arguments), organisation).records().database


def open_organisation(arguments: argparse.Namespace) -> Catalog:
    """The skills that the common options ask for, as the organisation that is named sees them.

    Raises:
        RecordNotFound: there is no such organisation.
    """
    return _of_organisation(open_catalog(arguments), arguments.organisation)


def _of_organisation(catalog: Catalog, name: str | None) -> Catalog:
    if name is None:
        return catalog
    from skillyard.access import Organisations

    return Organisations(lambda: catalog.records().database).catalog(name, catalog)


def open_records(arguments: argparse.Namespace) -> Records:
    """The runs and memories the configuration names."""
    return open_home(arguments).records()


def import_conversations() -> ModuleType:
    """The package of conversations, which needs an extra.

    Raises:
        InvalidInput: it is not installed.
    """
    try:
        import skillyard.conversations as conversations  # two seconds, with all that it needs
    except ImportError:
        hint = "pip install 'pydantic-ai-slim[anthropic,google,openai]>=1'"
        raise InvalidInput("the packages for talking to models are not installed", hint=hint) from None
    return conversations


def open_approvals(arguments: argparse.Namespace) -> SqlApprovalStore:
    """What was agreed to for the workspace of the project."""
    from skillyard.permissions import SqlApprovalStore

    catalog = open_home(arguments)
    records = catalog.records()
    return SqlApprovalStore(lambda: records.database, catalog.project_root)


def open_home(arguments: argparse.Namespace) -> Catalog:
    """The catalog of the project without its skills: for what is kept in the home, no folder need be searched."""
    if arguments.project is not None:
        _require_folder(arguments.project)
    return Catalog.discover(roots=(), cwd=arguments.project, cache=False)


def _require_folder(path: str) -> None:
    from pathlib import Path  # 7 ms: a plain list does without

    if not Path(path).is_dir():
        raise UsageProblem(f"--project {path} is not a folder", hint="name the folder of a project")
