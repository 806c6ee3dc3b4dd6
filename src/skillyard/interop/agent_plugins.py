"""Agent Plugins 1.0: a `plugin.json` with skills in `skills/` and MCP servers in `mcp.json`, read as its specification says.

What is wrong with one skill or server keeps out only that; what is wrong with `plugin.json` keeps out the plugin. Servers are
read, checked and written in the forms of other plugins; nothing here starts one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from skillyard.document import DESCRIPTION_LIMIT, DOCUMENT_LIMIT, Metadata, is_name, parse_document
from skillyard.errors import FileProblem, InvalidManifest, NoSkillInside
from skillyard.files import read_limited
from skillyard.interop.manifest_conversion import json_bytes, parse_object
from skillyard.packages import FoundSkill
from skillyard.paths import slug
from skillyard.wire import WireForm

PLUGIN_JSON: Final = "plugin.json"
SERVERS_JSON: Final = "mcp.json"
_SCHEMAS: Final = "https://agent-plugins.org/schemas/"
PLUGIN_SCHEMA: Final = f"{_SCHEMAS}1.0.0/plugin.schema.json"
SERVERS_SCHEMA: Final = f"{_SCHEMAS}1.0.0/mcp.schema.json"
_LIMIT: Final = 1024 * 1024
_LONGEST_NAME: Final = 64
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_TEXTS: Final = ("version", "description", "homepage", "repository", "license")
_PERSON: Final = frozenset({"name", "email", "url"})
_FIELDS: Final = frozenset({"$schema", "name", *_TEXTS, "author", "keywords", "extensions"})
_RESERVED: Final = frozenset({"PLUGIN_ROOT", "PLUGIN_DATA"})
_CWD: Final = re.compile(r"\./|\$\{PLUGIN_(?:ROOT|DATA)\}(?:/|$)")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?")
_VARIANTS: Final[Mapping[str, frozenset[str]]] = {
    "stdio": frozenset({"type", "command", "args", "env", "cwd"}),
    "streamable-http": frozenset({"type", "url", "headers"}),
    "sse": frozenset({"type", "url", "headers"}),
}


@dataclass(frozen=True, slots=True)
class AgentPlugin(WireForm):
    """A plugin that can be loaded: the paths of its skills, the names of its servers, and sentences on what was passed over."""

    name: str
    version: str | None
    description: str | None
    skills: tuple[str, ...]
    servers: tuple[str, ...]
    problems: tuple[str, ...]


def is_agent_plugin(folder: Path) -> bool:
    """Whether a folder says that it is one: other systems have a `plugin.json` too, and none that names this schema."""
    try:
        schema = _read_object(folder, PLUGIN_JSON).get("$schema")
    except (InvalidManifest, FileProblem, OSError):
        return False
    return isinstance(schema, str) and schema.startswith(_SCHEMAS)


def read_agent_plugin(folder: Path) -> AgentPlugin:
    """The plugin in a folder, with everything that is valid in it.

    Raises:
        InvalidManifest: its `plugin.json` is missing, leaves the folder, is of another version, or breaks a rule.
    """
    try:
        manifest = _read_object(folder, PLUGIN_JSON)
    except OSError as error:
        raise InvalidManifest(
            f"{PLUGIN_JSON} cannot be read: {error.strerror}", hint="it must be in the plugin's folder"
        ) from None
    problems = list(_check_manifest(manifest))
    skills = tuple(_skills(folder, problems))
    servers = tuple(_servers(folder, problems))
    texts = {name: str(manifest[name]) if name in manifest else None for name in ("version", "description")}
    return AgentPlugin(str(manifest["name"]), texts["version"], texts["description"], skills, servers, tuple(problems))


def skills_of_package(tree: Path, found: Sequence[FoundSkill]) -> tuple[tuple[FoundSkill, ...], tuple[str, ...]]:
    """Of the skills that were found in a tree those that are offered, and what is passed over; all where there is no plugin.

    A plugin may be the tree or lie in it.

    Raises:
        InvalidManifest: a plugin cannot be loaded, and nothing else is there.
        NoSkillInside: every skill is passed over.
    """
    plugins: dict[Path, frozenset[str]] = {}
    offered, notes = list[FoundSkill](), list[str]()
    refusal: InvalidManifest | None = None
    for skill in found:
        root = _plugin_of(tree, skill.directory)
        if root is not None and root not in plugins:
            try:
                plugin = read_agent_plugin(root)
            except InvalidManifest as error:
                plugins[root], refusal = frozenset(), refusal or error
                notes.append(f"a plugin is passed over: {error.message}")
                continue
            plugins[root] = frozenset(plugin.skills)
            notes += plugin.problems
            notes += (
                [f"the MCP servers of the plugin are not set up here: {', '.join(plugin.servers)}"] if plugin.servers else []
            )
        if root is None or skill.directory.relative_to(root).as_posix() in plugins[root]:
            offered.append(skill)
    if refusal is not None and not offered:
        raise refusal
    if found and not offered:
        raise NoSkillInside(
            "the plugin offers no skill", hint=notes[0] if notes else "its skills lie in skills/, one folder each"
        )
    return tuple(offered), tuple(notes)


def _plugin_of(tree: Path, skill: Path) -> Path | None:
    """The outermost plugin that a folder below a tree lies in."""
    above = [skill, *skill.parents]
    inside = above[: above.index(tree) + 1] if tree in above else []
    return next((folder for folder in reversed(inside) if is_agent_plugin(folder)), None)


def agent_plugin_json(fields: Mapping[str, object]) -> bytes:
    """The `plugin.json` of a plugin with these fields, which other kinds of plugins have too; what has no place is left out."""
    given = str(fields.get("name") or "")
    repository = fields.get("repository")
    known = {**fields, "repository": repository.get("url") if isinstance(repository, dict) else repository}
    author = fields.get("author")
    person = {"name": author} if isinstance(author, str) else author if isinstance(author, dict) else {}
    words = fields.get("keywords")
    shape: dict[str, object] = {
        "$schema": PLUGIN_SCHEMA,
        "name": given if _is_plugin_name(given) else slug(given, "plugin")[:_LONGEST_NAME].strip("-"),
        **{name: value for name in _TEXTS if isinstance(value := known.get(name), str) and value},
    }
    shape["author"] = {name: value for name, value in person.items() if name in _PERSON and isinstance(value, str)}
    shape["keywords"] = [word for word in words if isinstance(word, str)] if isinstance(words, list | tuple) else []
    return json_bytes({name: value for name, value in shape.items() if value not in ({}, [])})


def skill_plugin_json(name: str, version: str, metadata: Metadata) -> bytes:
    """The `plugin.json` of a plugin that is one skill."""
    fields = {key: value for key in ("description", "author", "license", "homepage") if (value := getattr(metadata, key))}
    return agent_plugin_json({"name": name, "version": version, **fields})


def servers_for_agents(data: bytes) -> tuple[bytes | None, list[str]]:
    """The `mcp.json` for the `.mcp.json` of a Claude plugin, None where it would have no server; with what was left out."""
    servers, notes = {}, []
    for name, given in _claude_servers(data).items():
        server = _for_agents(given) if isinstance(given, dict) else {}
        if problem := _server_problem(server, Path("/nowhere")):
            notes.append(f"the MCP server {name} has no form in {SERVERS_JSON}: {problem}")
        else:
            servers[name] = server
    return (json_bytes({"$schema": SERVERS_SCHEMA, "mcpServers": servers}) if servers else None), notes


def servers_for_claude(data: bytes) -> tuple[bytes | None, list[str]]:
    """The `.mcp.json` of a Claude plugin for a `mcp.json`, None where it would have no server; with what was left out."""
    try:
        given = parse_object(data, SERVERS_JSON).get("mcpServers")
    except InvalidManifest:
        return None, [f"{SERVERS_JSON} cannot be read: its servers are left out"]
    servers, notes = {}, []
    for name, server in (given if isinstance(given, dict) else {}).items():
        if problem := _server_problem(server, Path("/nowhere")):
            notes.append(f"the MCP server {name} is left out: {problem}")
        else:
            servers[name] = _for_claude(server)
    return (json_bytes({"mcpServers": servers}) if servers else None), notes


def _inside(folder: Path, name: str) -> Path | None:
    """Where a path of the plugin leads to; None when that is outside of its folder."""
    root = folder.resolve()
    target = (root / name).resolve()
    return target if target == root or target.is_relative_to(root) else None


def _read_object(folder: Path, name: str) -> dict[str, object]:
    target = _inside(folder, name)
    if target is None:
        raise InvalidManifest(f"{name} leads out of the plugin", hint="put the file itself there")
    if not target.is_file():  # a pipe would be read for ever
        raise InvalidManifest(f"there is no file {name}", hint="it must be in the plugin's folder")
    return parse_object(read_limited(target, _LIMIT), name)


def _is_plugin_name(name: object) -> bool:
    fits = isinstance(name, str) and len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None
    return fits and "--" not in str(name) and ".." not in str(name)


def _check_manifest(manifest: Mapping[str, object]) -> Iterator[str]:
    """What is ignored in a plugin.json.

    Raises:
        InvalidManifest: it breaks a rule that is no reason to ignore a field only.
    """
    if manifest.get("$schema") != PLUGIN_SCHEMA:
        given = str(manifest.get("$schema") or "none")[:100]
        raise InvalidManifest(f"{PLUGIN_JSON}: the $schema is {given}", hint=f"version 1.0.0 is read: {PLUGIN_SCHEMA}")
    if not _is_plugin_name(manifest.get("name")):
        hint = "1 to 64 of a-z, 0-9, - and ., no two - or . together, a letter or digit at both ends"
        raise InvalidManifest(f"{PLUGIN_JSON}: {str(manifest.get('name'))[:80]!r} is not a name of a plugin", hint=hint)
    wrong = [name for name in _TEXTS if name in manifest and not isinstance(manifest[name], str)]
    author, words = manifest.get("author", {}), manifest.get("keywords", [])
    if not isinstance(author, dict) or not author.keys() <= _PERSON or not _all_texts(author.values()):
        wrong.append("author")
    if not isinstance(words, list) or not _all_texts(words):
        wrong.append("keywords")
    extensions = manifest.get("extensions", {})
    if isinstance(extensions, dict) and not all(isinstance(value, dict) for value in extensions.values()):
        wrong.append("extensions")
    if wrong:
        hint = "texts; author an object with name, email and url; keywords a list; extensions an object of objects"
        raise InvalidManifest(f"{PLUGIN_JSON}: {', '.join(wrong)} of another kind than the schema has", hint=hint)
    if not isinstance(extensions, dict):
        yield f"{PLUGIN_JSON}: extensions is not an object, and ignored"
    yield from (f"{PLUGIN_JSON}: the field {name[:80]!r} is unknown, and ignored" for name in sorted(manifest.keys() - _FIELDS))


def _all_texts(values: object) -> bool:
    return all(isinstance(value, str) for value in values)  # type: ignore[attr-defined] # callers give an iterable


def _skills(folder: Path, problems: list[str]) -> Iterator[str]:
    """The paths of the skills that conform to the Agent Skills specification; only folders directly in `skills/` count."""
    place = _inside(folder, "skills")
    if place is None or (place.exists() and not place.is_dir()):
        problems.append("skills is not a folder of the plugin: it has no skills")
        return
    for child in sorted(place.iterdir()) if place.is_dir() else ():
        path = f"skills/{child.name}"
        if not (child / "SKILL.md").exists():
            continue
        document = _inside(folder, f"{path}/SKILL.md")
        if document is None or not document.is_file():
            problems.append(f"{path} is skipped: its SKILL.md is not a file of the plugin")
        elif problem := _skill_problem(document, child.name):
            problems.append(f"{path} is skipped: {problem}")
        else:
            yield path


def _skill_problem(file: Path, folder: str) -> str | None:
    try:
        document = parse_document(read_limited(file, DOCUMENT_LIMIT), directory_name=folder)
    except (FileProblem, OSError) as error:
        return f"it cannot be read ({error})"
    name, description = document.metadata.name, document.metadata.description
    if document.install_refusal:
        return document.install_refusal
    if not is_name(name) or name != folder:
        return f"its name {name[:80]!r} is not that of its folder, in small letters, digits and single dashes"
    return None if len(description) <= DESCRIPTION_LIMIT else f"its description is over {DESCRIPTION_LIMIT} characters"


def _servers(folder: Path, problems: list[str]) -> Iterator[str]:
    """The names of the servers that can be connected to."""
    place = _inside(folder, SERVERS_JSON)
    if place is not None and not place.exists():
        return
    try:
        shape = _read_object(folder, SERVERS_JSON)
    except (InvalidManifest, FileProblem, OSError) as error:
        problems.append(f"{SERVERS_JSON} is ignored: {error}")
        return
    servers = shape.get("mcpServers")
    if shape.get("$schema") != SERVERS_SCHEMA or not isinstance(servers, dict) or shape.keys() != {"$schema", "mcpServers"}:
        problems.append(f"{SERVERS_JSON} is ignored: it has exactly mcpServers, an object, and the $schema {SERVERS_SCHEMA}")
        return
    for name, server in servers.items():
        if problem := _server_problem(server, folder):
            problems.append(f"the MCP server {name[:80]} is skipped: {problem}")
        else:
            yield name


def _server_problem(server: object, folder: Path) -> str | None:
    """Why a server cannot be connected to, None when it can."""
    kind = server.get("type") if isinstance(server, dict) else None
    if not isinstance(server, dict) or not isinstance(kind, str) or kind not in _VARIANTS:
        return f"its type is none of {', '.join(_VARIANTS)}"
    if unknown := sorted(server.keys() - _VARIANTS[kind]):
        return f"{kind} has no field {', '.join(unknown)[:80]}"
    return _process_problem(server, folder) if kind == "stdio" else _remote_problem(server)


def _process_problem(server: Mapping[str, object], folder: Path) -> str | None:
    command, cwd, env = server.get("command"), server.get("cwd", "./"), server.get("env", {})
    if not isinstance(command, str) or not command:
        return "it has no command"
    if not command.startswith("./") and re.search(r"[\s/\\]", command):
        return "its command is neither one bare name nor a path that begins with ./"
    if command.startswith("./") and _inside(folder, command) is None:
        return "its command leads out of the plugin"
    arguments = server.get("args", [])
    if not isinstance(arguments, list) or not _all_texts(arguments):
        return "its args are no list of texts"
    if not isinstance(env, dict) or not _all_texts(env.values()) or not _RESERVED.isdisjoint(env):
        return "its env is not an object of texts without PLUGIN_ROOT and PLUGIN_DATA"
    if not isinstance(cwd, str) or not _CWD.match(cwd):
        return "its cwd begins with none of ./, ${PLUGIN_ROOT} and ${PLUGIN_DATA}"
    relative = cwd.partition("}")[2].lstrip("/") if cwd.startswith("${") else cwd
    leaves = (
        _inside(folder, relative) is None if not cwd.startswith("${PLUGIN_DATA}") else ".." in PurePosixPath(relative).parts
    )
    return "its cwd leads out of its folder" if leaves else None


def _remote_problem(server: Mapping[str, object]) -> str | None:
    address, headers = server.get("url"), server.get("headers", {})
    try:
        parts = urlsplit(address if isinstance(address, str) else "")
        host, user = parts.hostname or "", parts.username is not None or parts.password is not None
    except ValueError:
        return "its url is not an address"
    if parts.scheme not in ("http", "https") or not host or user or "#" in str(address):
        return "its url is not an address of http or https without a user and a fragment"
    if parts.scheme == "http" and not _is_loopback(host):
        return "its url is not of https"
    if not isinstance(headers, dict) or not all(
        _HEADER.fullmatch(name) and isinstance(value, str) and _HEADER_VALUE.fullmatch(value) for name, value in headers.items()
    ):
        return "its headers are no HTTP headers"
    return None if len({name.lower() for name in headers}) == len(headers) else "a header is there twice"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _claude_servers(data: bytes) -> dict[str, object]:
    try:
        shape = parse_object(data, ".mcp.json")
    except InvalidManifest:
        return {}
    servers = shape.get("mcpServers", shape)
    return servers if isinstance(servers, dict) else {}


def _for_agents(server: Mapping[str, object]) -> dict[str, object]:
    """A server of a Claude plugin in the other form; whether it is valid there has to be looked at."""
    kind = server.get("type")
    if "command" in server:
        command = str(server["command"])
        start = command.replace("${CLAUDE_PLUGIN_ROOT}/", "./", 1) if command.startswith("${CLAUDE_PLUGIN_ROOT}/") else command
        rest = {name: _replaced(server[name], "CLAUDE_PLUGIN_", "PLUGIN_") for name in ("args", "env", "cwd") if name in server}
        return {"type": "stdio", "command": start, **rest}
    rest = {name: server[name] for name in ("url", "headers") if name in server}
    return {"type": "streamable-http" if kind in ("http", "streamable-http") else kind, **rest}


def _for_claude(server: Mapping[str, object]) -> dict[str, object]:
    if server["type"] == "stdio":
        command = str(server["command"])
        start = f"${{CLAUDE_PLUGIN_ROOT}}/{command[2:]}" if command.startswith("./") else command
        rest = {name: _replaced(server[name], "PLUGIN_", "CLAUDE_PLUGIN_") for name in ("args", "env", "cwd") if name in server}
        return {"command": start, **rest}
    return {**server, "type": "http" if server["type"] == "streamable-http" else "sse"}


def _replaced(value: object, before: str, after: str) -> object:
    """A value with the names of the two folders of a plugin as the other kind has them."""
    if isinstance(value, str):
        for name in ("ROOT", "DATA"):
            value = value.replace(f"${{{before}{name}}}", f"${{{after}{name}}}")
        return value
    if isinstance(value, list):
        return [_replaced(one, before, after) for one in value]
    return {name: _replaced(one, before, after) for name, one in value.items()} if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True)
class PluginCheck(WireForm, also=("valid",)):
    """The check of a plugin of Agent Plugins 1.0: what keeps it, or something in it, out, and what is loaded of it."""

    path: str
    errors: tuple[str, ...]
    plugin: AgentPlugin | None

    @property
    def valid(self) -> bool:
        """Whether a client loads all of it."""
        return not self.errors

    @property
    def ok(self) -> bool:
        """Whether the plugin can be used as it is."""
        return self.valid


def check_plugin(path: Path) -> PluginCheck:
    """Read a plugin as its clients do; a `plugin.json` that cannot be used is an error of the check."""
    try:
        plugin = read_agent_plugin(path)
    except (InvalidManifest, FileProblem) as error:
        return PluginCheck(str(path), (f"{error.message} ({error.hint})",), None)
    return PluginCheck(str(path), plugin.problems, plugin)


def plugin_lines(plugin: AgentPlugin | None) -> Iterator[str]:
    """What a plugin contains, for people; nothing when it cannot be read."""
    if plugin is not None:
        yield f"Agent Plugins 1.0: {plugin.name}, {plugin.version or 'without a version'}"
        yield f"skills: {', '.join(plugin.skills) or 'none'}"
        yield f"MCP servers: {', '.join(plugin.servers) or 'none'}"
