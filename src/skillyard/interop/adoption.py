"""Skills from files of other programs: commands of Claude Code, rules of Cursor, AGENTS.md and similar instruction files.

Each becomes a folder with a SKILL.md. A field that skills do not have is kept below `metadata`; what a skill cannot do is
reported. Front matter of these files is not always YAML: globs and hints are quoted before they are read.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, get_args

from skillyard.document import DESCRIPTION_LIMIT, new_document, parse_document, read_front_matter
from skillyard.errors import FileProblem, InvalidInput
from skillyard.interop.migration import MigrationReport, MigrationResult
from skillyard.paths import read_inside, real_path, slug
from skillyard.text import shorten, single_line

INSTRUCTION_FILES: Final = ("AGENTS.md", "AGENT.md", "CLAUDE.md", "GEMINI.md")
_LIMIT: Final = 1024 * 1024
_COMMANDS: Final = (".claude", "commands")
_SKIPPED: Final = frozenset({".git", "node_modules", ".venv", "__pycache__"})
_VALUE: Final = re.compile(r"^(globs|argument-hint)(:[ \t]+)([^\s\"'|>#][^\n]*)$", re.MULTILINE)
_ITEMS: Final = re.compile(r"^globs:[ \t]*\n((?:[ \t]*-[ \t][^\n]*\n)+)", re.MULTILINE)
_ITEM: Final = re.compile(r"^([ \t]*-[ \t]+)([^\s\"'][^\n]*)$", re.MULTILINE)
_IN_BRACKETS: Final = re.compile(r"(?:\"[^\"]*\"|'[^']*'|\{[^{}]*\}|[^,])+")
_IS_QUOTED: Final = re.compile(r"\"[^\"\\]*\"|'(?:[^']|'')*'")


@dataclass(frozen=True, slots=True)
class ForeignFileLocation:
    """A file, the name of the skill that it makes, and its path as the user sees it."""

    file: Path
    name: str
    shown: str


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """The content of a file: its fields as they were written and as YAML types them, and its text behind them."""

    location: ForeignFileLocation
    texts: Mapping[str, object]
    values: Mapping[str, object]
    body: str


@dataclass(frozen=True, slots=True)
class LinkedFile:
    """A link to `target`, which is one of the files to read, or None when it leads elsewhere."""

    location: ForeignFileLocation
    target: str | None


def find_commands(path: Path) -> Iterator[ForeignFileLocation]:
    """`.claude/commands/**/*.md` of a project and of its folders: folders become the front of the name."""
    if path.is_file():
        yield ForeignFileLocation(path, slug(path.stem), path.name)
        return
    roots = _folders(path, _COMMANDS)
    for root in roots or [below for below in (path, path / "commands") if below.is_dir() and _holds_commands(below)]:
        yield from _files_below(root, ".md", path, _owner(root, path) if roots else ())


def find_rules(path: Path) -> Iterator[ForeignFileLocation]:
    """`.cursor/rules/**/*.mdc` of a project and of its folders, and the older `.cursorrules`."""
    if path.is_file():
        yield ForeignFileLocation(path, slug(path.stem.lstrip(".")), path.name)
        return
    roots = _folders(path, (".cursor", "rules"))
    for root in roots or [path]:
        yield from _files_below(root, ".mdc", path, _owner(root, path) if roots else ())
    for file in _files(path, ".cursorrules"):
        owner = file.parent.relative_to(path).parts or (Path(real_path(path)).name,)
        yield ForeignFileLocation(file, slug("-".join((*owner, "rules"))), str(file.relative_to(path)))


def find_instructions(path: Path) -> Iterator[ForeignFileLocation]:
    """AGENTS.md, CLAUDE.md, GEMINI.md: each folder's own."""
    files = [path] if path.is_file() else [file for file in _files(path, ".md") if file.name in INSTRUCTION_FILES]
    top = path.parent if path.is_file() else path
    for file in files:
        kind = "instructions" if file.name == "AGENTS.md" else f"{file.stem}-instructions"
        inside = file.parent.relative_to(top)
        yield ForeignFileLocation(
            file, slug("-".join((Path(real_path(top)).name, *inside.parts, kind))), str(inside / file.name)
        )


def _folders(path: Path, ending: tuple[str, str]) -> list[Path]:
    return [Path(above) for above, _, _ in _walk(path) if Path(above).parts[-2:] == ending]


def _holds_commands(folder: Path) -> bool:
    """Whether Markdown in it may be taken for commands: any other folder has its README and its docs."""
    parts = Path(real_path(folder)).parts
    return parts[-1:] == ("commands",) or _COMMANDS in pairwise(parts)


def _owner(root: Path, path: Path) -> tuple[str, ...]:
    """The folders between the project and its `.claude` or `.cursor`."""
    return root.parent.parent.relative_to(path).parts if root.parent.parent.is_relative_to(path) else ()


def _files_below(root: Path, suffix: str, path: Path, owner: tuple[str, ...]) -> Iterator[ForeignFileLocation]:
    for file in _files(root, suffix):
        inside = file.relative_to(root).with_suffix("").parts
        yield ForeignFileLocation(file, slug("-".join((*owner, *inside))), str(file.relative_to(path)))


def _files(root: Path, suffix: str) -> list[Path]:
    return [Path(above, name) for above, _, names in _walk(root) for name in sorted(names) if name.endswith(suffix)]


def _walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    for above, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - _SKIPPED)
        yield above, folders, names


def read_foreign(location: ForeignFileLocation, others: Mapping[str, str]) -> ForeignFile | LinkedFile:
    """Read a file, or give where it leads when it is a link; `others` are the paths shown, by real path.

    Raises:
        FileProblem: it cannot be read, is no UTF-8, has fields that cannot be read, or has no text.
    """
    if location.file.is_symlink():
        return LinkedFile(location, others.get(real_path(location.file)))
    try:
        text = read_inside(location.file.parent, location.file.name, limit=_LIMIT).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise FileProblem(f"{location.shown} is not UTF-8", hint="save it as UTF-8") from None
    headed = text.startswith("---")
    data = (_with_quoted_values(text) if headed else text).encode()
    fields = read_front_matter(data)
    if headed and not fields.values and ":" in text.partition("\n---")[0]:
        raise FileProblem(f"the front matter of {location.shown} cannot be read", hint="put its values in quotes")
    body = (parse_document(data).body if headed else text).strip("\n") + "\n"
    if not body.strip():
        raise FileProblem(f"{location.shown} is empty", hint="a skill needs instructions")
    return ForeignFile(location, fields.texts if headed else {}, fields.values if headed else {}, body)


def _with_quoted_values(text: str) -> str:
    """The text with the values of its front matter in quotes where they need them."""
    lines = text.split("\n")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
    header = "".join(f"{line}\n" for line in lines[:end])
    header = _ITEMS.sub(lambda items: items[0].removesuffix(items[1]) + _ITEM.sub(_quoted_item, items[1]), header)
    return _VALUE.sub(_quoted_value, header) + "\n".join(lines[end:])


def _quoted_item(item: re.Match[str]) -> str:
    return item[1] + _quoted(item[2])


def _quoted_value(field: re.Match[str]) -> str:
    """A hint is one text, whatever brackets it has; globs in brackets are a list."""
    value = field[3].rstrip()
    if field[1] == "globs" and value.startswith("[") and value.endswith("]"):
        words = [word.strip() for word in _IN_BRACKETS.findall(value[1:-1])]
        listed = ", ".join(word if _IS_QUOTED.fullmatch(word) else _quoted(word) for word in words if word)
        return f"{field[1]}{field[2]}[{listed}]"
    return field[1] + field[2] + _quoted(value)


def _quoted(text: str) -> str:
    return "'" + text.rstrip().replace("'", "''") + "'"


ForeignFormat = Literal["claude-commands", "cursor", "agents"]
FOREIGN_FORMATS: Final[tuple[ForeignFormat, ...]] = get_args(ForeignFormat)

_SHELL: Final = re.compile(r"^!`|\s!`", re.MULTILINE)
_ARGUMENT: Final = re.compile(r"\$ARGUMENTS\b|\$[1-9]\b")
_MENTION: Final = re.compile(r"(?:^|(?<=[\s(]))@[\w./~-]+", re.MULTILINE)
_BLOCK: Final = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)[^\n]*+\n.*?(?:^ {0,3}\1[`~]*+[ \t]*+$|\Z)", re.MULTILINE | re.DOTALL)
_CLAUDE_FIELDS: Final = ("allowed-tools", "argument-hint", "model", "disable-model-invocation")


@dataclass(frozen=True, slots=True)
class _AdoptedSkill:
    """One file that becomes a skill; or the reason why it cannot, or the `link` that it only is."""

    location: ForeignFileLocation
    text: str = ""
    issues: tuple[str, ...] = ()
    problem: str | None = None
    link: str | None = None


def adopt_skills(
    form: ForeignFormat, source: str | os.PathLike[str], target: str | os.PathLike[str], *, dry_run: bool = False
) -> MigrationReport:
    """Make skills in the folder `target` from all files of that form in `source`, a file or a folder.

    A skill that is there already with the same text is skipped; one with another text fails, and stays as it is.

    Raises:
        InvalidInput: there is nothing of that form in `source`.
    """
    path = Path(source)
    if not path.exists():
        raise InvalidInput(f"there is no {path}", hint="name a file or the folder of a project")
    if path.is_file():
        path = Path(real_path(path))
    locations = sorted(_FINDERS[form](path), key=lambda one: (one.name, one.shown))
    if not locations:
        raise InvalidInput(f"{path} holds nothing of the form {form}", hint=_LOCATION_HINTS[form])
    files = {real_path(one.file): one.shown for one in locations if not one.file.is_symlink()}
    taken: dict[str, str] = {}
    results = []
    for one in locations:
        results.append(_write_skill(_adopt_file(form, one, files), Path(target), dry_run=dry_run, taken=taken))
        taken.setdefault(one.name, one.shown)
    return MigrationReport(tuple(results))


def _write_skill(item: _AdoptedSkill, target: Path, *, dry_run: bool, taken: Mapping[str, str]) -> MigrationResult:
    name = item.location.name
    folder = target / name
    if item.link:
        return MigrationResult(name, "skipped", (item.link,))
    if item.problem:
        return MigrationResult(name, "failed", (item.problem,))
    if name in taken:
        return MigrationResult(name, "failed", (f"{item.location.shown} and {taken[name]} make a skill of this name",))
    if os.path.lexists(folder):
        same = (folder / "SKILL.md").is_file() and (folder / "SKILL.md").read_bytes() == item.text.encode()
        if same:
            return MigrationResult(name, "skipped", ("it already exists",))
        return MigrationResult(name, "failed", (f"{folder} already exists with other content",))
    document = parse_document(item.text.encode(), directory_name=name)
    if not document.usable:
        return MigrationResult(name, "failed", tuple(diagnostic.message for diagnostic in document.diagnostics))
    if not dry_run:
        _write_folder(folder, item.text)
    return MigrationResult(name, "migrated", item.issues, (f"write {folder / 'SKILL.md'}",), "", item.text)


def _write_folder(folder: Path, text: str) -> None:
    from skillyard.files import replace_file

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
        made = Path(scratch, folder.name)
        made.mkdir()
        replace_file(made / "SKILL.md", text.encode(), mode=0o644)
        made.rename(folder)


def _adopt_file(form: ForeignFormat, location: ForeignFileLocation, others: Mapping[str, str]) -> _AdoptedSkill:
    try:
        source = read_foreign(location, others)
    except FileProblem as error:
        return _AdoptedSkill(location, problem=error.message)
    if isinstance(source, ForeignFile):
        return _CONVERTERS[form](source)
    if source.target is None:
        return _AdoptedSkill(location, problem=f"{location.shown} is a link that leads elsewhere")
    return _AdoptedSkill(location, link=f"{location.shown} is a link to {source.target}")


def _skill_from_command(source: ForeignFile) -> _AdoptedSkill:
    extra = {name: source.values[name] for name in _CLAUDE_FIELDS if name in source.values}
    description = source.texts.get("description") or _first_line(source)
    text = _without_code_blocks(source.body)
    issues = []
    if _SHELL.search(text):
        issues.append("it has commands in !`…`, which only Claude Code runs: the text stays as it is")
    if filled := sorted(set(_ARGUMENT.findall(text))):
        issues.append(f"it has {', '.join(filled)}, which only Claude Code fills in: the text stays as it is")
    return _new_skill(source, str(description), extra, "claude-command", {*_CLAUDE_FIELDS, "description"}, issues)


def _skill_from_rule(source: ForeignFile) -> _AdoptedSkill:
    globs = source.texts.get("globs")
    where = ", ".join(map(str, globs)) if isinstance(globs, list) else str(globs or "")
    issues = []
    if str(source.texts.get("alwaysApply", "")).lower() == "true":
        issues.append("it applied always; a skill is read when its description fits")
    if where:
        issues.append(f"it was attached to {where}; the description says so now")
    description = str(source.texts.get("description") or _first_line(source))
    if where:
        description = f"{description.rstrip('. ')}. Use when working on files that match {where}."
    return _new_skill(source, description, {}, "cursor-rule", {"description"}, issues)


def _skill_from_instructions(source: ForeignFile) -> _AdoptedSkill:
    file = source.location.file
    folder = Path(real_path(file)).parent.name
    description = source.texts.get("description") or (
        f"How to work in {folder}: {_first_line(source).rstrip('. ')}. Use when changing or asking about anything in {folder}."
    )
    issues = [f"{file.name} was read in every conversation; a skill is read when its description fits"]
    return _new_skill(source, str(description), {}, "instructions", {"description"}, issues)


def _new_skill(
    source: ForeignFile, description: str, extra: Mapping[str, object], kind: str, handled: set[str], issues: list[str]
) -> _AdoptedSkill:
    others = {key: value for key, value in source.values.items() if key not in handled and value not in (None, "")}
    kept = [key for key in others if key not in ("globs", "alwaysApply")]
    line = single_line(description)
    shown = shorten(line, DESCRIPTION_LIMIT)
    if shown != line and source.texts.get("description"):
        others["description"] = source.texts["description"]
        kept.append("description in full")
    if kept:
        issues.append(f"kept below metadata: {', '.join(kept)}")
    if names := _mentions(source.body):
        issues.append(f"it names {', '.join(names)}: a skill's reader opens these files itself")
    metadata: dict[str, object] = {"from": kind, "source": source.location.shown} | others
    text = new_document(source.location.name, shown, source.body, extra={**extra, "metadata": metadata})
    return _AdoptedSkill(source.location, text, tuple(issues))


def _mentions(body: str) -> list[str]:
    names = {name.rstrip(".-/") for name in _MENTION.findall(_without_code_blocks(body))}
    return sorted(name for name in names if "." in name or "/" in name)


def _without_code_blocks(body: str) -> str:
    return _BLOCK.sub("", body)


def _first_line(source: ForeignFile) -> str:
    """The first line with text: a paragraph rather than a heading."""
    lines = [line.strip() for line in source.body.splitlines() if line.strip()]
    plain = [line for line in lines if not line.startswith(("#", "```", "---", "<", "|", "- [", "![", "@"))]
    first = plain[0] if plain else lines[0]
    return re.sub(r"^(?:[-*>]|\d+\.)\s+|[*_`]{1,3}", "", first.lstrip("# "))


_FINDERS: Final[Mapping[ForeignFormat, Callable[[Path], Iterator[ForeignFileLocation]]]] = {
    "claude-commands": find_commands, "cursor": find_rules, "agents": find_instructions
}  # fmt: skip
_CONVERTERS: Final[Mapping[ForeignFormat, Callable[[ForeignFile], _AdoptedSkill]]] = {
    "claude-commands": _skill_from_command, "cursor": _skill_from_rule, "agents": _skill_from_instructions
}  # fmt: skip
_LOCATION_HINTS: Final[Mapping[ForeignFormat, str]] = {
    "claude-commands": "commands are .md files in .claude/commands or in a folder named commands; or name one file",
    "cursor": "rules are .mdc files in .cursor/rules, or the file .cursorrules",
    "agents": f"looked for {', '.join(INSTRUCTION_FILES)}",
}
