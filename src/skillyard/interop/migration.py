"""Migration of legacy skills to the canonical form: planned in full, checked, then written with SKILL.md last.

Code in the text of SKILL.md becomes a script. Whatever fails before SKILL.md is replaced leaves a skill that works as before;
the migration can be run again.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any, Final, Literal, cast, get_args

from skillyard.document import DOCUMENT_LIMIT, CodeBlock, Document, Section, check_document, parse_document
from skillyard.errors import FileProblem, InvalidInput, PathRefused
from skillyard.interop.apexbridge_format import (
    METADATA_FILES,
    LegacySkill,
    canonical_fields,
    canonical_text,
    missing_headings,
    read_legacy,
)
from skillyard.packages import tree_entries
from skillyard.paths import is_inside, read_inside, safe_relative
from skillyard.wire import WireForm, wire

_ENDINGS: Final = {
    "ts": "ts", "typescript": "ts", "js": "js", "javascript": "js", "py": "py", "python": "py", "sh": "sh", "bash": "sh",
    "shell": "sh",
}  # fmt: skip
_SHOWS: Final = re.compile(r"示例|样例|例子|用法|调用|测试|输出|响应|example|usage|sample|test|output|response", re.IGNORECASE)
_STARTS: Final = re.compile(
    r"^[^\S\n]*+(?:(?:export\s++(?:default\s++)?)?(?:async\s++)?(?:function|def)\s++execute\s*+\(|(?:export\s++)?const\s++execute\s*+=)",
    re.MULTILINE,
)
_EXPORTS: Final = re.compile(
    r"^[^\S\n]*+export\s++(?:(?:default|async|const|function)\s|\{[^{}]*\bexecute\b)|module\.exports|exports\.", re.M
)
_HOLDS_CODE: Final = re.compile(r"代码|脚本|实现|\bcode\b|\bscripts?\b|implementation", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ExtractedCode:
    """A script made of code blocks: its `ending`, its text, the body without them, and what is doubtful."""

    ending: str
    code: str
    body: str
    doubts: tuple[str, ...] = ()


def extract_code(
    body: str, sections: tuple[Section, ...], blocks: tuple[CodeBlock, ...], *, body_line: int, old: bool
) -> ExtractedCode | None:
    """Take the code that is meant to run out of a body; None when there is none.

    Code is meant to run where a block defines `execute`, and in a skill of the `old` form, whose code was nowhere else; a
    skill of today shows code to its readers. All blocks of one language belong to the script, in their order, but
    for those under a heading that shows how it is used. The language is that of the block that defines `execute`, else of the
    first block.
    """
    code_blocks = [block for block in blocks if block.language in _ENDINGS and not _shows(block, sections)]
    starting = next((block for block in code_blocks if _STARTS.search(block.text)), None)
    if starting is None:
        code_blocks = [
            block for block in code_blocks if old and (_ENDINGS[block.language] != "sh" or _is_shell_script(block, sections))
        ]
        if not code_blocks:
            return None
        starting = code_blocks[0]
    ending = _ENDINGS[starting.language]
    chosen = [block for block in code_blocks if _ENDINGS[block.language] == ending]
    others = len(code_blocks) - len(chosen)
    doubts = [f"{others} code blocks of other languages stay in the text"] if others else []
    if not _STARTS.search(starting.text) and ending != "sh":
        doubts.append("no block defines `execute`: the script runs from top to bottom")
    return ExtractedCode(ending, _joined(chosen, ending), _without(body, chosen, body_line), tuple(doubts))


def _shows(block: CodeBlock, sections: tuple[Section, ...]) -> bool:
    return bool(_SHOWS.search(_heading(block, sections))) and not _STARTS.search(block.text)


def _is_shell_script(block: CodeBlock, sections: tuple[Section, ...]) -> bool:
    """Shell lines are mostly typed by the reader: a script has a first line or a heading that marks it."""
    return block.text.startswith("#!") or bool(_HOLDS_CODE.search(_heading(block, sections)))


def _heading(block: CodeBlock, sections: tuple[Section, ...]) -> str:
    return next((section.title for section in reversed(sections) if section.line < block.line), "")


def _joined(blocks: list[CodeBlock], ending: str) -> str:
    code = "\n".join(_unindented(block.text).rstrip("\n") + "\n" for block in blocks)
    if ending in ("ts", "js") and _STARTS.search(code) and not _EXPORTS.search(code):
        code += "\nexport { execute };\n"
    return code


def _unindented(code: str) -> str:
    """The code of a block that stood in a list, as it would be in a file."""
    code = code.replace("\r\n", "\n")
    return dedent(code) if code.lstrip("\n").startswith((" ", "\t")) else code


def _without(body: str, blocks: list[CodeBlock], body_line: int) -> str:
    """The body without those blocks; what stays is as it was, but for the empty lines on both sides of a block."""
    lines = body.replace("\r\n", "\n").splitlines(keepends=True)
    kept: list[str] = []
    at = 0
    for block in blocks:
        start = block.line - body_line
        kept += lines[at:start]
        at = start + len(block.text.splitlines()) + 2
        while kept and not kept[-1].strip() and at < len(lines) and not lines[at].strip():
            at += 1
    return "".join([*kept, *lines[at:]]).strip("\n") + "\n"


FOLDERS: Final = ("scripts", "references", "assets")
_OTHER_MEANS: Final = ("endpoint", "url", "dataPath", "dataFile", "data_path", "data_file", "serverId", "server_id", "toolName")
"""Settings of `config` with which a skill is executed without a script of its own."""
_PLACEHOLDER_ENTRY: Final = "scripts/execute.ts"
_PLACEHOLDER: Final = """\
/** A placeholder: write what the skill does here. */
export async function execute(parameters: Record<string, unknown>): Promise<unknown> {
  throw new Error("the logic of this skill is not written yet: scripts/execute.ts is a placeholder");
}
"""
_INSTRUCTIONS: Final = "a current skill, instructions for models: `skillyard check` checks it"
_OLD: Final = frozenset({
    "type", "display_name", "domain", "capabilities", "triggers", "trigger_patterns", "input_schema", "output_schema",
    "security", "resources", "permissions", "protocol", "abp", "cacheable", "ttl",
})  # fmt: skip
"""Fields that only skills of the canonical form have: without any of them a skill is not of that form."""
_ENTRIES: Final = (
    "scripts/execute.ts", "scripts/main.ts", "scripts/index.ts", "scripts/execute.js", "scripts/execute.py",
    "scripts/execute.sh",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _MigrationPlan:
    """Everything that will be written for one skill; `script` is None when its code is in files already."""

    skill: LegacySkill
    text: str
    entry: str | None
    script: str | None
    issues: tuple[str, ...]


def migrate_skills(
    folder: str | os.PathLike[str], *, dry_run: bool = False, backup: bool = True, hosts: Sequence[str] = ()
) -> MigrationReport:
    """Bring every skill directly below `folder`, or the one that it is, into the canonical form.

    With `dry_run` nothing is written. `hosts` are for skills that want the network and name no host; without them such a skill
    gets no network, and an issue says so. `backup` keeps the old SKILL.md as `SKILL.md.backup.<milliseconds>`; without it,
    only files that say something that does not fit in the new SKILL.md are kept.

    Raises:
        InvalidInput: there is no such folder.
    """
    return MigrationReport(
        tuple(_migrated(skill_folder, dry_run=dry_run, backup=backup, hosts=hosts) for skill_folder in _skills(folder))
    )


def validate_skills(folder: str | os.PathLike[str]) -> MigrationReport:
    """Say of every skill directly below `folder`, or of the one that it is, whether the profile `full` finds no error in it.

    Raises:
        InvalidInput: there is no such folder.
    """
    return MigrationReport(tuple(_validated(skill_folder) for skill_folder in _skills(folder)))


def _validated(folder: Path) -> MigrationResult:
    issues = tuple(_full_profile_errors(folder))
    return MigrationResult(folder.name, "failed" if issues else "validated", issues)


def _skills(folder: str | os.PathLike[str]) -> list[Path]:
    """The folders that hold a SKILL.md: the immediate ones, or the folder itself."""
    path = Path(folder)
    if not path.is_dir():
        raise InvalidInput(f"{path} is not a folder", hint="name the folder of your skills: --skill-dir skills")
    if (path / "SKILL.md").exists():
        return [Path(os.path.abspath(path))]  # noqa: PTH100 # a link stays what it is called
    return sorted(below for below in path.iterdir() if (below / "SKILL.md").exists() and not below.is_symlink())


def _migrated(folder: Path, *, dry_run: bool, backup: bool, hosts: Sequence[str]) -> MigrationResult:
    try:
        if _is_canonical(folder):
            return MigrationResult(folder.name, "skipped", ("already canonical",))
        plan = _plan(folder, hosts)
        if plan is None:
            return MigrationResult(folder.name, "skipped", (_INSTRUCTIONS,))
        if _is_done(plan):
            return MigrationResult(folder.name, "skipped", ("already canonical",))
        if problem := _unusable(plan):
            return MigrationResult(folder.name, "failed", (problem, *plan.issues))
        details = tuple(_planned_changes(plan, backup=backup))
        if not dry_run:
            _write(plan, backup=backup)
    except (FileProblem, OSError) as error:
        reason = error.message if isinstance(error, FileProblem) else f"{error.strerror}: {error.filename}"
        return MigrationResult(folder.name, "failed", (reason,))
    before = plan.skill.original.decode("utf-8-sig", "replace")
    issues = (*plan.issues, *(() if dry_run else _full_profile_errors(folder)))
    return MigrationResult(folder.name, "migrated", issues, details, before, plan.text)


def _is_canonical(folder: Path) -> bool:
    if any((folder / name).exists() for name in METADATA_FILES) or not all((folder / name).is_dir() for name in FOLDERS):
        return False
    entry = _document(folder).metadata.resources.entry
    return entry is not None and (folder / entry).is_file()


def _is_done(plan: _MigrationPlan) -> bool:
    """Whether everything that would be written is there, as with a skill without code that was migrated before."""
    skill = plan.skill
    there = plan.script is None and not skill.metadata_files and all((skill.folder / name).is_dir() for name in FOLDERS)
    return there and plan.text.encode() == skill.original


def _document(folder: Path) -> Document:
    return parse_document(read_inside(folder, "SKILL.md", limit=DOCUMENT_LIMIT), directory_name=folder.name)


def _is_old(skill: LegacySkill) -> bool:
    """Whether a skill has fields of the old form; the code in one that has not shows a model how things are done."""
    return bool(skill.metadata_files) or not _OLD.isdisjoint(skill.fields)


def _plan(folder: Path, hosts: Sequence[str]) -> _MigrationPlan | None:
    """What is to be written; None for a skill of today that is instructions and nothing else."""
    skill = read_legacy(folder)
    document = parse_document(f"---\n---\n{skill.body}".encode(), directory_name=folder.name)
    issues = list(skill.doubts)
    entry, there = _entry(skill, issues)
    # A migration always writes `resources`: where they are, code that was left in the text is not meant to run.
    old = bool(skill.metadata_files) or (_is_old(skill) and "resources" not in skill.fields)
    moved = extract_code(document.body, document.sections, document.code_blocks, body_line=document.body_line, old=old)
    if moved is None and not _is_old(skill):
        return None
    script, body = None, document.body
    if moved and (there is None or read_inside(folder, there, limit=DOCUMENT_LIMIT) == moved.code.encode()):
        entry = there or entry or f"scripts/execute.{moved.ending}"
        script, body = (None if there else moved.code), moved.body
        issues += moved.doubts
    elif there is not None:
        entry = there
        issues += [f"{there} already exists: the code in the text stays where it is"] if moved else []
    if entry is None and _needs_a_script(skill.fields):
        entry, script = _PLACEHOLDER_ENTRY, _PLACEHOLDER
        issues.append(f"it has no code: {entry} is a placeholder, which fails until it is written")
    fields = canonical_fields(skill.fields, folder=folder.name, entry=entry, hosts=hosts)
    if _wants_network(skill.fields) and cast("Mapping[str, object]", fields["security"])["network"] == "none":
        issues.append("it wants the network and names no host, so it has none: migrate with --host, or write network_allowlist")
    sections = parse_document(f"---\n---\n{body}".encode()).sections
    text = canonical_text(fields, missing_headings(body, sections, fields))
    return _MigrationPlan(skill, text, entry, script, tuple(issues))


def _needs_a_script(fields: Mapping[str, object]) -> bool:
    """Whether nothing but a script of its own can execute the skill."""
    config = fields.get("config")
    return not any(isinstance(config, Mapping) and config.get(name) for name in _OTHER_MEANS)


def _wants_network(fields: Mapping[str, object]) -> bool:
    declared, older = fields.get("security"), fields.get("permissions")
    wanted = declared.get("network") if isinstance(declared, Mapping) else None
    return (wanted or (older.get("network") if isinstance(older, Mapping) else None)) not in (None, False, "none", "false")


def _entry(skill: LegacySkill, issues: list[str]) -> tuple[str | None, str | None]:
    """The entry that is declared, and the one that already exists."""
    resources = skill.fields.get("resources")
    declared = resources.get("entry") if isinstance(resources, dict) else None
    entry = None
    if isinstance(declared, str) and declared:
        try:
            entry = safe_relative(declared)
        except PathRefused:
            issues.append(f"resources.entry {declared!r} leaves the skill and was not taken over")
    candidates = [entry] if entry else list(_ENTRIES)
    there = next(
        (name for name in candidates if (skill.folder / name).is_file() and is_inside(skill.folder / name, skill.folder)), None
    )
    return entry, there


def _unusable(plan: _MigrationPlan) -> str | None:
    document = parse_document(plan.text.encode(), directory_name=plan.skill.folder.name)
    if document.usable and not document.inferred:
        return None
    errors = [diagnostic.message for diagnostic in document.diagnostics if diagnostic.severity == "error"]
    return f"SKILL.md would not be usable: {errors[0] if errors else 'it lacks a ' + ' and a '.join(document.inferred)}"


def _planned_changes(plan: _MigrationPlan, *, backup: bool) -> Iterator[str]:
    for name in FOLDERS:
        if not (plan.skill.folder / name).is_dir():
            yield f"make {name}/"
    if plan.script is not None:
        yield f"write {plan.entry}"
    if backup or "SKILL.md" in plan.skill.lossy:
        yield "keep SKILL.md as SKILL.md.backup.<milliseconds>"
    yield "write SKILL.md"
    for name in plan.skill.metadata_files:
        yield f"rename {name} to {name}.legacy" if backup or name in plan.skill.lossy else f"delete {name}"


def _write(plan: _MigrationPlan, *, backup: bool) -> None:
    """Write everything, SKILL.md last of what counts."""
    from skillyard.files import replace_file

    folder = plan.skill.folder
    for name in FOLDERS:
        (folder / name).mkdir(exist_ok=True)
    if plan.script is not None and plan.entry is not None:
        target = folder / plan.entry
        there = next(above for above in target.parents if above.exists())
        if not is_inside(there, folder):
            raise PathRefused(f"{plan.entry} leads out of the skill", hint="replace the link by a folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, plan.script.encode(), mode=0o644)
    if backup or "SKILL.md" in plan.skill.lossy:
        replace_file(folder / f"SKILL.md.backup.{time.time_ns() // 1_000_000}", plan.skill.original, mode=0o644)
    replace_file(folder / "SKILL.md", plan.text.encode(), mode=0o644)
    for name in plan.skill.metadata_files:
        _archive_file(folder / name, keep=backup or name in plan.skill.lossy)


def _archive_file(path: Path, *, keep: bool) -> None:
    if not keep:
        path.unlink()
        return
    legacy = path.with_name(f"{path.name}.legacy")
    if legacy.exists():
        legacy = path.with_name(f"{legacy.name}.{time.time_ns() // 1_000_000}")
    path.rename(legacy)


def _full_profile_errors(folder: Path) -> tuple[str, ...]:
    """The errors of a check in the profile `full`, as `skillyard check` finds them."""
    try:
        data = read_inside(folder, "SKILL.md", limit=DOCUMENT_LIMIT)
    except (FileProblem, OSError) as error:
        return (str(error),)
    files = [entry.path for entry in tree_entries(folder, lenient=True) if entry.kind in ("f", "x")]
    found = check_document(data, directory_name=folder.name, profile="full", files=files)
    return tuple(f"line {one.line}: {one.message}" for one in found if one.severity == "error")


Status = Literal["migrated", "validated", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class MigrationResult(WireForm, camel_case=True):
    """The result for one skill: `issues` are sentences for people, `details` the files that were or would be written."""

    skill_name: str
    status: Status
    issues: tuple[str, ...] = field(default=(), metadata=wire(omit_empty=True))
    details: tuple[str, ...] = field(default=(), metadata=wire(omit_empty=True))
    before: str = field(default="", repr=False, metadata=wire(hidden=True))
    after: str = field(default="", repr=False, metadata=wire(hidden=True))
    """SKILL.md before and after, where it changes."""


@dataclass(frozen=True, slots=True)
class MigrationReport(WireForm):
    """The results for all skills of a folder."""

    results: tuple[MigrationResult, ...]

    @property
    def ok(self) -> bool:
        """Whether none failed."""
        return all(result.status != "failed" for result in self.results)

    def to_dict(self) -> dict[str, Any]:
        """`{total, migrated, validated, skipped, failed, results}`: the counts by status are no fields."""
        counts = {status: sum(result.status == status for result in self.results) for status in get_args(Status)}
        return {"total": len(self.results), **counts, **WireForm.to_dict(self)}
