"""The checks of names, descriptions and the other fields of the Agent Skills specification."""

from __future__ import annotations

import unicodedata

from skillyard.document.records import COMPATIBILITY_LIMIT, DESCRIPTION_LIMIT, NAME_LIMIT
from skillyard.document.rules import Findings
from skillyard.document.spelling import SPEC_FIELDS, SPELLINGS
from skillyard.document.yaml_reader import Mapping, Node, Scalar, Sequence, typed
from skillyard.paths import slug
from skillyard.text import sanitize


def check_required(mapping: Mapping, findings: Findings, directory_name: str) -> None:
    """Check that there is a name and a description, and what they look like."""
    name = _required(mapping, findings, "name")
    if name:
        _check_name(name, mapping.key_lines["name"], findings, directory_name)
    elif not directory_name:
        findings.usable = False
    description = _required(mapping, findings, "description")
    if description:
        _check_description(description, mapping.key_lines["description"], findings)


def _required(mapping: Mapping, findings: Findings, key: str) -> str:
    """The text of a required field; empty, and reported, when there is none."""
    node = mapping.entries.get(key)
    if node is None:
        findings.add(f"{key}-missing", line=max(mapping.line - 1, 1))
        return ""
    line = mapping.key_lines[key]
    if not isinstance(node, Scalar):
        kind = "a list" if isinstance(node, Sequence) else "a mapping"
        findings.add(f"{key}-not-text", line=line, message=f"the {key} is {kind}, not text")
        return ""
    text = written_text(mapping, key)
    if not text:
        findings.add(f"{key}-blank", line=line)
    return text


def written_text(mapping: Mapping, key: str) -> str:
    """The text that was written for a field; empty when it is missing, blank, null or no text."""
    node = mapping.entries.get(key)
    if not isinstance(node, Scalar) or (node.plain and typed(node) is None):
        return ""
    return node.text.strip()


def _check_name(written: str, line: int, findings: Findings, directory_name: str) -> None:
    name = unicodedata.normalize("NFKC", written)
    suggestion = f"write `name: {slug(name, directory_name)[:NAME_LIMIT].strip('-')}`"
    if "/" in name or "\\" in name or name in (".", "..") or name.startswith("~"):
        findings.add("name-unsafe", line=line, message=f"the name `{name[:80]}` looks like a path", fix=suggestion)
    elif name != name.lower() or not all(char.isalnum() or char == "-" for char in name):
        findings.add("name-characters", line=line, fix=suggestion)
    elif not name.isascii():
        findings.add("name-not-ascii", line=line)
    if name.startswith("-") or name.endswith("-") or "--" in name:
        findings.add("name-hyphens", line=line, fix=suggestion)
    if len(name) > NAME_LIMIT:
        findings.add("name-too-long", line=line, message=f"the name has {len(name)} characters, more than {NAME_LIMIT}")
    if directory_name and unicodedata.normalize("NFKC", directory_name) != name:
        message = f"the name is `{name[:80]}`, the folder is `{directory_name[:80]}`"
        findings.add("name-folder-mismatch", line=line, message=message, fix=_matching(name, directory_name))
    _check_hidden("name", written, line, findings)


def _matching(name: str, directory_name: str) -> str:
    if is_name(directory_name):
        return f"write `name: {directory_name}`"
    return f"rename the folder to `{slug(name, directory_name)[:NAME_LIMIT].strip('-')}` and give the skill the same name"


def is_name(name: str) -> bool:
    """Whether a skill may be named so: lower-case letters, digits and single hyphens (Agent Skills specification, name)."""
    return len(name) <= NAME_LIMIT and slug(name) == name


def _check_description(description: str, line: int, findings: Findings) -> None:
    if len(description) > DESCRIPTION_LIMIT:
        message = f"the description has {len(description):,} characters, more than {DESCRIPTION_LIMIT:,}"
        findings.add("description-too-long", line=line, message=message)
    _check_hidden("description", description, line, findings)


def _check_hidden(field: str, text: str, line: int, findings: Findings) -> None:
    if sanitize(text) != text.replace("\r\n", "\n"):
        findings.add("text-hidden-characters", line=line, message=f"the {field} holds invisible characters")


def check_fields(mapping: Mapping, findings: Findings) -> None:
    """Check the optional fields against the Agent Skills specification."""
    strict = findings.checks("field-unknown")
    for key, node in mapping.entries.items():
        line = mapping.key_lines[key]
        if key not in SPEC_FIELDS:
            if strict:
                _report_unknown(key, line, findings)
        elif key == "license" and not isinstance(node, Scalar):
            findings.add("license-not-text", line=line)
        elif key == "compatibility":
            _check_compatibility(node, line, findings)
        elif key == "metadata":
            _check_metadata(node, line, findings)
        elif key == "allowed-tools" and not isinstance(node, Scalar):
            findings.add("allowed-tools-list", line=line, fix=_tools_fix(node))


def _report_unknown(key: str, line: int, findings: Findings) -> None:
    fix = f"move `{key[:80]}` under `metadata:`, or delete it"
    if SPELLINGS.get(key) == "allowed_tools":
        fix = f"write `allowed-tools:` instead of `{key}:`"
    findings.add("field-unknown", line=line, message=f"the field `{key[:80]}` is not in the specification", fix=fix)


def _check_compatibility(node: Node, line: int, findings: Findings) -> None:
    if not isinstance(node, Scalar):
        findings.add("compatibility-not-text", line=line)
    elif len(node.text) > COMPATIBILITY_LIMIT:
        message = f"the compatibility note has {len(node.text):,} characters, more than {COMPATIBILITY_LIMIT}"
        findings.add("compatibility-too-long", line=line, message=message)


def _check_metadata(node: Node, line: int, findings: Findings) -> None:
    if not isinstance(node, Mapping):
        if isinstance(node, Sequence) or node.text.strip():
            findings.add("metadata-not-mapping", line=line)
        return
    for key, value in node.entries.items():
        if not isinstance(value, Scalar):
            kind = "a list" if isinstance(value, Sequence) else "a mapping"
            message = f"`metadata.{key[:80]}` is {kind}, not text"
            findings.add("metadata-value-not-text", line=node.key_lines[key], message=message)


def _tools_fix(node: Node) -> str:
    items = [item.text.strip() for item in node.items if isinstance(item, Scalar)] if isinstance(node, Sequence) else []
    return f"write `allowed-tools: {' '.join(items)[:160]}`" if items else ""
