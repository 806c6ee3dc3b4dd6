"""`skillyard permissions`: the rules about commands and files of every level, and what they say of one command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.cli.failures import FAILURE, OK, UsageProblem
from skillyard.cli.openers import open_catalog, open_home

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.permissions import CommandPolicy, CommandRuling


def add_permissions_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `permissions`."""
    parser.add_argument(
        "action", nargs="?", choices=("list", "check-command"), default="list",
        help="list the rules (the default), or check-command: whether a command is allowed, asked about or denied, and why",
    )  # fmt: skip
    parser.add_argument("call", nargs="?", metavar="COMMAND", help="for check-command: the command, path or address")
    parser.add_argument("--tool", default="bash", metavar="TOOL", help="what it is called with (default: %(default)s)")
    parser.add_argument("--agent", metavar="NAME", help="with the rules of this agent")
    parser.add_argument(
        "--skill", action="append", metavar="NAME", help="while this skill is followed, its allowed-tools enforced; may repeat"
    )
    parser.add_argument("--folder", metavar="FOLDER", help="the folder it works in (default: this one)")


def permissions_command(arguments: argparse.Namespace) -> int:
    """List the rules, or decide on a command; a command that is not simply allowed is a failure."""
    if (arguments.action == "check-command") != (arguments.call is not None):
        hint = "`skillyard permissions check-command 'git push'`, or `skillyard permissions` for the rules"
        raise UsageProblem("which command?", hint=hint)
    policy = _policy(arguments)
    screen: Screen = arguments.screen
    if arguments.action == "list":
        _list(screen, policy)
        return OK
    from skillyard.permissions import SKILL_TOOL_NAMES, WORKSPACE_TOOL_NAMES

    if arguments.tool not in (*WORKSPACE_TOOL_NAMES, *SKILL_TOOL_NAMES):
        raise UsageProblem(f"there is no tool {arguments.tool!r}", hint=f"the tools are: {', '.join(WORKSPACE_TOOL_NAMES)}")
    folder = str(Path(arguments.folder or ".").absolute())
    ruling = policy.authorize(arguments.tool, arguments.call, folder, root=folder)
    if screen.as_json:
        screen.data(ruling.to_dict())
    else:
        _show(screen, ruling)
    return OK if ruling.allowed else FAILURE


def _policy(arguments: argparse.Namespace) -> CommandPolicy:
    from skillyard.permissions import AllowedTools, CommandPolicy

    home = open_home(arguments)
    agent = home.agents().get(arguments.agent).settings if arguments.agent else {}
    followed = None
    if arguments.skill:
        catalog = open_catalog(arguments)
        tools = [tool for name in arguments.skill for tool in catalog.get(name).allowed_tools]
        followed = AllowedTools(tools, mode="enforce").command_rules()
    return CommandPolicy.of(
        home.configuration, agent=agent.get("commands"), tools=agent.get("tool_permissions"), skills=followed
    )


def _list(screen: Screen, policy: CommandPolicy) -> None:
    rows = [(rule.level, rule.permission, rule.rule) for rule in policy.listed()]
    if screen.as_json:
        screen.data({"rules": [rule.to_dict() for rule in policy.listed()]})
    elif rows:
        screen.table(rows, header=("LEVEL", "SAYS", "RULE"), stretch=2)
    else:
        screen.note("no rules about commands; [permissions.commands] in skillyard.toml has them")


def _show(screen: Screen, ruling: CommandRuling) -> None:
    style = {"allow": "ok", "ask": "warning", "deny": "error"}[ruling.permission]
    screen.line(ruling.permission, style=style)
    screen.line(f"  {ruling.sentence}")
    if ruling.part and ruling.part != ruling.argument:
        screen.line(f"  it is about: {ruling.part}")
    if ruling.files:
        screen.line(f"  files it names: {', '.join(ruling.files)}")
    for decision in ruling.levels:
        screen.line(f"  {decision.level}: {decision.ruling.permission}, {decision.ruling.rule or decision.ruling.reason}")
