"""The checks of the instructions themselves: how long they are, which sections they have, where their code is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillyard.document.findings import Findings
from skillyard.document.sections import CODE_LANGUAGES

if TYPE_CHECKING:
    from skillyard.document.document import Document

__all__ = ["check_body", "check_sections"]

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


def check_body(document: Document, findings: Findings) -> None:
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


def check_sections(document: Document, findings: Findings) -> None:
    """Check that each required section is there, by a word in a `##` or `###` heading (row 000-26)."""
    titles = [section.title.lower() for section in document.sections]
    for shown, words in _SECTIONS:
        if not any(word in title for title in titles for word in words):
            fix = f"add a heading `## {shown.split(' / ')[0]}` or `## {shown.split(' / ')[1]}`"
            findings.add("section-missing", line=document.body_line, message=f"there is no section {shown}", fix=fix)
