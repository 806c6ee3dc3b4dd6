"""Edits of a converted skill, taken over into what it was before: field by field, and the text as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from skillyard.document import parse_document, read_front_matter, set_front_matter
from skillyard.errors import InvalidManifest
from skillyard.interop.originals import Files, State
from skillyard.interop.protocols import parse_object

__all__ = ["with_edits"]

_MANIFEST: Final = "manifest.json"
_Fields = Mapping[str, object]


def with_edits(original: Files, edited: State) -> Files:
    """The files `original` with what was changed in `edited` since a conversion wrote it.

    What is said in SKILL.md and in manifest.json is changed in both. What has no manifest to go to becomes a field of SKILL.md.

    Raises:
        InvalidManifest: the edited manifest.json cannot be understood.
        InvalidSkill: the original's front matter is written so that single fields cannot be changed.
    """
    before, after = edited.written["SKILL.md"] or b"", edited.files["SKILL.md"] or b""
    here = read_front_matter(original["SKILL.md"] or b"").values
    text = _with_text(original["SKILL.md"] or b"", before, after)
    fields = _changes(_fields(before), _fields(after), here)
    old, new = _object(edited.written[_MANIFEST]), _object(edited.files[_MANIFEST])
    manifest = original[_MANIFEST]
    held = _readable(manifest)
    told = _changes(old, new, held or here) if edited.files[_MANIFEST] is not None else {}
    if held is None:
        fields = told | fields
    else:
        manifest = _with_fields(held, {name: value for name, value in fields.items() if name in held} | told, manifest)
    changed = {name: value for name, value in fields.items() if value is not None or name in here}
    return {"SKILL.md": set_front_matter(text, changed).encode() if changed else text.encode(), _MANIFEST: manifest}


def _fields(data: bytes) -> dict[str, object]:
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
    """What changed between two readings, as it is to be said where `here` is said now; None for what was taken away."""
    changed: dict[str, object] = {
        name: _merged(here.get(name), before.get(name), value)
        for name, value in after.items()
        if name not in before or before[name] != value
    }
    return changed | dict.fromkeys(before.keys() - after.keys())


def _merged(here: object, before: object, after: object) -> object:
    """`after` where nothing else was known; of two mappings only what changed, so that what `here` has besides stays."""
    if not isinstance(after, Mapping) or not isinstance(before, Mapping) or not (here is None or isinstance(here, Mapping)):
        return after
    merged = {**(here or {}), **_changes(before, after, here or {})}
    return {name: value for name, value in merged.items() if value is not None or after.get(name, 0) is None}


def _with_text(original: bytes, before: bytes, after: bytes) -> str:
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


def _object(data: bytes | None) -> dict[str, object]:
    return {} if data is None else parse_object(data, _MANIFEST)


def _readable(data: bytes | None) -> dict[str, object] | None:
    """The manifest as data; None when there is none, or none that anybody can read: that stays as it is."""
    try:
        return None if data is None else parse_object(data, _MANIFEST)
    except InvalidManifest:
        return None


def _with_fields(held: dict[str, object], changes: _Fields, data: bytes | None) -> bytes | None:
    result = {name: value for name, value in (held | dict(changes)).items() if value is not None or name not in changes}
    return data if result == held else (json.dumps(result, indent=2, ensure_ascii=False) + "\n").encode()
