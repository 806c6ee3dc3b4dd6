"""Manifests and catalogs as they are published: lenient about spelling, strict about addresses (rows 002-1, 002-2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin

from skillyard.document import read_front_matter
from skillyard.errors import InvalidManifest
from skillyard.interop.manifest import is_address
from skillyard.interop.protocols import parse_object

__all__ = ["CatalogEntry", "read_anthropic_manifest", "read_catalog"]

_KEYWORDS: Final = 20


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One skill of a catalog; `manifest_url` is absolute, None when the catalog names none."""

    skill_id: str
    name: str
    description: str = ""
    version: str | None = None
    manifest_url: str | None = None

    def to_dict(self) -> dict[str, object]:
        """The entry as a catalog writes it."""
        fields = {name: getattr(self, name) for name in ("skill_id", "name", "description", "version", "manifest_url")}
        return {name: value for name, value in fields.items() if value}


def read_anthropic_manifest(data: bytes) -> dict[str, object]:
    """An Anthropic manifest from JSON, or from the front matter of a Markdown file.

    `id` stands in for `skill_id`, `keywords` for `trigger_keywords` (the first 20), `latest` for a missing version; in Markdown
    the name stands in for the id. All other fields are kept.

    Raises:
        InvalidManifest: it is neither, or has no id.
    """
    markdown = not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))
    read = dict(read_front_matter(data).texts) if markdown else parse_object(data, "the manifest")
    skill_id = read.pop("skill_id", None) or read.pop("id", None) or (read.get("name") if markdown else None)
    if not isinstance(skill_id, str):
        raise InvalidManifest(
            "Manifest validation failed: skill_id: is required", hint="add a skill_id", problems=[{"path": "skill_id"}]
        )
    keywords = read.pop("trigger_keywords", None) or read.pop("keywords", None)
    words = [keywords] if isinstance(keywords, str) else keywords if isinstance(keywords, list) else []
    shared: dict[str, object] = {"skill_id": skill_id, "version": read.pop("version", None) or "latest"}
    rest = {"trigger_keywords": words[:_KEYWORDS]} if words else {}
    return shared | {"name": read.pop("name", None) or skill_id} | rest | read


def read_catalog(data: bytes, base_url: str) -> tuple[CatalogEntry, ...]:
    """The skills of a catalog, each id once, sorted by name; relative addresses are resolved against `base_url`.

    The list may be the document itself or its `skills`, `items` or `data`. Entries without an id are left out, and an address
    that is not of the web is dropped.

    Raises:
        InvalidManifest: it is not JSON, or holds no list.
    """
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidManifest(f"the catalog is not JSON: {error}", hint="check its address", problems=[]) from None
    if isinstance(document, Mapping):
        document = next((document[key] for key in ("skills", "items", "data") if key in document), None)
    if not isinstance(document, list):
        raise InvalidManifest("the catalog holds no list of skills", hint='write {"skills": […]}', problems=[])
    found: dict[str, CatalogEntry] = {}
    for item in document:
        entry = _entry(item, base_url) if isinstance(item, Mapping) else None
        if entry:
            found.setdefault(entry.skill_id, entry)
    return tuple(sorted(found.values(), key=lambda entry: (entry.name.lower(), entry.skill_id)))


def _entry(item: Mapping[str, object], base_url: str) -> CatalogEntry | None:
    skill_id = _text(item, "skill_id", "id")
    if not skill_id:
        return None
    address = _text(item, "manifest_url")
    try:
        resolved = urljoin(base_url, address) if address else ""
    except ValueError:
        resolved = ""
    return CatalogEntry(
        skill_id=skill_id,
        name=_text(item, "title", "name") or skill_id,
        description=_text(item, "description"),
        version=_text(item, "version") or None,
        manifest_url=resolved if is_address(resolved) else None,
    )


def _text(item: Mapping[str, object], *names: str) -> str:
    """The first of the fields that holds text."""
    values = (item.get(name) for name in names)
    return next((value.strip() for value in values if isinstance(value, str) and value.strip()), "")
