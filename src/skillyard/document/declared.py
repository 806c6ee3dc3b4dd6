"""One field of a front matter as data, for fields whose values are numbers, flags and lists and not only text."""

from __future__ import annotations

from skillyard.document.document import Document
from skillyard.document.fields import FieldReader
from skillyard.document.nodes import as_data
from skillyard.document.opening import open_document
from skillyard.document.rules import Findings

__all__ = ["declared_data"]


def declared_data(document: Document, name: str) -> object:
    """The field `name` with unquoted scalars typed as JSON would have them; `None` when it is absent or empty."""
    findings = Findings(document.file, "minimal")
    node = FieldReader(open_document(document.text.encode("utf-8", "surrogatepass"), findings).mapping, findings).node(name)
    return None if node is None else as_data(node)
