"""Every command: its module, its place in the overview and what it is for in one line."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

__all__ = ["COMMANDS", "GROUPS", "Command"]


class Command(NamedTuple):
    """One command: the module in `skillyard.cli.commands` with `add_arguments` and `run`, its group, its one-line help."""

    module: str
    group: str
    help: str


GROUPS: Final = ("find and read", "install", "write and check", "run", "this machine")

COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        "list": Command("list", GROUPS[0], "every skill, also the broken and the shadowed ones, and why"),
        "show": Command("show", GROUPS[0], "one skill: metadata, files, findings, where it came from, whether it can run"),
        "search": Command("search", GROUPS[0], "the skills that fit a request, best first"),
        "prompt": Command("prompt", GROUPS[0], "the index of skills for a system prompt, inside a token budget"),
        "read": Command("read", GROUPS[0], "the text of one file of a skill, SKILL.md when none is named"),
        "install": Command("install", GROUPS[1], "install skills from a folder, an archive, git or the web, or from the lock"),
        "update": Command("update", GROUPS[1], "fetch installed skills again; more power needs your consent"),
        "uninstall": Command("uninstall", GROUPS[1], "let an installed skill serve no more; `rollback` brings it back"),
        "versions": Command("versions", GROUPS[1], "what is installed, and every version of a skill"),
        "rollback": Command("rollback", GROUPS[1], "let an earlier version serve again"),
        "sync": Command("sync", GROUPS[1], "make what is installed what skillyard.lock says; --check only compares"),
        "history": Command("history", GROUPS[1], "what was installed, updated, rolled back and uninstalled, and how it went"),
        "deprecate": Command("mark", GROUPS[1], "mark a version as one to move away from"),
        "yank": Command("mark", GROUPS[1], "mark a version as one that nobody may install or go back to"),
        "new": Command("new", GROUPS[2], "make a skill that `check` finds fine"),
        "check": Command("check", GROUPS[2], "findings with file, line and a fix; --fix applies the safe ones"),
        "pack": Command("pack", GROUPS[2], "write a skill's folder as one archive, always the same bytes"),
        "verify": Command("verify", GROUPS[2], "whether an archive keeps every rule and is the one that was promised"),
        "enable": Command("switch", GROUPS[2], "offer a disabled skill to models again"),
        "disable": Command("switch", GROUPS[2], "keep a skill but offer it to no model"),
        "delete": Command("delete", GROUPS[2], "delete a user skill from the disk"),
        "run": Command("run", GROUPS[3], "run a skill's script in the sandbox"),
        "test": Command("test", GROUPS[3], "try a skill in the sandbox: its tests, its examples, its evals"),
        "runs": Command("runs", GROUPS[3], "the runs there were; `runs show RUN_ID` draws one with its steps"),
        "memories": Command("memories", GROUPS[3], "what was remembered: list, search, forget"),
        "mcp": Command("mcp", GROUPS[3], "serve the skills to any MCP client over stdio"),
        "db": Command("db", GROUPS[4], "where the records are; bring their tables up to date"),
        "doctor": Command("doctor", GROUPS[4], "what this machine can and cannot do, and how to mend it"),
    }
)
