"""`skillyard agents`: agents that were defined; `memories`: what was remembered; `insights`: usage of skills, by day."""

from __future__ import annotations

import argparse
from datetime import date
from typing import TYPE_CHECKING, Any, Final, get_args

from skillyard.cli.command_options import open_catalog, open_home, parse_positive, read_given_text
from skillyard.cli.commands.coding_agent_commands import draw_detected
from skillyard.cli.screen import OK
from skillyard.errors import RecordNotFound, UsageProblem
from skillyard.prompt import Style

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillyard.agent_definitions import Agent, AgentSkill, AgentStore
    from skillyard.cli.screen import Screen
    from skillyard.insights import InsightReport, UsageFigures
    from skillyard.library import Catalog
    from skillyard.memory import Memory, MemoryMatch, Owner, SqlMemoryService

_ACTIONS = ("list", "show", "create", "update", "delete", "prompt", "detected")
_WITHOUT_NAME = ("list", "detected")


def add_agents_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `agents`."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=_ACTIONS,
        default="list",
        help="%(choices)s (default: list); detected: the coding agents of this machine",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the agent's name or id")
    parser.add_argument("--description", metavar="TEXT", help="its description")
    prompts = parser.add_mutually_exclusive_group()
    prompts.add_argument("--system-prompt", metavar="TEXT", help="its system prompt, before the index of its skills")
    prompts.add_argument("--system-prompt-file", metavar="FILE", help="the same from a file")
    parser.add_argument("--model", metavar="MODEL", help="for example anthropic:claude-sonnet-4-5")
    parser.add_argument(
        "--skill",
        action="append",
        metavar="NAME[@VERSION]",
        help="a skill, optionally locked to a version or a range such as ^1.2; may be repeated; replaces the list of skills",
    )
    parser.add_argument("--all-skills", action="store_true", help="for update: give it every skill")
    parser.add_argument("--rename", metavar="NAME", help="for update: its new name")
    parser.add_argument(
        "--index-tokens", type=parse_positive, metavar="N", help="the token budget of its index (default: 2000)"
    )
    parser.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="TOOL=PERMISSION",
        help="allow, ask or deny a tool, such as bash=deny or file_write=ask; may be repeated",
    )
    parser.add_argument(
        "--permission",
        action="append",
        default=[],
        metavar="PATTERN=PERMISSION",
        help="allow, ask or deny skills by pattern, such as internal-*=deny; may be repeated, and the first match applies",
    )
    workspaces = parser.add_mutually_exclusive_group()
    workspaces.add_argument(
        "--workspace", action="store_true", default=None, help="give its model a workspace: a shell, code and files"
    )
    workspaces.add_argument("--no-workspace", dest="workspace", action="store_false", help="no workspace")
    parser.add_argument("--style", metavar="STYLE", choices=get_args(Style), help="for prompt: as in `skillyard prompt`")
    parser.add_argument("--request", metavar="TEXT", help="for prompt: a request; the index is ranked for it")


def agents_command(arguments: argparse.Namespace) -> int:
    """Do what the action says."""
    if (arguments.action in _WITHOUT_NAME) != (arguments.name is None):
        raise UsageProblem("which agent?", hint="`skillyard agents` lists them; `skillyard agents show NAME` shows one")
    screen: Screen = arguments.screen
    if arguments.action == "detected":
        draw_detected(arguments)
        return OK
    store = open_home(arguments).agents()
    match arguments.action:
        case "list":
            _list(screen, store.list())
        case "prompt":
            _prompt(arguments, store)
        case "delete":
            _report_change(screen, store.delete(arguments.name), "deleted")
        case "show":
            _show(screen, store.get(arguments.name))
        case _:
            _write(arguments, store)
    return OK


def _write(arguments: argparse.Namespace, store: AgentStore) -> None:
    """Create or update."""
    from skillyard.agent_definitions import AgentDraft

    catalog = open_catalog(arguments)
    if arguments.action == "create":
        values = _given(arguments, catalog) | {"name": arguments.name}
        _report_change(arguments.screen, store.create(AgentDraft(**values)), "created")
        return
    before = store.get(arguments.name)
    kept: dict[str, Any] = {
        name: getattr(before, name) for name in ("name", "description", "system_prompt", "model", "settings", "skills")
    }
    given = _given(arguments, catalog)
    before_rules = before.settings.get("permissions", {})
    settings = {**before.settings, **given.get("settings", {})}
    if rules := settings.get("permissions"):
        settings["permissions"] = {**rules, **{key: old for key, old in before_rules.items() if key not in rules}}
    if tools := {**before.settings.get("tool_permissions", {}), **settings.get("tool_permissions", {})}:
        settings["tool_permissions"] = {name: said for name, said in tools.items() if said != "allow"}
    _report_change(arguments.screen, store.update(before.id, AgentDraft(**(kept | given | {"settings": settings}))), "updated")


def _given(arguments: argparse.Namespace, catalog: Catalog) -> dict[str, Any]:
    """The fields that the options name."""
    values: dict[str, Any] = {
        "name": arguments.rename,
        "description": arguments.description,
        "system_prompt": _text(arguments),
        "model": arguments.model,
        "settings": _settings(arguments) or None,
        "skills": () if arguments.all_skills else None,
    }
    if arguments.skill:
        values["skills"] = tuple(_skill(catalog, written) for written in arguments.skill)
    return {name: value for name, value in values.items() if value is not None}


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    from skillyard.permissions import check_tool_permissions

    values = {
        "index_tokens": arguments.index_tokens or None,
        "workspace": arguments.workspace,
        "permissions": dict(map(_permission, arguments.permission)) or None,
        "tool_permissions": check_tool_permissions(dict(map(_tool, arguments.tool))) or None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _permission(written: str) -> tuple[str, str]:
    pattern, equals, permission = written.rpartition("=")  # a pattern may have an `=` of its own
    if not equals or permission.strip() not in ("allow", "ask", "deny"):
        raise UsageProblem(f"{written!r} is not a rule about skills", hint="for example --permission 'internal-*=deny'")
    return pattern.strip(), permission.strip()


def _tool(written: str) -> tuple[str, str]:
    name, equals, permission = written.partition("=")
    if not equals:
        raise UsageProblem(f"{written!r} says nothing about a tool", hint="for example --tool bash=deny")
    return name.strip(), permission.strip()


def _skill(catalog: Catalog, written: str) -> AgentSkill:
    from skillyard.agent_definitions import choose_agent_skill

    name, _, lock = written.rpartition("@") if "@" in written else (written, "", "")
    return choose_agent_skill(catalog, name, version_lock=lock or None)


def _text(arguments: argparse.Namespace) -> str | None:
    if arguments.system_prompt_file is None:
        return arguments.system_prompt if arguments.system_prompt is None else str(arguments.system_prompt)
    try:
        return read_given_text(arguments.system_prompt_file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageProblem(f"{arguments.system_prompt_file} cannot be read: {reason}", hint="name a text file") from None


def _prompt(arguments: argparse.Namespace, store: AgentStore) -> None:
    from skillyard.agent_definitions import write_agent_prompt

    agent = store.get(arguments.name)
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


def _list(screen: Screen, definitions: tuple[Agent, ...]) -> None:
    if screen.as_json:
        screen.data({"agents": [agent.to_dict() for agent in definitions]})
    elif definitions:
        rows = [(agent.name, agent.model or "", _skills(agent), agent.description) for agent in definitions]
        screen.table(rows, header=("AGENT", "MODEL", "SKILLS", "DESCRIPTION"), stretch=3)
    else:
        screen.note("no agents; `skillyard agents create NAME --skill SKILL` makes one")


def _show(screen: Screen, agent: Agent) -> None:
    if screen.as_json:
        screen.data(agent.to_dict())
        return
    screen.line(agent.name)
    tools = ", ".join(f"{name}={said}" for name, said in agent.settings.get("tool_permissions", {}).items())
    rules = ", ".join(f"{pattern}={said}" for pattern, said in agent.settings.get("permissions", {}).items())
    fields = {
        "id": agent.id, "description": agent.description, "model": agent.model, "skills": _skills(agent),
        "permissions": rules, "tools": tools,
        "workspace": "" if agent.settings.get("workspace", True) else "none",
    }  # fmt: skip
    for label, value in fields.items():
        if value:
            screen.line(f"{label}: {value}", indent=2)
    if agent.system_prompt:
        screen.line("")
        screen.write(agent.system_prompt.rstrip() + "\n")


def _skills(agent: Agent) -> str:
    named = (f"{one.skill_id}@{one.version_lock}" if one.version_lock else one.skill_id for one in agent.skills)
    return ", ".join(named) or "all"


def _report_change(screen: Screen, agent: Agent, verb: str) -> None:
    if screen.as_json:
        screen.data(agent.to_dict())
    else:
        screen.line(f"{verb} {agent.name}")


def add_memories_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `memories`."""
    parser.add_argument(
        "action", nargs="?", choices=("list", "search", "forget"), default="list", help="list (the default), search or forget"
    )
    parser.add_argument(
        "text", nargs="?", metavar="TEXT", help="for search: the words to look for; for forget: the memory's id"
    )
    parser.add_argument("--user", metavar="ID", help="only memories of this user")
    parser.add_argument(
        "--owner",
        action="append",
        metavar="OWNER",
        default=[],
        help="only memories of this owner: user:ID, household:ID, task:ID or group:ID; may be repeated",
    )
    parser.add_argument(
        "--tag", action="append", metavar="TAG", default=[], help="for search: only with this tag; may be repeated"
    )
    parser.add_argument(
        "--threshold",
        type=_parse_share,
        default=0.5,
        metavar="X",
        help="for search: the lowest score, 0 to 1 (default: 0.5)",
    )
    parser.add_argument(
        "--limit", type=parse_positive, default=20, metavar="N", help="at most this many (default: %(default)s)"
    )


def memories_command(arguments: argparse.Namespace) -> int:
    """List, search or forget."""
    import asyncio

    if (arguments.action == "list") != (arguments.text is None):
        hint = "`skillyard memories`, `skillyard memories search TEXT` or `skillyard memories forget ID`"
        raise UsageProblem("which memories?", hint=hint)
    return asyncio.run(_run_action(arguments, open_home(arguments).memory()))


async def _run_action(arguments: argparse.Namespace, service: SqlMemoryService) -> int:
    screen: Screen = arguments.screen
    if arguments.action == "forget":
        await _forget(arguments, service)
    elif arguments.action == "search":
        recalled = await service.recall(
            arguments.text,
            user_id=arguments.user,
            owners=_owners(arguments),
            limit=arguments.limit,
            threshold=arguments.threshold,
            tags=arguments.tag,
        )
        _show_memories(screen, [item.to_dict() for item in recalled], list(_match_rows(recalled)))
    else:
        memories = await service.list(user_id=arguments.user, limit=arguments.limit, owners=_owners(arguments))
        _show_memories(screen, [memory.to_dict() for memory in memories], [_memory_row(memory) for memory in memories])
    return OK


def _owners(arguments: argparse.Namespace) -> list[Owner]:
    from skillyard.memory import read_owner

    return [read_owner(text) for text in arguments.owner]


async def _forget(arguments: argparse.Namespace, service: SqlMemoryService) -> None:
    if len(arguments.owner) + bool(arguments.user) > 1:
        raise UsageProblem("a memory has one owner", hint="leave out --user, or all but one --owner")
    owner = next(iter(_owners(arguments)), None)
    if not await service.forget(arguments.text, user_id=arguments.user, owner=owner):
        raise RecordNotFound(f"there is no memory {arguments.text!r}", hint="`skillyard memories` lists them with their ids")
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"forgotten": arguments.text})
    else:
        screen.line(f"forgot {arguments.text}")


def _show_memories(screen: Screen, data: list[dict[str, object]], rows: list[tuple[str, ...]]) -> None:
    if screen.as_json:
        screen.data({"memories": data})
    elif rows:
        header = ("FIT",) if len(rows[0]) == 6 else ()
        screen.table(rows, header=(*header, "MEMORY", "OWNER", "TYPE", "WEIGHT", "CONTENT"), stretch=len(header) + 4)
    else:
        screen.note("no memories")


def _match_rows(recalled: tuple[MemoryMatch, ...]) -> Iterator[tuple[str, ...]]:
    for item in recalled:
        yield (f"{item.score:.2f}", *_memory_row(item.memory))


def _memory_row(memory: Memory) -> tuple[str, ...]:
    return memory.id or "", " ".join(memory.owner), memory.type, f"{memory.importance:.2f}", memory.content


def _parse_share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return share


_BY: Final = ("skill", "version", "agent", "caller", "interface", "model")
_FIGURES: Final = ("OFFERED", "LOADED", "FOLLOWED", "RUNS", "FAILED", "REFUSED", "P50", "P95", "TOKENS", "COST")


def add_insights_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `insights`."""
    parser.add_argument("--by", choices=_BY, default="skill", help="what each row is about (default: %(default)s)")
    parser.add_argument(
        "--since", type=_parse_day, metavar="DAY", help="the first day, as 2026-11-01 (default: 13 before the last)"
    )
    parser.add_argument("--until", type=_parse_day, metavar="DAY", help="the last day (default: today, in UTC)")
    parser.add_argument("--skill", metavar="NAME", help="only this skill")
    parser.add_argument("--unused", action="store_true", help="only skills that were offered and neither loaded nor run")
    parser.add_argument(
        "--limit", type=parse_positive, default=20, metavar="N", help="at most this many rows (default: %(default)s)"
    )


def insights_command(arguments: argparse.Namespace) -> int:
    """Show the report."""
    screen: Screen = arguments.screen
    catalog = open_catalog(arguments)
    skill = None if arguments.skill is None else catalog.get(arguments.skill).id
    report = catalog.insights().report(
        arguments.by, since=arguments.since, until=arguments.until, skill=skill, unused=arguments.unused,
        limit=arguments.limit, seconds=None,
    )  # fmt: skip
    if screen.as_json:
        screen.data(report.to_dict())
    elif not report.rows and arguments.unused:
        screen.note(f"whatever was offered from {report.since} to {report.until} was used")
    elif not report.rows:
        screen.note(f"nothing was used from {report.since} to {report.until}")
    else:
        screen.table(
            ((row.key or "?", *_cells(row.figures, report)) for row in report.rows),
            header=(arguments.by.upper(), *_FIGURES),
        )
        total = report.total.figures
        screen.note(
            f"{report.since} to {report.until}: turns: {total.turns:,}, runs: {total.runs:,}, failed: {total.runs_failed:,}"
        )
    return OK


def _cells(figures: UsageFigures, report: InsightReport) -> Iterator[str]:
    for count in (figures.offered, figures.loaded, figures.followed, figures.runs, figures.runs_failed, figures.refused):
        yield f"{count:,}" if count else ""
    for time in (figures.p50_ms, figures.p95_ms):
        yield "" if time is None else f"{time:,} ms"
    tokens = figures.input_tokens + figures.output_tokens
    yield f"{tokens:,}" if tokens else ""
    yield "" if figures.cost is None else f"{figures.cost:,.2f} {report.currency}"


def _parse_day(given: str) -> date:
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{given!r} is not a day: write it as 2026-11-01") from None
