"""The fields of a front matter: typed values read from its tree, and the checks of the Agent Skills specification.

A value of the wrong type is reported and its default used.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from typing import Final

from skillyard.document.document_rules import COMPATIBILITY_LIMIT, DESCRIPTION_LIMIT, NAME_LIMIT, Findings
from skillyard.document.spelling import SPEC_FIELDS, SPELLINGS, split_words
from skillyard.document.yaml_reader import Mapping, Node, Scalar, Sequence, as_data, as_text, typed
from skillyard.paths import slug
from skillyard.text import sanitize

_KINDS_OF_VALUE: Final = {Scalar: "text", Sequence: "a list", Mapping: "a mapping"}


class FieldReader:
    """The fields of one mapping, looked up by their one name whatever their spelling."""

    def __init__(self, mapping: Mapping, findings: Findings, *, prefix: str = "", rule: str = "field-type") -> None:
        self.mapping = mapping
        self.findings = findings
        self._prefix = prefix
        self._rule = rule
        self._keys = self._canonical_keys()

    def _canonical_keys(self) -> dict[str, str]:
        keys: dict[str, str] = {}
        for key in self.mapping:
            name = SPELLINGS.get(key, key) if not self._prefix else _snake(key)
            if name in keys:
                message = f"`{key}` and `{keys[name]}` are the same field; only `{keys[name]}` counts"
                self.findings.add("field-repeated", line=self.mapping.key_lines[key], message=message)
            else:
                keys[name] = key
        return keys

    def declared(self) -> frozenset[str]:
        """The names of the fields that have a value."""
        return frozenset(name for name in self._keys if self.node(name) is not None)

    def unknown(self, known: Collection[str]) -> dict[str, object]:
        """The fields not in `known`, under the keys and with the text that were written."""
        return {key: as_text(self.mapping.entries[key]) for name, key in self._keys.items() if name not in known}

    def node(self, name: str) -> Node | None:
        """The value of a field; None when it is absent or empty."""
        key = self._keys.get(name)
        if key is None:
            return None
        node = self.mapping.entries[key]
        empty = isinstance(node, Scalar) and node.plain and typed(node) is None
        return None if empty else node

    def line(self, name: str) -> int:
        """The line of a field's key; the mapping's own line when it is absent."""
        key = self._keys.get(name)
        return self.mapping.line if key is None else self.mapping.key_lines[key]

    def written(self, name: str) -> str:
        """The field's name as it was written, with the block it is in: `security.timeout_ms`."""
        return self._prefix + self._keys.get(name, name)

    def wrong(self, name: str, expected: str, *, rule: str = "", line: int = 0) -> None:
        """Report that a field's value is not what is expected."""
        node = self.node(name)
        got = _KINDS_OF_VALUE[type(node)] if node is not None else "empty"
        if isinstance(node, Scalar):
            got = f"`{node.text[:40]}`"
        message = f"`{self.written(name)}` should be {expected}, not {got}"
        self.findings.add(rule or self._rule, line=line or self.line(name), message=message, fix=f"write {expected}")

    def text(self, name: str) -> str | None:
        """One text, without surrounding space; None when absent, empty or not a scalar."""
        node = self.node(name)
        if isinstance(node, Scalar):
            return node.text.strip() or None
        if node is not None:
            self.wrong(name, "text")
        return None

    def choice(self, name: str, allowed: Collection[str], *, rule: str = "field-value") -> str | None:
        """One of the allowed words, in any case; None when absent or another word."""
        text = self.text(name)
        if text is None or text.lower() in allowed:
            return text.lower() if text else None
        self.wrong(name, "one of " + ", ".join(allowed), rule=rule)
        return None

    def flag(self, name: str) -> bool | None:
        """True or false; also `yes`, `no`, `on` and `off`, which older YAML means so."""
        node = self.node(name)
        if node is None:
            return None
        word = node.text.strip().lower() if isinstance(node, Scalar) else ""
        if word in ("true", "yes", "on"):
            return True
        if word in ("false", "no", "off"):
            return False
        self.wrong(name, "true or false")
        return None

    def number(self, name: str, *, low: float, high: float, whole: bool = True) -> int | float | None:
        """A number from `low` to `high`; None when absent or anything else."""
        node = self.node(name)
        if node is None:
            return None
        value = typed(Scalar(node.text.strip(), True, node.line)) if isinstance(node, Scalar) else None
        right_type = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
        if right_type and isinstance(value, (int, float)) and low <= value <= high:
            return value
        self.wrong(name, f"a {'whole ' if whole else ''}number from {low:,} to {high:,}")
        return None

    def words(self, name: str, *, commas: bool = True) -> tuple[str, ...]:
        """A list of texts; one text is a list of one, or of its parts between commas."""
        node = self.node(name)
        if node is None:
            return ()
        if isinstance(node, Scalar):
            text = node.text.strip()
            return split_words(text) if commas else (text,) if text else ()
        if isinstance(node, Mapping):
            self.wrong(name, "a list of texts")
            return ()
        if not all(isinstance(item, Scalar) for item in node.items):
            self.wrong(name, "a list of texts")
        words = (item.text.strip() for item in node.items if isinstance(item, Scalar))
        return tuple(dict.fromkeys(word for word in words if word))

    def block(self, name: str) -> Mapping | None:
        """A mapping; None when absent or anything else."""
        node = self.node(name)
        if node is None or isinstance(node, Mapping):
            return node
        self.wrong(name, "`key: value` lines")
        return None

    def data(self, name: str) -> dict[str, object] | None:
        """A mapping as JSON would have it; None when absent or anything else."""
        block = self.block(name)
        value = as_data(block) if block else None
        return value if isinstance(value, dict) else None


def _snake(key: str) -> str:
    """The field name inside a block: `networkAllowlist` and `network-allowlist` are `network_allowlist`."""
    return "".join("_" + char.lower() if char.isupper() else char for char in key).replace("-", "_").lstrip("_")


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
