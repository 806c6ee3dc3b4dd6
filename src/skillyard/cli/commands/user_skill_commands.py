"""`skillyard new`, `open`, `delete`: the user's own skills; `enable`, `disable`, `state`, `use`: what models are offered."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from skillyard.cli.command_options import discover_catalog, open_catalog, open_home, open_skill, record_audit_event
from skillyard.cli.commands.coding_agent_commands import draw_links
from skillyard.cli.confirmation import confirm
from skillyard.cli.install_support import open_registry
from skillyard.cli.screen import FAILURE, OK, counted
from skillyard.document import is_name
from skillyard.errors import UsageProblem
from skillyard.paths import slug

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.cli.screen import Screen
    from skillyard.coding_agents import LinkReport
    from skillyard.library import Catalog


_BODY: Final = """\
# {title}

{description}

## Steps

1. Say what to do first, as an order to a capable colleague who has never seen the task.
2. Name what must be checked before going on, and what to do when it fails.
3. Say what the answer looks like.
{run}
## Example

Show one request and the answer to it.
"""

_RUN: Final = """
## Run it

`ENTRY` takes `{"text": "..."}` and answers `{"words": 2}`. Run it for every request; never guess its result.
"""


class ScriptTemplate(NamedTuple):
    """The path of a new script and its text; `{name}` stands for the skill."""

    path: str
    text: str


_PYTHON: Final = '''\
"""The script of {name}; try it with: skillyard run {name} --input '{{"text": "hello world"}}'."""

from __future__ import annotations


def execute(parameters: dict, context: dict | None = None) -> dict:
    words = parameters["text"].split()
    return {{"output": {{"words": len(words)}}, "status": "success"}}
'''

_JAVASCRIPT: Final = """\
// The script of {name}; try it with: skillyard run {name} --input '{{"text": "hello world"}}'

export async function execute(parameters, context) {{
  const words = parameters.text.split(/\\s+/).filter(Boolean);
  return {{ output: {{ words: words.length }}, status: 'success' }};
}}
"""

_TYPESCRIPT: Final = """\
// The script of {name}; try it with: skillyard run {name} --input '{{"text": "hello world"}}'

interface Parameters {{
  text: string;
}}

export async function execute(parameters: Parameters, context?: {{ userId?: string }}) {{
  const words = parameters.text.split(/\\s+/).filter(Boolean);
  return {{ output: {{ words: words.length }}, status: 'success' }};
}}
"""

_SHELL: Final = """\
#!/usr/bin/env bash
# The script of {name}; try it with: skillyard run {name} --input '{{"text": "hello world"}}'
# Standard input is {{"input": {{...}}, "context": {{...}}}}; what is printed is the output, as JSON where it is JSON.
set -euo pipefail

text=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["input"]["text"])')
printf '{{"words": %d}}\\n' "$(wc -w <<< "$text")"
"""

SCRIPT_TEMPLATES: Final[Mapping[str, ScriptTemplate]] = MappingProxyType(
    {
        "python": ScriptTemplate("scripts/execute.py", _PYTHON),
        "javascript": ScriptTemplate("scripts/execute.mjs", _JAVASCRIPT),
        "typescript": ScriptTemplate("scripts/execute.ts", _TYPESCRIPT),
        "shell": ScriptTemplate("scripts/execute.sh", _SHELL),
    }
)


def script_fields(language: str) -> dict[str, object]:
    """The front matter that makes a skill with a script in this language runnable."""
    return {
        "version": "1.0.0",
        "type": "direct",
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "security": {"timeout_ms": 10000, "memory_mb": 128, "network": "none", "filesystem": "read-only"},
        "resources": {"entry": f"./{SCRIPT_TEMPLATES[language].path}"},
    }


def skill_body(name: str, description: str, *, entry: str | None) -> str:
    """The instructions of a new skill, which runs the script `entry` when there is one."""
    title = name.replace("-", " ").capitalize()
    return _BODY.format(title=title, description=description, run=_RUN.replace("ENTRY", entry) if entry else "")


def add_new_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `new`."""
    parser.add_argument("name", help="lower-case letters, digits and hyphens, as in report-writer")
    parser.add_argument(
        "--description", required=True, metavar="TEXT", help="what it does and when to use it: all that a model sees at first"
    )
    destination = parser.add_mutually_exclusive_group()
    destination.add_argument("--user", action="store_true", help="for you, in every project (this is the default)")
    destination.add_argument("--in-project", action="store_true", help="for everyone who works on this project")
    destination.add_argument("--in", dest="folder", metavar="DIR", help="in this folder of skills")
    parser.add_argument(
        "--with-script",
        nargs="?",
        const="python",
        choices=tuple(SCRIPT_TEMPLATES),
        metavar="LANGUAGE",
        help=f"with a script that runs, and the schema of its input: {', '.join(SCRIPT_TEMPLATES)} (default: python)",
    )


def new_command(arguments: argparse.Namespace) -> int:
    """Make the folder and say what to do next."""
    screen: Screen = arguments.screen
    catalog = discover_catalog(arguments, roots=arguments.root)
    template = SCRIPT_TEMPLATES[arguments.with_script] if arguments.with_script else None
    if not is_name(arguments.name):
        raise UsageProblem(
            f"{arguments.name!r} cannot be the name of a skill",
            hint="use lower-case letters, digits and single hyphens, at most 64: for example report-writer",
        )
    skill = catalog.create(
        arguments.name,
        arguments.description,
        skill_body(arguments.name, arguments.description.strip(), entry=template.path if template else None),
        source="project" if arguments.in_project else "user",
        root=arguments.folder or (arguments.root[0] if arguments.root else None),
    )
    if template:
        _add_script(skill, arguments.with_script)
    if screen.as_json:
        screen.data({"skill": skill.to_dict(), "files": ["SKILL.md", *(file.name for file in skill.files())]})
    else:
        screen.line(f"created {skill.path}", style="ok")
        screen.note(f"next: write its steps, then `skillyard check {skill.directory}`{_try(skill, arguments.with_script)}")
    return OK


def _add_script(skill: Skill, language: str) -> None:
    from skillyard.document import set_front_matter

    template, document = SCRIPT_TEMPLATES[language], Path(skill.path)
    script = Path(skill.directory) / template.path
    document.write_text(set_front_matter(document.read_text("utf-8"), script_fields(language)), "utf-8", newline="\n")
    script.parent.mkdir()
    script.write_text(template.text.format(name=skill.name), "utf-8", newline="\n")


def _try(skill: Skill, with_script: str | None) -> str:
    command = f'skillyard run {skill.name} --root {skill.root.path} --input \'{{"text": "hello world"}}\''
    return f" and `{command}`" if with_script else ""


def add_switch_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `enable` and `disable`."""
    parser.add_argument("name", nargs="?", help="the skill's name, id or folder")
    parser.add_argument("--all", action="store_true", help="all skills at once, in addition to the state of each")


def switch_command(arguments: argparse.Namespace) -> int:
    """Change the setting; saying it twice is no error."""
    if arguments.all is (arguments.name is not None):
        raise UsageProblem("name one skill, or pass --all", hint=f"skillyard {arguments.command} NAME")
    if arguments.all:
        return _switch_all(arguments)
    catalog, skill = _open_switchable(arguments)
    if arguments.command == "enable":
        catalog.enable(skill.id)
    else:
        catalog.disable(skill.id)
    return _report_switched(arguments, catalog, skill)


def _open_switchable(arguments: argparse.Namespace) -> tuple[Catalog, Skill]:
    """The skill that is named; it must be in a root, since its state is kept for that place."""
    catalog, skill = open_skill(arguments, arguments.name)
    if skill.root.path == skill.directory:
        folder = Path(skill.directory).parent
        raise UsageProblem(
            f"{skill.directory} is in none of the roots: switching it alone would not change the roots",
            hint=f"name the folder of skills: skillyard {arguments.command} {skill.slug} --root {folder}",
        )
    return catalog, skill


def _report_switched(arguments: argparse.Namespace, catalog: Catalog, skill: Skill) -> int:
    """Bring the folders of agents along, record the change, and show the skill as it is now."""
    screen: Screen = arguments.screen
    changed = catalog.get(skill.id)
    _note_problems(screen, open_registry(arguments).agent_folders.follow_skill(changed))
    record_audit_event(screen, lambda: catalog.records().database, f"catalog.{arguments.command}", skill.id)
    if screen.as_json:
        screen.data({"skill": changed.to_dict()})
    else:
        on = "ok" if changed.state == "automatic" else changed.state
        status = (on if changed.status == "ok" else changed.status) if changed.reason is None else changed.reason
        if changed.reason and not changed.reason.startswith(changed.status):
            status = f"{changed.status}: {changed.reason}"
        screen.line(f"{changed.id} is now {status}")
    return OK


def _note_problems(screen: Screen, reports: Sequence[LinkReport]) -> None:
    """What could not be updated in the folders of agents."""
    for report in reports:
        screen.note(f"{report.path}: {report.reason}")


def add_state_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `state`."""
    parser.add_argument("name", nargs="?", help="the skill's name, id or folder (default: list every skill that has a state)")
    parser.add_argument(
        "state",
        nargs="?",
        choices=("pinned", "automatic", "name-only", "manual", "off"),
        help="pinned: listed first; automatic: as it comes; name-only: listed without its description; "
        "manual: only people start it; off: not offered",
    )


def state_command(arguments: argparse.Namespace) -> int:
    """Give a skill a state, or show what states there are."""
    screen: Screen = arguments.screen
    if arguments.state is not None:
        catalog, skill = _open_switchable(arguments)
        catalog.set_state(skill.id, arguments.state)
        return _report_switched(arguments, catalog, skill)
    skills = [open_skill(arguments, arguments.name)[1]] if arguments.name else list(open_catalog(arguments).all())
    shown = [skill for skill in skills if arguments.name or skill.state != "automatic"]
    if screen.as_json:
        screen.data({"skills": [{"id": skill.id, "state": skill.state} for skill in shown]})
    else:
        screen.table((skill.state, skill.id) for skill in shown)
        if not shown:
            screen.note("every skill is automatic; `skillyard state NAME pinned` gives one another state")
    return OK


def add_use_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `use`."""
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("name", nargs="?", metavar="SET", help="a set below [sets] in skillyard.toml (default: list them)")
    chosen.add_argument("--none", action="store_true", help="offer all skills of this project again")


def use_command(arguments: argparse.Namespace) -> int:
    """Offer only the skills of a set in this project, or list the sets."""
    screen: Screen = arguments.screen
    catalog = open_catalog(arguments)
    links: Sequence[LinkReport] = ()
    if arguments.name or arguments.none:
        catalog.use_set(arguments.name)
        links = open_registry(arguments).agent_folders.follow_set(catalog)
        record_audit_event(screen, lambda: catalog.records().database, "catalog.use", arguments.name or "*")
    sets, current = catalog.configuration.skill_sets, catalog.chosen_set
    if screen.as_json:
        shown = {"set": current, "sets": {name: list(skills) for name, skills in sets.items()}}
        screen.data(shown | ({"links": [report.to_dict() for report in links]} if links else {}))
        return OK
    if not arguments.name and not arguments.none:
        screen.table(("*" if name == current else "", name, ", ".join(skills)) for name, skills in sorted(sets.items()))
        if not sets:
            screen.note('there are no sets; write them in skillyard.toml, below [sets]: backend = ["pdf", "docx"]')
        return OK
    offered = counted(len(catalog), "skill")
    if current:
        screen.line(f"in use: the set {current}, {offered}", style="ok")
    else:
        screen.line(f"in use: all skills, {offered}", style="ok")
    draw_links(screen, links)
    here = {*(skill.slug for skill in catalog.all()), *(skill.id for skill in catalog.all())}
    if missing := [word for word in sets.get(current or "", ()) if word not in here and slug(word) not in here]:
        screen.note(f"not found here: {', '.join(missing)}")
    return OK


def _switch_all(arguments: argparse.Namespace) -> int:
    screen: Screen = arguments.screen
    catalog, enabled = open_home(arguments), arguments.command == "enable"
    catalog.switch_all(enabled=enabled)
    _note_problems(screen, open_registry(arguments).agent_folders.follow_all(open_catalog(arguments)))
    record_audit_event(screen, lambda: catalog.records().database, f"catalog.{arguments.command}", "*")
    if screen.as_json:
        screen.data({"enableSkills": enabled})
    elif enabled:
        screen.line("skills are offered, except those that are disabled individually", style="ok")
    else:
        screen.line("no skill is offered to any model")
    return OK


def add_open_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `open`."""
    parser.add_argument("name", nargs="?", help="the skill's name, id or folder (default: the folder of your skills)")


def open_command(arguments: argparse.Namespace) -> int:
    """Print the folder, and open it where there is a desktop."""
    from skillyard.catalog.user_changes import open_folder

    screen: Screen = arguments.screen
    folder = open_catalog(arguments).directory_to_open()
    if arguments.name is not None:
        folder = open_skill(arguments, arguments.name)[1].directory
    opened = open_folder(folder)
    if screen.as_json:
        screen.data({"directory": folder, "opened": opened})
    else:
        screen.line(folder)
        if not opened:
            screen.note("nothing was opened: no file manager was found; the folder is the one above")
    return OK


def add_delete_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `delete`."""
    parser.add_argument("name", help="the skill's name, id or folder; only user skills can be deleted")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def delete_command(arguments: argparse.Namespace) -> int:
    """Delete the folder after asking."""
    from skillyard.catalog.user_changes import check_deletable

    screen: Screen = arguments.screen
    catalog, skill = open_skill(arguments, arguments.name)
    check_deletable(skill)
    if not arguments.yes:
        if screen.as_json or not screen.interactive:
            raise UsageProblem(
                "nobody can be asked whether to delete", hint=f"without being asked: skillyard delete {skill.id} --yes"
            )
        if not confirm(f"Delete {skill.directory} and everything in it?"):
            screen.note("nothing was deleted")
            return FAILURE
    catalog.delete(skill.id)
    record_audit_event(screen, lambda: catalog.records().database, "catalog.delete", skill.id)
    if screen.as_json:
        screen.data({"deleted": {"id": skill.id, "directory": skill.directory}})
    else:
        screen.line(f"deleted {skill.directory}")
    return OK
