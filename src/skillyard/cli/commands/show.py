"""`skillyard show`: everything about one skill; `skillyard read`: the text of one of its files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.commands.environment import needs_rows
from skillyard.cli.confirmation import require_consent
from skillyard.cli.failures import OK
from skillyard.cli.openers import open_skill
from skillyard.errors import BinaryFile
from skillyard.text import shorten

if TYPE_CHECKING:
    from skillyard.catalog import FileContent, Skill
    from skillyard.cli.screen import Screen
    from skillyard.skill_detail import SkillDetail

_SHOWN_ELSEWHERE: Final = frozenset({"name", "description", "input_schema", "inputSchema", "input-schema"})
_LONGEST: Final = 200  # characters of one field


def draw_skill_detail(screen: Screen, detail: SkillDetail) -> None:
    """Draw the details for people, in sections; only those that hold something."""
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


def _state(detail: SkillDetail) -> Iterator[tuple[str, str]]:
    skill, ruling = detail.skill, detail.ruling
    yield "status", skill.status + (f": {skill.reason}" if skill.reason else "")
    yield "folder", skill.directory
    yield "found in", f"{skill.root.path} ({skill.source})"
    yield "namesakes", ", ".join(f"{other.id} ({other.status}) in {other.directory}" for other in detail.namesakes)
    yield "permission", ruling.permission + (f", by the rule {ruling.pattern}" if ruling.pattern else "")
    yield "for models", _offer(skill)
    yield "can run", detail.run_summary


def _offer(skill: Skill) -> str:
    if skill.status != "ok":
        return f"no: it is {skill.status}"
    return "yes" if skill.model_invocable else "no: its author keeps it for people"


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
    screen: Screen = arguments.screen
    catalog, skill = open_skill(arguments, arguments.name)
    require_consent(catalog, skill, screen)
    content = skill.read_file(arguments.file, limit=_LIMIT)
    if content.note:
        screen.note(content.note)
    if arguments.output:
        Path(arguments.output).write_bytes(content.data)
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
