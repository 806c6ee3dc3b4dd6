"""The conversions of document 002 between manifests: plain data in, plain data out, exactly the fields each format has.

What a format has no field for is not in its manifest; the manifest that was given stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from skillyard.document import read_front_matter
from skillyard.errors import FileProblem, InvalidManifest
from skillyard.interop.inference import infer_category, infer_entry, infer_tags
from skillyard.paths import read_inside
from skillyard.plain_json import read_json

__all__ = [
    "SHARED_FIELDS",
    "convert_anthropic_to_codex",
    "convert_anthropic_to_semibot",
    "convert_codex_to_anthropic",
    "convert_codex_to_semibot",
    "convert_semibot_to_anthropic",
    "convert_semibot_to_codex",
    "parse_object",
    "read_manifest_file",
]

SHARED_FIELDS: Final = (
    *("skill_id", "version", "name", "description", "trigger_keywords", "author", "homepage", "documentation"),
)
"""The eight fields that all three formats have, in the order of an Anthropic manifest."""
_OWN_FIELDS: Final = ("license", "repository", "icon_url", "tools", "config", "anthropic", "container")
_FILE_LIMIT: Final = 1024 * 1024


def convert_anthropic_to_semibot(manifest: Mapping[str, object]) -> dict[str, object]:
    """An Anthropic manifest as a Semibot one, with its category and tags inferred (row 002-8)."""
    order = ("skill_id", "name", "version", "description", "trigger_keywords", "author", "homepage", "documentation")
    shared = {name: manifest.get(name) for name in order}
    reference = {"type": "anthropic", "skill_id": manifest.get("skill_id"), "version": manifest.get("version")}
    return _said(
        {
            **shared,
            "anthropic": _said(reference),
            "container": manifest.get("container"),
            "category": infer_category(manifest),
            "tags": infer_tags(manifest),
        }
    )


def convert_semibot_to_anthropic(manifest: Mapping[str, object]) -> dict[str, object]:
    """A Semibot manifest as an Anthropic one (row 002-11)."""
    shared = {name: manifest.get(name) for name in SHARED_FIELDS}
    anthropic = manifest.get("anthropic")
    kind = anthropic.get("type") if isinstance(anthropic, Mapping) else None
    reference = {"type": kind or "custom", "skill_id": manifest.get("skill_id"), "version": manifest.get("version")}
    return _said({**shared, "container": manifest.get("container") or {"skills": [_said(reference)]}})


def convert_semibot_to_codex(manifest: Mapping[str, object]) -> dict[str, object]:
    """The fields of a Semibot manifest that a Codex package has, in its SKILL.md or its manifest.json (row 002-7)."""
    return _said({name: manifest.get(name) for name in SHARED_FIELDS})


def convert_anthropic_to_codex(manifest: Mapping[str, object]) -> dict[str, object]:
    """The fields of an Anthropic manifest that a Codex package has."""
    return convert_semibot_to_codex(convert_anthropic_to_semibot(manifest))


def convert_codex_to_anthropic(folder: str | Path) -> dict[str, object]:
    """A Codex package as an Anthropic manifest.

    Raises:
        FileMissing, InvalidManifest: as `convert_codex_to_semibot`.
    """
    return convert_semibot_to_anthropic(convert_codex_to_semibot(folder))


def convert_codex_to_semibot(folder: str | Path) -> dict[str, object]:
    """The Semibot manifest of a Codex package: manifest.json first, field by field, then SKILL.md (rows 002-9 and 002-7).

    The entry, the icon and the configuration come from their files when no field names them.

    Raises:
        FileMissing: there is no SKILL.md.
        FileProblem: a file cannot be read.
        InvalidManifest: manifest.json is not a JSON object.
    """
    front_matter = read_front_matter(read_inside(folder, "SKILL.md", limit=_FILE_LIMIT))
    manifest = read_manifest_file(folder) if Path(folder, "manifest.json").exists() else {}
    return _codex_fields(folder, manifest, front_matter.texts, front_matter.values)


def _codex_fields(
    folder: str | Path, manifest: Mapping[str, object], texts: Mapping[str, object], values: Mapping[str, object]
) -> dict[str, object]:
    """The Semibot manifest of what was read from a Codex package."""
    order = ("skill_id", "name", "version", "description", "trigger_keywords", "author", "homepage", "documentation")
    merged = {name: manifest.get(name) or texts.get(name) for name in order}
    own = {name: manifest.get(name) or values.get(name) for name in _OWN_FIELDS}
    icon = "assets/icon.png" if Path(folder, "assets/icon.png").is_file() else None
    return _said(
        {
            **merged,
            "entry": manifest.get("entry") or texts.get("entry") or infer_entry(folder),
            "category": manifest.get("category") or texts.get("category") or infer_category(merged),
            "tags": manifest.get("tags") or texts.get("tags") or infer_tags(merged),
            **own,
            "icon_url": own["icon_url"] or icon,
            "config": own["config"] or _configuration(folder),
        }
    )


def _configuration(folder: str | Path) -> Mapping[str, object] | None:
    """`scripts/config.yaml` as data, when it is there and a mapping."""
    try:
        data = read_inside(folder, "scripts/config.yaml", limit=_FILE_LIMIT)
    except FileProblem:
        return None
    return read_front_matter(b"---\n" + data.rstrip() + b"\n---\n").values or None


def read_manifest_file(folder: str | Path, name: str = "manifest.json") -> dict[str, object]:
    """The JSON object in a package's file.

    Raises:
        FileProblem: it cannot be read.
        InvalidManifest: it is not JSON, or not an object.
    """
    return parse_object(read_inside(folder, name, limit=_FILE_LIMIT), name)


def parse_object(data: bytes, name: str) -> dict[str, object]:
    """The JSON object in some bytes; `name` is the file in messages.

    Raises:
        InvalidManifest: they are not JSON, or not an object.
    """
    try:
        value = read_json(data.decode("utf-8-sig"))
    except ValueError as error:
        raise InvalidManifest(
            f"{name} cannot be read as JSON: {error}", hint="fix it where the message says", problems=[]
        ) from None
    if not isinstance(value, dict):
        raise InvalidManifest(f"{name} does not hold an object", hint='a manifest begins with "{"', problems=[])
    return value


def _said(fields: Mapping[str, object]) -> dict[str, object]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], ())}
