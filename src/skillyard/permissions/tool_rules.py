"""One rule about a tool, as agents write it: the grammar, and when it fits; and single tools switched by their names.

The grammar of one entry::

    Read                     the tool, with any argument
    Bash(git:*)              the tool, when the command's first words are `git`; the same as Bash(git *)
    Bash(git status)         exactly this command
    Bash(python scripts/*)   in a word `*` is any characters; a `*` at the end is any further words too
    Read(src/**)             a path pattern: `*` stays within a folder, `**` is any folders or none
    WebFetch(domain:a.org)   a web address on this host; `*.a.org` its subdomains
    mcp__server__tool        a tool of an MCP server; mcp__server__* or mcp__server are all of them

`Bash`, `Read` and `Write` speak of every tool that runs commands, reads files or changes files; `Edit` is the same as `Write`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final, Literal, NamedTuple, Self, get_args

from skillyard.catalog import Permission
from skillyard.errors import InvalidInput
from skillyard.permissions.permission_rules import glob, matches
from skillyard.text import nearest, quoted

_ODD_IN_ADDRESS: Final = re.compile(r"[\\\s\x00-\x1f\x7f]")
_SHELLS: Final = ("bash", "shell", "sh", "exec_shell", "exec_command", "run_shell", "run_command", "execute_command")
_CODE: Final = frozenset({"code_run"})
_READERS: Final = ("read", "read_file", "file_read", "glob", "grep", "ls", "file_list", "file_search", "notebookread")
_WRITERS: Final = ("write", "edit", "multiedit", "notebookedit", "write_file", "edit_file", "file_write", "file_edit")
ToolKind = Literal["command", "read", "write", "other"]
_KINDS: Final[dict[str, ToolKind]] = {
    **dict.fromkeys((*_SHELLS, *_CODE), "command"),
    **dict.fromkeys(_READERS, "read"),
    **dict.fromkeys(_WRITERS, "write"),
}
_FOR_ALL_OF_A_KIND: Final = frozenset({"bash", "read", "write", "edit"})
ANYTHING: Final = (None, "*", "**", ":*")
"""Arguments of a rule that fit whatever the tool is called with."""


def tool_kind(tool: str) -> ToolKind:
    """What a tool does, by its name."""
    return _KINDS.get(tool.casefold(), "other")


def runs_code(tool: str) -> bool:
    """Whether a tool is called with a program, after a line with its language, and not with a line of shell."""
    return tool.casefold() in _CODE


@dataclass(frozen=True, slots=True)
class ToolRule:
    """One entry: a pattern for the tool's name and, if given, one for its argument."""

    tool: str
    argument: str | None = None

    def __str__(self) -> str:
        return self.tool if self.argument is None else f"{self.tool}({self.argument})"

    @property
    def kind(self) -> ToolKind:
        """What the tools do that the entry is about."""
        return tool_kind(self.tool)

    def speaks_of(self, tool: str) -> bool:
        """Whether the entry is about `tool`, whatever the argument."""
        if self.tool.casefold() in _FOR_ALL_OF_A_KIND and self.kind == tool_kind(tool):
            return True
        whole_server = self.tool.startswith("mcp__") and self.tool.count("__") == 1
        return matches(self.tool, tool) or (whole_server and matches(f"{self.tool}__*", tool))

    def fits_text(self, argument: str | None) -> bool:
        """Whether the entry fits a call of a tool that runs no command and works on no file."""
        if self.argument in ANYTHING:
            return True
        if argument is None or self.argument is None:
            return False
        if self.argument.startswith("domain:"):
            return _fits_address(self.argument, argument)
        return glob(self.argument).fullmatch(argument) is not None

    def permits_path(self, path: str | None, folder: str) -> bool:
        """Whether the entry surely fits this path; relative paths are below `folder`."""
        if self.argument in ANYTHING:
            return True
        if not path or "\0" in path or "\\" in path or self.argument is None:
            return False
        relative = _below(folder, path) if path.startswith("/") else posixpath.normpath(path)
        forms = [path] if relative is None else [relative, path] if path.startswith("/") else [relative]
        return any(
            ".." not in (names := posixpath.normpath(form).split("/")) and _segments_match(_parts(self.argument), names)
            for form in forms
        )

    def may_fit_path(self, path: NamedPath, folder: str, budget: JudgementBudget) -> bool:
        """Whether the entry could be about this path: letter case does not count, and a bare name fits in every folder."""
        if self.argument in ANYTHING or self.argument is None:
            return True
        budget.spend(1)
        pattern = _path_pattern(self.argument, folder)
        if pattern.name is not None and glob(pattern.name).fullmatch(path.folded[-1]) is not None:
            return True
        if path.folded[: len(pattern.literal)] != pattern.literal:
            return False
        budget.spend(len(path.folded) * (len(pattern.folded) - len(pattern.literal)))
        return _segments_match(pattern.folded, path.folded)

    def may_be_below(self, path: NamedPath, folder: str, budget: JudgementBudget) -> bool:
        """Whether something that the entry is about may be inside this path."""
        budget.spend(1)
        pattern = _path_pattern(self.argument or "**", folder)
        inside = path.parts
        return "/" in (self.argument or "/") and len(inside) < pattern.length and pattern.fixed[: len(inside)] == inside


@dataclass(slots=True)
class JudgementBudget:
    """How many comparisons may be made to judge one call; about half a second's worth.

    Raises, from `spend`:
        TooMuchToJudge: there were more.
    """

    left: int = 600_000

    def spend(self, comparisons: int) -> None:
        """Count comparisons that are to be made."""
        self.left -= comparisons
        if self.left < 0:
            raise TooMuchToJudge


class TooMuchToJudge(Exception):  # caught in this component
    """A call names so much, or there are so many rules, that they are not compared to the end."""


class NamedPath(NamedTuple):
    """A path of a call, absolute and normalised: its parts as they are written, and in small letters."""

    parts: tuple[str, ...]
    folded: tuple[str, ...]

    @classmethod
    def of(cls, path: str, folder: str) -> Self:
        """The path, below `folder` where it is relative."""
        whole = posixpath.normpath(posixpath.join(folder, path))
        return cls(tuple(whole.split("/")), tuple(whole.casefold().split("/")))


class _PathPattern(NamedTuple):
    """The argument of a rule about files below a folder.

    `folded` are its parts in small letters, `literal` those before the first wildcard; `fixed` are all parts without wildcards
    as they are written, of `length` in all. `name` is the pattern when it has one part.
    """

    folded: tuple[str, ...]
    literal: tuple[str, ...]
    fixed: tuple[str, ...]
    length: int
    name: str | None


@lru_cache(maxsize=2048)
def _path_pattern(argument: str, folder: str) -> _PathPattern:
    written = posixpath.normpath(posixpath.join(folder, argument)).split("/")
    folded = tuple(_parts(posixpath.join(folder.casefold(), argument.casefold())))
    literal = tuple(takewhile(_is_literal, folded))
    fixed = tuple(filter(_is_literal, written))
    return _PathPattern(folded, literal, fixed, len(written), None if "/" in argument else argument.casefold())


def _is_literal(part: str) -> bool:
    return "*" not in part and "?" not in part


def parse_tool_rule(text: str) -> ToolRule:
    """One entry, for example `Bash(git:*)`.

    Raises:
        InvalidInput: it is not of the grammar of this module.
    """
    from skillyard.document.spelling import tool_parts

    try:
        return ToolRule(*tool_parts(text))
    except ValueError as error:
        raise InvalidInput(str(error), hint="write a tool's name, or Tool(argument), such as Bash(git:*)") from None


def _parts(pattern: str) -> list[str]:
    return posixpath.normpath(pattern).split("/")


def _below(folder: str, path: str) -> str | None:
    """The path relative to a folder that it is below; None when it is not."""
    normal, base = posixpath.normpath(path), posixpath.normpath(folder).rstrip("/") + "/"
    return normal.removeprefix(base) if normal.startswith(base) else None


def _segments_match(patterns: Sequence[str], names: Sequence[str]) -> bool:
    """Whether path segments fit, `**` standing for any number of them."""
    reached = {0}  # how many of `names` the patterns so far can have used up
    for pattern in patterns:
        if pattern == "**":
            reached = set(range(min(reached), len(names) + 1)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(names) and glob(pattern).fullmatch(names[at])}
        if not reached:
            return False
    return len(names) in reached


def _fits_address(pattern: str, address: str) -> bool:
    from urllib.parse import urlsplit  # not at the top: few skills limit addresses

    if _ODD_IN_ADDRESS.search(address):  # programs disagree about where the host of such an address ends
        return False
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and matches(pattern.removeprefix("domain:").strip(), host)


SkillToolName = Literal["skill", "skills_list", "skills_load", "read_skill_file", "run_skill", "search_skills"]
WorkspaceToolName = Literal["bash", "code_run", "file_read", "file_write", "file_edit", "file_list", "file_search"]
SKILL_TOOL_NAMES: Final[tuple[SkillToolName, ...]] = get_args(SkillToolName)
"""The tools over the skills of a catalog."""
WORKSPACE_TOOL_NAMES: Final[tuple[WorkspaceToolName, ...]] = get_args(WorkspaceToolName)
"""The tools of a workspace; `tool_kind` says what each does, and `skillyard.tools` how it is called."""


def check_tool_permissions(values: Mapping[str, Any]) -> Mapping[str, Permission]:
    """What settings say of single tools, such as `{"bash": "deny", "file_write": "ask"}`; given back as it is.

    Raises:
        InvalidInput: a tool that there is not, or something else than `allow`, `ask` and `deny`.
    """
    known = (*WORKSPACE_TOOL_NAMES, *SKILL_TOOL_NAMES)
    for name, permission in values.items():
        if name not in known:
            meant = nearest(str(name), {one: one for one in known}, limit=1)
            hint = f"did you mean {meant[0]}? " if meant else ""
            raise InvalidInput(
                f"tool_permissions: there is no tool {quoted(str(name)[:40])}", hint=f"{hint}the tools are: {', '.join(known)}"
            )
        if permission not in get_args(Permission):
            raise InvalidInput(
                f"tool_permissions: {name} cannot be {str(permission)[:40]!r}", hint="use 'allow', 'ask' or 'deny'"
            )
    return values
