"""One SKILL.md: reading it whatever its state, checking it, fixing it, writing it.

What a list of skills needs is imported at once; the rest when it is first used, so that a list stays quick to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.document.document_rules import (
    COMPATIBILITY_LIMIT,
    DESCRIPTION_LIMIT,
    DOCUMENT_LIMIT,
    HEADER_LIMIT,
    NAME_LIMIT,
    PROFILES,
    Diagnostic,
    Facets,
    NeedMore,
    Profile,
    Rule,
    Severity,
    Summary,
)
from skillyard.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from skillyard.document.checks import check_document, is_in_scripts
    from skillyard.document.document import Document, declared_data, parse_document
    from skillyard.document.document_rules import RULES, diagnose
    from skillyard.document.fields import is_name
    from skillyard.document.front_matter import CODE_LANGUAGES, CodeBlock, FrontMatter, Section, read_front_matter
    from skillyard.document.metadata import Abp, Kind, Metadata, Resources, Security, ToolDeclaration, Triggers
    from skillyard.document.schema_bounds import UnusableSchema, schema_weight, value_weight
    from skillyard.document.summarizer import summarize
    from skillyard.document.writer import FixedDocument, fix_document, new_document, set_front_matter

__all__ = [
    "CODE_LANGUAGES",
    "COMPATIBILITY_LIMIT",
    "DESCRIPTION_LIMIT",
    "DOCUMENT_LIMIT",
    "HEADER_LIMIT",
    "NAME_LIMIT",
    "PROFILES",
    "RULES",
    "Abp",
    "CodeBlock",
    "Diagnostic",
    "Document",
    "Facets",
    "FixedDocument",
    "FrontMatter",
    "Kind",
    "Metadata",
    "NeedMore",
    "Profile",
    "Resources",
    "Rule",
    "Section",
    "Security",
    "Severity",
    "Summary",
    "ToolDeclaration",
    "Triggers",
    "UnusableSchema",
    "check_document",
    "declared_data",
    "diagnose",
    "fix_document",
    "is_in_scripts",
    "is_name",
    "new_document",
    "parse_document",
    "read_front_matter",
    "schema_weight",
    "set_front_matter",
    "summarize",
    "value_weight",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "checks": ("check_document", "is_in_scripts"),
        "document": ("Document", "declared_data", "parse_document"),
        "fields": ("is_name",),
        "front_matter": ("CODE_LANGUAGES", "CodeBlock", "FrontMatter", "Section", "read_front_matter"),
        "metadata": ("Abp", "Kind", "Metadata", "Resources", "Security", "ToolDeclaration", "Triggers"),
        "document_rules": ("RULES", "diagnose"),
        "schema_bounds": ("UnusableSchema", "schema_weight", "value_weight"),
        "summarizer": ("summarize",),
        "writer": ("FixedDocument", "fix_document", "new_document", "set_front_matter"),
    },
)
