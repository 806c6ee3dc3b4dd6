"""From the tree of a front matter to typed `Metadata`, with a finding for every value that could not be used."""

from __future__ import annotations

from typing import Any, Final, cast

from skillyard.document.blocks import read_abp, read_resources, read_security, read_tools, read_triggers
from skillyard.document.fields import FieldReader
from skillyard.document.metadata import Metadata
from skillyard.document.nodes import Mapping, Scalar, Sequence, as_text
from skillyard.document.rules import Findings
from skillyard.document.spelling import KINDS, SPELLINGS, split_tools, tool_parts
from skillyard.text import without_user

__all__ = ["read_metadata"]

_KNOWN: Final = frozenset(SPELLINGS.values())
_TTL_LIMIT: Final = 10 * 365 * 24 * 3600
_TOKEN_LIMIT: Final = 10_000_000
_TOOL_PROBLEMS: Final = 10
# fmt: off
_TEXTS: Final = (
    "license", "compatibility", "display_name", "version", "category", "created_at", "updated_at", "skill_id",
    "author", "homepage", "documentation", "icon_url", "repository", "entry", "model",
)
# fmt: on
_ADDRESSES: Final = ("homepage", "documentation", "icon_url", "repository")
_LISTS: Final = ("tags", "keywords", "trigger_keywords")
_BLOCKS: Final = frozenset(
    {"triggers", "trigger_patterns", "security", "permissions", "resources", "entry", "tools", "abp", "protocol", "config"}
)
_DATA: Final = ("input_schema", "output_schema", "permissions", "container", "anthropic")


def read_metadata(mapping: Mapping, findings: Findings, *, directory_name: str = "") -> Metadata:
    """The typed fields of a front matter; the name falls back to the folder's."""
    if not mapping.entries:
        return Metadata(name=directory_name)
    reader = FieldReader(mapping, findings)
    declared = reader.declared()
    values: dict[str, Any] = {name: reader.text(name) for name in _TEXTS if name in declared}
    values |= {name: without_user(value) for name in _ADDRESSES if (value := values.get(name))}
    values |= {name: reader.words(name) for name in _LISTS if name in declared}
    values |= {name: reader.data(name) for name in _DATA if name in declared}
    values |= _settings(reader)
    if not declared.isdisjoint(_BLOCKS):
        values |= _blocks(reader)
    values["name"] = _scalar(reader, "name") or directory_name
    values["description"] = _scalar(reader, "description")
    values["capabilities"] = reader.words("capabilities", commas=False)
    values["allowed_tools"] = _allowed_tools(reader)
    values["metadata"] = _verbatim(reader, "metadata")
    values["argument_hint"] = _argument_hint(reader)
    values["extra"] = reader.unknown(_KNOWN)
    kind = reader.choice("type", KINDS, rule="type-unknown")
    if kind:
        values["kind"] = kind
        declared |= {"kind"}
    return Metadata(declared=declared, **{name: value for name, value in values.items() if value is not None})


def _blocks(reader: FieldReader) -> dict[str, object]:
    abp = read_abp(reader)
    protocol = reader.choice("protocol", ("vcp", "abp"))
    return {
        "triggers": read_triggers(reader),
        "security": read_security(reader),
        "resources": read_resources(reader),
        "tools": read_tools(reader),
        "abp": abp,
        "protocol": protocol or ("abp" if abp else "vcp"),
        "config": reader.data("config"),
    }


def _settings(reader: FieldReader) -> dict[str, object]:
    return {
        "domain": reader.text("domain"),
        "cacheable": reader.flag("cacheable"),
        "ttl": reader.number("ttl", low=1, high=_TTL_LIMIT),
        "loading_priority": reader.choice("loading_priority", ("low", "normal", "high")),
        "estimated_tokens": reader.number("estimated_tokens", low=0, high=_TOKEN_LIMIT),
        "disable_model_invocation": reader.flag("disable_model_invocation"),
        "user_invocable": reader.flag("user_invocable"),
    }


def _scalar(reader: FieldReader, name: str) -> str:
    """A text without a finding: name and description have rules of their own."""
    node = reader.node(name)
    return node.text.strip() if isinstance(node, Scalar) else ""


def _allowed_tools(reader: FieldReader) -> tuple[str, ...]:
    node = reader.node("allowed_tools")
    tools: tuple[str, ...] = ()
    if isinstance(node, Scalar):
        tools = split_tools(node.text)
    elif isinstance(node, Sequence):
        tools = tuple(dict.fromkeys(tool for item in reader.words("allowed_tools") for tool in split_tools(item)))
    elif node is not None:
        reader.wrong("allowed_tools", "a list of tools")
    for problem in list(filter(None, map(_tool_problem, tools)))[:_TOOL_PROBLEMS]:
        reader.findings.add("allowed-tools-grammar", line=reader.line("allowed_tools"), message=problem)
    return tools


def _tool_problem(tool: str) -> str:
    """Why an entry of `allowed-tools` names no tool; empty when it does."""
    try:
        tool_parts(tool)
    except ValueError as error:
        return str(error)
    return ""


def _verbatim(reader: FieldReader, name: str) -> dict[str, object] | None:
    block = reader.block(name)
    return cast("dict[str, object]", as_text(block)) if block else None


def _argument_hint(reader: FieldReader) -> str | None:
    """`argument-hint: [file]` is YAML for a list, but means the text."""
    node = reader.node("argument_hint")
    if isinstance(node, Sequence):
        return " ".join(f"[{word}]" for word in reader.words("argument_hint")) or None
    return reader.text("argument_hint")
