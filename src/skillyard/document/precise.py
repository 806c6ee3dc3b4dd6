"""The precise YAML reader: slower, but every value keeps its text and its line, and every refusal says where and why.

It reads the part of YAML that front matter needs. Anchors, aliases, merge keys and tags are refused, as are deep nesting and
very many keys: they have no use here and each has been used to harm a reader. PyYAML finds the tokens; nothing of its
construction of values is used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from skillyard.document.limits import DEPTH_LIMIT, KEY_LIMIT
from skillyard.document.nodes import Mapping, Node, Scalar, Sequence

if TYPE_CHECKING:
    from yaml.events import Event

__all__ = ["YamlProblem", "read_yaml"]

# What YAML calls unprintable, and the line breaks that only some YAML versions honour: with these, two readers may see two
# different documents.
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]|\r(?!\n)")
_SURROGATES: Final = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)


class YamlProblem(Exception):
    """Why the text cannot be read: the rule it breaks, the line, a message, and the line where the broken value began."""

    def __init__(self, rule: str, line: int, message: str, *, began: int | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.line = line
        self.message = message
        self.began = began or line


def read_yaml(text: str, *, first_line: int = 1) -> Mapping:
    """Read the text of a front matter into a tree; `first_line` is the line of the file that the text begins on.

    Raises:
        YamlProblem: for the first thing that cannot be read or must not be.
    """
    _check_characters(text, first_line)
    try:
        return _Reader(text, first_line).read()
    except YamlProblem:
        paired = _SURROGATES.sub(_join_surrogates, text)
        if paired == text:
            raise
        return _Reader(paired, first_line).read()


def _join_surrogates(pair: re.Match[str]) -> str:
    r"""JSON writes an emoji as two escapes, `\ud83d\ude00`; YAML wants one, `\U0001f600`."""
    high, low = int(pair[1], 16), int(pair[2], 16)
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


def _check_characters(text: str, first_line: int) -> None:
    if found := _CONTROL.search(text):
        line = first_line + text.count("\n", 0, found.start())
        raise YamlProblem("yaml-control-character", line, f"the front matter holds the character U+{ord(found[0]):04X}")


class _Reader:
    """One pass over the parser's events, building nodes and refusing as early as can be."""

    def __init__(self, text: str, first_line: int) -> None:
        # PyYAML takes 20 ms to import and most files never need it.
        import yaml

        self._error: type[Exception] = yaml.YAMLError
        self._first_line = first_line
        self._keys = 0
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._parser = loader(text)

    def read(self) -> Mapping:
        try:
            return self._document()
        except self._error as error:
            raise self._syntax(error) from None
        except RecursionError:  # pragma: no cover - the depth limit comes first
            raise YamlProblem("yaml-too-deep", self._first_line, "the front matter is nested too deeply") from None
        finally:
            self._parser.dispose()

    def _document(self) -> Mapping:
        self._next()
        event, name = self._next()
        if name == "StreamEndEvent":
            return Mapping({}, self._first_line)
        event, name = self._next()
        if name != "MappingStartEvent":
            empty = name == "ScalarEvent" and not event.value and event.implicit[0]  # type: ignore[attr-defined]
            if not empty:
                raise YamlProblem(
                    "yaml-not-a-mapping", self._line(event), "the front matter is not a list of `key: value` lines"
                )
            root = Mapping({}, self._first_line)
        else:
            self._refuse_properties(event)
            root = self._mapping(event, 1)
        self._next()
        event, name = self._next()
        if name != "StreamEndEvent":
            raise YamlProblem("yaml-syntax", self._line(event), "the front matter holds a second YAML document")
        return root

    def _next(self) -> tuple[Event, str]:
        event: Event = self._parser.get_event()
        return event, type(event).__name__

    def _line(self, event: Event) -> int:
        mark = event.start_mark
        return self._first_line + (mark.line if mark else 0)

    def _node(self, event: Event, name: str, depth: int) -> Node:
        self._refuse_properties(event)
        if name == "ScalarEvent":
            return Scalar(event.value, event.style is None or event.style == "", self._line(event))  # type: ignore[attr-defined]
        if depth >= DEPTH_LIMIT:
            message = f"lists and mappings are nested more than {DEPTH_LIMIT} deep"
            raise YamlProblem("yaml-too-deep", self._line(event), message)
        return self._sequence(event, depth + 1) if name == "SequenceStartEvent" else self._mapping(event, depth + 1)

    def _sequence(self, start: Event, depth: int) -> Sequence:
        items: list[Node] = []
        while True:
            event, name = self._next()
            if name == "SequenceEndEvent":
                return Sequence(items, self._line(start))
            items.append(self._node(event, name, depth))

    def _mapping(self, start: Event, depth: int) -> Mapping:
        mapping = Mapping({}, self._line(start))
        while True:
            event, name = self._next()
            if name == "MappingEndEvent":
                return mapping
            key = self._key(event, name, mapping)
            mapping.key_lines[key] = self._line(event)
            value, name = self._next()
            mapping.entries[key] = self._node(value, name, depth)

    def _key(self, event: Event, name: str, mapping: Mapping) -> str:
        self._refuse_properties(event)
        line = self._line(event)
        if name != "ScalarEvent":
            raise YamlProblem("yaml-key-not-text", line, "a key is a list or a mapping")
        key: str = event.value  # type: ignore[attr-defined]
        if key == "<<":
            raise YamlProblem("yaml-merge-key", line, "the merge key `<<` is not allowed in front matter")
        if key in mapping.entries:
            first = mapping.key_lines[key]
            raise YamlProblem("yaml-duplicate-key", line, f"the key `{key}` is on line {first} and again on line {line}")
        self._keys += 1
        if self._keys > KEY_LIMIT:
            raise YamlProblem("yaml-too-many-keys", line, f"the front matter has more than {KEY_LIMIT} keys")
        return key

    def _refuse_properties(self, event: Event) -> None:
        if type(event).__name__ == "AliasEvent":
            message = f"the alias `*{event.anchor}` is not allowed in front matter"  # type: ignore[attr-defined]
            raise YamlProblem("yaml-alias", self._line(event), message)
        if anchor := getattr(event, "anchor", None):
            raise YamlProblem("yaml-anchor", self._line(event), f"the anchor `&{anchor}` is not allowed in front matter")
        if tag := getattr(event, "tag", None):
            raise YamlProblem("yaml-tag", self._line(event), f"the tag `{tag}` is not allowed in front matter")

    def _syntax(self, error: Exception) -> YamlProblem:
        context = getattr(error, "context", None) or ""
        started = getattr(error, "context_mark", None)
        mark = getattr(error, "problem_mark", None) or started
        line = began = self._first_line + (mark.line if mark else 0)
        if started and ("flow" in context or "quoted" in context):  # an unclosed bracket or quote shows only lines later
            began = self._first_line + started.line
        problem = getattr(error, "problem", None) or context or "it is not YAML"
        return YamlProblem("yaml-syntax", line, f"the front matter cannot be read: {problem}", began=began)
