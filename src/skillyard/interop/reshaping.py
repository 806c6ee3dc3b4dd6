"""One skill's folder brought from one format into another: its SKILL.md and its manifest.json, as each format wants them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal, get_args

from skillyard.document import DESCRIPTION_LIMIT, is_name, new_document, parse_document, read_front_matter, set_front_matter
from skillyard.document.spelling import SPEC_FIELDS
from skillyard.errors import FileProblem, InvalidManifest
from skillyard.interop.canonical import canonical_fields, canonical_text
from skillyard.interop.inference import infer_entry
from skillyard.interop.legacy import read_legacy
from skillyard.interop.manifest import LISTS, TEXTS, is_skill_id, manifest_version, validate_manifest
from skillyard.interop.originals import ORIGINALS_FILE, REWRITTEN, Originals
from skillyard.interop.protocols import (
    convert_codex_to_semibot,
    convert_semibot_to_anthropic,
    convert_semibot_to_codex,
    read_manifest_file,
)
from skillyard.paths import slug
from skillyard.text import shorten, single_line

__all__ = ["SKILL_FORMATS", "SkillFormat", "format_of_skill", "reshape"]

SkillFormat = Literal["agent-skills", "anthropic", "codex", "semibot", "apexbridge"]
SKILL_FORMATS: Final[tuple[SkillFormat, ...]] = get_args(SkillFormat)
_MANIFEST: Final = "manifest.json"
_APEX: Final = frozenset({"type", "input_schema", "output_schema", "security", "resources", "triggers"})


def format_of_skill(folder: Path) -> SkillFormat:
    """What format the skill in `folder` has, told from its manifest and its fields."""
    if (folder / _MANIFEST).is_file():
        try:
            manifest = read_manifest_file(folder)
        except (FileProblem, InvalidManifest):
            return "agent-skills"
        if "container" in manifest and "anthropic" not in manifest and "entry" not in manifest:
            return "anthropic"
        return "semibot" if {"category", "tags", "entry", "tools", "anthropic", "config"} & manifest.keys() else "codex"
    declared = parse_document((folder / "SKILL.md").read_bytes()).metadata.declared
    return "apexbridge" if len(_APEX & {"type" if name == "kind" else name for name in declared}) >= 4 else "agent-skills"


def reshape(folder: Path, to: SkillFormat) -> tuple[str, ...]:
    """Bring the skill in `folder` into the format `to`, in place; gives what there is to say about it.

    Raises:
        InvalidManifest: its manifest.json, or the originals it carries, cannot be understood.
        FileProblem: a file cannot be read.
    """
    before = format_of_skill(folder)
    carried = Originals.read(folder)
    if before == to and to not in carried.files:
        return (f"it has the format {to} already",)
    now = {path: _content(folder / path) for path in REWRITTEN}
    whole = carried.hold(folder)
    notes: list[str] = []
    if to in carried.files and whole:
        _put(folder, carried.files[to])
        back = [path for path, data in sorted(carried.files[to].items()) if data is not None]
        notes.append(f"{', '.join(back)} came back from {ORIGINALS_FILE}, which is the publisher's word: look at it")
        carried.files, carried.written = {}, {}
    else:
        _put(folder, _TRANSFORMS[to](folder, notes))
        if to in carried.files:
            notes += _completed(folder, carried.files[to])
        elsewhere = carried.files if whole else {}
        carried.files = {name: files for name, files in elsewhere.items() if name != to} | {before: now}
        carried.note_written(folder, list(REWRITTEN))
    carried.write(folder)
    return tuple(notes)


def _completed(folder: Path, originals: Mapping[str, bytes | None]) -> list[str]:
    """Add the fields that the original had and an edited version lacks."""
    original = originals.get("SKILL.md")
    if original is None:
        return []
    here = read_front_matter((folder / "SKILL.md").read_bytes()).values
    missing = {name: value for name, value in read_front_matter(original).values.items() if name not in here}
    if missing:
        text = (folder / "SKILL.md").read_text("utf-8-sig")
        (folder / "SKILL.md").write_bytes(set_front_matter(text, missing).encode())
    return ["it was changed since it was converted; what its format had no place for was taken from before"]


def _put(folder: Path, files: Mapping[str, bytes | None]) -> None:
    for path, data in files.items():
        if data is None:
            (folder / path).unlink(missing_ok=True)
        else:
            (folder / path).write_bytes(data)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


_Files = Mapping[str, bytes | None]


def _fields(folder: Path, notes: list[str]) -> dict[str, object]:
    """The Semibot manifest of a skill of any format, inside its limits; what is cut is told."""
    metadata = (document := parse_document((folder / "SKILL.md").read_bytes(), directory_name=folder.name)).metadata
    told = convert_codex_to_semibot(folder)
    declared = told.get("skill_id")
    fields: dict[str, object] = {
        **told,
        "skill_id": declared if isinstance(declared, str) and is_skill_id(declared) else document.skill_id,
        "name": told.get("name") or metadata.display_name or metadata.name,
        "version": manifest_version(str(told["version"]) if told.get("version") else metadata.version),
        "description": told.get("description") or metadata.description,
        "trigger_keywords": told.get("trigger_keywords") or list(metadata.search_words) or None,
        "license": told.get("license") or metadata.license,
        "entry": told.get("entry") or metadata.resources.entry or infer_entry(folder),
    }
    if metadata.version and fields["version"] != metadata.version:
        notes.append(f"the version {metadata.version!r} is no three numbers: {fields['version']} is written")
    fields = {key: value for key, value in fields.items() if value not in (None, "", [], {})}
    _cut(fields, notes)
    return validate_manifest(fields)


def _cut(fields: dict[str, object], notes: list[str]) -> None:
    for name, limit in TEXTS.items():
        value = fields.get(name)
        if isinstance(value, str) and len(value) > limit:
            fields[name] = shorten(single_line(value), limit)
            notes.append(f"{name} is cut at {limit} characters")
    for name, (count, length) in LISTS.items():
        items = fields.get(name)
        if isinstance(items, list) and (len(items) > count or any(len(str(item)) > length for item in items)):
            fields[name] = [str(item)[:length] for item in items[:count]]
            notes.append(f"{name} is cut at {count} of {length} characters")


def _json(value: Mapping[str, object]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _to_agent_skills(folder: Path, notes: list[str]) -> _Files:
    """SKILL.md alone; what only the manifest said becomes fields of it."""
    text = (folder / "SKILL.md").read_text("utf-8-sig")
    if (folder / _MANIFEST).is_file():
        here = read_front_matter(text.encode()).values
        manifest = validate_manifest(read_manifest_file(folder))
        missing = {key: value for key, value in manifest.items() if key not in here and value not in (None, "", [], {})}
        if missing:
            text = set_front_matter(text, missing)
            notes.append(f"taken over from manifest.json: {', '.join(missing)}")
    return {"SKILL.md": text.encode(), _MANIFEST: None}


def _to_codex(folder: Path, notes: list[str]) -> _Files:
    fields = convert_semibot_to_codex(_fields(folder, notes))
    return {"SKILL.md": _with_fields(folder, fields), _MANIFEST: _json(fields)}


def _to_semibot(folder: Path, notes: list[str]) -> _Files:
    fields = _fields(folder, notes)
    return {"SKILL.md": _with_fields(folder, fields), _MANIFEST: _json(fields)}


def _with_fields(folder: Path, fields: Mapping[str, object]) -> bytes:
    """SKILL.md with the fields that a Codex package has in it; the others stay."""
    text = (folder / "SKILL.md").read_text("utf-8-sig")
    here = read_front_matter(text.encode()).texts
    wanted = ("skill_id", "version", "name", "description", "trigger_keywords")
    return set_front_matter(text, {name: fields[name] for name in wanted if name in fields and name not in here}).encode()


def _to_anthropic(folder: Path, notes: list[str]) -> _Files:
    """The fields of the specification only, and the Anthropic manifest."""
    document = parse_document((folder / "SKILL.md").read_bytes(), directory_name=folder.name)
    manifest = convert_semibot_to_anthropic(_fields(folder, notes))
    name = document.metadata.name if is_name(document.metadata.name) else slug(document.metadata.name, folder.name)
    if name != document.metadata.name:
        notes.append(f"the name {document.metadata.name!r} is written as {name!r}")
    description = document.metadata.description
    if len(description) > DESCRIPTION_LIMIT:
        description = shorten(single_line(description), DESCRIPTION_LIMIT)
        notes.append(f"the description is cut at {DESCRIPTION_LIMIT} characters")
    kept = {key: value for key, value in document.front_matter.items() if key in SPEC_FIELDS - {"name", "description"}}
    lost = sorted(document.front_matter.keys() - SPEC_FIELDS)
    if lost:
        notes.append(f"carried along, for the format has no place for them: {', '.join(lost)}")
    text = new_document(name, description, document.body.lstrip("\n"), extra=kept)
    return {"SKILL.md": text.encode(), _MANIFEST: _json(manifest)}


def _to_apexbridge(folder: Path, notes: list[str]) -> _Files:
    """All fields of document 000 with its defaults."""
    skill = read_legacy(folder)
    resources = skill.fields.get("resources")
    entry = resources.get("entry") if isinstance(resources, dict) else None
    entry = str(entry).removeprefix("./") if isinstance(entry, str) else infer_entry(folder)
    fields = canonical_fields(skill.fields, folder=folder.name, entry=entry)
    if entry is None:
        notes.append("it has no script that runs")
    return {"SKILL.md": canonical_text(fields, skill.body).encode(), _MANIFEST: None}


_TRANSFORMS: Final[Mapping[SkillFormat, Callable[[Path, list[str]], _Files]]] = {
    "agent-skills": _to_agent_skills,
    "anthropic": _to_anthropic,
    "codex": _to_codex,
    "semibot": _to_semibot,
    "apexbridge": _to_apexbridge,
}
