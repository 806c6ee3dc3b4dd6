"""The Skills extension (SEP-2640): its messages, and the entry of a skill with front matter and the digest of every file.

Strict clients refuse a whole list for one entry that breaks the Agent Skills specification. Fields that do are brought to it
(a long description is cut, a list of tools becomes text), and the entry says which: `_meta: {"skillyard/adjusted": [...]}`.
A host that compares entry and file, as the extension wants, then refuses that one skill and no other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from mcp import types

from skillyard.document import COMPATIBILITY_LIMIT, DESCRIPTION_LIMIT, read_front_matter
from skillyard.errors import FileProblem
from skillyard.mcp.published_skills import MAIN_FILE, PublishedSkill
from skillyard.text import shorten


class UriParams(types.RequestParams):
    """Parameters of `skills/get`."""

    uri: str


class FolderParams(types.PaginatedRequestParams):
    """Parameters of `resources/directory/read`."""

    uri: str


class SkillEntries(types.PaginatedResult):
    """Result of `skills/list`."""

    skills: list[dict[str, object]]


class SkillEntry(types.Result):
    """Result of `skills/get`."""

    skill: dict[str, object]


class FolderListing(types.PaginatedResult):
    """Result of `resources/directory/read`."""

    resources: list[types.Resource]


ADJUSTED: Final = "skillyard/adjusted"
FILES_LIMIT: Final = 512
BYTES_LIMIT: Final = 16 * 1024 * 1024
_TEXTS: Final = ("name", "description", "license", "compatibility", "allowed-tools")


def skill_entry(published: PublishedSkill) -> dict[str, object] | None:
    """`{"uri", "frontmatter", "resources": [{"uri", "digest", "size"}], "_meta"?}`; None when the skill is over the limits.

    Raises:
        FileProblem: its SKILL.md cannot be read.
    """
    resources = _resources(published)
    if not resources:
        return None
    written, exact = json_front_matter(published.read(MAIN_FILE).data)
    shown, adjusted = conforming_front_matter(written, name=published.path[-1], description=published.skill.description)
    fields = [*([] if exact else ["yaml"]), *adjusted]
    found: dict[str, object] = {"uri": published.uri, "frontmatter": shown, "resources": resources}
    return found | {"_meta": {ADJUSTED: fields}} if fields else found


def json_front_matter(data: bytes) -> tuple[dict[str, object], bool]:
    """The front matter as JSON values, and whether any YAML 1.2 reader sees the same (not so when it had to be recovered).

    What the specification calls text is text, also where it looks like a number (`version: 1.0` in `metadata`).
    """
    read = read_front_matter(data)
    values = dict(read.values) | {key: text for key in _TEXTS if isinstance(text := read.texts.get(key), str)}
    metadata, written = values.get("metadata"), read.texts.get("metadata")
    if isinstance(metadata, dict) and isinstance(written, dict):
        values["metadata"] = {key: written[key] if isinstance(written[key], str) else metadata[key] for key in metadata}
    return values, read.exact


def conforming_front_matter(
    written: Mapping[str, object], *, name: str, description: str
) -> tuple[dict[str, object], list[str]]:
    """The front matter with the fields of the specification brought to its rules, and which were changed for that.

    `name` is the last segment of the skill's address, which the name must be; `description` stands in for a missing one.
    """
    shown = dict(written)
    shown["name"] = name
    shown["description"] = shorten(_text(written.get("description")).strip() or description.strip() or name, DESCRIPTION_LIMIT)
    for key in ("license", "allowed-tools", "compatibility"):
        if key in written:
            shown[key] = _text(written[key])
    if "compatibility" in shown:
        shown["compatibility"] = shorten(str(shown["compatibility"]), COMPATIBILITY_LIMIT) or "-"
    if "metadata" in written:
        shown["metadata"] = _texts(written["metadata"])
    if isinstance(written.get("description"), str) and str(written["description"]).strip() == shown["description"]:
        shown["description"] = written["description"]
    return shown, [key for key in shown if shown[key] != written.get(key)]


def _text(value: object) -> str:
    """A value as the one text the specification wants: a list of words with spaces between, anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(_text(item) for item in value)
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _texts(value: object) -> dict[str, str]:
    return {str(key): _text(item) for key, item in value.items()} if isinstance(value, Mapping) else {}


def _resources(published: PublishedSkill) -> list[dict[str, object]]:
    """Every file that may be read; empty when the skill is over the extension's limits."""
    files = published.files()
    if len(files) > FILES_LIMIT:
        return []
    found: list[dict[str, object]] = []
    total = 0
    for name in files:
        data = _bytes(published, name)
        if data is None:
            continue
        total += len(data)
        if total > BYTES_LIMIT:
            return []
        found.append(
            {"uri": published.address(name), "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}
        )
    return found


def _bytes(published: PublishedSkill, name: str) -> bytes | None:
    try:
        return published.read(name).data
    except FileProblem:  # a denied name or a link that leads out is not part of what is served
        return None
