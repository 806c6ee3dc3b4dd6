"""One SKILL.md: reading it whatever its state, checking it, mending it, writing it."""

from __future__ import annotations

from skillyard.document.diagnostic import Diagnostic, DiagnosticShape, Severity
from skillyard.document.document import Document, check_document, parse_document
from skillyard.document.limits import DOCUMENT_LIMIT, HEADER_LIMIT
from skillyard.document.metadata import Abp, Kind, Metadata, Resources, Security, ToolDeclaration, Triggers
from skillyard.document.rule import PROFILES, Profile, Rule
from skillyard.document.rules import RULES, diagnose
from skillyard.document.sections import CodeBlock, Section
from skillyard.document.summarize import summarize
from skillyard.document.summary import NeedMore, Summary

__all__ = [
    "DOCUMENT_LIMIT",
    "HEADER_LIMIT",
    "PROFILES",
    "RULES",
    "Abp",
    "CodeBlock",
    "Diagnostic",
    "DiagnosticShape",
    "Document",
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
    "check_document",
    "diagnose",
    "parse_document",
    "summarize",
]
