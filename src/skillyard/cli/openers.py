"""From the common options to what a command works on: the catalog, the database, the records, the audit log.

The permission rules of the configuration are applied to every catalog that is opened here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from skillyard.cli.failures import UsageProblem, require_existing
from skillyard.cli.screen import ScanProgress
from skillyard.errors import DatabaseUnavailable, InvalidInput, SkillNotFound, ValueRefused
from skillyard.library import Catalog

if TYPE_CHECKING:
    import argparse
    from pathlib import Path
    from types import ModuleType

    from skillyard.catalog import Skill
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


_NAMED: Final = 5  # skills in a hint


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


def open_skill(arguments: argparse.Namespace, name: str) -> tuple[Catalog, Skill]:
    """The skill of that name, id or path, and the catalog it is in.

    A path is a skill's folder or its SKILL.md. A skill that the catalog has is taken from there, so that switches and rules
    hold for it; another is read alone.

    Raises:
        UsageProblem: there is nothing at the path.
        SkillNotFound: there is no such skill, or none at the path.
        AmbiguousSkill: more than one has the name.
    """
    catalog = open_catalog(arguments)
    folder = _folder_at(name)
    if folder is None:
        return catalog, _skill_by_name(catalog, name)
    real = os.path.realpath(folder)
    for skill in catalog.all():
        if os.path.realpath(skill.directory) == real:
            return catalog, skill
    alone = discover_catalog(arguments, roots=[str(folder)])
    found = [skill for skill in alone.all() if os.path.realpath(skill.directory) == real]
    if found:
        return alone, found[0]
    inside = [f"{name.rstrip('/')}/{os.path.relpath(skill.directory, folder)}" for skill in alone.all()]
    hint = f"name one of those in it: {', '.join(inside[:_NAMED])}" if inside else f"`skillyard new NAME --in {name}` makes one"
    raise SkillNotFound(f"there is no SKILL.md in {name}", hint=hint)


def _folder_at(name: str) -> Path | None:
    """The folder that a path names; None for what is no path but a name or an id."""
    if os.sep not in name and name not in (".", "..") and not name.lower().endswith("skill.md"):
        return None
    from pathlib import Path  # 7 ms: a plain list does without

    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.is_file():
        return path.parent
    if name.startswith((".", "/", "~")):
        require_existing(name, hint="give the folder of a skill, its SKILL.md, or a skill's name")
    return None


def _skill_by_name(catalog: Catalog, name: str) -> Skill:
    try:
        return catalog.get(name)
    except SkillNotFound as error:
        for path in (f"./{name}", f"./skills/{name}", f"./.claude/skills/{name}"):
            if os.path.lexists(f"{path}/SKILL.md"):
                hint = f"for the folder here write its path: {path}"
                raise SkillNotFound(error.message, hint=hint, **error.details) from None
        raise


def unsearched_skills(catalog: Catalog, project: str | None) -> str | None:
    """The folder `skills` here when it holds skills and the catalog does not search it; else None."""
    folder = f"{(project or '.').rstrip('/')}/skills"
    try:
        with os.scandir(folder) as entries:
            inhabited = any(os.path.lexists(f"{entry.path}/SKILL.md") for entry in entries)
    except OSError:
        return None
    real = os.path.realpath(folder)
    return folder if inhabited and all(os.path.realpath(root.path) != real for root in catalog.roots) else None


def nothing_to_look_at(command: str, arguments: argparse.Namespace) -> UsageProblem:
    """What `check` and `scan` say where no skill is: an empty success would look as if everything were fine."""
    folder = f"{(arguments.project or '.').rstrip('/')}/skills"
    path = folder if os.path.lexists(folder) else "PATH"
    hint = f"give a SKILL.md, a skill's folder or a folder of skills: `skillyard {command} {path}`"
    return UsageProblem(f"there is no skill to {command} in any root", hint=hint)


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
