"""Every command: its module, its group in the overview and its one-line help."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class CliCommand(NamedTuple):
    """One command: its module in `skillyard.cli.commands`, its group and its one-line help.

    The module has `add_NAME_arguments` and `NAME_command`, where NAME is `function` or, without one, the command's own name.
    Where it `takes_command_line`, what follows `--` is for the script or command that it runs.
    """

    module: str
    group: str
    help: str
    function: str = ""
    takes_command_line: bool = False


GROUPS: Final = ("find and read", "write and check", "run", "this machine", "install")

COMMANDS: Final[Mapping[str, CliCommand]] = MappingProxyType(
    {
        "list": CliCommand("show", GROUPS[0], "every skill, also the broken and the shadowed ones, and why"),
        "show": CliCommand("show", GROUPS[0], "one skill: metadata, files, findings, where it came from, whether it can run"),
        "search": CliCommand("search", GROUPS[0], "the skills that fit a request, best first"),
        "prompt": CliCommand("show", GROUPS[0], "the index of skills for a system prompt, inside a token budget"),
        "read": CliCommand("show", GROUPS[0], "the text of one file of a skill, SKILL.md when none is named"),
        "install": CliCommand(
            "install", GROUPS[4], "install skills from a folder, an archive, git or the web, or from the lock"
        ),
        "update": CliCommand("install", GROUPS[4], "fetch installed skills again; more power needs your consent"),
        "uninstall": CliCommand("install", GROUPS[4], "deactivate an installed skill; `rollback` restores it"),
        "versions": CliCommand("install", GROUPS[4], "what is installed, and every version of a skill"),
        "rollback": CliCommand("install", GROUPS[4], "make an earlier version current again"),
        "diff": CliCommand("preview", GROUPS[4], "what an update would change, or what changed between two versions"),
        "pin": CliCommand("preview", GROUPS[4], "keep the current version of a skill; --undo lets updates go on"),
        "sync": CliCommand("install", GROUPS[4], "make what is installed what skillyard.lock says; --check only compares"),
        "mirror": CliCommand("mirror", GROUPS[4], "copy what is installed to another registry, online or offline"),
        "history": CliCommand(
            "install", GROUPS[4], "what was installed, updated, rolled back and uninstalled, and how it went"
        ),
        "deprecate": CliCommand("install", GROUPS[4], "mark a version as one to move away from", function="mark"),
        "yank": CliCommand(
            "install", GROUPS[4], "mark a version as one that nobody may install or go back to", function="mark"
        ),
        "new": CliCommand("user_skills", GROUPS[1], "make a skill that `check` finds fine"),
        "check": CliCommand("check", GROUPS[1], "findings with file, line and a fix; --fix applies the safe ones"),
        "migrate": CliCommand("packages", GROUPS[1], "old skills, commands, rules and AGENTS.md files into skills of today"),
        "convert": CliCommand("packages", GROUPS[1], "skills in the format of another system, and back without loss"),
        "scan": CliCommand("scan", GROUPS[1], "scan for security risks: findings with file, line, reason and fix; advice only"),
        "pack": CliCommand("packages", GROUPS[1], "write a skill's folder as one archive, always the same bytes"),
        "verify": CliCommand(
            "packages", GROUPS[1], "whether an archive keeps the rules and has the expected digest and signer"
        ),
        "key": CliCommand("packages", GROUPS[1], "the keys you sign with: make one, list them"),
        "sign": CliCommand("packages", GROUPS[1], "sign a skill's folder, so that others can tell that it is yours"),
        "eval": CliCommand(
            "search", GROUPS[1], "whether the right skill is found for a list of prompts, before and after an edit"
        ),
        "open": CliCommand("user_skills", GROUPS[0], "open the folder of a skill in the file manager, or say where it is"),
        "enable": CliCommand("user_skills", GROUPS[1], "offer a disabled skill to models again", function="switch"),
        "disable": CliCommand("user_skills", GROUPS[1], "keep a skill but offer it to no model", function="switch"),
        "delete": CliCommand("user_skills", GROUPS[1], "delete a user skill from the disk"),
        "run": CliCommand("run", GROUPS[2], "run a skill's script in the sandbox", takes_command_line=True),
        "test": CliCommand("runs", GROUPS[2], "try a skill in the sandbox: its tests, its examples, its evals"),
        "runs": CliCommand("runs", GROUPS[2], "the runs there were; `runs show RUN_ID` draws one with its steps"),
        "workspace": CliCommand(
            "workspace", GROUPS[2], "run commands in a sandboxed workspace; list and remove workspaces", takes_command_line=True
        ),
        "schedule": CliCommand("runs", GROUPS[2], "skills that run at a time, or again and again", takes_command_line=True),
        "event": CliCommand("runs", GROUPS[2], "something happened: run the skills that wait for it"),
        "agents": CliCommand("agents", GROUPS[2], "agents: a prompt, model and skills under a name; the exact prompt of each"),
        "memories": CliCommand("agents", GROUPS[2], "what was remembered: list, search, forget"),
        "approvals": CliCommand("access", GROUPS[2], "approvals given for this workspace: list and revoke them"),
        "permissions": CliCommand("access", GROUPS[2], "rules about commands, and whether one is allowed, and why"),
        "chat": CliCommand("chat", GROUPS[2], "talk with a model that uses your skills, in the terminal"),
        "trail": CliCommand("chat", GROUPS[2], "how skills were used in conversations: offered, loaded, read, run"),
        "mcp": CliCommand("serve", GROUPS[2], "serve the skills to any MCP client over stdio"),
        "serve": CliCommand("serve", GROUPS[2], "serve the skills over HTTP: to this machine, or with keys to others"),
        "worker": CliCommand("serve", GROUPS[2], "work for a pool of workers, with the skills of this machine"),
        "workers": CliCommand("serve", GROUPS[2], "who works for which pool, and what waits"),
        "keys": CliCommand("access", GROUPS[3], "API keys of the server: make one with scopes, list and revoke them"),
        "webhooks": CliCommand("access", GROUPS[3], "addresses at which other services report events, each with a secret"),
        "organisations": CliCommand("access", GROUPS[3], "who shares the server, each with skills and runs of its own"),
        "audit": CliCommand("access", GROUPS[3], "who changed what, and who was refused"),
        "db": CliCommand("db", GROUPS[3], "the database: status, integrity check, repair, upgrade, copy"),
        "backup": CliCommand("db", GROUPS[3], "everything that is kept here in one file, also while a server runs"),
        "restore": CliCommand("db", GROUPS[3], "bring a backup back, into either kind of database, or only prove it"),
        "environment": CliCommand(
            "environment", GROUPS[3], "packages and programs of skills: what they need, grant and revoke"
        ),
        "completion": CliCommand(
            "completion", GROUPS[3], "complete commands, options and names in bash, zsh and fish", takes_command_line=True
        ),
        "doctor": CliCommand("environment", GROUPS[3], "what this machine can and cannot do, and how to fix it"),
    }
)

USUAL_VERBS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "add": ("install",),
        "get": ("install",),
        "download": ("install",),
        "upgrade": ("update",),
        "outdated": ("update --check",),
        "remove": ("uninstall", "delete"),
        "rm": ("uninstall", "delete"),
        "ls": ("list",),
        "info": ("show",),
        "cat": ("read",),
        "find": ("search",),
        "validate": ("check",),
        "lint": ("check",),
        "verify-skill": ("check",),
        "fix": ("check --fix",),
        "audit-skill": ("scan",),
        "init": ("new",),
        "create": ("new",),
        "build": ("pack",),
        "package": ("pack",),
        "publish": ("pack", "sign", "mirror export"),
        "exec": ("run", "workspace exec"),
        "start": ("serve",),
        "lock": ("install --save",),
        "freeze": ("pin",),
    }
)
"""What other programs call it, and the commands here that do it."""
