"""The checks of the profile `manifest`: the fields and limits of a published package (rows 002-4 and 002-5)."""

from __future__ import annotations

import re
from typing import Final

from skillyard.document.fields import FieldReader
from skillyard.document.findings import Findings
from skillyard.document.metadata import Metadata

__all__ = ["VERSION", "check_manifest", "check_version"]

VERSION: Final = re.compile(r"\d+\.\d+\.\d+(-[a-zA-Z0-9.]+)?")
"""The form of a version: three numbers and an optional suffix (row 002-5)."""
_SKILL_ID: Final = re.compile(r"[a-zA-Z0-9._:/-]+")
_ADDRESS: Final = re.compile(r"https?://[^\s/?#]+[^\s]*", re.IGNORECASE)
_LENGTHS: Final = {
    "skill_id": 120,
    "name": 100,
    "version": 50,
    "description": 1000,
    "author": 100,
    "category": 50,
    "license": 50,
    "entry": 200,
}
_LISTS: Final = {"trigger_keywords": (20, 50), "tags": (10, 30)}
_ADDRESSES: Final = ("homepage", "documentation", "icon_url", "repository")
_TOOL_NAME_LIMIT: Final = 100


def check_manifest(metadata: Metadata, fields: FieldReader, findings: Findings) -> None:
    """Check a front matter as the manifest of a package."""
    for name in ("skill_id", "version"):
        if not getattr(metadata, name):
            findings.add("manifest-field-missing", line=fields.line(name), message=f"`{name}` is missing")
    _check_lengths(metadata, fields, findings)
    _check_forms(metadata, fields, findings)
    _check_tools(metadata, fields, findings)


def check_version(metadata: Metadata, fields: FieldReader, findings: Findings) -> None:
    """Check the form of a version that is there."""
    if metadata.version and not VERSION.fullmatch(metadata.version):
        message = f"the version `{metadata.version[:60]}` is not three numbers"
        findings.add("version-format", line=fields.line("version"), message=message)


def _check_lengths(metadata: Metadata, fields: FieldReader, findings: Findings) -> None:
    for name, limit in _LENGTHS.items():
        value = getattr(metadata, name) or ""
        if len(value) > limit:
            message = f"`{fields.written(name)}` has {len(value):,} characters, a manifest allows {limit:,}"
            findings.add("manifest-limit", line=fields.line(name), message=message)
    for name, (count, length) in _LISTS.items():
        words = getattr(metadata, name)
        if len(words) > count:
            message = f"`{fields.written(name)}` has {len(words)} items, a manifest allows {count}"
            findings.add("manifest-limit", line=fields.line(name), message=message, fix=f"keep the {count} best")
        if any(len(word) > length for word in words):
            message = f"an item of `{fields.written(name)}` is over {length} characters"
            findings.add("manifest-limit", line=fields.line(name), message=message)


def _check_forms(metadata: Metadata, fields: FieldReader, findings: Findings) -> None:
    skill_id = metadata.skill_id or ""
    if skill_id and (not _SKILL_ID.fullmatch(skill_id) or any(part in ("", ".", "..") for part in skill_id.split("/"))):
        message = "`skill_id` holds more than letters, digits and `. _ : / -`, or is a path"
        findings.add("manifest-format", line=fields.line("skill_id"), message=message, fix="write it like `acme/pdf-tools`")
    for name in _ADDRESSES:
        value = getattr(metadata, name)
        if value and not _ADDRESS.fullmatch(value):
            message = f"`{fields.written(name)}` is not an address"
            findings.add("manifest-format", line=fields.line(name), message=message, fix="write the whole address: https://…")


def _check_tools(metadata: Metadata, fields: FieldReader, findings: Findings) -> None:
    for tool in metadata.tools:
        if tool.type not in ("function", "mcp") or len(tool.name) > _TOOL_NAME_LIMIT:
            message = (
                f"the tool `{tool.name[:60]}` needs a `type` (`function` or `mcp`) and at most {_TOOL_NAME_LIMIT} characters"
            )
            fix = "write each tool as `name:`, `type: function` or `type: mcp`, and an optional `config:`"
            findings.add("manifest-format", line=fields.line("tools"), message=message, fix=fix)
