"""`skillyard agents`: agents that were defined, and the exact prompt of each."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from skillyard.cli.failures import OK, UsageProblem
from skillyard.cli.openers import open_catalog, open_home
from skillyard.cli.option_values import parse_positive
from skillyard.prompt import Style

if TYPE_CHECKING:
    from skillyard.agent_definitions import Agent, AgentSkill, AgentStore
    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog


_ACTIONS = ("list", "show", "create", "update", "delete", "prompt")


def add_agents_arguments(parser: argparse.ArgumentParser) -> None:
    """What `agents` takes."""
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default="list", help="%(choices)s (default: list)")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the agent's name or id")
    parser.add_argument("--description", metavar="TEXT", help="what it is for")
    prompts = parser.add_mutually_exclusive_group()
    prompts.add_argument("--system-prompt", metavar="TEXT", help="what its model is told before the index of its skills")
    prompts.add_argument("--system-prompt-file", metavar="FILE", help="the same from a file")
    parser.add_argument("--model", metavar="MODEL", help="for example anthropic:claude-sonnet-4-5")
    parser.add_argument(
        "--skill",
        action="append",
        metavar="NAME[@VERSION]",
        help="a skill it has, perhaps locked to a version or a range such as ^1.2; may repeat, and replaces those it had",
    )
    parser.add_argument("--all-skills", action="store_true", help="for update: let it have every skill")
    parser.add_argument("--rename", metavar="NAME", help="for update: its new name")
    parser.add_argument("--index-tokens", type=parse_positive, metavar="N", help="the budget of its index (without: 2000)")
    parser.add_argument("--style", metavar="STYLE", choices=get_args(Style), help="for prompt: as in `skillyard prompt`")
    parser.add_argument("--request", metavar="TEXT", help="for prompt: what a person asks; the index is ranked for it")


def agents_command(arguments: argparse.Namespace) -> int:
    """Do what the action says."""
    if (arguments.action == "list") != (arguments.name is None):
        raise UsageProblem("which agent?", hint="`skillyard agents` lists them; `skillyard agents show NAME` shows one")
    screen: Screen = arguments.screen
    book = open_home(arguments).agents()
    match arguments.action:
        case "list":
            _list(screen, book.list())
        case "prompt":
            _prompt(arguments, book)
        case "delete":
            _told(screen, book.delete(arguments.name), "deleted")
        case "show":
            _show(screen, book.get(arguments.name))
        case _:
            _write(arguments, book)
    return OK


def _write(arguments: argparse.Namespace, book: AgentStore) -> None:
    """Create or update."""
    from skillyard.agent_definitions import AgentDraft

    catalog = open_catalog(arguments)
    if arguments.action == "create":
        values = _given(arguments, catalog) | {"name": arguments.name}
        _told(arguments.screen, book.create(AgentDraft(**values)), "created")
        return
    before = book.get(arguments.name)
    kept: dict[str, Any] = {
        name: getattr(before, name) for name in ("name", "description", "system_prompt", "model", "settings", "skills")
    }
    given = _given(arguments, catalog)
    settings = {**before.settings, **given.get("settings", {})}
    _told(arguments.screen, book.update(before.id, AgentDraft(**(kept | given | {"settings": settings}))), "updated")


def _given(arguments: argparse.Namespace, catalog: Catalog) -> dict[str, Any]:
    """The fields that the options name."""
    values: dict[str, Any] = {
        "name": arguments.rename,
        "description": arguments.description,
        "system_prompt": _text(arguments),
        "model": arguments.model,
        "settings": {"index_tokens": arguments.index_tokens} if arguments.index_tokens else None,
        "skills": () if arguments.all_skills else None,
    }
    if arguments.skill:
        values["skills"] = tuple(_skill(catalog, written) for written in arguments.skill)
    return {name: value for name, value in values.items() if value is not None}


def _skill(catalog: Catalog, written: str) -> AgentSkill:
    from skillyard.agent_definitions import choose_agent_skill

    name, _, lock = written.rpartition("@") if "@" in written else (written, "", "")
    return choose_agent_skill(catalog, name, version_lock=lock or None)


def _text(arguments: argparse.Namespace) -> str | None:
    if arguments.system_prompt_file is None:
        return arguments.system_prompt if arguments.system_prompt is None else str(arguments.system_prompt)
    try:
        return Path(arguments.system_prompt_file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageProblem(f"{arguments.system_prompt_file} cannot be read: {reason}", hint="name a text file") from None


def _prompt(arguments: argparse.Namespace, book: AgentStore) -> None:
    from skillyard.agent_definitions import write_agent_prompt

    agent = book.get(arguments.name)
    prompt = write_agent_prompt(agent, open_catalog(arguments), style=arguments.style, request=arguments.request)
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data(prompt.to_dict())
        return
    screen.write(prompt.text.rstrip("\n") + "\n")
    screen.note(f"{prompt.tokens:,} tokens: {prompt.own_tokens:,} of its own, {prompt.index_tokens:,} for the index")
    for share in prompt.skills:
        why = f" ({share.reason})" if share.reason else ""
        screen.note(f"  {share.name}: {share.shown}{why}, {share.tokens:,} tokens; its SKILL.md has {share.skill_md_tokens:,}")


def _list(screen: Screen, found: tuple[Agent, ...]) -> None:
    if screen.as_json:
        screen.data({"agents": [agent.to_dict() for agent in found]})
    elif found:
        rows = [(agent.name, agent.model or "", _skills(agent), agent.description) for agent in found]
        screen.table(rows, header=("AGENT", "MODEL", "SKILLS", "DESCRIPTION"), stretch=3)
    else:
        screen.note("no agents; `skillyard agents create NAME --skill SKILL` makes one")


def _show(screen: Screen, agent: Agent) -> None:
    if screen.as_json:
        screen.data(agent.to_dict())
        return
    screen.line(agent.name)
    told = {"id": agent.id, "description": agent.description, "model": agent.model, "skills": _skills(agent)}
    for label, value in told.items():
        if value:
            screen.line(f"{label}: {value}", indent=2)
    if agent.system_prompt:
        screen.line("")
        screen.write(agent.system_prompt.rstrip() + "\n")


def _skills(agent: Agent) -> str:
    named = (f"{one.skill_id}@{one.version_lock}" if one.version_lock else one.skill_id for one in agent.skills)
    return ", ".join(named) or "all"


def _told(screen: Screen, agent: Agent, verb: str) -> None:
    if screen.as_json:
        screen.data(agent.to_dict())
    else:
        screen.line(f"{verb} {agent.name}")
