"""Write front matter: new documents, changes that leave everything else as it is, and fixes of what a check has found.

Each fix touches only its own line or field. A fix that would leave the file worse, or change any other field, is not made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from skillyard.document.checks import check_document
from skillyard.document.document import parse_document
from skillyard.document.document_rules import RULES, Diagnostic, Profile, diagnose
from skillyard.document.fields import is_name
from skillyard.document.front_matter import find_fences, with_line_feeds
from skillyard.document.spelling import SPELLINGS, split_tools
from skillyard.document.yaml_reader import Mapping as Tree
from skillyard.document.yaml_reader import Recovered, Scalar, Sequence, YamlProblem, as_text, read_with_recovery, read_yaml
from skillyard.errors import InvalidSkill
from skillyard.paths import slug

_RESERVED: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_NOT_PLAIN: Final = re.compile("[\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_ESCAPED: Final = re.compile('[\x00-\x1f"\\\\\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]')
_SHORT: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\", "\0": "\\0"}


def dump_entry(key: str, value: object, *, indent: int = 0) -> str:
    """One `key: value` entry with its newline; nested values on lines of their own, two spaces deeper."""
    pad = " " * indent
    name = dump_text(key)
    if isinstance(value, Mapping) and value:
        return f"{pad}{name}:\n" + "".join(dump_entry(str(below), item, indent=indent + 2) for below, item in value.items())
    if isinstance(value, (list, tuple)) and value:
        return f"{pad}{name}:\n" + "".join(_dump_item(item, indent + 2) for item in value)
    if isinstance(value, str) and _fits_block(value):
        return f"{pad}{name}: {_dump_block(value, indent + 2)}"
    return f"{pad}{name}: {_dump_scalar(value)}\n"


def _dump_item(value: object, indent: int) -> str:
    """One item of a list; a mapping's or list's lines follow the dash."""
    pad = " " * indent
    if isinstance(value, Mapping) and value:
        lines = "".join(dump_entry(str(key), item, indent=indent + 2) for key, item in value.items())
        return f"{pad}- {lines[indent + 2 :]}"
    if isinstance(value, (list, tuple)) and value:
        return f"{pad}- " + "".join(_dump_item(item, indent + 2) for item in value)[indent + 2 :]
    return f"{pad}- {_dump_scalar(value)}\n"


def _dump_scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, (list, tuple)):
        return "[]"
    return dump_text(str(value))


def dump_text(text: str) -> str:
    """A text on one line: plain where it is unambiguous, else in single quotes, else in double quotes with escapes.

    >>> print(dump_text("Use when: asked"))
    'Use when: asked'
    """
    if _is_plain(text):
        return text
    if _NOT_PLAIN.search(text):
        return '"' + _ESCAPED.sub(_escape, text) + '"'
    return "'" + text.replace("'", "''") + "'"


def _is_plain(text: str) -> bool:
    """Whether no YAML version takes the unquoted text for anything but this text; in doubt it is quoted."""
    if not text[:1].isalpha() or text != text.strip() or text.endswith(":") or text.lower() in _RESERVED:
        return False
    return ": " not in text and " #" not in text and not _NOT_PLAIN.search(text)


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if 0xD800 <= code < 0xE000:
        return "\N{REPLACEMENT CHARACTER}"  # half a character can be written in no encoding
    return _SHORT.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _fits_block(text: str) -> bool:
    """Whether a text of several lines reads well as a literal block."""
    lines = text.removesuffix("\n").split("\n")
    tidy = all(line == line.rstrip() for line in lines) and lines[0] and lines[-1] and not lines[0].startswith(" ")
    return len(lines) > 1 and bool(tidy) and "\t" not in text and not _UNPRINTABLE.search(text)


def _dump_block(text: str, indent: int) -> str:
    pad = " " * indent
    mark = "|\n" if text.endswith("\n") else "|-\n"
    return mark + "".join(f"{pad}{line}\n" if line else "\n" for line in text.removesuffix("\n").split("\n"))


_BOM: Final = "\ufeff"


def new_document(name: str, description: str, body: str = "", *, extra: Mapping[str, object] | None = None) -> str:
    """The text of a new SKILL.md; every value is written so that it reads back as the same text.

    `extra` are further fields in the order to write them: text, numbers, booleans, None, lists and mappings. Nothing is judged
    here: `check_document` does that.
    """
    fields = {"name": name, "description": description} | dict(extra or {})
    header = "".join(dump_entry(key, value) for key, value in fields.items())
    end = "" if not body or body.endswith("\n") else "\n"
    return f"---\n{header}---\n" + (f"\n{body}{end}" if body else "")


def set_front_matter(text: str, changes: Mapping[str, object | None]) -> str:
    """The text of a SKILL.md with some fields set, or removed where the value is None.

    Order, comments, line endings and every other line stay as they are, but for a lone CR as line ending, which becomes LF; new
    fields come last. A text without front matter gets one.

    Raises:
        InvalidSkill: the front matter cannot be read, or is written so that single fields cannot be changed.
    """
    data = with_line_feeds(text.encode(errors="surrogatepass"))
    fences = find_fences(data)
    if fences.problem == "front-matter-missing":
        newline = "\r\n" if "\r\n" in text else "\n"
        fields = {key: value for key, value in changes.items() if value is not None}
        header = "".join(dump_entry(key, value) for key, value in fields.items()).replace("\n", newline)
        return f"---{newline}{header}---{newline}" + text.removeprefix(_BOM)
    if fences.problem:
        raise _refusal(fences.problem, 1, "")
    before, header, after = (
        part.decode(errors="surrogatepass")
        for part in (data[: fences.start], data[fences.start : fences.end], data[fences.end :])
    )
    return before + edit_header(header, changes, first_line=before.count("\n") + 1) + after


def edit_header(header: str, changes: Mapping[str, object | None], *, first_line: int = 1) -> str:
    """The text between the fences with some fields set or removed.

    Raises:
        InvalidSkill: as `set_front_matter`.
    """
    newline = "\r\n" if "\r\n" in header else "\n"
    try:
        tree = read_yaml(header, first_line=first_line)
    except YamlProblem as problem:
        raise _refusal(problem.rule, problem.line, problem.message) from None
    lines = header.split("\n")
    if lines[-1] == "":
        lines.pop()
    edited = _replace(lines, tree, changes, first_line, newline)
    _verify(edited, tree, changes)
    return edited


def _replace(lines: list[str], tree: Tree, changes: Mapping[str, object | None], first_line: int, newline: str) -> str:
    """The lines with the entries of the changed keys replaced, from the last to the first so that line numbers stay right."""
    starts = sorted(line - first_line for line in tree.key_lines.values())
    edits: list[tuple[int, int, str]] = []
    added = ""
    for key, value in changes.items():
        written = "" if value is None else dump_entry(key, value).replace("\n", newline)
        spellings = [old for old in tree.entries if SPELLINGS.get(old, old) == SPELLINGS.get(key, key)]
        if not spellings:
            added += written
        for old in spellings:
            start = tree.key_lines[old] - first_line
            edits.append((start, _end(lines, start, starts), written))
            written = ""  # the field is written once, however many spellings it had
    result = [line + "\n" for line in lines]
    for start, end, written in sorted(edits, reverse=True):
        result[start:end] = [written] if written else []
    return "".join(result) + added


def _end(lines: list[str], start: int, starts: list[int]) -> int:
    """The line behind an entry: blank lines and comments before the next key are not part of it."""
    end = next((line for line in starts if line > start), len(lines))
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return end


def _verify(edited: str, tree: Tree, changes: Mapping[str, object | None]) -> None:
    """Make sure that the edit changed what it should and nothing else."""
    names = {SPELLINGS.get(key, key) for key in changes}

    def others(read: Tree) -> dict[str, object]:
        return {key: as_text(value) for key, value in read.entries.items() if SPELLINGS.get(key, key) not in names}

    added = {key for key, value in changes.items() if value is not None}
    try:
        after = read_yaml(edited)
        right = others(after) == others(tree) and added == after.entries.keys() - others(after).keys()
    except YamlProblem:
        right = False
    if not right:
        raise InvalidSkill(
            "the front matter is written so that single fields cannot be changed",
            hint="write each field on lines of its own, as `key: value`",
        )


def _refusal(rule: str, line: int, message: str) -> InvalidSkill:
    diagnostic = diagnose(rule, line=line, message=message)
    return InvalidSkill(diagnostic.message, hint=diagnostic.fix, diagnostics=[diagnostic.to_dict()])


_BYTE_ORDER_MARK: Final = "\ufeff"
_NO_HEADER: Final = "front-matter-missing"
_NAME_RULES: Final = frozenset(
    {_NO_HEADER, "name-missing", "name-blank", "name-characters", "name-hyphens", "name-folder-mismatch"}
)
_DESCRIPTION_RULES: Final = frozenset({_NO_HEADER, "description-missing", "description-blank"})


@dataclass(frozen=True, slots=True)
class FixedDocument:
    """The bytes of a fixed file, and the findings that were fixed."""

    data: bytes
    applied: tuple[Diagnostic, ...]


def fix_document(
    data: bytes,
    *,
    file: str = "SKILL.md",
    directory_name: str = "",
    profile: Profile = "standard",
    only: Callable[[str], bool] | None = None,
) -> FixedDocument:
    """Apply the safe fixes for what the profile finds; everything else keeps its bytes, order and comments.

    With `only` those of the rules for which it is true.
    Notes (severity `info`) are left alone unless they are about style. Fixing a fixed file changes nothing.
    """
    before = check_document(data, file=file, directory_name=directory_name, profile=profile)
    rules = {diagnostic.rule for diagnostic in before if _can_fix(diagnostic) and (only is None or only(diagnostic.rule))}
    if not rules:
        return FixedDocument(data, ())
    fixed = _fix(data, rules, directory_name)
    after = check_document(fixed, file=file, directory_name=directory_name, profile=profile)
    if fixed == data or not _is_better(before, after):
        return FixedDocument(data, ())
    left = {diagnostic.rule for diagnostic in after}
    return FixedDocument(
        fixed, tuple(diagnostic for diagnostic in before if diagnostic.rule in rules and diagnostic.rule not in left)
    )


def _can_fix(diagnostic: Diagnostic) -> bool:
    return RULES[diagnostic.rule].fixable and (diagnostic.severity != "info" or diagnostic.rule.startswith("style-"))


def _is_better(before: tuple[Diagnostic, ...], after: tuple[Diagnostic, ...]) -> bool:
    """Whether there are fewer findings and no new kind of error."""
    errors = {diagnostic.rule for diagnostic in before if diagnostic.severity == "error"}
    new = [diagnostic for diagnostic in after if diagnostic.severity == "error" and diagnostic.rule not in errors]
    return len(after) < len(before) and not new


def _fix(data: bytes, rules: set[str], directory_name: str) -> bytes:
    text = with_line_feeds(data).decode()  # a file that is not UTF-8 has no fixable finding
    if "style-bom" in rules:
        text = text.removeprefix(_BYTE_ORDER_MARK)
    text = _fix_fences(text, rules)
    if not rules.isdisjoint({"yaml-unquoted-colon", "yaml-unquoted-value"}):
        fences = find_fences(text.encode())
        before, _, after = _parts(text, fences.start, fences.end)
        text = f"{before}{read.text}{after}" if (read := _read(text)) else text
    changes = (_name_fix(text, rules, directory_name) | _description_fix(text, rules), _tools_fix(text, rules))
    for change in changes:
        try:
            text = set_front_matter(text, change) if change else text
        except InvalidSkill:  # written in a way that allows no edit of one field
            continue
    if "style-line-endings" in rules:
        text = text.replace("\r\n", "\n")
    return text.encode()


def _fix_fences(text: str, rules: set[str]) -> str:
    mark, text = (_BYTE_ORDER_MARK, text[1:]) if text.startswith(_BYTE_ORDER_MARK) else ("", text)
    if "style-blank-start" in rules:
        text = text[text.index("---") :]
    fences = find_fences((mark + text).encode())
    head, closing, body = _parts(mark + text, fences.end, fences.body)
    if "style-closing-dots" in rules:
        closing = closing.replace("...", "---", 1)
    if "style-final-newline" in rules:
        closing += "\r\n" if "\r\n" in head else "\n"
    return head + closing + body


def _parts(text: str, end: int, body: int) -> tuple[str, str, str]:
    data = text.encode()
    return data[:end].decode(), data[end:body].decode(), data[body:].decode()


def _read(text: str) -> Recovered | None:
    """The front matter with what was recovered in it; None when it cannot be read."""
    data = text.encode()
    fences = find_fences(data)
    try:
        return read_with_recovery(data[fences.start : fences.end].decode())
    except YamlProblem:
        return None


def _name_fix(text: str, rules: set[str], directory_name: str) -> dict[str, object]:
    """The name to write: the folder's where that is a good name, else the written one with only its form changed."""
    if rules.isdisjoint(_NAME_RULES):
        return {}
    if is_name(directory_name):
        return {"name": directory_name}
    read = _read(text)
    if read is None:
        return {}
    node = read.mapping.entries.get("name")
    written = node.text.strip() if isinstance(node, Scalar) else ""
    letters_stay = written.isascii() and any(char.isalnum() for char in written)
    return {"name": slug(written)} if letters_stay and not rules.isdisjoint({"name-characters", "name-hyphens"}) else {}


def _description_fix(text: str, rules: set[str]) -> dict[str, object]:
    """What a catalog shows in place of a description that is not written; nothing when there is none."""
    description = "" if rules.isdisjoint(_DESCRIPTION_RULES) else parse_document(text.encode()).metadata.description
    return {"description": description} if description else {}


def _tools_fix(text: str, rules: set[str]) -> dict[str, object]:
    """`allowed-tools` as one text, when the text reads back as the same tools."""
    read = _read(text) if "allowed-tools-list" in rules else None
    node = read.mapping.entries.get("allowed-tools") if read else None
    if not isinstance(node, Sequence) or not all(isinstance(item, Scalar) for item in node.items):
        return {}
    tools = [str(as_text(item)).strip() for item in node.items]
    joined = " ".join(tools)
    if "#" in text[: text.find("\n---")]:  # the list may hold comments, which one line could not keep
        return {}
    return {"allowed-tools": joined} if joined and list(split_tools(joined)) == tools else {}
