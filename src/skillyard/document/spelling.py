"""The spellings of field names, and the small notations inside values: lists in one text, tools with arguments."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from skillyard.text import sanitize, shorten, single_line

SPEC_FIELDS: Final = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
"""The only fields the Agent Skills specification knows, in its spelling."""

KINDS: Final = ("direct", "service", "distributed", "static", "preprocessor", "internal")
"""The values of `type`."""

# fmt: off
_FIELDS: Final = (
    "name", "description", "license", "compatibility", "metadata", "allowed_tools", "display_name", "version", "type",
    "capabilities", "tags", "triggers", "trigger_patterns", "domain", "category", "keywords", "input_schema",
    "output_schema", "protocol", "abp", "security", "resources", "cacheable", "ttl", "permissions", "config",
    "loading_priority", "estimated_tokens", "created_at", "updated_at", "skill_id", "trigger_keywords", "author",
    "homepage", "documentation", "icon_url", "repository", "entry", "tools", "container", "anthropic",
    "disable_model_invocation", "user_invocable", "argument_hint", "model",
)
# fmt: on


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _spellings() -> dict[str, str]:
    names = {spelling: name for name in _FIELDS for spelling in (name, name.replace("_", "-"), _camel(name))}
    return names | {"user-invokable": "user_invocable", "user_invokable": "user_invocable"}


SPELLINGS: Final = MappingProxyType(_spellings())
"""Every accepted spelling of every known field, with its one name."""

_TOOL_NAME: Final = re.compile(r"[A-Za-z_*][A-Za-z0-9_.:/*?-]{0,127}")
_LONGEST_ARGUMENT: Final = 200
# A tool is a word, with at most one group in brackets after it that may hold spaces and commas: `Bash(git add:*)`.
_TOOL: Final = re.compile(r"[^\s,(]*\([^)]*\)?[^\s,]*|[^\s,(]+")


def split_tools(text: str) -> tuple[str, ...]:
    """The tools named in one text, separated by spaces or commas, without repeats.

    >>> split_tools("Read, Bash(git add:*) Read")
    ('Read', 'Bash(git add:*)')
    """
    return tuple(dict.fromkeys(_TOOL.findall(text)))


def tool_parts(text: str) -> tuple[str, str | None]:
    """The name of a tool and the argument in brackets after it, if there is one: `Read`, `Bash(git:*)`, `mcp__server__tool`.

    A name is at most 128 of the letters a to z in either case, digits and `_ . : / * ? -`, and does not begin with a digit. An
    argument is one line of at most 200 characters that can be seen, with balanced parentheses.

    >>> tool_parts(" Bash(git add:*) ")
    ('Bash', 'git add:*')

    Raises:
        ValueError: it is nothing of that form.
    """
    name, bracket, rest = text.strip().partition("(")
    shown = f"`{shorten(single_line(text[:_LONGEST_ARGUMENT]), 80)}`"
    if not _TOOL_NAME.fullmatch(name) or (bracket and not rest.endswith(")")):
        raise ValueError(f"{shown} does not name a tool")
    if not bracket:
        return name, None
    argument = rest[:-1].strip()
    if not argument:
        raise ValueError(f"{shown} permits nothing: there is nothing between its parentheses")
    if len(argument) > _LONGEST_ARGUMENT or not argument.isprintable() or sanitize(argument) != argument:
        raise ValueError(f"the argument of {shown} is not one line of at most {_LONGEST_ARGUMENT} characters that can be seen")
    if not _is_balanced(argument):
        raise ValueError(f"the parentheses in {shown} do not match")
    return name, argument


def _is_balanced(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


def split_words(text: str) -> tuple[str, ...]:
    """The words of one text, separated by commas (also `，` and `、`); a text without commas is one word."""
    if "，" in text or "、" in text:
        text = text.replace("，", ",").replace("、", ",")
    return tuple(word for part in text.split(",") if (word := part.strip()))
