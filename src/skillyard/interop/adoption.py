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

from skillyard.document import DESCRIPTION_LIMIT, new_document, parse_document
from skillyard.errors import FileProblem, InvalidInput
from skillyard.interop.foreign_files import (
    INSTRUCTION_FILES,
    ForeignFile,
    Found,
    commands,
    instructions,
    read_foreign,
    rules,
)
from skillyard.interop.report import MigrationReport, MigrationResult
from skillyard.paths import real_path
from skillyard.text import shorten, single_line

__all__ = ["FORMS", "Form", "adopt_skills"]

Form = Literal["claude-commands", "cursor", "agents"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)

_SHELL: Final = re.compile(r"^!`|\s!`", re.MULTILINE)
_ARGUMENT: Final = re.compile(r"\$ARGUMENTS\b|\$[1-9]\b")
_MENTION: Final = re.compile(r"(?:^|(?<=[\s(]))@[\w./~-]+", re.MULTILINE)
_BLOCK: Final = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)[^\n]*+\n.*?(?:^ {0,3}\1[`~]*+[ \t]*+$|\Z)", re.MULTILINE | re.DOTALL)
_OF_CLAUDE: Final = ("allowed-tools", "argument-hint", "model", "disable-model-invocation")


@dataclass(frozen=True, slots=True)
class _Adopted:
    """One file that becomes a skill; or the reason why it cannot, or the `link` that it only is."""

    found: Found
    text: str = ""
    issues: tuple[str, ...] = ()
    problem: str | None = None
    link: str | None = None


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
    if place.is_file():
        place = Path(real_path(place))
    found = sorted(_FINDERS[form](place), key=lambda one: (one.name, one.shown))
    if not found:
        raise InvalidInput(f"{place} holds nothing of the form {form}", hint=_WHERE[form])
    files = {real_path(one.file): one.shown for one in found if not one.file.is_symlink()}
    taken: dict[str, str] = {}
    results = []
    for one in found:
        results.append(_placed(_adopted(form, one, files), Path(target), dry_run=dry_run, taken=taken))
        taken.setdefault(one.name, one.shown)
    return MigrationReport(tuple(results))


def _placed(item: _Adopted, target: Path, *, dry_run: bool, taken: Mapping[str, str]) -> MigrationResult:
    name = item.found.name
    folder = target / name
    if item.link:
        return MigrationResult(name, "skipped", (item.link,))
    if item.problem:
        return MigrationResult(name, "failed", (item.problem,))
    if name in taken:
        return MigrationResult(name, "failed", (f"{item.found.shown} and {taken[name]} make a skill of this name",))
    if os.path.lexists(folder):
        same = (folder / "SKILL.md").is_file() and (folder / "SKILL.md").read_bytes() == item.text.encode()
        if same:
            return MigrationResult(name, "skipped", ("it is there already",))
        return MigrationResult(name, "failed", (f"{folder} is there already, and is something else",))
    document = parse_document(item.text.encode(), directory_name=name)
    if not document.usable:
        return MigrationResult(name, "failed", tuple(found.message for found in document.diagnostics))
    if not dry_run:
        _write(folder, item.text)
    return MigrationResult(name, "migrated", item.issues, (f"write {folder / 'SKILL.md'}",), "", item.text)


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


def _adopted(form: Form, found: Found, others: Mapping[str, str]) -> _Adopted:
    """What one file becomes."""
    try:
        source = read_foreign(found, others)
    except FileProblem as error:
        return _Adopted(found, problem=error.message)
    if isinstance(source, ForeignFile):
        return _MAKERS[form](source)
    if source.target is None:
        return _Adopted(found, problem=f"{found.shown} is a link that leads elsewhere")
    return _Adopted(found, link=f"{found.shown} is a link to {source.target}")


def _command(source: ForeignFile) -> _Adopted:
    extra = {name: source.values[name] for name in _OF_CLAUDE if name in source.values}
    description = source.texts.get("description") or _first_words(source)
    prose = _prose(source.body)
    issues = []
    if _SHELL.search(prose):
        issues.append("it has commands in !`…`, which only Claude Code runs: the text stays as it is")
    if filled := sorted(set(_ARGUMENT.findall(prose))):
        issues.append(f"it has {', '.join(filled)}, which only Claude Code fills in: the text stays as it is")
    return _made(source, str(description), extra, "claude-command", {*_OF_CLAUDE, "description"}, issues)


def _rule(source: ForeignFile) -> _Adopted:
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


def _instruction(source: ForeignFile) -> _Adopted:
    file = source.found.file
    folder = Path(real_path(file)).parent.name
    description = source.texts.get("description") or (
        f"How to work in {folder}: {_first_words(source).rstrip('. ')}. Use when changing or asking about anything in {folder}."
    )
    issues = [f"{file.name} was read in every conversation; a skill is read when its description fits"]
    return _made(source, str(description), {}, "instructions", {"description"}, issues)


def _made(
    source: ForeignFile, description: str, extra: Mapping[str, object], kind: str, known: set[str], issues: list[str]
) -> _Adopted:
    others = {key: value for key, value in source.values.items() if key not in known and value not in (None, "")}
    told = [key for key in others if key not in ("globs", "alwaysApply")]
    line = single_line(description)
    shown = shorten(line, DESCRIPTION_LIMIT)
    if shown != line and source.texts.get("description"):
        others["description"] = source.texts["description"]
        told.append("description in full")
    if told:
        issues.append(f"kept below metadata: {', '.join(told)}")
    if names := _mentions(source.body):
        issues.append(f"it names {', '.join(names)}: a skill's reader opens these files itself")
    metadata: dict[str, object] = {"from": kind, "source": source.found.shown} | others
    text = new_document(source.found.name, shown, source.body, extra={**extra, "metadata": metadata})
    return _Adopted(source.found, text, tuple(issues))


def _mentions(body: str) -> list[str]:
    """The files that a text names as `@docs/style.md`."""
    names = {name.rstrip(".-/") for name in _MENTION.findall(_prose(body))}
    return sorted(name for name in names if "." in name or "/" in name)


def _prose(body: str) -> str:
    """The text without blocks of code."""
    return _BLOCK.sub("", body)


def _first_words(source: ForeignFile) -> str:
    """The first line that says something: a paragraph before a heading."""
    lines = [line.strip() for line in source.body.splitlines() if line.strip()]
    plain = [line for line in lines if not line.startswith(("#", "```", "---", "<", "|", "- [", "![", "@"))]
    first = plain[0] if plain else lines[0]
    return re.sub(r"^(?:[-*>]|\d+\.)\s+|[*_`]{1,3}", "", first.lstrip("# "))


_FINDERS: Final[Mapping[Form, Callable[[Path], Iterator[Found]]]] = {
    "claude-commands": commands, "cursor": rules, "agents": instructions
}  # fmt: skip
_MAKERS: Final[Mapping[Form, Callable[[ForeignFile], _Adopted]]] = {
    "claude-commands": _command, "cursor": _rule, "agents": _instruction
}  # fmt: skip
_WHERE: Final[Mapping[Form, str]] = {
    "claude-commands": "commands are .md files in .claude/commands or in a folder named commands; or name one file",
    "cursor": "rules are .mdc files in .cursor/rules, or the file .cursorrules",
    "agents": f"looked for {', '.join(INSTRUCTION_FILES)}",
}
