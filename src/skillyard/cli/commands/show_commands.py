"""`skillyard list`: every skill; `show` and `read`: one of them and its files; `prompt`: their index for a system prompt."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, get_args

from skillyard.catalog import load_withdrawn, withdrawal
from skillyard.cli.command_options import (
    missing_root,
    open_catalog,
    open_skill,
    parse_positive,
    read_given_text,
    unsearched_skills,
)
from skillyard.cli.install_support import note_withdrawn
from skillyard.cli.language import current_language
from skillyard.cli.screen import FAILURE, OK, USAGE, counted, require_existing
from skillyard.errors import BinaryFile, InvalidInput
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from skillyard.catalog import FileContent, Skill, Status
    from skillyard.catalog.skill_files import KeptLink
    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog
    from skillyard.prompt import Index
    from skillyard.skill_detail import SkillDetail


_SHOWN_ELSEWHERE: Final = frozenset({"name", "description", "input_schema", "inputSchema", "input-schema"})
_LINKS: Final = 30
_STATE: Final = 80
_LONGEST: Final = 200  # characters of one field


def draw_skill_detail(screen: Screen, detail: SkillDetail) -> None:
    """Draw the details for people, in sections; only those that hold something."""
    from skillyard.cli.commands.environment_commands import needs_rows

    skill = detail.skill
    screen.line(f"{skill.name}  {skill.id}", style="bold")
    screen.line(skill.description or "(no description)", indent=2)
    screen.heading("State")
    screen.table(((name, value) for name, value in _state(detail) if value), indent=2)
    if fields := tuple(_fields(detail)):
        screen.heading("Front matter")
        screen.table(fields, indent=2)
    if parameters := tuple(_parameters(detail)):
        screen.heading("Input")
        screen.table(parameters, indent=2)
    if detail.files:
        screen.heading("Files beside SKILL.md")
        screen.table(((file.type, f"{file.size:,} B", file.name) for file in detail.files), right=1, indent=2)
    if detail.needs.items:
        screen.heading("Packages and programs")
        screen.table(needs_rows(detail.needs), indent=2, stretch=3)
        if detail.needs.command:
            screen.line(f"allow: {detail.needs.command}", indent=2)
    _draw_links(screen, detail.links)
    if skill.diagnostics:
        screen.heading("Findings")
        for diagnostic in skill.diagnostics:
            screen.line(
                f"{diagnostic.file}:{diagnostic.line} {diagnostic.severity} {diagnostic.rule}: {diagnostic.message}",
                style=diagnostic.severity,
                indent=2,
            )
            if diagnostic.fix:
                screen.line(f"fix: {diagnostic.fix}", indent=6)


def _draw_links(screen: Screen, links: Sequence[KeptLink]) -> None:
    """The unpinned downloads in the text: kept copies, or the addresses."""
    if not links:
        return
    screen.heading("Fetched from elsewhere")
    screen.table(map(_link_row, links[:_LINKS]), indent=2, stretch=2)
    if len(links) > _LINKS:
        screen.line(f"and {len(links) - _LINKS} more; --json lists them", indent=2)


def _link_row(link: KeptLink) -> tuple[str, str, str, str]:
    kept = f"kept, sha256 {link.sha256[:12]}" if link.sha256 else "not pinned"
    state = f"{kept}: {link.problem}" if link.problem else kept
    return link.kind, f"{single_line(link.file)}:{link.line}", single_line(link.address), shorten(state, _STATE)


def _state(detail: SkillDetail) -> Iterator[tuple[str, str]]:
    skill, ruling = detail.skill, detail.ruling
    yield "status", skill.status + (f": {skill.reason}" if skill.reason else "")
    yield "withdrawn", detail.withdrawn or ""
    yield "folder", skill.directory
    own = "its state is its own until `skillyard adopt` makes it a version"
    yield "copy of", f"{detail.copy_of}, edited here: {own}" if detail.copy_of else ""
    by = f", named by {skill.root.variable}" if skill.root.variable else ""
    yield "found in", f"{skill.root.path} ({skill.source}{by})"
    yield "namesakes", ", ".join(f"{other.id} ({other.status}) in {other.directory}" for other in detail.others)
    yield "permission", ruling.permission + (f", by the rule {ruling.pattern}" if ruling.pattern else "")
    yield "for models", _offer(skill)
    yield "can run", detail.run.summary


def _offer(skill: Skill) -> str:
    if skill.status != "ok":
        return f"no: it is {skill.status}"
    if skill.state == "manual":
        return "no: its state is manual, so that people start it"
    if not skill.model_invocable:
        return "no: its author keeps it for people"
    return "yes" if skill.state == "automatic" else f"yes: its state is {skill.state}"


def _fields(detail: SkillDetail) -> Iterator[tuple[str, str]]:
    """The other fields of the front matter, one level deep; what is deeper stays JSON."""
    front_matter = detail.document.public_front_matter if detail.document else {}
    for name, value in front_matter.items():
        if name in _SHOWN_ELSEWHERE:
            continue
        if isinstance(value, Mapping) and not name.endswith(("schema", "Schema")):
            yield from ((f"{name}.{key}", _text(inner)) for key, inner in value.items() if inner)
        elif value:
            yield name, _text(value)


def _text(value: object) -> str:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return shorten(", ".join(value), _LONGEST)
    return shorten(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), _LONGEST)


def _parameters(detail: SkillDetail) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, need and meaning of each parameter that the input schema names."""
    schema = detail.input_schema
    properties, required = (schema or {}).get("properties"), (schema or {}).get("required")
    if not isinstance(properties, Mapping):
        return
    for name, shape in properties.items():
        field = shape if isinstance(shape, Mapping) else {}
        needed = isinstance(required, list | tuple) and name in required
        default = f"default {_text(field['default'])}" if "default" in field else ""
        yield name, _text(field.get("type", "any")), "required" if needed else default, _text(field.get("description", ""))


def add_show_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `show`."""
    parser.add_argument("name", help="the skill's name, id or folder")


def show_command(arguments: argparse.Namespace) -> int:
    """Show the skill, whatever its status."""
    from skillyard.skill_detail import read_skill_detail

    detail = read_skill_detail(*open_skill(arguments, arguments.name))
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data(detail.to_dict())
    else:
        draw_skill_detail(screen, detail)
    return OK


_LIMIT: Final = 256 * 1024 * 1024  # bytes; a person may want what is too long for a model


def add_read_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `read`."""
    parser.add_argument("name", help="the skill's name, id or folder")
    parser.add_argument("file", nargs="?", default="SKILL.md", help="a path inside the skill (default: %(default)s)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the bytes to this file; needed for what is not text")


def read_command(arguments: argparse.Namespace) -> int:
    """Print the file as it is, or copy it."""
    from skillyard.cli.confirmation import require_consent
    from skillyard.files import write_output

    screen: Screen = arguments.screen
    catalog, skill = open_skill(arguments, arguments.name)
    require_consent(catalog, skill, screen)
    content = skill.read_file(arguments.file, limit=_LIMIT)
    if content.note:
        screen.note(content.note)
    if arguments.output:
        write_output(arguments.output, content.data)
        screen.note(f"wrote {len(content.data):,} bytes to {arguments.output}")
    elif content.text is None:
        raise BinaryFile(
            f"{content.path} is not text ({len(content.data):,} bytes)",
            hint=f"copy it: skillyard read {skill.id} {content.path} --output FILE",
        )
    if screen.as_json:
        screen.data(_shape(skill.id, content))
    elif not arguments.output:
        _show(screen, content)
    return OK


def _show(screen: Screen, content: FileContent) -> None:
    """The bytes for a program; for a terminal the text, sanitized, on a line of its own."""
    text = content.text or ""
    if screen.is_terminal:
        screen.write(text if text.endswith("\n") else text + "\n")
    else:
        screen.raw(content.data)


def _shape(skill_id: str, content: FileContent) -> dict[str, object]:
    return {"id": skill_id, "path": content.path, "size": len(content.data), "text": content.text, "note": content.note}


_STATUSES: Final[tuple[Status, ...]] = ("ok", "disabled", "denied", "shadowed", "broken")


def add_list_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `list`."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="exactly these folders of skills (default: the roots)")
    parser.add_argument(
        "--status",
        action="append",
        choices=_STATUSES,
        metavar="STATUS",
        help=f"only skills of this status ({', '.join(_STATUSES)}); may be repeated",
    )
    parser.add_argument("--wide", action="store_true", help="whole descriptions, also where they are long")


def list_command(arguments: argparse.Namespace) -> int:
    """List the skills."""
    if arguments.paths:
        hint = "give a folder of skills"
        arguments.root = [*(arguments.root or ()), *(require_existing(path, hint=hint) for path in arguments.paths)]
    catalog = open_catalog(arguments)
    screen: Screen = arguments.screen
    if screen.as_json and not arguments.status and not screen.is_terminal:
        screen.write(catalog.to_json() + "\n")  # ready-made: a tenth of the time for ten thousand skills
        return _code(arguments, catalog)
    statuses = arguments.status or _STATUSES
    skills = [skill for skill in catalog.all() if skill.status in statuses]
    if screen.as_json:
        screen.data({"skills": [skill.to_dict() for skill in skills], "roots": [root.to_dict() for root in catalog.roots]})
        return _code(arguments, catalog)
    if skills:
        skills.sort(key=lambda skill: skill.name.casefold())  # those of one name stay in the order in which they win it
        uses, withdrawn = Counter(skill.name for skill in catalog.all()), load_withdrawn(catalog.data_directory)
        screen.table(
            ((_name(skill, uses), skill.source, _status(skill, withdrawn), _last_column(skill, arguments)) for skill in skills),
            header=("NAME", "SOURCE", "STATUS", "DESCRIPTION"),
            stretch=None if arguments.wide else 3,
        )
    _remark(arguments, catalog, skills)
    return _code(arguments, catalog)


def _status(skill: Skill, withdrawn: Mapping[str, str]) -> str:
    """Its status; of one that is on, that its version was withdrawn, or the state where a user gave it one."""
    if skill.status == "ok" and skill.source == "installed" and (sentence := withdrawn.get(skill.slug)):
        return withdrawal(sentence)
    return skill.state if skill.status == "ok" and skill.state != "automatic" else skill.status


def _remark(arguments: argparse.Namespace, catalog: Catalog, skills: Sequence[Skill]) -> None:
    """What there is in all, what is odd about it, and what can be done next."""
    screen: Screen = arguments.screen
    note_withdrawn(screen, catalog, skills)
    if catalog.all():
        screen.note(_summary(catalog, skills))
    else:
        screen.note(f"no skills in {', '.join(root.path for root in catalog.roots) or 'any folder'}")
    if reason := next((skill.reason for skill in skills if skill.status == "disabled" and skill.reason), None):
        screen.hint(reason)
    if (aside := None if arguments.root else unsearched_skills(catalog, arguments.project)) is not None:
        screen.hint(
            f"{aside} has skills but is not a root: `skillyard list {aside}`, or add it to [skills] paths in skillyard.toml"
        )
    elif missing_root(arguments, catalog) is not None:
        screen.hint("check the path of --root")
    elif not catalog.all():
        screen.hint("make one with `skillyard new NAME --description TEXT`, or name a folder: `skillyard list FOLDER`")


def _code(arguments: argparse.Namespace, catalog: Catalog) -> int:
    """Not 0 when a folder that was named could not be searched: a slip of the pen must not look like an empty success."""
    if missing_root(arguments, catalog) is not None:
        return USAGE
    return FAILURE if arguments.root and any(not root.scanned for root in catalog.roots) else OK


def _name(skill: Skill, uses: Counter[str]) -> str:
    """What other commands find it by: the name, or the id where several have the name."""
    return skill.name if uses[skill.name] == 1 or skill.status == "ok" else skill.id


def _last_column(skill: Skill, arguments: argparse.Namespace) -> str:
    """What it does, or else why it is not offered."""
    screen: Screen = arguments.screen
    if skill.status in ("ok", "disabled") or not skill.reason:
        return screen.description(skill.description, wide=arguments.wide)
    return f"{skill.reason} ({skill.directory})" if skill.status == "broken" else skill.reason


def _summary(catalog: Catalog, skills: Sequence[Skill]) -> str:
    counts = Counter(skill.status for skill in skills)
    parts = [f"{counts[status]:,} {status}" for status in _STATUSES if counts[status]]
    roots = sum(root.scanned for root in catalog.roots)
    return f"{counted(len(skills), 'skill')} in {counted(roots, 'root')}: {', '.join(parts) or 'none of this status'}"


_INDEX_HINT: Final = "name a file that `skillyard prompt --json` wrote"


def add_prompt_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `prompt`."""
    from skillyard.prompt import Style

    parser.add_argument(
        "--style",
        default="compact",
        metavar="STYLE",
        help="how it is written: "
        + ", ".join(get_args(Style))
        + ", or a style that an extension brings (default: %(default)s, the fewest tokens)",
    )
    parser.add_argument(
        "--budget",
        type=_parse_budget,
        default=2000,
        metavar="TOKENS",
        help="at most this many tokens, or `none` (default: 2000)",
    )
    parser.add_argument(
        "--description-chars",
        type=parse_positive,
        metavar="N",
        help="cut each description after N characters, even if there is space for more",
    )
    parser.add_argument("--request", metavar="TEXT", help="a request of the user; matching skills come first")
    parser.add_argument(
        "--previous",
        metavar="FILE",
        help="the output of --json for the previous turn; what it showed stays in place",
    )
    parser.add_argument(
        "--pin", action="append", default=[], metavar="NAME", help="a skill that is always listed; may be repeated"
    )
    parser.add_argument(
        "--guidance",
        action="store_true",
        help="print rules for the use of skills instead, to paste into the file of an agent, such as AGENTS.md or Agent.md",
    )
    parser.add_argument("--language", choices=("en", "zh"), help="language of the guidance (default: that of --lang)")


def prompt_command(arguments: argparse.Namespace) -> int:
    """Print the index, and say on standard error what did not fit."""
    if arguments.guidance:
        return _guidance(arguments)
    catalog = open_catalog(arguments)
    index = catalog.prompt(
        budget=arguments.budget,
        style=arguments.style,
        request=arguments.request,
        pinned=[catalog.get(name).id for name in arguments.pin],
        description_chars=arguments.description_chars,
        previous=_read_index(arguments.previous) if arguments.previous else None,
    )
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data(index.to_dict())
    else:
        screen.write(index.text + ("\n" if index.text and not index.text.endswith("\n") else ""))
        screen.note(_report_index(index))
    if missing_root(arguments, catalog) is not None:
        return USAGE
    if index.text or not index.more:
        return OK
    screen.hint("give a larger --budget, or `--budget none`")
    return FAILURE


def _guidance(arguments: argparse.Namespace) -> int:
    from skillyard.prompt import usage_guidance

    screen: Screen = arguments.screen
    text = usage_guidance(arguments.language or ("zh" if current_language() == "zh" else "en"))
    if screen.as_json:
        screen.data({"guidance": text})
    else:
        screen.write(text)
    return OK


def _read_index(path: str) -> Index:
    from skillyard.prompt import Index

    try:
        value = json.loads(read_given_text(path))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not JSON: {error}", hint=_INDEX_HINT) from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} is not an index", hint=_INDEX_HINT)
    return Index.from_dict(value)


def _parse_budget(text: str) -> int | None:
    return None if text == "none" else parse_positive(text)


def _report_index(index: Index) -> str:
    listed = len(index.kept) + len(index.shortened)
    parts = [f"{index.tokens:,} tokens for {counted(listed, 'skill')}"]
    if index.shortened:
        parts.append(f"{len(index.shortened):,} of them shortened")
    if index.more:
        parts.append(f"{index.more:,} left out for want of room")
    if index.turn > 1:
        parts.append(f"{len(index.added):,} added and {len(index.dropped):,} dropped since the turn before")
    if hidden := len(index.omitted) - index.more:
        parts.append(f"{hidden:,} not offered")
    if index.omitted and not index.text:
        return f"{', '.join(parts)}: {index.omitted[0].reason}"
    return ", ".join(parts) + (" (--json says why)" if index.omitted else "")
