"""One SKILL.md read and judged: what it says, where each part is, and everything found wrong with it."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping as MappingLike
from dataclasses import dataclass
from typing import cast

from skillyard.document.checks import check_fields, check_required
from skillyard.document.diagnostic import Diagnostic
from skillyard.document.findings import Findings
from skillyard.document.metadata import Metadata
from skillyard.document.nodes import as_text
from skillyard.document.opening import Opened, open_document
from skillyard.document.reader import read_metadata
from skillyard.document.rule import Profile
from skillyard.document.sections import CodeBlock, Section, read_body
from skillyard.paths import slug

__all__ = ["Document", "check_document", "parse_document"]


@dataclass(frozen=True, slots=True)
class Document:
    """One parsed SKILL.md."""

    file: str
    text: str
    """The whole file as text, without byte order mark."""
    front_matter: MappingLike[str, object]
    """Every field as written: scalars are the text of the file, never numbers or dates."""
    metadata: Metadata
    body: str
    """The instructions: everything behind the closing fence."""
    body_line: int
    """The line of the file that the body begins on, counted from 1."""
    sections: tuple[Section, ...]
    code_blocks: tuple[CodeBlock, ...]
    diagnostics: tuple[Diagnostic, ...]
    usable: bool
    """Whether the profile lets the skill be offered to a model."""

    @property
    def skill_id(self) -> str:
        """A storage-safe id: the declared `skill_id`, else the name as a slug, else the folder's (row 003-3)."""
        return slug(self.metadata.skill_id or self.metadata.name)


def parse_document(data: bytes, *, file: str = "SKILL.md", directory_name: str = "", profile: Profile = "standard") -> Document:
    """Read a SKILL.md from its bytes; bad content never raises, it becomes diagnostics.

    `directory_name` is the name of the skill's folder: the fallback for the name, and what the name is compared with.
    """
    return _parse(data, Findings(file, profile), directory_name)


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
    from skillyard.document.profiles import check_profile  # the richest checks are needed only here

    findings = Findings(file, profile)
    document = _parse(data, findings, directory_name)
    check_profile(document, findings, files)
    return findings.sorted()


def _parse(data: bytes, findings: Findings, directory_name: str) -> Document:
    opened = open_document(data, findings)
    metadata = read_opened(opened, findings, directory_name)
    sections, code_blocks = read_body(opened.body, first_line=opened.body_line)
    return Document(
        file=findings.file,
        text=opened.text,
        front_matter=cast("dict[str, object]", as_text(opened.mapping)),
        metadata=metadata,
        body=opened.body,
        body_line=opened.body_line,
        sections=sections,
        code_blocks=code_blocks,
        diagnostics=findings.sorted(),
        usable=findings.usable,
    )


def read_opened(opened: Opened, findings: Findings, directory_name: str) -> Metadata:
    """The metadata of an opened file; what it lacks is only reported when it could be read."""
    if opened.readable:
        check_required(opened.mapping, findings, directory_name)
        check_fields(opened.mapping, findings)
    elif not directory_name:
        findings.usable = False
    return read_metadata(opened.mapping, findings, directory_name=directory_name)
