"""The checks that need more than the front matter: the body, and the skill's other files."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from skillyard.document.findings import Findings

if TYPE_CHECKING:
    from skillyard.document.document import Document

__all__ = ["check_profile"]


def check_profile(document: Document, findings: Findings, files: Collection[str] | None) -> None:
    """Check what the profile asks of the whole document."""
    if files is not None and "manifest.json" in files:
        findings.add("manifest-json-ignored")
