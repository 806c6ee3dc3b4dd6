"""One skill's folder converted from one format to another, in place; later edits are merged when it is converted back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal, get_args

from skillyard.document import (
    DESCRIPTION_LIMIT,
    DOCUMENT_LIMIT,
    Document,
    is_name,
    new_document,
    parse_document,
    read_front_matter,
    set_front_matter,
)
from skillyard.document.spelling import SPEC_FIELDS
from skillyard.errors import FileProblem, InvalidManifest, InvalidSkill
from skillyard.files import read_limited
from skillyard.interop.apexbridge_format import canonical_fields, canonical_text, read_legacy
from skillyard.interop.manifest import LISTS, TEXTS, is_skill_id, manifest_version, validate_manifest
from skillyard.interop.manifest_conversion import (
    convert_codex_to_semibot,
    convert_semibot_to_anthropic,
    convert_semibot_to_codex,
    format_of_manifest,
    infer_entry,
    json_bytes,
    manifest_differences,
    parse_object,
    read_manifest_file,
)
from skillyard.interop.originals import ORIGINALS_FILE, REWRITTEN, FormatState, Originals, SkillFiles
from skillyard.paths import slug
from skillyard.text import shorten, single_line

SkillFormat = Literal["agent-skills", "anthropic", "codex", "semibot", "apexbridge"]
SKILL_FORMATS: Final[tuple[SkillFormat, ...]] = get_args(SkillFormat)
_MANIFEST: Final = "manifest.json"


def _fields(folder: Path, notes: list[str]) -> dict[str, object]:
    """The Semibot manifest of a skill of any format, inside its limits; what is cut is noted."""
    document = _document(folder)
    metadata = document.metadata
    held = read_manifest_file(folder) if (folder / _MANIFEST).is_file() else {}
    notes.extend(manifest_differences(_MANIFEST, held, metadata))
    converted = convert_codex_to_semibot(folder, skill_md_first=True)
    declared = converted.get("skill_id")
    fields: dict[str, object] = {
        **converted,
        "skill_id": declared if isinstance(declared, str) and is_skill_id(declared) else document.skill_id,
        "name": converted.get("name") or metadata.display_name or metadata.name,
        "version": manifest_version(str(converted["version"]) if converted.get("version") else metadata.version),
        "description": converted.get("description") or metadata.description,
        "trigger_keywords": converted.get("trigger_keywords") or list(metadata.search_words) or None,
        "license": converted.get("license") or metadata.license,
        "entry": converted.get("entry") or metadata.resources.entry or infer_entry(folder),
    }
    if metadata.version and fields["version"] != metadata.version:
        notes.append(f"the version {metadata.version!r} is not three numbers: {fields['version']} is written")
    fields = {key: value for key, value in fields.items() if value not in (None, "", [], {})}
    _truncate(fields, notes)
    return validate_manifest(fields)


def _truncate(fields: dict[str, object], notes: list[str]) -> None:
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


def _document(folder: Path) -> Document:
    return parse_document(read_limited(folder / "SKILL.md", DOCUMENT_LIMIT), directory_name=folder.name)


def _text(folder: Path) -> str:
    """The text of SKILL.md with the line ends it has."""
    return read_limited(folder / "SKILL.md", DOCUMENT_LIMIT).decode("utf-8-sig")


def _to_agent_skills(folder: Path, notes: list[str]) -> SkillFiles:
    """SKILL.md alone; what only the manifest has becomes fields of it."""
    text = _text(folder)
    if (folder / _MANIFEST).is_file():
        here = read_front_matter(text.encode()).values
        manifest = validate_manifest(read_manifest_file(folder))
        missing = {key: value for key, value in manifest.items() if key not in here and value not in (None, "", [], {})}
        if missing:
            text = set_front_matter(text, missing)
            notes.append(f"taken over from manifest.json: {', '.join(missing)}")
    return {"SKILL.md": text.encode(), _MANIFEST: None}


def _to_codex(folder: Path, notes: list[str]) -> SkillFiles:
    return _with_manifest(folder, convert_semibot_to_codex(_fields(folder, notes)))


def _to_semibot(folder: Path, notes: list[str]) -> SkillFiles:
    return _with_manifest(folder, _fields(folder, notes))


def _with_manifest(folder: Path, fields: Mapping[str, object]) -> SkillFiles:
    """The manifest, and SKILL.md with the fields that a Codex package has in it; the others stay."""
    text = _text(folder)
    here = read_front_matter(text.encode()).texts
    names = ("skill_id", "version", "name", "description", "trigger_keywords")
    missing = {name: fields[name] for name in names if name in fields and name not in here}
    return {"SKILL.md": set_front_matter(text, missing).encode(), _MANIFEST: json_bytes(fields)}


def _to_anthropic(folder: Path, notes: list[str]) -> SkillFiles:
    """The fields of the specification only, and the Anthropic manifest."""
    document = _document(folder)
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
        notes.append(f"kept aside, because the format has no fields for them: {', '.join(lost)}")
    text = new_document(name, description, document.body.lstrip("\n"), extra=kept)
    return {"SKILL.md": text.encode(), _MANIFEST: json_bytes(manifest)}


def _to_apexbridge(folder: Path, notes: list[str]) -> SkillFiles:
    """All fields of the canonical form with their defaults."""
    skill = read_legacy(folder)
    resources = skill.fields.get("resources")
    entry = resources.get("entry") if isinstance(resources, dict) else None
    entry = str(entry).removeprefix("./") if isinstance(entry, str) else infer_entry(folder)
    fields = canonical_fields(skill.fields, folder=folder.name, entry=entry)
    if entry is None:
        notes.append("it has no script that runs")
    return {"SKILL.md": canonical_text(fields, skill.body).encode(), _MANIFEST: None}


FORMAT_WRITERS: Final[Mapping[SkillFormat, Callable[[Path, list[str]], SkillFiles]]] = {
    "agent-skills": _to_agent_skills,
    "anthropic": _to_anthropic,
    "codex": _to_codex,
    "semibot": _to_semibot,
    "apexbridge": _to_apexbridge,
}
_Fields = Mapping[str, object]


def apply_edits(original: SkillFiles, edited: FormatState) -> SkillFiles:
    """The files `original` with what was changed in `edited` since a conversion wrote it.

    A value in both SKILL.md and manifest.json is changed in both. Without a manifest it becomes a field of SKILL.md.

    Raises:
        InvalidManifest: the edited manifest.json cannot be understood.
        InvalidSkill: the original's front matter is written so that single fields cannot be changed.
    """
    before, after = edited.written["SKILL.md"] or b"", edited.files["SKILL.md"] or b""
    here = read_front_matter(original["SKILL.md"] or b"").values
    text = _edited_text(original["SKILL.md"] or b"", before, after)
    fields = _changes(_edited_fields(before), _edited_fields(after), here)
    old, new = _manifest_object(edited.written[_MANIFEST]), _manifest_object(edited.files[_MANIFEST])
    manifest = original[_MANIFEST]
    held = _readable(manifest)
    manifest_changes = _changes(old, new, held or here) if edited.files[_MANIFEST] is not None else {}
    if held is None:
        fields = manifest_changes | fields
    else:
        manifest = _manifest_with_fields(
            held, {name: value for name, value in fields.items() if name in held} | manifest_changes, manifest
        )
    changed = {name: value for name, value in fields.items() if value is not None or name in here}
    return {"SKILL.md": set_front_matter(text, changed).encode() if changed else text.encode(), _MANIFEST: manifest}


def _edited_fields(data: bytes) -> dict[str, object]:
    """The fields of a SKILL.md: values, but as they were written where a number would lose how it was."""
    front = read_front_matter(data)
    return {name: _as_written(front.texts[name], value) for name, value in front.values.items()}


def _as_written(text: object, value: object) -> object:
    """A value, or its text where the two differ in more than their type: `1.10` is no number."""
    if isinstance(value, Mapping) and isinstance(text, Mapping):
        return {key: _as_written(text[key], one) for key, one in value.items()}
    if isinstance(value, list) and isinstance(text, list):
        return [_as_written(*pair) for pair in zip(text, value, strict=True)]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return text if number and str(value) != text else value


def _changes(before: _Fields, after: _Fields, here: _Fields) -> dict[str, object]:
    """What changed between two readings, as changes to `here`; None for what was removed."""
    changed: dict[str, object] = {
        name: _merged(here.get(name), before.get(name), value)
        for name, value in after.items()
        if name not in before or before[name] != value
    }
    return changed | dict.fromkeys(before.keys() - after.keys())


def _merged(here: object, before: object, after: object) -> object:
    """`after` where there was nothing before; of two mappings only what changed, so that the rest of `here` stays."""
    if not isinstance(after, Mapping) or not isinstance(before, Mapping) or not (here is None or isinstance(here, Mapping)):
        return after
    merged = {**(here or {}), **_changes(before, after, here or {})}
    return {name: value for name, value in merged.items() if value is not None or after.get(name, 0) is None}


def _edited_text(original: bytes, before: bytes, after: bytes) -> str:
    """The original with the text behind its front matter as it was edited; what is around the text stays as it was."""
    old, new = parse_document(before).body, parse_document(after).body
    text = original.decode("utf-8")
    if old == new:
        return text
    body = parse_document(original).body
    head = text[: len(text) - len(body)]
    lead = _lead(body) if _lead(old) == _lead(new) else _lead(new)
    tail = _tail(body) if _tail(old) == _tail(new) else _tail(new)
    bare = new.strip("\r\n")
    return head + (lead + bare + tail if bare else new)


def _lead(text: str) -> str:
    return text[: len(text) - len(text.lstrip("\r\n"))]


def _tail(text: str) -> str:
    return text[len(text.rstrip("\r\n")) :]


def _manifest_object(data: bytes | None) -> dict[str, object]:
    return {} if data is None else parse_object(data, _MANIFEST)


def _readable(data: bytes | None) -> dict[str, object] | None:
    """The manifest as data; None when there is none, or none that anybody can read: that stays as it is."""
    try:
        return None if data is None else parse_object(data, _MANIFEST)
    except InvalidManifest:
        return None


def _manifest_with_fields(held: dict[str, object], changes: _Fields, data: bytes | None) -> bytes | None:
    result = {name: value for name, value in (held | dict(changes)).items() if value is not None or name not in changes}
    return data if result == held else json_bytes(result)


_CODEX: Final = frozenset({"skill_id", "version", "trigger_keywords"})
_APEX: Final = frozenset({"type", "input_schema", "output_schema", "security", "resources", "triggers"})


def format_of_skill(folder: Path) -> str:
    """The format of the skill in `folder`: as noted by the conversion that made it, else recognized by manifest and fields."""
    if noted := Originals.read(folder).format:
        return noted
    if (folder / "manifest.json").is_file():
        try:
            manifest = read_manifest_file(folder)
        except (FileProblem, InvalidManifest):
            return "agent-skills"
        return format_of_manifest(manifest)
    declared = _document(folder).metadata.declared
    if len(_APEX & {"type" if name == "kind" else name for name in declared}) >= 4:
        return "apexbridge"
    return "codex" if set(declared) >= _CODEX else "agent-skills"


def convert_in_place(folder: Path, to: SkillFormat) -> tuple[str, ...]:
    """Bring the skill in `folder` into the format `to`, in place; gives notes on it.

    Raises:
        InvalidSkill: its front matter cannot be read, or not be changed.
        InvalidManifest: its manifest.json, or the originals in it, cannot be understood.
        FileProblem: a file cannot be read.
    """
    before = format_of_skill(folder)
    if before == to:
        return (f"it has the format {to} already",)
    originals = Originals.read(folder)
    now = FormatState(before, {path: _read_optional(folder / path) for path in REWRITTEN}, originals.written)
    _check_readable(folder, now)
    if then := originals.find(to):
        files, notes = _restored_files(then, originals.edits_since(then, now))
        originals.return_to(then)
    else:
        notes = []
        files = FORMAT_WRITERS[to](folder, notes)
        originals.record_conversion(now, to, files)
    _write_files(folder, files)
    originals.write(folder)
    return tuple(notes)


def _check_readable(folder: Path, now: FormatState) -> None:
    """A front matter that nobody can read would come out empty.

    Raises:
        InvalidSkill: it is broken; a text without one is none.
    """
    data = now.files["SKILL.md"] or b""
    front = read_front_matter(data)
    if front.exact or front.values:
        return
    error = next((one for one in parse_document(data).diagnostics if one.severity == "error"), None)
    if error is None or error.rule == "front-matter-missing":
        return
    raise InvalidSkill(
        f"{folder.name}/SKILL.md, line {error.line}: {error.message}",
        hint="fix it, then convert again: its fields would be lost",
        diagnostics=[error.to_dict()],
    )


def _restored_files(then: FormatState, edited: list[FormatState]) -> tuple[SkillFiles, list[str]]:
    """The files of a format that the skill had, with what was edited since."""
    files = then.files
    for state in edited:
        files = apply_edits(files, state)
    back = ", ".join(path for path, data in sorted(files.items()) if data is not None)
    notes = [f"{back} restored from {ORIGINALS_FILE}, as its publisher wrote it: check it"]
    return files, notes + (["it was changed after the conversion: the changes were kept"] if edited else [])


def _write_files(folder: Path, files: SkillFiles) -> None:
    for path, data in files.items():
        if data is None:
            (folder / path).unlink(missing_ok=True)
        else:
            (folder / path).write_bytes(data)


def _read_optional(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
