"""SKILL.md and manifest.json as each format wants them: one function for each, from a skill of whatever format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal, get_args

from skillyard.document import (
    DESCRIPTION_LIMIT,
    DOCUMENT_LIMIT,
    is_name,
    new_document,
    parse_document,
    read_front_matter,
    set_front_matter,
)
from skillyard.document.spelling import SPEC_FIELDS
from skillyard.files import read_limited
from skillyard.interop.canonical import canonical_fields, canonical_text
from skillyard.interop.inference import infer_entry
from skillyard.interop.legacy import read_legacy
from skillyard.interop.manifest import LISTS, TEXTS, is_skill_id, manifest_version, validate_manifest
from skillyard.interop.originals import Files
from skillyard.interop.protocols import (
    convert_codex_to_semibot,
    convert_semibot_to_anthropic,
    convert_semibot_to_codex,
    read_manifest_file,
)
from skillyard.paths import slug
from skillyard.text import shorten, single_line

__all__ = ["SKILL_FORMATS", "TRANSFORMS", "SkillFormat"]

SkillFormat = Literal["agent-skills", "anthropic", "codex", "semibot", "apexbridge"]
SKILL_FORMATS: Final[tuple[SkillFormat, ...]] = get_args(SkillFormat)
_MANIFEST: Final = "manifest.json"


def _fields(folder: Path, notes: list[str]) -> dict[str, object]:
    """The Semibot manifest of a skill of any format, inside its limits; what is cut is told."""
    metadata = (
        document := parse_document(read_limited(folder / "SKILL.md", DOCUMENT_LIMIT), directory_name=folder.name)
    ).metadata
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


def _text(folder: Path) -> str:
    """The text of SKILL.md with the line ends it has."""
    return read_limited(folder / "SKILL.md", DOCUMENT_LIMIT).decode("utf-8-sig")


def _json(value: Mapping[str, object]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _to_agent_skills(folder: Path, notes: list[str]) -> Files:
    """SKILL.md alone; what only the manifest said becomes fields of it."""
    text = _text(folder)
    if (folder / _MANIFEST).is_file():
        here = read_front_matter(text.encode()).values
        manifest = validate_manifest(read_manifest_file(folder))
        missing = {key: value for key, value in manifest.items() if key not in here and value not in (None, "", [], {})}
        if missing:
            text = set_front_matter(text, missing)
            notes.append(f"taken over from manifest.json: {', '.join(missing)}")
    return {"SKILL.md": text.encode(), _MANIFEST: None}


def _to_codex(folder: Path, notes: list[str]) -> Files:
    fields = convert_semibot_to_codex(_fields(folder, notes))
    return {"SKILL.md": _with_fields(folder, fields), _MANIFEST: _json(fields)}


def _to_semibot(folder: Path, notes: list[str]) -> Files:
    fields = _fields(folder, notes)
    return {"SKILL.md": _with_fields(folder, fields), _MANIFEST: _json(fields)}


def _with_fields(folder: Path, fields: Mapping[str, object]) -> bytes:
    """SKILL.md with the fields that a Codex package has in it; the others stay."""
    text = _text(folder)
    here = read_front_matter(text.encode()).texts
    wanted = ("skill_id", "version", "name", "description", "trigger_keywords")
    return set_front_matter(text, {name: fields[name] for name in wanted if name in fields and name not in here}).encode()


def _to_anthropic(folder: Path, notes: list[str]) -> Files:
    """The fields of the specification only, and the Anthropic manifest."""
    document = parse_document(read_limited(folder / "SKILL.md", DOCUMENT_LIMIT), directory_name=folder.name)
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


def _to_apexbridge(folder: Path, notes: list[str]) -> Files:
    """All fields of document 000 with its defaults."""
    skill = read_legacy(folder)
    resources = skill.fields.get("resources")
    entry = resources.get("entry") if isinstance(resources, dict) else None
    entry = str(entry).removeprefix("./") if isinstance(entry, str) else infer_entry(folder)
    fields = canonical_fields(skill.fields, folder=folder.name, entry=entry)
    if entry is None:
        notes.append("it has no script that runs")
    return {"SKILL.md": canonical_text(fields, skill.body).encode(), _MANIFEST: None}


TRANSFORMS: Final[Mapping[SkillFormat, Callable[[Path, list[str]], Files]]] = {
    "agent-skills": _to_agent_skills,
    "anthropic": _to_anthropic,
    "codex": _to_codex,
    "semibot": _to_semibot,
    "apexbridge": _to_apexbridge,
}
