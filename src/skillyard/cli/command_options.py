"""Options of commands: from the common ones to what a command works on (catalog, database, records, audit log); and values.

The permission rules of the configuration are applied to every catalog that is opened here. Values are whole numbers,
durations, points in time, JSON objects; each is parsed or refused with an example.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillyard.catalog.catalog_state import SET_VARIABLE
from skillyard.cli.screen import ScanProgress, require_existing
from skillyard.errors import (
    DatabaseUnavailable,
    FileTooLarge,
    InvalidConfiguration,
    InvalidInput,
    SkillNotFound,
    UsageProblem,
    ValueRefused,
)
from skillyard.files import read_limited
from skillyard.library import Catalog
from skillyard.plain_json import read_json
from skillyard.text import limit_words
from skillyard.times import MAX_RUN_MS

if TYPE_CHECKING:
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


def discover_catalog(
    arguments: argparse.Namespace, *, roots: Sequence[str] | None, installed: bool = False, skill_set: str | None = None
) -> Catalog:
    """Scan the roots, or the default ones when there are none; problems with a root are reported on standard error.

    `skill_set` is in use in this process, whichever the project uses.

    Raises:
        SkillNotFound: there is no such set.
    """
    screen: Screen = arguments.screen
    project = arguments.project
    if project is not None:
        _require_folder(project)
    if roots is not None and not all(root.strip() for root in roots):
        raise UsageProblem("a root without a name", hint="name a folder of skills")
    with ScanProgress(screen) as progress:
        catalog = Catalog.discover(
            roots=roots,
            cwd=project,
            environ=None if skill_set is None else {**os.environ, SET_VARIABLE: skill_set},
            cache=not arguments.no_cache,
            progress=progress,
            installed=installed,
        )
    if skill_set is not None:
        catalog.check_set(skill_set)  # else every skill would be offered
    for root in catalog.roots:
        if root.reason and ((roots and root.source != "installed") or root.status not in ("ok", "missing")):
            screen.note(f"warning: {root.path}: {root.reason}")
    return catalog


def open_skill(arguments: argparse.Namespace, name: str) -> tuple[Catalog, Skill]:
    """The skill of that name, id or path, and the catalog it is in.

    A path is a skill's folder or its SKILL.md. A skill that the catalog has is taken from there, so that switches and rules
    hold for it; another is read alone.

    Raises:
        UsageProblem: there is nothing at the path, or a root that was named is missing, and the skill with it.
        SkillNotFound: there is no such skill, or none at the path.
        AmbiguousSkill: more than one has the name.
    """
    catalog = open_catalog(arguments)
    folder = _folder_at(name)
    if folder is None:
        try:
            return catalog, _skill_by_name(catalog, name)
        except SkillNotFound:
            if (path := missing_root(arguments, catalog)) is not None:
                raise UsageProblem(f"there is no folder {path}", hint="check the path of --root") from None
            raise
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


def missing_root(arguments: argparse.Namespace, catalog: Catalog) -> str | None:
    """The path of a root that was named and does not exist; None when all are there."""
    if not arguments.root:
        return None
    return next((root.path for root in catalog.roots if root.status == "missing" and root.source == "config"), None)


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
        import skillyard.conversations as conversations

        conversations.Chat  # noqa: B018 # two seconds, with all that it needs
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


def parse_milliseconds(text: str) -> int:
    """`5` and `5s` as 5000, `500ms` as 500."""
    number, unit = (text[:-2], 1) if text.endswith("ms") else (text.removesuffix("s"), 1000)
    with suppress(ValueError, OverflowError):
        given = int(float(number) * unit)
        if 1 <= given <= MAX_RUN_MS:
            return given
    raise argparse.ArgumentTypeError(f"{text!r} is not a time from 1ms to 600s; write it as 5, 5s or 500ms")


def parse_lifetime(text: str) -> timedelta:
    """`90d`, `12h` or `4w`."""
    units = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
    with suppress(ValueError, KeyError, OverflowError):
        span = int(text[:-1]) * units[text[-1:]]
        if timedelta(hours=1) <= span <= timedelta(days=3650):
            return span
    raise argparse.ArgumentTypeError(f"{text!r} is not a time from 1h to 3650d; write it as 12h, 90d or 4w")


def parse_moment(text: str) -> datetime:
    """`2026-01-31`, `2026-01-31T08:00`, or `7d` for that long ago; without a zone it is UTC."""
    with suppress(argparse.ArgumentTypeError):
        return datetime.now(UTC) - parse_lifetime(text)
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    raise argparse.ArgumentTypeError(f"{text!r} is not a time; write it as 2026-01-31, 2026-01-31T08:00Z, or 7d for a week ago")


def parse_context(given: str) -> dict[str, Any]:
    """The context of a run as `--context` gives it; without a user it is the local user's, whose memories are kept."""
    return {"userId": LOCAL_OWNER} | parse_json_object("--context", given)


def parse_json_object(option: str, given: str) -> dict[str, Any]:
    """The JSON object in the text itself, in a file (`@path`) or on standard input (`-`)."""
    if given == "-":
        text = _standard_input(option)
    elif given.startswith("@"):
        text = _file_text(option, given[1:])
    else:
        text = given
    try:
        value = read_json(text)
    except ValueError as error:
        raise UsageProblem(
            f"{option} is not JSON: {error}", hint=f"""for example {option} '{{"text": "hello"}}', or {option} @input.json"""
        ) from None
    if not isinstance(value, dict):
        raise UsageProblem(
            f"{option} must be a JSON object, not a {type(value).__name__}",
            hint=f"""for example {option} '{{"text": "hello"}}'""",
        )
    return value


_LARGEST_TEXT: Final = 16 * 1024 * 1024
"""How much is read of a text that the command line names: a device may have no end."""


def read_given_text(path: str | os.PathLike[str]) -> str:
    """The text in a file, a pipe or a device that the command line names, in UTF-8 with or without a byte order mark.

    Raises:
        FileTooLarge: it is over 16 MB.
        OSError: it cannot be read.
        UnicodeDecodeError: it is not UTF-8.
    """
    return read_limited(path, _LARGEST_TEXT).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def _standard_input(option: str) -> str:
    try:
        text = sys.stdin.read(_LARGEST_TEXT + 1)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise UsageProblem(f"{option} - cannot be read: {reason}", hint="write a JSON object to standard input") from None
    if len(text) > _LARGEST_TEXT:
        raise FileTooLarge(f"{option} - is over {limit_words(_LARGEST_TEXT)}", hint="make it shorter")
    return text


def _file_text(option: str, path: str) -> str:
    try:
        return read_given_text(path)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise UsageProblem(f"{option} @{path} cannot be read: {reason}", hint="name a file with a JSON object") from None


def parse_positive(text: str) -> int:
    """A whole number above 0, for `type=` of an option.

    Raises:
        argparse.ArgumentTypeError: anything else.
    """
    if text.isascii() and text.isdigit() and int(text[:18]) > 0:
        return int(text[:18])
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")


def parse_port(text: str) -> int:
    """A port to listen at, 0 for any free one.

    Raises:
        argparse.ArgumentTypeError: anything else.
    """
    if text.isascii() and text.isdigit() and int(text[:18]) <= 65_535:
        return int(text[:18])
    raise argparse.ArgumentTypeError(f"{text!r} is not a port: a port is a number from 1 to 65535")


def parse_tool_prefix(text: str) -> str:
    """The prefix of tool names over MCP.

    Raises:
        UsageProblem: it is not allowed there.
    """
    from skillyard.mcp.handshake import read_prefix

    try:
        return read_prefix(text)
    except InvalidInput as error:
        raise UsageProblem(f"--tool-prefix: {error.message}", hint=error.hint) from None


def add_package_option(parser: argparse.ArgumentParser, description: str, *, dest: str = "packages") -> None:
    """Declare `--with PACKAGE`, which may be repeated; `dest` is its name among the arguments."""
    parser.add_argument("--with", dest=dest, action="append", default=[], metavar="PACKAGE", help=description)


def add_writable_option(parser: argparse.ArgumentParser, description: str) -> None:
    """Declare `--writable NAME`, which may be repeated."""
    parser.add_argument("--writable", type=_parse_writable, action="append", default=[], metavar="NAME", help=description)


def _parse_writable(text: str) -> str:
    """A name of what is held back in workspaces.

    Raises:
        UsageProblem: nothing of that name is.
    """
    from skillyard.workspace.held_back import check_writable

    try:
        return min(check_writable([text]))
    except InvalidConfiguration as error:
        raise UsageProblem(f"--writable: {error.message}", hint=error.hint) from None
