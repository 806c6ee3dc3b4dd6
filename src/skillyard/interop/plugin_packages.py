"""Packages around skills, plugins of two kinds and marketplaces: recognized in a folder, and their JSON files written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from skillyard.document import DOCUMENT_LIMIT, Document, parse_document
from skillyard.errors import FileProblem, InvalidManifest
from skillyard.files import read_limited
from skillyard.interop.agent_plugins import (
    PLUGIN_JSON,
    SERVERS_JSON,
    agent_plugin_json,
    is_agent_plugin,
    servers_for_agents,
    servers_for_claude,
)
from skillyard.interop.manifest import manifest_version
from skillyard.interop.manifest_conversion import json_bytes, parse_object
from skillyard.interop.originals import PreservedFile, may_be_preserved
from skillyard.packages import IGNORED, FoundSkill, TreeEntry, tree_entries
from skillyard.paths import is_regular, read_inside, slug

PluginFormat = Literal["claude-plugin", "claude-marketplace", "agent-plugin"]
PLUGIN_FORMATS: Final[tuple[PluginFormat, ...]] = get_args(PluginFormat)
PLUGIN_FILES: Final[Mapping[PluginFormat, str]] = {
    "claude-plugin": ".claude-plugin/plugin.json",
    "claude-marketplace": ".claude-plugin/marketplace.json",
    "agent-plugin": PLUGIN_JSON,
}
_SERVER_FILES: Final[Mapping[PluginFormat, str]] = {
    "claude-plugin": ".mcp.json",
    "claude-marketplace": ".mcp.json",
    "agent-plugin": SERVERS_JSON,
}
"""The file with the MCP servers of a package, which is written with its JSON file where the other kind has one."""
_BASES: Final[Mapping[PluginFormat, tuple[PluginFormat, PluginFormat]]] = {
    "claude-plugin": ("claude-marketplace", "agent-plugin"),
    "claude-marketplace": ("claude-plugin", "agent-plugin"),
    "agent-plugin": ("claude-plugin", "claude-marketplace"),
}
"""The kinds that the JSON file of each is based on: the first that the package has."""
_LARGEST_REST: Final = 1024 * 1024  # bytes of a package's other files that are kept in each of its skills
_PLUGIN_FIELDS: Final = ("name", "version", "description", "author", "homepage", "repository", "license", "keywords")
_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class SkillGroup:
    """Skills that lie in one package, or in none: `formats` are empty then, and `root` is the folder that was searched.

    `skills` are the selected ones, `others` the folders of the rest.
    """

    root: Path
    name: str
    formats: tuple[PluginFormat, ...]
    skills: tuple[FoundSkill, ...]
    others: tuple[Path, ...] = ()

    def path_of(self, skill: FoundSkill) -> str:
        """Where a skill lies in the package; `.` when it is the package."""
        return skill.directory.relative_to(self.root).as_posix()


def group_skills(
    tree: Path, name: str, selected: Sequence[FoundSkill], candidates: Sequence[FoundSkill], out: Path
) -> tuple[SkillGroup, ...]:
    """The selected skills by the outermost package that they lie in; what is below `out`, where one writes to, is in none."""
    foreign = [skill.directory for skill in candidates if skill not in selected] + [out]
    roots: dict[Path, list[FoundSkill]] = {}
    for skill in selected:
        roots.setdefault(_root(tree, skill) or tree, []).append(skill)
    return tuple(
        SkillGroup(
            root,
            name if root == tree else root.name,
            _formats(root),
            tuple(skills),
            tuple(folder for folder in foreign if folder != root and folder.is_relative_to(root)),
        )
        for root, skills in roots.items()
    )


def _root(tree: Path, skill: FoundSkill) -> Path | None:
    above = [skill.directory, *skill.directory.parents]
    return next((folder for folder in reversed(above[: above.index(tree) + 1]) if _formats(folder)), None)


def _formats(root: Path) -> tuple[PluginFormat, ...]:
    there = (name for name, path in PLUGIN_FILES.items() if is_regular(root / path))
    return tuple(name for name in there if name != "agent-plugin" or is_agent_plugin(root))


def redundant_plugin_file(group: SkillGroup, to: str) -> PluginFormat | None:
    """The description of a package that is not that of `to` and can be made again, from its skills or from the other one."""
    return next((one for one in reversed(group.formats) if one != to and _is_made(group, one)), None)


def remove_redundant(group: SkillGroup, spare: PluginFormat, to: str, package: Path) -> tuple[str, ...]:
    """Remove the JSON file of a redundant kind from a copy of the package, with the servers that were made for it.

    Gives the paths of both, also where the copy is only a part of the package and has none.
    """
    paths = [PLUGIN_FILES[spare]]
    own = _SERVER_FILES[spare]
    others = {path for kind, path in _SERVER_FILES.items() if kind != spare and kind in (*group.formats, to)}
    if own not in others and (data := _optional(group.root, own)) is not None and data == _servers(group.root, spare)[0]:
        paths.append(own)
    for path in paths:
        (package / path).unlink(missing_ok=True)
    around = (package / PLUGIN_FILES[spare]).parent
    if around != package and around.is_dir() and not any(around.iterdir()):
        around.rmdir()
    return tuple(paths)


def write_plugin_files(package: Path, to: PluginFormat, skill_folders: Mapping[str, Path], name: str) -> list[str]:
    """Write the JSON file of a package, and its servers where another kind has some; with notes on what has no place.

    Raises:
        InvalidManifest: a file of that name is there that is no such file.
    """
    file, notes = package / PLUGIN_FILES[to], list[str]()
    if file.is_file():
        if to == "agent-plugin" and not is_agent_plugin(package):
            raise InvalidManifest(f"{package.name} has a {PLUGIN_JSON} of another kind", hint="rename it first", problems=[])
    else:
        data = plugin_json(to, package, skill_folders, name)
        own = _SERVER_FILES[to]
        has_own = (package / own).exists() or any(_SERVER_FILES[kind] == own for kind in _formats(package))
        servers, notes = (None, []) if has_own else _servers(package, to)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
        if servers is not None:
            (package / own).write_bytes(servers)
    if to == "agent-plugin" and (outside := sorted(path for path in skill_folders if not _is_usual(path))):
        notes.append(f"clients of Agent Plugins look in skills/ only, and do not find {_some(outside)}")
    return notes


def _servers(package: Path, to: PluginFormat) -> tuple[bytes | None, list[str]]:
    """The servers of a package as `to` has them, made of those that another kind of package has there."""
    if to == "agent-plugin":
        data = _optional(package, ".mcp.json") if any(is_regular(package / PLUGIN_FILES[one]) for one in _BASES[to]) else None
        return servers_for_agents(data) if data is not None else (None, [])
    data = _optional(package, SERVERS_JSON) if is_agent_plugin(package) else None
    return servers_for_claude(data) if data is not None else (None, [])


def _optional(package: Path, path: str) -> bytes | None:
    """A file of a package; None where there is none, or too large a one."""
    try:
        return read_inside(package, path, limit=_LARGEST_REST) if is_regular(package / path) else None
    except FileProblem:
        return None


def _is_made(group: SkillGroup, wrapping: PluginFormat) -> bool:
    """Whether the JSON file of a package is, to the byte, what a conversion writes, so that nothing is lost without it.

    A package with other files needs one that describes it, so the only one is never called made there.
    """
    if wrapping not in group.formats:
        return False
    try:
        data = read_inside(group.root, PLUGIN_FILES[wrapping], limit=_LARGEST_REST)
    except FileProblem:
        return False
    alone = group.formats == (wrapping,)
    if alone and [(entry.path, entry.kind) for entry in _items(group, [])] != [(PLUGIN_FILES[wrapping], "f")]:
        return False
    skill_folders = {group.path_of(skill): skill.directory for skill in group.skills}
    return data == plugin_json(wrapping, group.root, skill_folders, group.root.resolve().name)


def remaining_files(group: SkillGroup, notes: list[str]) -> dict[str, PreservedFile | None]:
    """The files of a package beside its skills, with a note on what cannot be kept; None for a folder that is empty."""
    left: list[str] = []
    size, files = 0, dict[str, PreservedFile | None]()
    for path, kind, length in sorted(_items(group, left), key=lambda item: (not item[0].startswith(".claude-plugin/"), item)):
        if not may_be_preserved(path):
            left.append(f"{_shown(path)} (hidden)")
        elif kind == "d":
            files[path] = None
        elif size + length > _LARGEST_REST:
            left.append(f"{_shown(path)} (too large)")
        else:
            files[path] = PreservedFile(read_inside(group.root, path, limit=_LARGEST_REST), kind == "x")
            size += length
    if left:
        notes.append(f"of its package not kept: {_some(left)}")
    return files


def _items(group: SkillGroup, left: list[str]) -> Iterator[TreeEntry]:
    """The files of a package but for its skills', and its empty folders."""
    folders = {skill.directory for skill in group.skills} | set(group.others)
    if group.root in folders:
        return

    def without(path: str, entry: os.DirEntry[str]) -> bool:
        if entry.name in IGNORED:
            left.append(f"{_shown(path)} (left out of every package)")
        return entry.name in IGNORED or group.root / path in folders

    for entry in tree_entries(group.root, without):
        if entry.kind in ("l", "o"):
            left.append(f"{_shown(entry.path)} (a link or no file)")
        elif entry.kind != "d" or not any((group.root / entry.path).iterdir()):
            yield entry


def _shown(path: str) -> str:
    return path if path.isprintable() else ascii(path)


def _some(names: Sequence[str]) -> str:
    """Some names for a message, and how many there are besides."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def plugin_name(data: bytes) -> str:
    """The name that a plugin.json or marketplace.json gives, empty when it gives none."""
    return str(_object(data).get("name") or "")


def plugin_json(wrapping: PluginFormat, package: Path, skill_folders: Mapping[str, Path], name: str) -> bytes:
    """The plugin.json or marketplace.json of a package with skills; based on that of another kind, where there is one.

    `skill_folders` has the folder of each skill by its path in the package. `name` is what several skills are called together.
    """
    kind, other = next(((kind, shape) for kind in _BASES[wrapping] if (shape := _read(package, kind))), ("", {}))
    ordered = dict(sorted(skill_folders.items()))
    by_other = _listed if kind == "claude-marketplace" else _plugin_fields
    shape = by_other(other, ordered) if other else _fresh(ordered, name)
    if wrapping == "agent-plugin":
        return agent_plugin_json(shape)
    elsewhere = [f"./{path}" for path in ordered if path != "." and not _is_usual(path)]
    if wrapping == "claude-plugin":
        shape |= {"skills": elsewhere} if elsewhere else {}
    elif other:
        missing = [path for path in elsewhere if path not in _list(other.get("skills"))]
        shape = _market(shape | {"source": "./"} | ({"skills": missing} if missing else {}))
    else:
        shape = _market({**shape, "source": "./", "strict": False, "skills": [f"./{path}" for path in ordered]})
    return json_bytes(shape)


def _is_usual(path: str) -> bool:
    return path.startswith("skills/") and path.count("/") == 1


def _documents(skill_folders: Mapping[str, Path]) -> list[Document]:
    return [
        parse_document(read_limited(folder / "SKILL.md", DOCUMENT_LIMIT), directory_name=folder.name)
        for folder in skill_folders.values()
    ]


def _fresh(skill_folders: Mapping[str, Path], name: str) -> dict[str, object]:
    """The fields of the plugin from its skills: the one there is, or the first of several."""
    documents = _documents(skill_folders)
    first = documents[0].metadata
    names = [document.metadata.name for document in documents]
    alone = len(documents) == 1
    about: dict[str, object] = {
        "name": slug(first.name, documents[0].skill_id) if alone else slug(name, "skills"),
        "version": manifest_version(first.version),
        "description": first.description if alone else f"Skills: {', '.join(names)}",
    }
    author = {"author": {"name": first.author}} if first.author else {}
    more = {key: value for key in ("license", "homepage", "repository") if (value := getattr(first, key))}
    return about | author | more | ({"keywords": list(first.search_words)} if first.search_words else {})


def _plugin_fields(plugin: Mapping[str, object], _places: Mapping[str, Path] | None = None) -> dict[str, object]:
    return {name: plugin[name] for name in _PLUGIN_FIELDS if plugin.get(name)}


def _listed(market: Mapping[str, object], skill_folders: Mapping[str, Path]) -> dict[str, object]:
    """The plugin that a marketplace is: its only one, or all of them under its name."""
    plugins = [one for one in _list(market.get("plugins")) if isinstance(one, dict)]
    if len(plugins) == 1:
        return _plugin_fields(plugins[0])
    owner = market.get("owner")
    return {
        "name": str(market.get("name") or "plugin"),
        "description": f"Skills: {', '.join(document.metadata.name for document in _documents(skill_folders))}",
        **({"author": owner} if isinstance(owner, dict) else {}),
    }


def _market(entry: Mapping[str, object]) -> dict[str, object]:
    author = entry.get("author")
    owner = author.get("name") if isinstance(author, dict) else author
    name = str(entry.get("name") or "plugin")
    return {"name": name, "owner": {"name": str(owner or name)}, "plugins": [{"name": name, **entry}]}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value] if isinstance(value, str) else []


def _read(package: Path, wrapping: PluginFormat) -> dict[str, object]:
    if wrapping == "agent-plugin" and not is_agent_plugin(package):
        return {}
    try:
        return _object(read_inside(package, PLUGIN_FILES[wrapping], limit=_LARGEST_REST))
    except FileProblem:
        return {}


def _object(data: bytes) -> dict[str, object]:
    try:
        return parse_object(data, "it")
    except InvalidManifest:
        return {}
