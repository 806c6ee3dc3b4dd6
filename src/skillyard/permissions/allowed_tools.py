"""`allowed-tools`: what a skill declares about the tools it needs, as nothing, advice or a limit.

The grammar of one entry::

    Read                     the tool, with any argument
    Bash(git:*)              the tool, when the command's first words are `git`; the same as Bash(git *)
    Bash(git status)         exactly this command
    Read(src/**)             a path pattern: `*` stays within a folder, `**` is any folders or none
    WebFetch(domain:a.org)   a web address on this host; `*.a.org` its subdomains
    mcp__server__tool        a tool of an MCP server; mcp__server__* or mcp__server are all of them
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from skillyard.catalog import AllowedToolsMode
from skillyard.errors import InvalidInput
from skillyard.permissions.rules import glob, matches
from skillyard.text import shorten

# One command: no operator, redirection, substitution, expansion of parameters with operators, or line break outside quotes.
_SIMPLE: Final = re.compile(
    r"""(?:
        '[^'\0]*'                                   # single quotes keep everything
      | "(?:[^"\\`$\0] | \\[^\0] | \$(?![({\[]))*"    # double quotes without ` $( ${ $[
      | \\[^\n\0]                                   # one escaped character, but no joined line
      | \$(?![({\['"])                              # $NAME, but no $( ${ $[ $' $"
      | [^'"\\$`;&|<>()\n\r\0]                        # any other character that is no operator
    )+""",
    re.VERBOSE,
)


def simple_command(command: str) -> list[str] | None:
    """The words of `command` when it is one simple command, as the shell would split it; None for anything else."""
    if not _SIMPLE.fullmatch(command):
        return None
    import shlex  # not at the top: most programs never decide on a command

    try:
        return shlex.split(command) or None
    except ValueError:
        return None


_ODD_IN_ADDRESS: Final = re.compile(r"[\\\s\x00-\x1f\x7f]")
_SHELLS: Final = frozenset({"bash", "shell", "sh", "exec_shell", "exec_command", "run_shell", "run_command", "execute_command"})
_PATH_TOOLS: Final = frozenset(
    {"read", "write", "edit", "multiedit", "notebookedit", "glob", "grep", "ls", "read_file", "write_file", "edit_file"}
)


@dataclass(frozen=True, slots=True)
class ToolRule:
    """One entry of `allowed-tools`: a pattern for the tool's name and, if given, one for its argument."""

    tool: str
    argument: str | None = None

    def __str__(self) -> str:
        return self.tool if self.argument is None else f"{self.tool}({self.argument})"

    def speaks_of(self, tool: str) -> bool:
        """Whether the entry is about `tool`, whatever the argument."""
        whole_server = self.tool.startswith("mcp__") and self.tool.count("__") == 1
        return matches(self.tool, tool) or (whole_server and matches(f"{self.tool}__*", tool))

    def permits(self, tool: str, argument: str | None) -> bool:
        """Whether the entry permits `tool` with `argument`: a command, path or address as text (None: unknown)."""
        if not self.speaks_of(tool):
            return False
        if self.argument is None or self.argument in ("*", "**", ":*"):
            return True
        return argument is not None and _decider(tool, self.argument)(self.argument, argument)


def parse_tool_rule(text: str) -> ToolRule:
    """One entry of `allowed-tools`, for example `Bash(git:*)`.

    Raises:
        InvalidInput: it is not of the grammar of this module.
    """
    from skillyard.document.spelling import tool_parts

    try:
        return ToolRule(*tool_parts(text))
    except ValueError as error:
        raise InvalidInput(str(error), hint="write a tool's name, or Tool(argument), such as Bash(git:*)") from None


def _decider(tool: str, pattern: str) -> Callable[[str, str], bool]:
    name = tool.casefold()
    if name in _SHELLS:
        return _permits_command
    if name in _PATH_TOOLS:
        return _permits_path
    return _permits_address if pattern.startswith("domain:") else _permits_text


def _permits_command(pattern: str, command: str) -> bool:
    words = simple_command(command)
    if words is None:
        return False
    for ending in (":*", " *"):
        if pattern.endswith(ending) and "*" not in (prefix := pattern.removesuffix(ending)):
            own = simple_command(prefix)
            return own is not None and words[: len(own)] == own
    if "*" in pattern:
        return glob(pattern).fullmatch(" ".join(words)) is not None
    return words == simple_command(pattern)


def _permits_path(pattern: str, path: str) -> bool:
    if not path or "\0" in path or "\\" in path:
        return False
    normal = posixpath.normpath(path).split("/")
    return ".." not in normal and _segments_match(posixpath.normpath(pattern).split("/"), normal)


def _segments_match(patterns: Sequence[str], names: Sequence[str]) -> bool:
    """Whether path segments fit, `**` standing for any number of them."""
    reached = {0}  # how many of `names` the patterns so far can have used up
    for pattern in patterns:
        if pattern == "**":
            reached = set(range(min(reached), len(names) + 1)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(names) and glob(pattern).fullmatch(names[at])}
    return len(names) in reached


def _permits_address(pattern: str, address: str) -> bool:
    from urllib.parse import urlsplit  # not at the top: few skills limit addresses

    if _ODD_IN_ADDRESS.search(address):  # programs disagree about where the host of such an address ends
        return False
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and matches(pattern.removeprefix("domain:").strip(), host)


def _permits_text(pattern: str, argument: str) -> bool:
    return glob(pattern).fullmatch(argument) is not None


ALWAYS_PERMITTED: Final = frozenset({"read_skill_file", "search_skills", "skill", "skills_list", "skills_load"})
_LISTED_LIMIT: Final = 600  # characters of tools that are listed for a model


class AllowedTools:
    """The union of the `allowed-tools` of the skills that are loaded.

    `entries` are the entries of all of them: what one skill requests works while several are loaded. Skills that request
    nothing add nothing; when none requests anything there is no limit. An entry that cannot be read permits nothing and is kept
    in `unreadable`. Only mode `enforce` ever denies, and never to the tools that find, load and read skills.

    Raises:
        InvalidInput: unknown mode.
    """

    __slots__ = ("entries", "mode", "rules", "unreadable")

    def __init__(self, entries: Iterable[str] = (), *, mode: AllowedToolsMode = "advise") -> None:
        if mode not in get_args(AllowedToolsMode):
            raise InvalidInput(f"allowed-tools cannot be {mode!r}", hint="use 'off', 'advise' or 'enforce'")
        self.mode: AllowedToolsMode = mode
        self.entries = tuple(dict.fromkeys(entries))
        read = [(entry, _parsed(entry)) for entry in self.entries]
        self.rules = tuple(rule for _, rule in read if rule is not None)
        self.unreadable = tuple(entry for entry, rule in read if rule is None)

    def __repr__(self) -> str:
        return f"AllowedTools({list(self.entries)!r}, mode={self.mode!r})"

    @property
    def limits(self) -> bool:
        """Whether anything can be refused."""
        return self.mode == "enforce" and bool(self.entries)

    def filter(self, tools: Iterable[str]) -> tuple[str, ...]:
        """Those of `tools` that may be offered: every tool that some call of is permitted."""
        if not self.limits:
            return tuple(tools)
        return tuple(tool for tool in tools if tool in ALWAYS_PERMITTED or any(rule.speaks_of(tool) for rule in self.rules))

    def permits(self, tool: str, argument: str | None = None) -> bool:
        """Whether `tool` may be called with `argument`: the command line, path or address as text (None: unknown)."""
        if not self.limits or tool in ALWAYS_PERMITTED:
            return True
        return any(rule.permits(tool, argument) for rule in self.rules)

    def listed(self) -> str:
        """The tools the loaded skills request, as they were parsed; empty when none are to be listed for a model."""
        if self.mode == "off" or not self.entries:
            return ""
        return shorten(", ".join(map(str, self.rules)), _LISTED_LIMIT) or "none that can be read"

    def advice(self) -> str:
        """A sentence of this program for the model about that list; empty when there is none."""
        if not self.listed():
            return ""
        return "Other tools are refused." if self.limits else "Follow its list of allowed tools when possible."


def _parsed(entry: str) -> ToolRule | None:
    try:
        return parse_tool_rule(entry)
    except InvalidInput:
        return None
