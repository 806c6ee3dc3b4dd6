"""The checks that need to know which other files the skill has."""

from __future__ import annotations

from collections.abc import Collection

from skillyard.document.fields import FieldReader
from skillyard.document.findings import Findings
from skillyard.document.metadata import Metadata

__all__ = ["check_files"]


def check_files(metadata: Metadata, fields: FieldReader, findings: Findings, files: Collection[str]) -> None:
    """Check what the front matter names against the paths of the skill's files."""
    if "manifest.json" in files:
        findings.add("manifest-json-ignored")
    resources = metadata.resources
    line = fields.line("resources" if "resources" in metadata.declared else "entry")
    for path in (resources.entry, *resources.helpers, *resources.references, *resources.assets):
        if path and path not in files and not any(file.startswith(path + "/") for file in files):
            findings.add("resource-missing", line=line, message=f"the file `{path[:120]}` is not there")
    if (metadata.runs_a_script or resources.entry) and not any(file.startswith("scripts/") for file in files):
        findings.add("scripts-missing", line=fields.line("type"))
