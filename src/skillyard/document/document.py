"""One SKILL.md read and judged: what it says, where each part is, and everything found wrong with it."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping as MappingLike
from dataclasses import dataclass
from typing import cast

from skillyard.document.check_body import check_body, check_sections
from skillyard.document.check_complete import check_complete
from skillyard.document.check_fields import check_fields, check_required
from skillyard.document.check_files import check_files
from skillyard.document.check_manifest import check_manifest, check_version
from skillyard.document.diagnostic import Diagnostic
from skillyard.document.fields import FieldReader
from skillyard.document.findings import Findings
from skillyard.document.metadata import Metadata
from skillyard.document.nodes import as_text
from skillyard.document.opening import Opened, open_document
from skillyard.document.reader import read_metadata
from skillyard.document.rule import Profile
from skillyard.document.sections import CodeBlock, Section, read_body
from skillyard.document.summary import Summary
from skillyard.paths import slug

__all__ = ["Document", "check_document", "parse_document", "precise_summary"]


@dataclass(frozen=True, slots=True)
class Document:
    """One parsed SKILL.md."""

    file: str
    directory_name: str
    """The name of the skill's folder; empty when it was not given."""
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
        return slug(self.metadata.skill_id or self.metadata.name, self.directory_name)


def parse_document(data: bytes, *, file: str = "SKILL.md", directory_name: str = "", profile: Profile = "standard") -> Document:
    """Read a SKILL.md from its bytes; bad content never raises, it becomes diagnostics.

    `directory_name` is the name of the skill's folder: the fallback for the name, and what the name is compared with.
    """
    findings = Findings(file, profile)
    return _read(open_document(data, findings), findings, directory_name)


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
    document = _read(opened, findings, directory_name)
    check_body(document, findings)
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
        check_sections(document, findings)
    if files is not None:
        check_files(metadata, fields, findings, files)


def _read(opened: Opened, findings: Findings, directory_name: str) -> Document:
    metadata = _read_opened(opened, findings, directory_name)
    sections, code_blocks = read_body(opened.body, first_line=opened.body_line)
    return Document(
        file=findings.file,
        directory_name=directory_name,
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


def precise_summary(data: bytes, *, file: str, directory_name: str, profile: Profile, complete: bool) -> Summary:
    """What `summarize` gives for a file that needs the precise reader.

    Raises:
        NeedMore: as `summarize`.
    """
    findings = Findings(file, profile)
    metadata = _read_opened(open_document(data, findings, complete=complete), findings, directory_name)
    return Summary(
        name=metadata.name,
        description=metadata.description,
        usable=findings.usable,
        display_name=metadata.display_name,
        version=metadata.version,
        kind=metadata.kind,
        allowed_tools=metadata.allowed_tools,
        keywords=metadata.search_words,
        phrases=tuple(dict.fromkeys((*metadata.triggers.intents, *metadata.triggers.phrases))),
        model_invocable=metadata.model_invocable,
        has_entry=metadata.has_entry,
        diagnostics=tuple(found for found in findings.sorted() if found.severity != "info"),
    )


def _read_opened(opened: Opened, findings: Findings, directory_name: str) -> Metadata:
    """The metadata of an opened file; what it lacks is only reported when it could be read."""
    if opened.readable:
        check_required(opened.mapping, findings, directory_name)
        check_fields(opened.mapping, findings)
    elif not directory_name:
        findings.usable = False
    return read_metadata(opened.mapping, findings, directory_name=directory_name)
