"""Everything a profile finds wrong with one SKILL.md, its instructions included."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from skillyard.document.check_profiles import check_complete, check_files, check_manifest, check_version
from skillyard.document.diagnostic import Diagnostic
from skillyard.document.document import Document, read_opened
from skillyard.document.fields import FieldReader
from skillyard.document.opening import open_document
from skillyard.document.rule import Profile
from skillyard.document.rules import Findings
from skillyard.document.sections import CODE_LANGUAGES

__all__ = ["check_document"]

_WORD_LIMIT: Final = 5000
_SECTIONS: Final = (
    ("描述 / Description", ("描述", "description", "overview", "概述")),
    ("参数 / Parameters", ("参数", "输入", "parameter", "input", "argument")),
    ("输出 / Output", ("输出", "output", "result", "returns")),
    ("执行步骤 / Steps", ("执行步骤", "步骤", "step", "workflow", "procedure", "instructions")),
    ("示例 / Examples", ("示例", "例子", "example")),
    ("安全 / Safety", ("安全", "合规", "safety", "security", "compliance")),
)
"""The sections of row 000-26: how a finding names each, and the words of which its heading has one."""


def check_document(
    data: bytes,
    *,
    file: str = "SKILL.md",
    directory_name: str = "",
    profile: Profile = "standard",
    files: Collection[str] | None = None,
) -> tuple[Diagnostic, ...]:
    """Everything the profile finds wrong, notes included, in the order of the file's lines.

    `files` are the POSIX paths of the skill's files relative to its folder; without them nothing is said about other files.
    """
    findings = Findings(file, profile)
    opened = open_document(data, findings)
    document = read_opened(opened, findings, directory_name)
    _check_body(document, findings)
    if opened.readable:
        _check_more(document, FieldReader(opened.mapping, Findings(file, profile)), findings, files)
    return findings.sorted()


def _check_more(document: Document, fields: FieldReader, findings: Findings, files: Collection[str] | None) -> None:
    """The checks of the richer profiles, which a list never makes."""
    metadata = document.metadata
    if findings.profile in ("manifest", "full"):
        check_version(metadata, fields, findings)
    if findings.profile == "manifest":
        check_manifest(metadata, fields, findings)
    if findings.profile == "full":
        check_complete(metadata, fields, findings)
        _check_sections(document, findings)
    if files is not None:
        check_files(metadata, fields, findings, files)


def _check_body(document: Document, findings: Findings) -> None:
    """Check the length of the instructions, and that code to be run is not hidden in them (rows 000-28 and C-4)."""
    words = len(document.body.split())
    if words > _WORD_LIMIT:
        message = f"the instructions have {words:,} words, more than {_WORD_LIMIT:,}"
        findings.add("body-too-long", line=document.body_line, message=message)
    metadata = document.metadata
    if metadata.runs_a_script and metadata.resources.entry is None:
        code = next((block for block in document.code_blocks if block.language in CODE_LANGUAGES), None)
        if code:
            findings.add("code-in-body", line=code.line)


def _check_sections(document: Document, findings: Findings) -> None:
    """Check that each required section is there, by a word in a `##` or `###` heading (row 000-26)."""
    titles = [section.title.lower() for section in document.sections]
    for shown, words in _SECTIONS:
        if not any(word in title for title in titles for word in words):
            fix = f"add a heading `## {shown.split(' / ')[0]}` or `## {shown.split(' / ')[1]}`"
            findings.add("section-missing", line=document.body_line, message=f"there is no section {shown}", fix=fix)
