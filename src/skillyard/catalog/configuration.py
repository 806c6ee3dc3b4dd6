"""The configuration of a project and a user: `skillyard.toml`, `pyproject.toml` and `ship.json`, read and checked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, get_args

from skillyard.errors import InvalidConfiguration
from skillyard.reserved_files import refuse_reserved

_TOML: Final = "skillyard.toml"
_PYPROJECT: Final = "pyproject.toml"
_SHIP: Final = "ship.json"
_LARGEST: Final = 1024 * 1024
_MOST_DOTS: Final = 300  # on one line; a key of many parts takes the square of their number to read


def project_file(folder: str) -> tuple[str, Mapping[str, object]] | None:
    """The file of that folder that configures something, and what it says; None when there is none.

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
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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
    hint = "make it a file that this user may read, or take it away"
    return InvalidConfiguration(f"{path} cannot be read: {error.strerror}", hint=hint, file=path)


AllowedToolsMode = Literal["off", "advise", "enforce"]
PermissionMatch = Literal["first", "last"]
_Profile = Literal["minimal", "standard", "spec", "manifest", "full"]
Permission = Literal["allow", "ask", "deny"]
_Table = Mapping[str, object]

_TABLES: Final = ("skills", "permissions", "tools", "sandbox", "servers", "database", "packages", "scan", "server", "engine")
_USERS_OWN: Final[Mapping[str, tuple[str, str]]] = {
    "database": ("choose the database of your records", ", or SKILLYARD_DATABASE_URL"),
    "engine": ("say where your runs work", ", or SKILLYARD_ENGINE"),
    "packages": ("choose where packages are kept or come from", ", or SKILLYARD_STORE"),
    "server": ("say who may use your server, and how much", ""),
    "servers": ("register MCP servers for skills", ""),
}
"""What a table of a project would do, and the variable that does the same for the user."""
_STRICTNESS: Final = ("off", "advise", "enforce")
_MOST_PATHS: Final = 256
_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


class Configuration(NamedTuple):
    """What the settings files say, each value checked.

    `paths` are as written: relative ones belong to the folder of `file`, `~` is the home folder. `sandbox` is the user's table
    and `project_sandbox` the project's, which can only narrow it; both are passed on unchecked: the sandbox room knows their
    keys. `servers` are the user's MCP servers by name, passed on unchecked too: a project may not register any. `server` is the
    user's table of the HTTP service, whose keys the server room knows, and `engine` that of the engine, whose room knows its
    keys. `scan` and `user_scan` say which findings are suppressed, in the nearest file and in the user's own: the scanner room
    knows their keys. `database_url`, `package_store`, `kept_versions` (of a skill, on the disk) and `private_hosts` (packages
    may come from addresses that are not public) are the user's own: a project may not say where records and packages go. `file`
    is None when no project file was found.
    """

    paths: tuple[str, ...] = ()
    allow_external_paths: bool = False
    prompt_section: bool = True
    profile: _Profile = "standard"
    permissions: Mapping[str, str] = _EMPTY
    permission_match: PermissionMatch = "first"
    allowed_tools: AllowedToolsMode = "advise"
    sandbox: Mapping[str, object] = _EMPTY
    project_sandbox: Mapping[str, object] = _EMPTY
    servers: Mapping[str, object] = _EMPTY
    server: Mapping[str, object] = _EMPTY
    engine: Mapping[str, object] = _EMPTY
    database_url: str | None = None
    package_store: str | None = None
    kept_versions: int = 5
    private_hosts: bool = False
    file: str | None = None
    user_paths: tuple[str, ...] = ()
    user_file: str | None = None
    scan: Mapping[str, object] = _EMPTY
    user_scan: Mapping[str, object] = _EMPTY

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
        if (found := project_file(folder)) is not None:
            return _combined(found, user, user_file)
    return _combined(None, user, user_file)


def _combined(project: tuple[str, _Table] | None, user: _Table | None, user_file: str | None) -> Configuration:
    base = _checked(user, user_file or "") if user is not None else Configuration()
    base = base._replace(paths=(), user_paths=base.paths, user_file=user_file, scan=_EMPTY, user_scan=base.scan)
    if project is None:
        return base
    file, values = project
    _ConfigurationReader(file).refuse_users_own(values, user_file)
    found = _checked(values, file, base)
    if base.permissions:
        found = found._replace(permissions=base.permissions, permission_match=base.permission_match)
    if "backend" in found.sandbox:
        message = f"{file}: sandbox.backend is not a project's to choose"
        raise InvalidConfiguration(message, hint=f"set it in {user_file}", file=file, key="sandbox.backend")
    return found._replace(
        allow_external_paths=found.allow_external_paths and not _said_no(user),
        allowed_tools=max(found.allowed_tools, base.allowed_tools, key=_STRICTNESS.index) if user else found.allowed_tools,
        sandbox=base.sandbox,
        project_sandbox=found.sandbox,
        file=file,
        user_paths=base.user_paths,
        user_file=user_file,
        user_scan=base.user_scan,
    )


def _said_no(user: _Table | None) -> bool:
    """Whether the user's own file forbids roots outside the project in so many words."""
    skills = user.get("skills") if user else None
    return isinstance(skills, dict) and skills.get("allow-external-paths") is False


def _checked(values: _Table, file: str, base: Configuration | None = None) -> Configuration:
    """The values of one file over `base`, every one checked."""
    reader = _ConfigurationReader(file)
    reader.refuse_unknown(values)
    base = base or Configuration()
    skills = reader.table(values, "skills", ("paths", "allow-external-paths", "prompt-section", "profile"))
    permissions = reader.table(values, "permissions", ("match", "skills"))
    tools = reader.table(values, "tools", ("allowed-tools",))
    packages = reader.table(values, "packages", ("store", "private-hosts", "keep"))
    match = reader.word(permissions, "permissions.match", get_args(PermissionMatch), base.permission_match)
    mode = reader.word(tools, "tools.allowed-tools", get_args(AllowedToolsMode), base.allowed_tools)
    profile = reader.word(skills, "skills.profile", get_args(_Profile), base.profile)
    return Configuration(
        paths=reader.paths(skills),
        allow_external_paths=reader.flag(skills, "skills.allow-external-paths", base.allow_external_paths),
        prompt_section=reader.flag(skills, "skills.prompt-section", base.prompt_section),
        profile=next(word for word in get_args(_Profile) if word == profile),
        permissions=reader.patterns(permissions),
        permission_match="last" if match == "last" else "first",
        allowed_tools=next(word for word in get_args(AllowedToolsMode) if word == mode),
        sandbox=MappingProxyType(reader.table(values, "sandbox", None)),
        server=base.server or MappingProxyType(reader.table(values, "server", None)),
        engine=base.engine or MappingProxyType(reader.table(values, "engine", None)),
        servers=base.servers or MappingProxyType(reader.table(values, "servers", None)),
        scan=MappingProxyType(reader.table(values, "scan", None)),
        database_url=reader.text(reader.table(values, "database", ("url",)), "database.url", base.database_url),
        package_store=reader.text(packages, "packages.store", base.package_store),
        kept_versions=reader.count(packages, "packages.keep", base.kept_versions),
        private_hosts=reader.flag(packages, "packages.private-hosts", base.private_hosts),
    )


class _ConfigurationReader:
    """Takes values out of one file and says which key is wrong."""

    def __init__(self, file: str) -> None:
        self.file = file

    def wrong(self, key: str, wanted: str, value: object) -> InvalidConfiguration:
        return InvalidConfiguration(
            f"{self.file}: {key} must be {wanted}, not {value!r}", hint=f"change {key} in {self.file}", file=self.file, key=key
        )

    def refuse_unknown(self, values: _Table) -> None:
        """A table with a slip in its name would be a rule that does not hold."""
        for name in values:
            if name not in _TABLES:
                raise self.wrong(name, f"one of the tables {', '.join(_TABLES)}", name)

    def table(self, values: _Table, name: str, known: tuple[str, ...] | None) -> dict[str, object]:
        """The table `name`, empty when absent; `known` lists the keys it may have."""
        table = values.get(name, {})
        if not isinstance(table, dict):
            raise self.wrong(name, "a table", table)
        for key in table:
            if known is not None and key not in known:
                raise self.wrong(f"{name}.{key}", f"one of {', '.join(known)}", key)
        return table

    def refuse_users_own(self, values: _Table, user_file: str | None) -> None:
        """A project could send runs or skills to a place of its own, or have a command started outside the sandbox."""
        for table, (what, variable) in _USERS_OWN.items():
            if table in values:
                raise InvalidConfiguration(
                    f"{self.file}: a project may not {what}",
                    hint=f"move [{table}] to {user_file or 'your own skillyard.toml'}{variable}",
                    file=self.file,
                    key=table,
                )

    def text(self, table: _Table, key: str, default: str | None) -> str | None:
        value = table.get(_last(key), default)
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise self.wrong(key, "text", value)
        return value

    def flag(self, table: _Table, key: str, default: bool) -> bool:
        value = table.get(_last(key), default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false", value)
        return value

    def count(self, table: _Table, key: str, default: int) -> int:
        value = table.get(_last(key), default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.wrong(key, "a whole number above 0", value)
        return value

    def word(self, table: _Table, key: str, words: tuple[str, ...], default: str) -> str:
        value = table.get(_last(key), default)
        if not isinstance(value, str) or value not in words:
            raise self.wrong(key, f"one of {', '.join(words)}", value)
        return value

    def paths(self, skills: _Table) -> tuple[str, ...]:
        value = skills.get("paths", [])
        if not isinstance(value, list) or not all(isinstance(path, str) and "\0" not in path for path in value):
            raise self.wrong("skills.paths", "a list of paths", value)
        if len(value) > _MOST_PATHS:
            raise self.wrong("skills.paths", f"at most {_MOST_PATHS} paths", f"{len(value)} paths")
        return tuple(dict.fromkeys(path.strip() for path in value if path.strip()))

    def patterns(self, permissions: _Table) -> Mapping[str, str]:
        rules = permissions.get("skills", {})
        if not isinstance(rules, dict):
            raise self.wrong("permissions.skills", "a table of pattern = permission", rules)
        for pattern, permission in rules.items():
            if permission not in get_args(Permission):
                raise self.wrong(f'permissions.skills."{pattern}"', "one of allow, ask, deny", permission)
        return MappingProxyType({str(pattern): str(permission) for pattern, permission in rules.items()})


def _last(key: str) -> str:
    return key.rpartition(".")[2]
