"""`skillyard link`, `unlink`, `adopt`, `connect`, `disconnect`: skills and our MCP server in coding agents of this machine."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.command_options import open_catalog, open_home, open_skill, parse_tool_prefix, record_audit_event
from skillyard.cli.confirmation import confirm
from skillyard.cli.install_support import (
    InstallProgress,
    add_accept_options,
    draw_results,
    open_registry,
    power_consent,
    replacement_acceptance,
)
from skillyard.cli.screen import FAILURE, OK
from skillyard.errors import SkillyardError, UsageProblem
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.coding_agents import (
        CodingAgent,
        ConfigurationChange,
        LinkCheck,
        LinkReport,
        McpServerEntry,
        SkillsFolder,
    )

_TO: Final = "AGENT,…"
_PLANNED: Final = {"added": "add to", "changed": "change in", "removed": "remove from", "unchanged": "nothing to change in"}
_PUT: Final = ("linked", "copied", "unchanged", "updated")
_STYLES: Final = {
    "refused": "error",
    "unchanged": "dim",
    "kept": "dim",
    "withheld": "dim",
    "edited": "warning",
    "foreign": "warning",
}


def add_to_options(parser: argparse.ArgumentParser) -> None:
    """The options that say whose folders skills are put into, and how."""
    parser.add_argument(
        "--to",
        action="append",
        metavar=_TO,
        help="link it into the folders of these coding agents, such as claude,codex; auto: all on this machine",
    )
    parser.add_argument("--in-project", action="store_true", help="in the project's folders instead of the user's")
    parser.add_argument("--copy", action="store_true", help="as a copy instead of a link (always so in projects)")


def target_folders(arguments: argparse.Namespace) -> tuple[SkillsFolder, ...]:
    """The folders that the options name.

    Raises:
        InvalidInput: an agent is not known, or `auto` finds none.
        PathRefused: a link in the project leads out of it.
    """
    from skillyard.coding_agents import chosen_agents, skills_folders

    return skills_folders(chosen_agents(arguments.to), _project(arguments))


def link_installed(
    arguments: argparse.Namespace, folders: Sequence[SkillsFolder], skill_ids: Sequence[str]
) -> list[LinkReport]:
    """Put what was installed into the folders, and record it; of what could not be the report says why."""
    registry, catalog = open_registry(arguments), open_catalog(arguments, installed=True)
    reports: list[LinkReport] = []
    for name in skill_ids:
        skill = catalog.get(f"installed:{name}")
        reports += registry.agent_folders.put(catalog, skill, folders, copy=_copies(arguments), withhold=True)
    record_audit_event(arguments.screen, lambda: registry.records.database, "agents.link", *_changed(reports))
    return reports


def draw_links(screen: Screen, reports: Sequence[LinkReport]) -> None:
    """A line for each folder, and why where nothing was done."""
    for report in reports:
        screen.line(
            f"{report.status} {report.name} for {', '.join(report.agents)}: {report.path}",
            style=_STYLES.get(report.status, "ok"),
        )
        if report.reason:
            screen.line(single_line(report.reason), indent=2)
        if report.status in _PUT:
            _warn_of_refusals(screen, report)


def _warn_of_refusals(screen: Screen, report: LinkReport) -> None:
    """Name the agents that will ignore a skill that is now in their folder: they do so without a message."""
    from skillyard.interop import CLIENTS, check_clients

    clients = tuple(name for name in CLIENTS if name in report.agents)
    with contextlib.suppress(SkillyardError):  # what is wrong with the skill itself is said elsewhere
        for client in check_clients(report.path, clients, name=Path(report.path).name) if clients else ():
            if not client.loads:
                screen.note(f"warning: {client.client} does not show {report.name}: {single_line('; '.join(client.problems))}")


def add_link_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `link`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the skill (default: list all links and copies)")
    add_to_options(parser)


def link_command(arguments: argparse.Namespace) -> int:
    """Put a skill into the agents' folders, or list those that are there; 1 when something is not as it was made."""
    screen: Screen = arguments.screen
    if arguments.name is None:
        if arguments.to:
            raise UsageProblem("link which skill?", hint="skillyard link NAME --to auto; `skillyard list` shows them")
        return _list_links(arguments)
    if not arguments.to:
        raise UsageProblem("link it where?", hint=f"skillyard link {arguments.name} --to auto; `skillyard agents detected`")
    folders = target_folders(arguments)
    catalog, skill = open_skill(arguments, arguments.name)
    reports = open_registry(arguments).agent_folders.put(catalog, skill, folders, copy=_copies(arguments))
    if skill.source == "project" and not arguments.in_project:  # perhaps a namesake of what was meant
        directory = os.path.abspath(skill.directory)  # noqa: PTH100 # links stay as they are
        screen.note(f"{skill.slug} is the skill of this project, {directory}: now the agents have it in every project")
    record_audit_event(screen, lambda: catalog.records().database, "agents.link", *_changed(reports))
    return _ended(screen, reports)


def add_unlink_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `unlink`."""
    parser.add_argument("name", metavar="NAME", help="the skill's name or id")
    parser.add_argument("--from", dest="to", action="append", metavar=_TO, help="only from these agents (default: from all)")
    parser.add_argument("--in-project", action="store_true", help="only from the project's folders")
    parser.add_argument("--force", action="store_true", help="also an edited copy")


def unlink_command(arguments: argparse.Namespace) -> int:
    """Take a skill out of the agents' folders; the skill itself stays."""
    from skillyard.coding_agents import chosen_agents

    registry = open_registry(arguments)
    agents = [agent.name for agent in chosen_agents(arguments.to)] if arguments.to else None
    reports = registry.links.remove(arguments.name, agents, below=_project(arguments), force=arguments.force)
    record_audit_event(arguments.screen, lambda: registry.records.database, "agents.unlink", *_changed(reports))
    return _ended(arguments.screen, reports)


def add_adopt_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `adopt`."""
    parser.add_argument("name", metavar="NAME", help="the installed skill's name or id")
    parser.add_argument("--from", dest="agent", metavar="AGENT", help="whose copy, when more than one was edited")
    parser.add_argument("-y", "--yes", action="store_true", help="agree when the skill would be allowed more than before")
    add_accept_options(parser)


def adopt_command(arguments: argparse.Namespace) -> int:
    """Make an edited copy the next version of its skill."""
    screen: Screen = arguments.screen
    accepted = replacement_acceptance(arguments)
    with InstallProgress(screen) as progress:
        report = open_registry(arguments).adopt(
            arguments.name,
            agent=arguments.agent,
            project=open_home(arguments).project_root,
            consent=power_consent(screen, yes=arguments.yes),
            progress=progress,
            **accepted,
        )
    draw_results(screen, report.results)
    return OK


def add_connect_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `connect`."""
    _add_connection_arguments(parser)
    parser.add_argument(
        "--url", metavar="URL", help="connect to a running server, such as http://127.0.0.1:8787/mcp (default: `skillyard mcp`)"
    )
    parser.add_argument(
        "--tool-prefix",
        type=parse_tool_prefix,
        default="",
        metavar="PREFIX",
        help="a prefix for the name of each tool, such as yard_, for an agent with its own tool called skill",
    )
    parser.add_argument("--set", metavar="NAME", help="serve only the skills of this set, below [sets] in skillyard.toml")


def add_disconnect_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `disconnect`."""
    _add_connection_arguments(parser)


def _add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agents", nargs="+", metavar="AGENT", help="such as claude or codex; auto: all on this machine")
    parser.add_argument("--in-project", action="store_true", help="for everybody who works on this project")
    parser.add_argument("--dry-run", action="store_true", help="show the change, and write nothing")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before the file is written")


def connect_command(arguments: argparse.Namespace) -> int:
    """Write our MCP server into the agents' own configuration, or take it out, after the change was shown."""
    from skillyard.coding_agents import chosen_agents, connect, disconnect

    screen: Screen = arguments.screen
    agents, project = chosen_agents(arguments.agents), _project(arguments)
    if "auto" in arguments.agents:
        agents = tuple(agent for agent in agents if _can_be_connected(agent, project))
    if arguments.command == "connect":
        server = _server(arguments)
        changes = [connect(agent, server, project=project) for agent in agents]
    else:
        changes = [disconnect(agent, project=project) for agent in agents]
    catalog = open_home(arguments)
    written: list[str] = []
    for change in changes:
        if not screen.as_json:
            _draw_change(screen, change)
        if change.status != "unchanged" and not arguments.dry_run and _agreed(arguments, change):
            kept = change.write(catalog.data_directory)
            written.append(change.agent)
            screen.note(f"{change.path} is written")
            if kept is not None:
                screen.note(f"what was there before: {kept}")
    if written:
        record_audit_event(screen, lambda: catalog.records().database, f"agents.{arguments.command}", *written)
    _report_written(arguments, changes, written)
    left = [change for change in changes if change.status != "unchanged" and change.agent not in written]
    return FAILURE if left and not arguments.dry_run else OK


def _report_written(arguments: argparse.Namespace, changes: Sequence[ConfigurationChange], written: Sequence[str]) -> None:
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"changes": [change.to_dict() | {"written": change.agent in written} for change in changes]})
    elif arguments.dry_run:
        screen.note("nothing was written")
    elif written and arguments.command == "connect":
        screen.note("an agent that runs sees it when it is started again")


def disconnect_command(arguments: argparse.Namespace) -> int:
    """As `connect_command`."""
    return connect_command(arguments)


def draw_detected(arguments: argparse.Namespace) -> None:
    """List the coding agents that are on this machine; as JSON all that are known."""
    from skillyard.coding_agents import SkillLinks, coding_agents, connection

    screen: Screen = arguments.screen
    known, home = coding_agents(), open_home(arguments)
    project, links = home.project_root, SkillLinks(home.data_directory).links()
    skills = {name: sum(name in link.agents and not link.withdrawn for link in links) for name in known}
    connected = {
        name: [scope for scope, folder in (("user", None), ("project", project)) if connection(agent, project=folder)]
        for name, agent in known.items()
    }
    if screen.as_json:
        shapes = [agent.to_dict() | {"skills": skills[name], "connected": connected[name]} for name, agent in known.items()]
        screen.data({"agents": shapes})
        return
    here = [agent for agent in known.values() if agent.detected]
    rows = [
        (one.name, one.title, one.user_skills, str(skills[one.name]), ", ".join(connected[one.name]) or "no") for one in here
    ]
    if rows:
        screen.table(rows, header=("AGENT", "PROGRAM", "FOLDER OF SKILLS", "SKILLS", "CONNECTED"), stretch=2)
    others = ", ".join(name for name, agent in known.items() if not agent.detected)
    screen.note(f"known, and not on this machine: {others}" if others else "all known agents are on this machine")


def _project(arguments: argparse.Namespace) -> str | None:
    return open_home(arguments).project_root if arguments.in_project else None


def _copies(arguments: argparse.Namespace) -> bool:
    """Projects are shared, and a link leads out of them; some systems have no links for everybody."""
    return bool(arguments.copy or arguments.in_project or sys.platform == "win32")


def _changed(reports: Sequence[LinkReport]) -> list[str]:
    return [report.path for report in reports if report.status not in ("unchanged", "refused")]


def _ended(screen: Screen, reports: Sequence[LinkReport]) -> int:
    if screen.as_json:
        screen.data({"links": [report.to_dict() for report in reports]})
    else:
        draw_links(screen, reports)
    return FAILURE if any(report.status == "refused" for report in reports) else OK


def _list_links(arguments: argparse.Namespace) -> int:
    from skillyard.coding_agents import SkillLinks

    screen: Screen = arguments.screen
    checks = SkillLinks(open_home(arguments).data_directory).check()
    if screen.as_json:
        screen.data({"links": [{**check.link.to_dict(), "state": check.state} for check in checks]})
    elif checks:
        rows = [(one.link.name, _state(one), one.link.form, ", ".join(one.link.agents), one.link.path) for one in checks]
        screen.table(rows, header=("SKILL", "STATE", "AS", "FOR", "PATH"), stretch=4)
    else:
        screen.note("no skill is linked into the folder of an agent; `skillyard link NAME --to auto` links one")
    return FAILURE if any(check.state not in ("ok", "withdrawn") for check in checks) else OK


def _state(check: LinkCheck) -> str:
    by_set = check.state == "withdrawn" and check.link.left_out_by
    return f"not in the set {by_set}" if by_set else check.state


def _server(arguments: argparse.Namespace) -> McpServerEntry:
    """Our server as it is started here; in a project by its name alone, since others have it elsewhere."""
    from skillyard.coding_agents import McpServerEntry

    if arguments.url:
        if not arguments.url.startswith(("http://", "https://")):
            raise UsageProblem(f"{arguments.url} is not an address of a server", hint="for example http://127.0.0.1:8787/mcp")
        if arguments.tool_prefix:
            hint = 'in the skillyard.toml of the server: [server] mcp = { tool-prefix = "…" }'
            raise UsageProblem("--tool-prefix with --url: a server that runs names its tools itself", hint=hint)
        if arguments.set is not None:
            hint = "choose it on the server's machine: skillyard use NAME, in the folder of the server"
            raise UsageProblem("--set with --url: a server that runs has a set of its own", hint=hint)
        return McpServerEntry(url=arguments.url)
    program = shutil.which("skillyard")
    start = ("skillyard",) if arguments.in_project else (program,) if program else (sys.executable, "-m", "skillyard")
    home = os.environ.get("SKILLYARD_HOME", "").strip()
    environment = {"SKILLYARD_HOME": os.path.abspath(home)} if home and not arguments.in_project else {}  # noqa: PTH100 # as it is
    if arguments.set is not None:
        _check_set(arguments)
    chosen = ("--set", arguments.set) if arguments.set is not None else ()
    prefix = ("--tool-prefix", arguments.tool_prefix) if arguments.tool_prefix else ()
    return McpServerEntry((*start, "mcp", *chosen, *prefix), environment)


def _check_set(arguments: argparse.Namespace) -> None:
    """The set must be there wherever the agent starts our server: for all projects in the user's own file."""
    from skillyard.catalog.configuration import load_configuration

    catalog = open_home(arguments)
    catalog.check_set(arguments.set)
    file = catalog.configuration.user_file
    if not arguments.in_project and arguments.set not in load_configuration([], user_file=file).skill_sets:
        raise UsageProblem(
            f"the set {arguments.set!r} is of this project alone, and the agent would look for it in every project",
            hint=f"write it in {file} too, or connect with --in-project",
        )


def _can_be_connected(agent: CodingAgent, project: str | None) -> bool:
    return agent.mcp is not None and ("user" if project is None else "project") in agent.mcp.files


def _agreed(arguments: argparse.Namespace, change: ConfigurationChange) -> bool:
    screen: Screen = arguments.screen
    if arguments.yes:
        return True
    if screen.as_json or not screen.interactive:
        raise UsageProblem(
            f"nobody can be asked whether to write {change.path}",
            hint=f"skillyard {arguments.command} {change.agent} --yes; --dry-run shows the change",
        )
    return confirm(f"Write {change.path}?")


def _draw_change(screen: Screen, change: ConfigurationChange) -> None:
    screen.line(f"{_PLANNED[change.status]} {change.agent}: {change.path}", style=_STYLES.get(change.status, "bold"))
    for line in change.lines:
        screen.line(single_line(line[:1]) + line[1:], indent=2, style="ok" if line[0] == "+" else "warning")
