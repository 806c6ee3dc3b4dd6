"""The checks of the profile `full`: every field and section of the rich format (rows 000-7 to 000-26)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from skillyard.document.fields import FieldReader
from skillyard.document.findings import Findings
from skillyard.document.metadata import Metadata

__all__ = ["check_complete"]

_REQUIRED: Final = (
    "version",
    "type",
    "capabilities",
    "tags",
    "triggers",
    "input_schema",
    "output_schema",
    "security",
    "resources",
)
"""The required fields beyond name and description, which every profile but `minimal` asks for."""
_WORD_LIMIT: Final = 50


def check_complete(metadata: Metadata, fields: FieldReader, findings: Findings) -> None:
    """Check a front matter against the complete format."""
    for name in _REQUIRED:
        if name not in metadata.declared:
            fix = f"add `{name}:`" + ("; `permissions` is its older form" if name == "security" else "")
            findings.add("field-required", line=fields.mapping.line, message=f"`{name}` is missing", fix=fix)
    if "resources" in metadata.declared and metadata.resources.entry is None and metadata.runs_a_script:
        message = "`resources.entry` is missing, so nothing can be run"
        findings.add(
            "field-required",
            line=fields.line("resources"),
            message=message,
            fix="name the entry script: entry: ./scripts/main.py",
        )
    words = sum(len(text.split()) for text in (metadata.name, metadata.description, *metadata.tags, *metadata.capabilities))
    if words > _WORD_LIMIT:
        message = f"name, description, tags and capabilities have {words} words, more than {_WORD_LIMIT}"
        findings.add("metadata-too-long", line=fields.line("description"), message=message)
    for name in ("input_schema", "output_schema"):
        _check_schema(getattr(metadata, name), name, fields, findings)


def _check_schema(schema: Mapping[str, object] | None, name: str, fields: FieldReader, findings: Findings) -> None:
    if schema is None:
        return
    import jsonschema_rs  # 5 ms that only this profile needs

    try:
        jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
    except Exception as error:
        reason = str(error).partition("\n")[0][:240]
        findings.add("schema-invalid", line=fields.line(name), message=f"`{fields.written(name)}` is not JSON Schema: {reason}")


def _refuse(address: str) -> NoReturn:
    """Never fetch a schema from elsewhere: checking a stranger's file must not reach the network."""
    raise ValueError(f"`$ref` to {address} leaves the file")
