"""The settings files: skillyard.toml, pyproject.toml and ship.json of a project and a user, and the folders of a user."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

from skillyard.errors import InvalidConfiguration, InvalidInput
from skillyard.paths import CLOEXEC, NONBLOCK, refuse_reserved
from skillyard.settings_reader import (
    OTHER_TABLES,
    Settings,
    SettingsReader,
    any_table,
    flag,
    named_tables,
    number,
    table_of,
    text,
    texts,
    word,
)

if TYPE_CHECKING:
    from skillyard.extensions import Extensions

_TOML: Final = "skillyard.toml"
_PYPROJECT: Final = "pyproject.toml"
_SHIP: Final = "ship.json"
_LARGEST: Final = 1024 * 1024
_MOST_DOTS: Final = 300  # on one line; a key of many parts takes the square of their number to read


def project_file(folder: str) -> tuple[str, Mapping[str, object]] | None:
    """The file of that folder that configures something, and its values; None when there is none.

    Raises:
        InvalidConfiguration: it cannot be read, or is not TOML or JSON.
    """
    for name, sections in ((_TOML, ()), (_PYPROJECT, ("tool", "skillyard"))):
        path = f"{folder.rstrip('/')}/{name}"
        if (values := read_toml(path, sections)) is not None:
            return path, values
    path = f"{folder.rstrip('/')}/{_SHIP}"
    values = _read_ship(path)
    return None if values is None else (path, values)


def read_toml(path: str, sections: tuple[str, ...]) -> Mapping[str, object] | None:
    """The table at `sections`; None when there is no such file or no such table.

    Raises:
        InvalidConfiguration: the file cannot be read, or is not TOML.
    """
    data = _bytes(path)
    if data is None or (sections and b"tool.skillyard" not in data):
        return None
    import tomllib  # only when there is a file to read: it is slow to import

    try:
        if any(line.count(b".") > _MOST_DOTS for line in data.splitlines()):
            raise ValueError(f"a line has more than {_MOST_DOTS} dots")
        values: object = tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise _not(path, "TOML", error) from None
    for section in sections:
        values = values.get(section) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else None


def _read_ship(path: str) -> Mapping[str, object] | None:
    """The `skills` block of a ship.json in the words of skillyard.toml; None when there is none."""
    data = _bytes(path)
    if data is None:
        return None
    import json

    try:
        values = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise _not(path, "JSON", error) from None
    block = values.get("skills") if isinstance(values, dict) else None
    if not isinstance(block, dict):
        return None
    names = {"paths": "paths", "allowExternalPaths": "allow-external-paths", "promptSection": "prompt-section"}
    return {"skills": {ours: block[theirs] for theirs, ours in names.items() if block.get(theirs) is not None}}


def _bytes(path: str) -> bytes | None:
    try:
        refuse_reserved(path)
        descriptor = os.open(path, os.O_RDONLY | NONBLOCK | CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _closed(path, error) from None
    try:
        return os.read(descriptor, _LARGEST)
    except OSError as error:
        raise _closed(path, error) from None
    finally:
        os.close(descriptor)


def _not(path: str, form: str, error: Exception) -> InvalidConfiguration:
    if isinstance(error, UnicodeDecodeError):
        return InvalidConfiguration(f"{path} is not UTF-8 text", hint="save the file as UTF-8", file=path)
    return InvalidConfiguration(f"{path} is not {form}: {error}", hint="fix the line it names", file=path)


def _closed(path: str, error: OSError) -> InvalidConfiguration:
    hint = "make it a file that this user may read, or remove it"
    return InvalidConfiguration(f"{path} cannot be read: {error.strerror}", hint=hint, file=path)


AllowedToolsMode = Literal["off", "advise", "enforce"]
Upward = Literal["none", "git", "home"]
"""How far up from the working folder a project's skills are looked for: not at all, to the git root, to the home folder."""
PermissionMatch = Literal["first", "last"]
_Profile = Literal["minimal", "standard", "spec", "manifest", "full"]
Permission = Literal["allow", "ask", "deny"]
_Table = Mapping[str, object]

_USERS_OWN: Final[Mapping[str, tuple[str, str]]] = {
    "database": ("choose the database of your records", ", or SKILLYARD_DATABASE_URL"),
    "engine": ("say where your runs work", ", or SKILLYARD_ENGINE"),
    "extensions": ("switch extensions", ""),
    "insights": ("say what models cost", ""),
    "packages": ("choose where packages are kept or come from", ", or SKILLYARD_STORE"),
    "server": ("say who may use your server, and how much", ""),
    "servers": ("register MCP servers for skills", ""),
    "workspace": ("say what a workspace may do", ""),
}
"""What a table of a project would do, and the variable that does the same for the user."""
_STRICTNESS: Final = ("off", "advise", "enforce")
_MOST_PATHS: Final = 256
_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})
_NO_GRANTS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})


def _tool_rules(entries: list[str]) -> tuple[str, ...]:
    from skillyard.document.spelling import tool_parts  # only for who has rules of commands

    for entry in entries:
        try:
            tool_parts(entry)
        except ValueError as error:
            raise InvalidInput(str(error), hint="write a tool's name, or Tool(argument), such as Bash(git:*)") from None
    return tuple(entries)


def _paths(paths: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path.strip() for path in paths if path.strip()))


_GRANT: Final[Settings] = {
    "packages": texts("a list of Python packages"),
    "npm": texts("a list of npm packages"),
    "programs": texts("a list of programs"),
    "build": flag(),
    "registries": flag(),
}
_SETTINGS: Final[Settings] = {
    "skills": {
        "paths": texts("a list of paths", _paths),
        "allow-external-paths": flag(),
        "prompt-section": flag(),
        "built-in": flag(),
        "upward": word(get_args(Upward)),
        "profile": word(get_args(_Profile)),
        OTHER_TABLES: named_tables(_GRANT, name="skill_grants", convert=MappingProxyType),
    },
    "permissions": {
        "match": word(get_args(PermissionMatch), name="permission_match"),
        "skills": table_of(word(get_args(Permission)), "a table of pattern = permission", name="permissions", quoted=True),
        "commands": {
            **dict.fromkeys(get_args(Permission), texts('a list of rules, such as ["Bash(git:*)"]', _tool_rules)),
            "default": word(get_args(Permission)),
        },
    },
    "sets": table_of(texts("a list of names of skills", tuple), "a table of name = list of skills", name="skill_sets"),
    "tools": {"allowed-tools": word(get_args(AllowedToolsMode))},
    "sandbox": any_table(),
    "servers": any_table(),
    "database": {"url": text(name="database_url")},
    "packages": {
        "store": text(name="package_store"),
        "private-hosts": flag(),
        "fetch-links": flag(),
        "keep": number(name="kept_versions"),
        "signers": table_of(
            texts("a list of keys", tuple), "a table of source = list of keys", name="pinned_signers", quoted=True
        ),
        "approval": any_table(),
    },
    "scan": any_table(),
    "server": any_table(),
    "engine": any_table(),
    "extensions": {
        "enabled": flag(name="extensions_enabled"),
        "off": texts('a list of extensions, such as ["field:team"]', frozenset)._replace(name="extensions_off"),
    },
    "workspace": any_table(),
    "insights": any_table(),
}


class Configuration(NamedTuple):
    """The values of the settings files, each checked.

    `paths` are as written: relative ones belong to the folder of `file`, `~` is the home folder. `sandbox` is the user's table
    and `project_sandbox` the project's, which can only narrow it; both are passed on unchecked: `sandbox` knows their
    keys. `command_rules` are the user's rules about commands and `project_command_rules` the project's, which can only narrow
    them too. `servers` are the user's MCP servers by name, passed on unchecked too: a project may not register any. `server` is
    the user's table of the HTTP service, whose keys `server` knows, `engine` that of the engine, `workspace` that of
    workspaces and `insights` that of prices, whose components know the keys. `scan` and `user_scan` are suppressed findings,
    in the nearest file and in the user's own: `scanner` knows their keys. `database_url`, `package_store`,
    `kept_versions` (of a skill, on the disk),
    `private_hosts` (packages may come from addresses that are not public), `fetch_links` (what skills tell to fetch is fetched
    when they are installed, and kept), `pinned_signers` (who must sign packages, by source), `approval` (which
    versions wait for a person's, passed on unchecked: the registry knows its keys) and `skill_grants` (what
    `[skills.NAME]` grants) are the user's own: a project may not choose where records and packages go, nor what skills are
    given, and neither `extensions_enabled` and `extensions_off`.
    `skill_sets` are the names of the skills of each set, a project's beside the user's.
    `upward` of a project can only be narrower than the user's, and `built_in` skills are there only where neither says no.
    `file` is None when no project file was found.
    """

    paths: tuple[str, ...] = ()
    allow_external_paths: bool = False
    prompt_section: bool = True
    built_in: bool = True
    upward: Upward = "git"
    profile: _Profile = "standard"
    permissions: Mapping[str, str] = _EMPTY
    permission_match: PermissionMatch = "first"
    allowed_tools: AllowedToolsMode = "advise"
    command_rules: Mapping[str, Any] = _EMPTY
    project_command_rules: Mapping[str, Any] = _EMPTY
    sandbox: Mapping[str, object] = _EMPTY
    project_sandbox: Mapping[str, object] = _EMPTY
    servers: Mapping[str, object] = _EMPTY
    server: Mapping[str, object] = _EMPTY
    engine: Mapping[str, object] = _EMPTY
    workspace: Mapping[str, object] = _EMPTY
    insights: Mapping[str, object] = _EMPTY
    database_url: str | None = None
    package_store: str | None = None
    kept_versions: int = 5
    private_hosts: bool = False
    fetch_links: bool = False
    file: str | None = None
    user_paths: tuple[str, ...] = ()
    user_file: str | None = None
    scan: Mapping[str, object] = _EMPTY
    user_scan: Mapping[str, object] = _EMPTY
    skill_grants: Mapping[str, Mapping[str, Any]] = _NO_GRANTS
    skill_sets: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    pinned_signers: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    approval: Mapping[str, object] = _EMPTY
    extensions_enabled: bool = True
    extensions_off: frozenset[str] = frozenset()

    @property
    def extensions(self) -> Extensions:
        """The extensions of other packages that the user's settings leave on."""
        from skillyard.extensions import Extensions

        return Extensions(self.extensions_enabled, self.extensions_off)

    def roots(self) -> Iterator[tuple[str, str, bool]]:
        """Every configured root: the folder it is relative to, as written, and whether the user's own file named it."""
        for path in self.paths:
            yield os.path.dirname(self.file or ""), path, False
        for path in self.user_paths:
            yield os.path.dirname(self.user_file or ""), path, True


def load_configuration(folders: list[str], *, user_file: str | None = None) -> Configuration:
    """The configuration of the first of `folders` that has one, over the user's own in `user_file`.

    Raises:
        InvalidConfiguration: a file cannot be read, is not TOML or JSON, or a value cannot be meant.
    """
    user = read_toml(user_file, ()) if user_file else None
    for folder in folders:
        if (path := project_file(folder)) is not None:
            return _combined(path, user, user_file)
    return _combined(None, user, user_file)


def _combined(project: tuple[str, _Table] | None, user: _Table | None, user_file: str | None) -> Configuration:
    base = _checked(user, user_file or "") if user is not None else Configuration()
    base = base._replace(paths=(), user_paths=base.paths, user_file=user_file, scan=_EMPTY, user_scan=base.scan)
    if project is None:
        return base
    file, values = project
    _refuse_users_own(file, values, user_file)
    _refuse_grants(file, values, user_file)
    checked = _checked(values, file, base._replace(sandbox=_EMPTY))
    if base.permissions:
        checked = checked._replace(permissions=base.permissions, permission_match=base.permission_match)
    if "backend" in checked.sandbox:
        message = f"{file}: sandbox.backend is not a project's to choose"
        raise InvalidConfiguration(message, hint=f"set it in {user_file}", file=file, key="sandbox.backend")
    return checked._replace(
        allow_external_paths=checked.allow_external_paths and not _is_refused_by(user),
        built_in=checked.built_in and base.built_in,
        upward=min(checked.upward, base.upward, key=get_args(Upward).index),
        allowed_tools=max(checked.allowed_tools, base.allowed_tools, key=_STRICTNESS.index) if user else checked.allowed_tools,
        command_rules=base.command_rules,
        skill_sets={**base.skill_sets, **checked.skill_sets},
        project_command_rules=checked.command_rules,
        sandbox=base.sandbox,
        project_sandbox=checked.sandbox,
        file=file,
    )


def _is_refused_by(user: _Table | None) -> bool:
    """Whether the user's own file forbids roots outside the project in so many words."""
    skills = user.get("skills") if user else None
    return isinstance(skills, dict) and skills.get("allow-external-paths") is False


def _checked(values: _Table, file: str, base: Configuration | None = None) -> Configuration:
    """The values of one file over `base`, every one checked."""
    given: dict[str, Any] = {}
    for table, value in SettingsReader(file).read(_SETTINGS, values).items():
        given |= value if isinstance(value, dict) else {table: value}
    given["command_rules"] = MappingProxyType(given.pop("commands", {}))
    if len(given.get("paths", ())) > _MOST_PATHS:
        raise SettingsReader(file).wrong("skills.paths", f"at most {_MOST_PATHS} paths", f"{len(given['paths'])} paths")
    return (base or Configuration())._replace(**given)


def _refuse_users_own(file: str, values: _Table, user_file: str | None) -> None:
    """A project could send runs or skills to a destination of its own, or have a command started outside the sandbox."""
    for table, (what, variable) in _USERS_OWN.items():
        if table in values:
            raise InvalidConfiguration(
                f"{file}: a project may not {what}",
                hint=f"move [{table}] to {user_file or 'your own skillyard.toml'}{variable}",
                file=file,
                key=table,
            )


def _refuse_grants(file: str, values: _Table, user_file: str | None) -> None:
    """A project could have packages of its choice installed, and programs given to a skill."""
    skills = values.get("skills")
    for name, value in skills.items() if isinstance(skills, Mapping) else ():
        if isinstance(value, Mapping):
            raise InvalidConfiguration(
                f"{file}: a project may not grant packages and programs to skills",
                hint=f"move [skills.{name}] to {user_file or 'your own skillyard.toml'}",
                file=file,
                key=f"skills.{name}",
            )


def home_directory(environ: Mapping[str, str] | None = None) -> str:
    """Skillyard's own folder: `$SKILLYARD_HOME`, or the platform's folder for a user's data."""
    environ = os.environ if environ is None else environ
    if own := environ.get("SKILLYARD_HOME", "").strip():
        return os.path.abspath(os.path.expanduser(own))
    return _user_folder(environ, "XDG_DATA_HOME", ".local/share", "user_data_dir")


def configuration_directory(environ: Mapping[str, str]) -> str:
    """Where the user's own `skillyard.toml` is: the platform's folder for a user's configuration."""
    return _user_folder(environ, "XDG_CONFIG_HOME", ".config", "user_config_dir")


def _user_folder(environ: Mapping[str, str], variable: str, below_home: str, function: str) -> str:
    if sys.platform == "linux":  # same as platformdirs, without the cost of importing it
        base = environ.get(variable, "").strip()
        home = environ.get("HOME") or os.path.expanduser("~")
        return f"{base if os.path.isabs(base) else f'{home}/{below_home}'}/skillyard"
    import platformdirs

    return str(getattr(platformdirs, function)("skillyard", appauthor=False))
