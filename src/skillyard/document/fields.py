"""Reading typed fields from the tree of a front matter: a value of the wrong type is reported and its default used."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from skillyard.document.rules import Findings
from skillyard.document.spelling import SPELLINGS, split_words
from skillyard.document.yaml_reader import Mapping, Node, Scalar, Sequence, as_data, as_text, typed

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
