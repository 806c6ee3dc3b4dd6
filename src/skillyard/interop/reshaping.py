"""One skill's folder brought from one format into another, in place; what it was before is carried along in it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from skillyard.document import DOCUMENT_LIMIT, parse_document, read_front_matter
from skillyard.errors import FileProblem, InvalidManifest, InvalidSkill
from skillyard.files import read_limited
from skillyard.interop.edits import with_edits
from skillyard.interop.originals import ORIGINALS_FILE, REWRITTEN, Files, Originals, State
from skillyard.interop.protocols import read_manifest_file
from skillyard.interop.transforms import SKILL_FORMATS, TRANSFORMS, SkillFormat

__all__ = ["SKILL_FORMATS", "SkillFormat", "format_of_skill", "reshape"]

_APEX: Final = frozenset({"type", "input_schema", "output_schema", "security", "resources", "triggers"})


def format_of_skill(folder: Path) -> str:
    """What format the skill in `folder` has: as noted by the conversion that made it, else told from manifest and fields."""
    if noted := Originals.read(folder).format:
        return noted
    if (folder / "manifest.json").is_file():
        try:
            manifest = read_manifest_file(folder)
        except (FileProblem, InvalidManifest):
            return "agent-skills"
        if "container" in manifest and "anthropic" not in manifest and "entry" not in manifest:
            return "anthropic"
        return "semibot" if {"category", "tags", "entry", "tools", "anthropic", "config"} & manifest.keys() else "codex"
    declared = parse_document(read_limited(folder / "SKILL.md", DOCUMENT_LIMIT)).metadata.declared
    return "apexbridge" if len(_APEX & {"type" if name == "kind" else name for name in declared}) >= 4 else "agent-skills"


def reshape(folder: Path, to: SkillFormat) -> tuple[str, ...]:
    """Bring the skill in `folder` into the format `to`, in place; gives what there is to say about it.

    Raises:
        InvalidSkill: its front matter cannot be read, or not be changed.
        InvalidManifest: its manifest.json, or the originals it carries, cannot be understood.
        FileProblem: a file cannot be read.
    """
    before = format_of_skill(folder)
    if before == to:
        return (f"it has the format {to} already",)
    carried = Originals.read(folder)
    now = State(before, {path: _content(folder / path) for path in REWRITTEN}, carried.written)
    _check_readable(folder, now)
    if then := carried.find(to):
        files, notes = _as_before(then, carried.edits_since(then, now))
        carried.go_back(then)
    else:
        notes = []
        files = TRANSFORMS[to](folder, notes)
        carried.go_on(now, to, files)
    _put(folder, files)
    carried.write(folder)
    return tuple(notes)


def _check_readable(folder: Path, now: State) -> None:
    """A front matter that nobody can read would come out empty.

    Raises:
        InvalidSkill: it is broken; a text without one is none.
    """
    data = now.files["SKILL.md"] or b""
    front = read_front_matter(data)
    if front.exact or front.values:
        return
    found = next((one for one in parse_document(data).diagnostics if one.severity == "error"), None)
    if found is None or found.rule == "front-matter-missing":
        return
    raise InvalidSkill(
        f"{folder.name}/SKILL.md, line {found.line}: {found.message}",
        hint="fix it, then convert again: its fields would be lost",
        diagnostics=[found.to_dict()],
    )


def _as_before(then: State, edited: list[State]) -> tuple[Files, list[str]]:
    """The files of a format that the skill had, with what was edited since."""
    files = then.files
    for state in edited:
        files = with_edits(files, state)
    back = ", ".join(path for path, data in sorted(files.items()) if data is not None)
    notes = [f"{back} came back from {ORIGINALS_FILE}, which is the publisher's word: look at it"]
    return files, notes + (["it was changed since it was converted: the changes were taken over"] if edited else [])


def _put(folder: Path, files: Files) -> None:
    for path, data in files.items():
        if data is None:
            (folder / path).unlink(missing_ok=True)
        else:
            (folder / path).write_bytes(data)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
