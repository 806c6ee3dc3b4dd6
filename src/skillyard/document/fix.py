"""Fixing what can be fixed without changing what the author meant.

Each fix touches only its own line or field. A fix that would leave the file worse, or change any other field, is not made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from skillyard.document.checks import check_document
from skillyard.document.document import parse_document
from skillyard.document.field_checks import is_name
from skillyard.document.front_matter import find_fences
from skillyard.document.records import Diagnostic, Profile
from skillyard.document.rules import RULES
from skillyard.document.spelling import split_tools
from skillyard.document.writer import set_front_matter
from skillyard.document.yaml_reader import Recovered, Scalar, Sequence, YamlProblem, as_text, read_with_recovery
from skillyard.errors import InvalidSkill
from skillyard.paths import slug

_BOM: Final = "\ufeff"
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
    text = data.decode()  # a file that is not UTF-8 has no fixable finding
    if "style-bom" in rules:
        text = text.removeprefix(_BOM)
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
    mark, text = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
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
