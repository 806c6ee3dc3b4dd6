"""Manifests of packages, with every limit checked, and published manifests and catalogs, which are read leniently."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import urljoin

from skillyard.document import read_front_matter
from skillyard.errors import InvalidManifest, PathRefused
from skillyard.interop.manifest_conversion import parse_object
from skillyard.paths import safe_relative
from skillyard.wire import WireForm, wire

REQUIRED: Final = ("skill_id", "name", "version")
TEXTS: Final[Mapping[str, int]] = {
    "skill_id": 120,
    "name": 100,
    "version": 50,
    "description": 1000,
    "author": 100,
    "category": 50,
    "license": 50,
    "entry": 200,
}
"""How many characters each text may have."""
LISTS: Final[Mapping[str, tuple[int, int]]] = {"trigger_keywords": (20, 50), "tags": (10, 30)}
"""How many items each list may have, and how many characters each item."""
ADDRESSES: Final = ("homepage", "documentation", "icon_url", "repository")

_TOOL_NAME: Final = 100
_SKILL_ID: Final = re.compile(r"[a-zA-Z0-9._:/-]+")
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(-[a-zA-Z0-9.]+)?", re.ASCII)
_ADDRESS: Final = re.compile(r"https?://[^\s/?#@]+(?:[/?#]\S*)?", re.IGNORECASE)
_INSTALL_VERSION: Final = re.compile(r"[0-9]{8}-[0-9]{6}(?:-[0-9]+)?")
_TYPES: Final = ("anthropic", "custom")


class ManifestProblem(NamedTuple):
    """One thing that is wrong with a manifest: where (`tags.3`, empty for the whole), and what."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def validate_manifest(manifest: object) -> dict[str, object]:
    """The manifest as a dictionary, unchanged; unknown fields are kept.

    Raises:
        InvalidManifest: `Manifest validation failed: path: message; path: message`, with all problems in `details["problems"]`.
    """
    problems = manifest_problems(manifest)
    if problems or not isinstance(manifest, Mapping):
        raise InvalidManifest(
            "Manifest validation failed: " + "; ".join(map(str, problems)),
            hint="fix the fields named; docs/interop.md lists every limit",
            problems=[problem._asdict() for problem in problems],
        )
    return dict(manifest)


def manifest_problems(manifest: object) -> list[ManifestProblem]:
    """Every problem of a manifest, in the order of its fields; empty when it is valid."""
    if not isinstance(manifest, Mapping):
        return [ManifestProblem("", f"a manifest is an object, not {_kind(manifest)}")]
    return [
        *(ManifestProblem(name, "is required") for name in REQUIRED if manifest.get(name) in (None, "")),
        *_texts(manifest),
        *_lists(manifest),
        *_addresses(manifest),
        *_tools(manifest.get("tools")),
        *_object(manifest, "config"),
        *_reference(manifest.get("anthropic"), "anthropic", required=False),
        *_container(manifest),
    ]


def _texts(manifest: Mapping[str, object]) -> Iterator[ManifestProblem]:
    for name, limit in TEXTS.items():
        value = manifest.get(name)
        if value in (None, ""):
            continue
        if not isinstance(value, str):
            yield ManifestProblem(name, f"should be text, not {_kind(value)}")
        elif len(value) > limit:
            yield ManifestProblem(name, f"has {len(value)} characters, at most {limit} are allowed")
        elif name == "skill_id" and not is_skill_id(value):
            yield ManifestProblem(name, "may hold letters, digits and . _ : / -, and is not a path")
        elif name == "version" and not is_version(value):
            yield ManifestProblem(name, "should be three numbers such as 1.2.3, with an optional -suffix")
        elif name == "entry" and not _is_inside(value):
            yield ManifestProblem(name, "should be a path inside the package")


def is_skill_id(text: str) -> bool:
    """Whether a text is a skill id that is safe to make a path of."""
    return bool(_SKILL_ID.fullmatch(text)) and all(part not in ("", ".", "..") for part in text.split("/"))


def is_version(text: str) -> bool:
    """Whether a text has the form of a version."""
    return bool(_VERSION.fullmatch(text))


def is_address(text: str) -> bool:
    """Whether a text is an address of the web, without a user's name and password."""
    return bool(_ADDRESS.fullmatch(text))


def manifest_version(declared: str | None, install_version: str | None = None) -> str:
    """The version to write into a manifest: the declared one, else one made of the install version.

    >>> manifest_version(None, "20260115-143022")
    '0.0.0-20260115.143022'
    """
    if declared and is_version(declared):
        return declared
    if install_version and _INSTALL_VERSION.fullmatch(install_version):
        return "0.0.0-" + install_version.replace("-", ".")
    return "0.0.0"


def _is_inside(path: str) -> bool:
    try:
        return bool(safe_relative(path))
    except PathRefused:
        return False


def _lists(manifest: Mapping[str, object]) -> Iterator[ManifestProblem]:
    for name, (count, length) in LISTS.items():
        value = manifest.get(name)
        if value is None:
            continue
        if not isinstance(value, list | tuple):
            yield ManifestProblem(name, f"should be a list of texts, not {_kind(value)}")
            continue
        if len(value) > count:
            yield ManifestProblem(name, f"has {len(value)} items, at most {count} are allowed")
        for number, item in enumerate(value):
            if not isinstance(item, str):
                yield ManifestProblem(f"{name}.{number}", f"should be text, not {_kind(item)}")
            elif len(item) > length:
                yield ManifestProblem(f"{name}.{number}", f"has {len(item)} characters, at most {length} are allowed")


def _addresses(manifest: Mapping[str, object]) -> Iterator[ManifestProblem]:
    for name in ADDRESSES:
        value = manifest.get(name)
        if value in (None, "") or (isinstance(value, str) and is_address(value)):
            continue
        icon = name == "icon_url" and isinstance(value, str) and value.startswith("assets/") and _is_inside(value)
        if not icon:  # a package's own icon is named by its path
            yield ManifestProblem(name, "should be an address such as https://example.com/page")


def _tools(tools: object) -> Iterator[ManifestProblem]:
    if tools is None:
        return
    if not isinstance(tools, list | tuple):
        yield ManifestProblem("tools", f"should be a list of tools, not {_kind(tools)}")
        return
    for number, tool in enumerate(tools):
        path = f"tools.{number}"
        if not isinstance(tool, Mapping):
            yield ManifestProblem(path, f"should be an object, not {_kind(tool)}")
            continue
        name = tool.get("name")
        if not isinstance(name, str) or not 1 <= len(name) <= _TOOL_NAME:
            yield ManifestProblem(f"{path}.name", f"should be text of 1 to {_TOOL_NAME} characters")
        if tool.get("type") not in ("function", "mcp"):
            yield ManifestProblem(f"{path}.type", "should be function or mcp")
        yield from _object(tool, "config", path=f"{path}.")


def _object(holder: Mapping[str, object], name: str, *, path: str = "") -> Iterator[ManifestProblem]:
    value = holder.get(name)
    if value is not None and not isinstance(value, Mapping):
        yield ManifestProblem(f"{path}{name}", f"should be an object, not {_kind(value)}")


def _container(manifest: Mapping[str, object]) -> Iterator[ManifestProblem]:
    value = manifest.get("container")
    if value is None:
        return
    skills = value.get("skills") if isinstance(value, Mapping) else None
    if not isinstance(skills, list | tuple):
        yield ManifestProblem("container.skills", "should be a list of skills")
        return
    for number, skill in enumerate(skills):
        yield from _reference(skill, f"container.skills.{number}")


def _reference(value: object, path: str, *, required: bool = True) -> Iterator[ManifestProblem]:
    """One `{type, skill_id, version?}`."""
    if value is None and not required:
        return
    if not isinstance(value, Mapping):
        yield ManifestProblem(path, f"should be an object, not {_kind(value)}")
        return
    if value.get("type") not in _TYPES:
        yield ManifestProblem(f"{path}.type", "should be anthropic or custom")
    if not isinstance(value.get("skill_id"), str):
        yield ManifestProblem(f"{path}.skill_id", "is required")
    if not isinstance(value.get("version"), str | None):
        yield ManifestProblem(f"{path}.version", "should be text")


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list | tuple) else "an object" if isinstance(value, Mapping) else type(value).__name__


_KEYWORDS: Final = 20


@dataclass(frozen=True, slots=True)
class CatalogEntry(WireForm):
    """One skill of a catalog; `manifest_url` is absolute, None when the catalog names none."""

    skill_id: str
    name: str
    description: str = field(default="", metadata=wire(omit_empty=True))
    version: str | None = field(default=None, metadata=wire(omit_empty=True))
    manifest_url: str | None = field(default=None, metadata=wire(omit_empty=True))


def read_anthropic_manifest(data: bytes) -> dict[str, object]:
    """An Anthropic manifest from JSON, or from the front matter of a Markdown file.

    `id` replaces a missing `skill_id`, `keywords` (the first 20) `trigger_keywords`, `latest` a version; in Markdown
    the name replaces a missing id. All other fields are kept.

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
        raise InvalidManifest("the catalog has no list of skills", hint='write {"skills": […]}', problems=[])
    by_id: dict[str, CatalogEntry] = {}
    for item in document:
        entry = _entry(item, base_url) if isinstance(item, Mapping) else None
        if entry:
            by_id.setdefault(entry.skill_id, entry)
    return tuple(sorted(by_id.values(), key=lambda entry: (entry.name.lower(), entry.skill_id)))


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
