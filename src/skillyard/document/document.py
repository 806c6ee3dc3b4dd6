"""One parsed SKILL.md: its metadata, where each part is, and its diagnostics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from skillyard.document.document_rules import (
    DESCRIPTION_LIMIT,
    HEADER_LIMIT,
    Diagnostic,
    Facets,
    Findings,
    NeedMore,
    Profile,
    Summary,
)
from skillyard.document.fields import FieldReader, check_fields, check_required, written_text
from skillyard.document.front_matter import CodeBlock, OpenedDocument, Section, first_paragraph, open_document, read_body
from skillyard.document.metadata import Metadata, read_metadata
from skillyard.document.yaml_reader import as_data, as_text
from skillyard.paths import slug
from skillyard.text import shorten, without_user


@dataclass(frozen=True, slots=True)
class Document:
    """One parsed SKILL.md."""

    file: str
    directory_name: str
    """The name of the skill's folder; empty when it was not given."""
    text: str
    """The whole file as text, without byte order mark."""
    front_matter: Mapping[str, object]
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
    inferred: tuple[str, ...] = ()
    """The fields among `name` and `description` that are not written: `metadata` has the name of the folder, and the first
    paragraph of the instructions."""

    @property
    def install_refusal(self) -> str | None:
        """Why no install takes it: its first error, or the fields that are not written; None when it is taken."""
        if not self.usable:
            errors = (one.message for one in self.diagnostics if one.severity == "error")
            return f"SKILL.md: {next(errors, 'it cannot be used')}"
        return f"SKILL.md does not declare its {' and '.join(self.inferred)}" if self.inferred else None

    @property
    def skill_id(self) -> str:
        """A storage-safe id: the declared `skill_id`, else the name as a slug, else the folder's."""
        return slug(self.metadata.skill_id or self.metadata.name, self.directory_name)

    @property
    def public_front_matter(self) -> dict[str, object]:
        """The front matter as others may see it: its addresses without a user's name and password."""
        return {name: _without_users(value) for name, value in self.front_matter.items()}


def _without_users(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _without_users(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_users(inner) for inner in value]
    return without_user(value) if isinstance(value, str) else value


def parse_document(data: bytes, *, file: str = "SKILL.md", directory_name: str = "", profile: Profile = "standard") -> Document:
    """Read a SKILL.md from its bytes; bad content never raises, it becomes diagnostics.

    `directory_name` is the name of the skill's folder: the fallback for the name, and what the name is compared with.
    """
    findings = Findings(file, profile)
    return read_opened(open_document(data, findings), findings, directory_name)


def read_opened(opened: OpenedDocument, findings: Findings, directory_name: str) -> Document:
    """The document in an opened file; diagnostics are added to `findings`."""
    metadata = _metadata(opened, findings, directory_name)
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
        inferred=_inferred(opened),
    )


def precise_summary(data: bytes, *, file: str, directory_name: str, profile: Profile, complete: bool) -> Summary:
    """What `summarize` gives for a file that needs the precise reader.

    Raises:
        NeedMore: as `summarize`.
    """
    findings = Findings(file, profile)
    opened = open_document(data, findings, complete=complete)
    if not complete and len(data) < HEADER_LIMIT and opened.opening is not None and "description" in _inferred(opened):
        raise NeedMore
    metadata = _metadata(opened, findings, directory_name)
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
        facets=_facets(metadata),
        diagnostics=tuple(diagnostic for diagnostic in findings.sorted() if diagnostic.severity != "info"),
    )


def _facets(metadata: Metadata) -> Facets:
    triggers, domain = metadata.triggers, metadata.domain.strip() or "general"
    if domain == "general" and not (triggers.intents or triggers.event_types or triggers.priority is not None or metadata.tags):
        return ()
    return triggers.intents, triggers.event_types, triggers.priority, domain, metadata.tags


def _metadata(opened: OpenedDocument, findings: Findings, directory_name: str) -> Metadata:
    """The metadata of an opened file; what it lacks is only reported when it could be read.

    A missing name is the folder's, a missing description the first paragraph of the instructions (in a list as in a load).
    """
    if opened.readable:
        check_required(opened.mapping, findings, directory_name)
        check_fields(opened.mapping, findings)
    elif not directory_name:
        findings.usable = False
    metadata = read_metadata(opened.mapping, findings, directory_name=directory_name)
    if opened.opening is None or "description" not in _inferred(opened):
        return metadata
    description = shorten(first_paragraph(opened.opening), DESCRIPTION_LIMIT)
    if not description:
        findings.add("description-not-found")
    return replace(metadata, description=description)


def _inferred(opened: OpenedDocument) -> tuple[str, ...]:
    return tuple(key for key in ("name", "description") if not written_text(opened.mapping, key))


def declared_data(document: Document, name: str) -> object:
    """The field `name` with unquoted scalars typed as JSON would have them; `None` when it is absent or empty."""
    findings = Findings(document.file, "minimal")
    node = FieldReader(open_document(document.text.encode("utf-8", "surrogatepass"), findings).mapping, findings).node(name)
    return None if node is None else as_data(node)
