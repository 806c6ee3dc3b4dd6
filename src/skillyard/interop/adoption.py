"""Skills out of what other programs keep: commands of Claude Code, rules of Cursor, AGENTS.md and its kin.

Each becomes a folder of its own with a SKILL.md. Nothing is dropped: a field that skills have no place for is kept below
`metadata`. What a skill cannot do is told.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from skillyard.document import DESCRIPTION_LIMIT, new_document, parse_document, read_front_matter
from skillyard.errors import FileProblem, InvalidInput
from skillyard.interop.migration import MigrationReport, MigrationResult
from skillyard.paths import read_inside, slug
from skillyard.text import shorten, single_line

__all__ = ["FORMS", "Form", "adopt_skills"]

Form = Literal["claude-commands", "cursor", "agents"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)

_LIMIT: Final = 1024 * 1024
_INSTRUCTIONS: Final = ("AGENTS.md", "AGENT.md", "CLAUDE.md", "GEMINI.md")
_SKIPPED: Final = frozenset({".git", "node_modules", ".venv", "__pycache__"})
_GLOBS: Final = re.compile(rb"^(globs:[ \t]*)([^\s\"'\[|>#&][^\r\n]*|&[^\r\n]*)$", re.MULTILINE)
_SHELL: Final = re.compile(r"^!`|\s!`", re.MULTILINE)
_TEXTS: Final = ("allowed-tools", "argument-hint", "model", "disable-model-invocation")


@dataclass(frozen=True, slots=True)
class _Adopted:
    """One file that becomes the skill `name`, or the reason why it cannot."""

    name: str
    text: str = ""
    issues: tuple[str, ...] = ()
    problem: str | None = None


def adopt_skills(
    form: Form, source: str | os.PathLike[str], target: str | os.PathLike[str], *, dry_run: bool = False
) -> MigrationReport:
    """Make a skill in the folder `target` of everything of that form in `source`, a file or a folder.

    A skill that is there already with the same text is skipped; one with another text fails, and stays as it is.

    Raises:
        InvalidInput: there is nothing of that form in `source`.
    """
    place = Path(source)
    if not place.exists():
        raise InvalidInput(f"there is no {place}", hint="name a file or the folder of a project")
    found = sorted(_READERS[form](place), key=lambda item: item.name)
    if not found:
        raise InvalidInput(f"{place} holds nothing of the form {form}", hint=_WHERE[form])
    taken: set[str] = set()
    results = []
    for item in found:
        results.append(_placed(item, Path(target), dry_run=dry_run, taken=taken))
        taken.add(item.name)
    return MigrationReport(tuple(results))


def _placed(item: _Adopted, target: Path, *, dry_run: bool, taken: set[str]) -> MigrationResult:
    folder = target / item.name
    if item.problem or item.name in taken:
        return MigrationResult(item.name, "failed", (item.problem or "two files make a skill of this name",))
    if os.path.lexists(folder):
        same = (folder / "SKILL.md").is_file() and (folder / "SKILL.md").read_bytes() == item.text.encode()
        if same:
            return MigrationResult(item.name, "skipped", ("it is there already",))
        return MigrationResult(item.name, "failed", (f"{folder} is there already, and is something else",))
    document = parse_document(item.text.encode(), directory_name=item.name)
    if not document.usable:
        return MigrationResult(item.name, "failed", tuple(found.message for found in document.diagnostics))
    if not dry_run:
        _write(folder, item.text)
    return MigrationResult(item.name, "migrated", item.issues, (f"write {folder / 'SKILL.md'}",), "", item.text)


def _write(folder: Path, text: str) -> None:
    from skillyard.files import replace_file

    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.with_name(f".{folder.name}.{os.getpid()}-{os.urandom(4).hex()}")
    beside.mkdir()
    try:
        replace_file(beside / "SKILL.md", text.encode(), mode=0o644)
        beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _commands(place: Path) -> Iterator[_Adopted]:
    """`.claude/commands/**/*.md`: folders become the front of the name."""
    root = next((below for below in (place / ".claude/commands", place / "commands") if below.is_dir()), place)
    files = [root] if root.is_file() else _markdown(root, ".md")
    for file in files:
        parts = [file.stem] if file == root else file.relative_to(root).with_suffix("").parts
        yield _read(file, "-".join(parts), _command)


def _rules(place: Path) -> Iterator[_Adopted]:
    """`.cursor/rules/**/*.mdc` and the older `.cursorrules`."""
    if place.is_file():
        yield _read(place, place.stem.lstrip("."), _rule)
        return
    root = place / ".cursor/rules" if (place / ".cursor/rules").is_dir() else place
    for file in _markdown(root, ".mdc"):
        yield _read(file, "-".join(file.relative_to(root).with_suffix("").parts), _rule)
    if (place / ".cursorrules").is_file():
        yield _read(place / ".cursorrules", f"{place.resolve().name}-rules", _rule)


def _instructions(place: Path) -> Iterator[_Adopted]:
    """AGENTS.md, CLAUDE.md, GEMINI.md: each folder's own."""
    files = [place] if place.is_file() else [file for file in _markdown(place, ".md") if file.name in _INSTRUCTIONS]
    top = place.resolve() if place.is_dir() else place.resolve().parent
    for file in files:
        above = file.resolve().parent
        inside = above.relative_to(top).parts if above.is_relative_to(top) else ()
        kind = "instructions" if file.name == "AGENTS.md" else f"{file.stem}-instructions"
        yield _read(file, "-".join((top.name, *inside, kind)), _instruction)


def _markdown(root: Path, suffix: str) -> list[Path]:
    found = []
    for above, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - _SKIPPED)
        found += [Path(above, name) for name in sorted(names) if name.endswith(suffix)]
    return found


@dataclass(frozen=True, slots=True)
class _Source:
    """What a file says: its fields, its text, its own name and the folder it is in."""

    file: Path
    name: str
    texts: Mapping[str, object]
    values: Mapping[str, object]
    body: str


def _read(file: Path, name: str, make: Callable[[_Source], _Adopted]) -> _Adopted:
    skill_name = slug(name)
    try:
        data = _GLOBS.sub(_quoted, read_inside(file.parent, file.name, limit=_LIMIT).replace(b"\r\n", b"\n"))
        data.decode("utf-8-sig")
    except FileProblem as error:
        return _Adopted(skill_name, problem=error.message)
    except UnicodeDecodeError:
        return _Adopted(skill_name, problem="the file is not UTF-8")
    fields = read_front_matter(data)
    headed = data.removeprefix(b"\xef\xbb\xbf").startswith(b"---")
    body = parse_document(data).body if headed else data.decode("utf-8-sig")
    source = _Source(file, skill_name, fields.texts if headed else {}, fields.values if headed else {}, body.strip("\n") + "\n")
    if headed and not fields.values and b":" in data.partition(b"\n---")[0]:
        return _Adopted(skill_name, problem="its front matter cannot be read")
    if not source.body.strip():
        return _Adopted(skill_name, problem="it is empty")
    return make(source)


def _quoted(found: re.Match[bytes]) -> bytes:
    """Globs such as `*.ts, *.tsx`, which Cursor writes without quotes and YAML cannot read."""
    return found[1] + b"'" + found[2].rstrip().replace(b"'", b"''") + b"'"


def _command(source: _Source) -> _Adopted:
    extra = {name: source.values[name] for name in _TEXTS if name in source.values}
    issues = []
    if _SHELL.search(source.body):
        issues.append("it has commands in !`…`, which only Claude Code runs: the text stays as it is")
    description = source.texts.get("description") or _first_words(source)
    return _made(source, description, extra, "claude-command", {*_TEXTS, "description"}, issues)


def _rule(source: _Source) -> _Adopted:
    globs = source.texts.get("globs")
    where = ", ".join(map(str, globs)) if isinstance(globs, list) else str(globs or "")
    issues = []
    if str(source.texts.get("alwaysApply", "")).lower() == "true":
        issues.append("it applied always; a skill is read when its description fits")
    if where:
        issues.append(f"it was attached to {where}; the description says so now")
    description = str(source.texts.get("description") or _first_words(source))
    if where:
        description = f"{description.rstrip('. ')}. Use when working on files that match {where}."
    return _made(source, description, {}, "cursor-rule", {"description"}, issues)


def _instruction(source: _Source) -> _Adopted:
    folder = source.file.resolve().parent.name
    description = (
        f"How to work in {folder}: {_first_words(source).rstrip('. ')}. Use when changing or asking about anything in {folder}."
    )
    issues = [f"{source.file.name} was read in every conversation; a skill is read when its description fits"]
    return _made(source, description, {}, "instructions", set(), issues)


def _made(
    source: _Source, description: object, extra: Mapping[str, object], kind: str, known: set[str], issues: list[str]
) -> _Adopted:
    others = {key: value for key, value in source.values.items() if key not in known and value not in (None, "")}
    metadata: dict[str, object] = {"from": kind} | others
    text = new_document(
        source.name,
        shorten(single_line(str(description)), DESCRIPTION_LIMIT),
        source.body,
        extra={**extra, "metadata": metadata},
    )
    return _Adopted(source.name, text, tuple(issues))


def _first_words(source: _Source) -> str:
    """The first line that says something: a paragraph before a heading."""
    lines = [line.strip() for line in source.body.splitlines() if line.strip()]
    plain = [line for line in lines if not line.startswith(("#", "```", "---", "<", "|", "- [", "![", "@"))]
    first = plain[0] if plain else lines[0]
    return re.sub(r"^(?:[-*>]|\d+\.)\s+|[*_`]{1,3}", "", first.lstrip("# "))


_READERS: Final = {"claude-commands": _commands, "cursor": _rules, "agents": _instructions}
_WHERE: Final[Mapping[Form, str]] = {
    "claude-commands": "commands are Markdown files in .claude/commands",
    "cursor": "rules are .mdc files in .cursor/rules, or the file .cursorrules",
    "agents": f"looked for {', '.join(_INSTRUCTIONS)}",
}
