"""The coding agents that are known, from `agents.toml`, and which of them are on this machine.

A coding agent is a program of somebody else with folders for skills of its own: Claude Code, Codex, Cursor. The agents that
Skillyard itself defines are in `agent_definitions`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Literal

from skillyard.errors import InvalidInput, PathRefused
from skillyard.paths import is_inside, real_path
from skillyard.text import nearest
from skillyard.wire import WireForm, wire

Scope = Literal["user", "project"]
"""For the user in every project, or for everybody who works on one project."""

AUTO: Final = "auto"
"""In place of names: every agent that is on this machine."""


@dataclass(frozen=True, slots=True)
class McpServersLocation:
    """Where an agent lists its MCP servers: files by scope, the keys that lead to the servers, the form of a server.

    The servers are an object by their names, or with `listed` a list of objects whose names are in that field.
    """

    files: Mapping[Scope, str]
    key: tuple[str, ...]
    local: Mapping[str, Any]
    remote: Mapping[str, Any]
    listed: str = ""

    def entry(self, values: Any, name: str) -> Any:
        """What a configuration says of the server of that name; None when it says nothing."""
        for key in self.key:
            values = values.get(key) if isinstance(values, dict) else None
        if not self.listed:
            return values.get(name) if isinstance(values, dict) else None
        rows = values if isinstance(values, list) else ()
        return next((row for row in rows if isinstance(row, dict) and row.get(self.listed) == name), None)


@dataclass(frozen=True, slots=True)
class CodingAgent(WireForm):
    """One known agent on this machine, its paths absolute, but for those in a project, which are relative to it.

    `detected` is whether its folder or one of its programs is here; `tried` the version that skills or servers were tried with;
    `follows_links` whether it sees a skill whose folder is a link.
    """

    name: str
    title: str
    detected: bool
    user_skills: str
    project_skills: str
    tried: str = field(default="", metadata=wire(omit_empty=True))
    follows_links: bool = field(default=True, metadata=wire(hidden=True))
    mcp: McpServersLocation | None = field(default=None, metadata=wire(hidden=True))

    def skills_folder(self, project: str | None = None) -> str:
        """Where it looks for skills: those of the user, or those of the project in that folder."""
        return self.user_skills if project is None else os.path.join(project, self.project_skills)


@dataclass(frozen=True, slots=True)
class SkillsFolder:
    """One folder that agents look into for skills, and the names of those that were asked for and do.

    `copies` is whether one of them sees copies only.
    """

    path: str
    agents: tuple[str, ...]
    copies: bool = False


def coding_agents(environ: Mapping[str, str] | None = None) -> dict[str, CodingAgent]:
    """Every known agent by its name, with its paths for the user whose HOME is in `environ` (default: of this process)."""
    environ = os.environ if environ is None else environ
    home = environ.get("HOME") or os.path.expanduser("~")  # texts, as the table has them
    return {name: _agent(name, entry, home, environ) for name, entry in _table().items()}


def chosen_agents(written: Iterable[str], environ: Mapping[str, str] | None = None) -> tuple[CodingAgent, ...]:
    """The agents of a list such as `claude,codex` or `auto`; each once, in the order of the table.

    Raises:
        InvalidInput: one is not known, or none is on this machine.
    """
    known = coding_agents(environ)
    names = [name.strip().lower() for text in written for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known and name != AUTO]
    if unknown or not names:
        name = unknown[0] if unknown else ""
        near = nearest(name, known)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}, and {AUTO} for those that are here"
        raise InvalidInput(f"{name!r} is not a coding agent that is known here", hint=hint, candidates=list(near or known))
    found = tuple(one for name, one in known.items() if name in names or (AUTO in names and one.detected))
    if not found:
        raise InvalidInput(
            "no coding agent was found on this machine", hint=f"name one all the same: {', '.join(list(known)[:6])}, …"
        )
    return found


def skills_folders(agents: Iterable[CodingAgent], project: str | None = None) -> tuple[SkillsFolder, ...]:
    """The folders of these agents for the user, or for a project; one that several share is there once, with all of them.

    Raises:
        PathRefused: a link in the project leads one of them out of it.
    """
    shared: dict[str, tuple[str, list[CodingAgent]]] = {}
    for agent in agents:
        path = agent.skills_folder(project)
        refuse_outside(path, project)
        shared.setdefault(real_path(path), (path, []))[1].append(agent)
    return tuple(
        SkillsFolder(path, tuple(one.name for one in those), not all(one.follows_links for one in those))
        for path, those in shared.values()
    )


def refuse_outside(path: str, project: str | None) -> None:
    """A user may keep folders and files of agents elsewhere by links; a project is often somebody else's, and may not.

    Raises:
        PathRefused: a link leads `path` out of the project.
    """
    if project is not None and not is_inside(path, project):
        raise PathRefused(
            f"{path} leads out of the project, to {real_path(path)}",
            hint="nothing was written; remove the link, or do without --in-project",
        )


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    import tomllib
    from importlib.resources import files

    return MappingProxyType(tomllib.loads(files(__package__).joinpath("agents.toml").read_text("utf-8")))


def _agent(name: str, entry: Mapping[str, Any], home: str, environ: Mapping[str, str]) -> CodingAgent:
    variable = environ.get(entry.get("base_variable", ""), "").strip()
    base = os.path.abspath(_at_home(variable or entry["base"], home, environ))

    def path(text: str) -> str:
        return _at_home(text.replace("{base}", base), home, environ)

    here = os.path.isdir(base) or any(shutil.which(program, path=environ.get("PATH")) for program in entry["programs"])
    return CodingAgent(
        name,
        entry["title"],
        here,
        path(entry["skills"]["user"]),
        entry["skills"]["project"],
        entry.get("tried", ""),
        entry.get("follows_links", True),
        _mcp_place(entry["mcp"], path, redirected=bool(variable)) if "mcp" in entry else None,
    )


def _mcp_place(entry: Mapping[str, Any], path: Any, *, redirected: bool) -> McpServersLocation:
    files: dict[Scope, str] = {}
    user = entry.get("user_with_variable") if redirected and "user_with_variable" in entry else entry.get("user")
    if user:
        files["user"] = path(user)
    if "project" in entry:
        files["project"] = entry["project"]
    return McpServersLocation(
        MappingProxyType(files), tuple(entry["key"]), entry["local"], entry["remote"], entry.get("listed", "")
    )


def _at_home(path: str, home: str, environ: Mapping[str, str]) -> str:
    """The path with the home in place of `~`; `~/.config` is where XDG_CONFIG_HOME says, as these agents have it."""
    config = environ.get("XDG_CONFIG_HOME", "").strip()
    if config and path.startswith("~/.config/"):
        return os.path.join(config, path.removeprefix("~/.config/"))
    return home + path[1:] if path.startswith("~/") else path
