"""What the `allowed-tools` of the skills that are loaded permit, as a check of single tools and as rules about commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, get_args

from skillyard.catalog import AllowedToolsMode
from skillyard.errors import InvalidInput
from skillyard.permissions.command_rules import CommandRules, JudgedCall
from skillyard.permissions.tool_rules import ToolRule, parse_tool_rule
from skillyard.text import shorten

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
        ruling = self.command_rules().decide(JudgedCall.read(tool, argument, "/", root="/"))
        return ruling is not None and ruling.permission == "allow"

    def command_rules(self) -> CommandRules:
        """The same limit as rules: what is listed is allowed, all else denied; without a limit there are none."""
        if not self.limits:
            return CommandRules()
        return CommandRules(allow=self.rules, default="deny")

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
