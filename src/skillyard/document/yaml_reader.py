"""The precise YAML reader: every value keeps its text and its line, and every error has its line and reason.

It reads the part of YAML that front matter needs. Anchors, aliases, merge keys and tags are refused, as are deep nesting and
very many keys. PyYAML finds the tokens; nothing of its construction of values is used. Values whose author forgot the quotes
are recovered: the value is put in single quotes and the reading starts again; each repair is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from skillyard.document.document_rules import DEPTH_LIMIT, KEY_LIMIT
from skillyard.text import shorten

if TYPE_CHECKING:
    from yaml.events import Event


@dataclass(slots=True)
class Scalar:
    """A single value: its text after quotes and folds are resolved, and whether it was written without quotes."""

    text: str
    plain: bool
    line: int


@dataclass(slots=True)
class Sequence:
    """A list of values."""

    items: list[Node]
    line: int


@dataclass(slots=True)
class Mapping:
    """Keys and values in the order written; keys are unique text."""

    entries: dict[str, Node]
    line: int
    key_lines: dict[str, int] = field(default_factory=dict)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)


Node = Scalar | Sequence | Mapping


def as_text(node: Node) -> object:
    """The value with every scalar as the text that was written: str, list or dict."""
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Sequence):
        return [as_text(item) for item in node.items]
    return {key: as_text(value) for key, value in node.entries.items()}


def as_data(node: Node) -> object:
    """The value with unquoted scalars typed as JSON would have them: for schemas and settings, never for names."""
    if isinstance(node, Scalar):
        return typed(node)
    if isinstance(node, Sequence):
        return [as_data(item) for item in node.items]
    return {key: as_data(value) for key, value in node.entries.items()}


# The core schema of YAML 1.2: `no`, `12:30` and `2001-01-01` are text there.
_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,400}")
_PREFIXED: Final = re.compile(r"0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400}")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LONGEST_NUMBER: Final = 400  # far below the length at which Python refuses to convert digits


def typed(scalar: Scalar) -> str | bool | int | float | None:
    """The value of a scalar by the core schema of YAML 1.2; infinity and not-a-number stay text, as JSON has none."""
    text = scalar.text
    if not scalar.plain:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) > _LONGEST_NUMBER or text[0] not in "+-.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _PREFIXED.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) and abs(float(text)) != float("inf") else text


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
        return _YamlReader(text, first_line).read()
    except YamlProblem:
        paired = _SURROGATES.sub(_join_surrogates, text)
        if paired == text:
            raise
        return _YamlReader(paired, first_line).read()


def _join_surrogates(pair: re.Match[str]) -> str:
    r"""JSON writes an emoji as two escapes, `\ud83d\ude00`; YAML wants one, `\U0001f600`."""
    high, low = int(pair[1], 16), int(pair[2], 16)
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


def _check_characters(text: str, first_line: int) -> None:
    if match := _CONTROL.search(text):
        line = first_line + text.count("\n", 0, match.start())
        raise YamlProblem("yaml-control-character", line, f"the front matter holds the character U+{ord(match[0]):04X}")


class _YamlReader:
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
            raise YamlProblem("yaml-syntax", self._line(event), "the front matter has a second YAML document")
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


_ATTEMPTS: Final = 12
_RECOVERABLE: Final = frozenset({"yaml-syntax", "yaml-key-not-text"})
_ENTRY: Final = re.compile(
    r"""(?P<key>[ ]*(?:-[ ]+)?(?:"[^"]*"|'[^']*'|[^\s#"'\[\]{}:-][^:\r\n]*):[ \t]+)"""
    r"""(?P<block>[|>][-+0-9]{0,2}[ \t]*)?(?P<value>[^\s#|>].*)"""
)


@dataclass(frozen=True, slots=True)
class Repair:
    """One value that was put in quotes: the rule it broke, its line, and the line as it should be."""

    rule: str
    line: int
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was read, from which text, after which repairs."""

    mapping: Mapping
    text: str
    repairs: tuple[Repair, ...] = ()


def read_with_recovery(text: str, *, first_line: int = 1) -> Recovered:
    """Read a front matter, quoting the values that need it.

    Raises:
        YamlProblem: the first problem, when quoting cannot fix it.
    """
    try:
        return Recovered(read_yaml(text, first_line=first_line), text)
    except YamlProblem as problem:
        recovered = _recover(text, _alone(problem), first_line) if problem.rule in _RECOVERABLE else None
        if recovered is None:
            raise
        return recovered


def _alone(problem: YamlProblem) -> YamlProblem:
    """The problem without the frames it came through: in a variable of one of them they and the parser stay in memory."""
    problem.__context__ = None
    return problem.with_traceback(None)


def _recover(text: str, problem: YamlProblem, first_line: int) -> Recovered | None:
    lines = text.split("\n")
    repairs: list[Repair] = []
    quoted: set[int] = set()
    for _ in range(_ATTEMPTS):
        index = _entry_at(lines, problem.began - first_line)
        if index is None or index in quoted:
            return None
        quoted.add(index)
        repairs.append(_quote(lines, index, problem, first_line))
        fixed = "\n".join(lines)
        try:
            return Recovered(
                read_yaml(fixed, first_line=first_line), fixed, tuple(sorted(repairs, key=lambda repair: repair.line))
            )
        except YamlProblem as next_problem:
            if next_problem.rule not in _RECOVERABLE:
                return None
            problem = _alone(next_problem)
    return None


def _entry_at(lines: list[str], index: int) -> int | None:
    """The line of the `key: value` entry that the line at `index` belongs to, itself or one it continues."""
    index = min(index, len(lines) - 1)
    while index > 0 and not lines[index].strip():
        index -= 1
    entry_line = index if _ENTRY.fullmatch(lines[index].rstrip("\r")) else None
    indent = _indent(lines[index])
    for above in range(index - 1, -1, -1):
        if indent == 0:
            break
        line = lines[above]
        if not line.strip() or _indent(line) >= indent:
            continue
        if not _ENTRY.fullmatch(line.rstrip("\r")):
            break
        entry_line, indent = above, _indent(line)
    return entry_line


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _quote(lines: list[str], index: int, problem: YamlProblem, first_line: int) -> Repair:
    """Put the value that starts on the line at `index` in single quotes, with the lines that continue it."""
    last = _last_line(lines, index)
    entry = _ENTRY.fullmatch(lines[index].rstrip("\r"))
    assert entry is not None  # noqa: S101 - `_entry_at` found it by the same pattern
    start = len(entry["key"])
    key = lines[index][:start]
    if entry["block"]:  # `> text`: the text belongs on the next line; here the mark is left out
        lines[index] = key + lines[index][start + len(entry["block"]) :]
    value = lines[index][start:].rstrip()
    if last == index and len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":  # "quotes "inside" quotes"
        lines[index] = key + value[1:-1] + lines[index][start + len(value) :]
    lines[index] = key + "'" + lines[index][start:].replace("'", "''")
    for number in range(index + 1, last + 1):
        lines[number] = lines[number].replace("'", "''")
    body = lines[last].rstrip()
    lines[last] = body + "'" + lines[last][len(body) :]
    fix = shorten(lines[index].strip(), 160)
    if last > index:
        fix += f" … to the end of line {first_line + last}"
    name = key.strip().removeprefix("- ").rstrip(" :")
    return _repair(name, first_line + index, problem, fix)


def _repair(name: str, line: int, problem: YamlProblem, fix: str) -> Repair:
    if "mapping values are not allowed" in problem.message:
        message = f"the value of `{name}` holds a colon and is not in quotes"
        return Repair("yaml-unquoted-colon", line, message, f"put the value in quotes: {fix}")
    if problem.message.endswith("did not find expected comment or line break"):
        message = f"the text of `{name}` is on the line of its block mark (`>` or `|`) and was read as plain text"
        return Repair("yaml-unquoted-value", line, message, f"begin the text on the next line, or put it in quotes: {fix}")
    detail = problem.message.removeprefix("the front matter cannot be read: ")
    message = f"the value of `{name}` is not YAML and was read as plain text: {detail}"
    return Repair("yaml-unquoted-value", line, message, f"put the value in quotes, or fix it: {fix}")


def _last_line(lines: list[str], index: int) -> int:
    indent, last = _indent(lines[index]), index
    for number in range(index + 1, len(lines)):
        if not lines[number].strip():
            continue
        if _indent(lines[number]) <= indent:
            break
        last = number
    return last
