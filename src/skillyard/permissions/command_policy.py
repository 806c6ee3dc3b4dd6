"""What may be done with tools, decided by every level that has rules: the narrowest wins; and the question where one asks.

Levels are the settings of the operator, those of the project, the agent or, where there is none, the conversation, and the
skills that are followed (`allowed-tools`, taken as nothing, advice or a limit). Each can only narrow what the others allow. A
ruling carries what a person must see to answer: the very command, and the files it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Self, get_args

from skillyard.catalog import AllowedToolsMode, Configuration, Permission
from skillyard.errors import InvalidInput
from skillyard.permissions.command_rules import CommandRules, JudgedCall, LevelRuling
from skillyard.permissions.tool_rules import ToolRule, parse_tool_rule, tool_kind
from skillyard.text import sanitize, shorten, single_line
from skillyard.wire import WireForm, wire

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


RuleLevel = Literal["operator", "project", "agent", "conversation", "skill"]
_ORDER: Final = get_args(Permission)


@dataclass(frozen=True, slots=True)
class LevelDecision(WireForm):
    """What one level said."""

    level: RuleLevel
    ruling: LevelRuling


@dataclass(frozen=True, slots=True)
class CommandRuling(WireForm, also=("allowed",)):
    """Whether a tool may be called so: `permission`, and which rule of which level decided.

    `level` and `rule` are None where no rule applies, `rule` also where the default of the list does.
    `argument` is the very command, path or address; `part` what of it the rule is about; `files` the files it names.
    `levels` are all that spoke.
    """

    permission: Permission
    tool: str
    argument: str | None
    level: RuleLevel | None
    rule: str | None
    reason: str
    part: str = ""
    files: tuple[str, ...] = ()
    folder: str = "/"
    levels: tuple[LevelDecision, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether it may be done without asking."""
        return self.permission == "allow"

    @property
    def sentence(self) -> str:
        """Why, in one line for people and models."""
        if self.level is None:
            return "allowed: no rule applies"
        plain = "this rule matches"  # which the name of the rule says already
        return f"{_WORDS[self.permission]} by {self.decider}" + ("" if self.reason == plain else f": {self.reason}")

    @property
    def decider(self) -> str:
        """Whose rule decided, and which."""
        return rule_name(self.level, self.rule)


_WORDS: Final[Mapping[Permission, str]] = {"allow": "allowed", "ask": "to be asked about", "deny": "denied"}


def rule_name(level: object, rule: object) -> str:
    """A rule of a level in words; without a rule what the level says of the rest."""
    return f"the {level}'s rule `{single_line(str(rule))}`" if rule else f"the {level}'s rules"


@dataclass(frozen=True, slots=True)
class ListedRule(WireForm):
    """One rule of one level, or what the level says of the rest: then `rule` is `everything else`."""

    level: RuleLevel
    permission: Permission
    rule: str


class _Level(NamedTuple):
    name: RuleLevel
    rules: CommandRules


class CommandPolicy:
    """The rules of all levels, from the widest to the narrowest.

    >>> policy = CommandPolicy([("operator", CommandRules(allow=["Bash(git:*)"], deny=["Bash(git push:*)"]))])
    >>> policy.authorize("bash", "git log | git -C . push", "/work", root="/work").permission
    'deny'
    """

    __slots__ = ("_levels", "_switches_of", "_tools")

    def __init__(
        self,
        levels: Iterable[tuple[RuleLevel, CommandRules]] = (),
        *,
        tools: Mapping[str, Permission] | None = None,
        switches_of: RuleLevel = "agent",
    ) -> None:
        self._levels: Sequence[_Level] = tuple(_Level(name, rules) for name, rules in levels if rules)
        self._tools: Mapping[str, Permission] = {name: said for name, said in (tools or {}).items() if said != "allow"}
        self._switches_of: RuleLevel = switches_of

    @classmethod
    def of(
        cls,
        configuration: Configuration,
        *,
        agent: Mapping[str, Any] | None = None,
        tools: Mapping[str, Permission] | None = None,
        skills: CommandRules | None = None,
        level: Literal["agent", "conversation"] = "agent",
    ) -> Self:
        """The policy of a configuration, of an agent's `commands` and `tool_permissions`, and of `AllowedTools.command_rules`.

        With the `level` `conversation` the second are those of a conversation without an agent.

        Raises:
            InvalidInput: a rule cannot be read.
        """
        levels: list[tuple[RuleLevel, CommandRules]] = [
            ("operator", CommandRules.of(configuration.command_rules)),
            ("project", CommandRules.of(configuration.project_command_rules)),
            (level, CommandRules.of(agent or {})),
        ]
        policy = cls(levels, tools=tools, switches_of=level)
        return policy if skills is None else policy.following(skills)

    def __repr__(self) -> str:
        return f"CommandPolicy({[(level.name, level.rules) for level in self._levels]!r})"

    def __bool__(self) -> bool:
        return bool(self._levels or self._tools)

    def listed(self) -> tuple[ListedRule, ...]:
        """Every rule, by its level, and what each level says of the rest where that is settled."""
        switched = (ListedRule(self._switches_of, said, name) for name, said in self._tools.items())
        return (*(rule for level in self._levels for rule in _listed(level)), *switched)

    def switch(self, tool: str) -> Permission:
        """What the agent says of a tool by its name alone."""
        return self._tools.get(tool, "allow")

    def following(self, skills: CommandRules) -> Self:
        """The same policy while skills are followed whose `allowed-tools` are the limit: `AllowedTools.command_rules`."""
        levels = [(level.name, level.rules) for level in self._levels if level.name != "skill"]
        return type(self)([*levels, ("skill", skills)], tools=self._tools, switches_of=self._switches_of)

    def authorize(self, tool: str, argument: str | None, folder: str, *, root: str) -> CommandRuling:
        """Whether `tool` may be called with a command, path or address, in a working folder (an absolute path).

        Paths in rules are below `root`, wherever the call works. It never fails. A command takes at most about
        half a second to read, and each level as long to compare it with its rules: what is more is asked about, or denied
        where the level denies anything.
        """
        call = JudgedCall.read(tool, argument, folder, root)
        said = [(level.name, ruling) for level in self._levels if (ruling := level.rules.decide(call)) is not None]
        if tool in self._tools:
            does = "takes this tool away" if self._tools[tool] == "deny" else "asks about every call of this tool"
            rule, reason = f"{self._tools[tool]} {tool}", f"the {self._switches_of} {does}"
            switched = LevelRuling(self._tools[tool], rule, reason, argument or "")
            said.append((self._switches_of, switched))
        files = _files(call)
        if not said:
            return CommandRuling("allow", tool, argument, None, None, "no rule matches", "", files, folder)
        level, ruling = max(said, key=lambda one: (_ORDER.index(one[1].permission), -said.index(one)))
        return CommandRuling(
            ruling.permission,
            tool,
            argument,
            level,
            ruling.rule,
            ruling.reason,
            ruling.part,
            files,
            folder,
            tuple(LevelDecision(name, each) for name, each in said),
        )


def _listed(level: _Level) -> Iterator[ListedRule]:
    lists: Mapping[Permission, Sequence[ToolRule]] = {
        "deny": level.rules.deny, "ask": level.rules.ask, "allow": level.rules.allow
    }  # fmt: skip
    for permission, rules in lists.items():
        yield from (ListedRule(level.name, permission, str(rule)) for rule in rules)
    if level.rules.default is not None:
        yield ListedRule(level.name, level.rules.default, "everything else")


def _files(call: JudgedCall) -> tuple[str, ...]:
    if call.line is not None:
        return call.line.files()
    return (call.argument,) if call.argument and tool_kind(call.tool) in ("read", "write") else ()


_TITLE: Final = 120
_KEY: Final = 80
_VERBS: Final = {
    "bash": "Run a command", "code_run": "Run code", "file_read": "Read a file", "file_write": "Write a file",
    "file_edit": "Change a file", "file_list": "List files", "file_search": "Search files",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CommandRequest(WireForm, also=("title", "level", "rule", "reason", "part", "files")):
    """The question whether a tool may be called so: the very command, code or path, and what of it which rule is about.

    `skills` are the labels of the skills that are followed. `digest` names the call: tool, argument,
    folder and `content`, which is what would be written, what replaced by what, or the pattern of a search; it may be cut here.
    """

    tool: str
    argument: str
    folder: str
    ruling: CommandRuling = field(metadata=wire(hidden=True))
    session_id: str = field(metadata=wire(hidden=True))
    digest: str
    skills: tuple[str, ...] = ()
    message_id: str | None = field(default=None, metadata=wire(hidden=True))
    call_id: str | None = field(default=None, metadata=wire(hidden=True))
    content: str | None = None
    type: Literal["command"] = field(default="command", init=False)

    @property
    def title(self) -> str:
        """The heading of a dialog, on one line."""
        return shorten(single_line(f"{_VERBS.get(self.tool, self.tool)}: {self.part or self.argument}"), _TITLE)

    @property
    def skill_id(self) -> str:
        """Under what the answer is kept, as the id of a skill is for questions about skills."""
        return f"{self.tool}:{self.digest[-16:]} {shorten(single_line(self.argument), _KEY)}"

    @property
    def level(self) -> str | None:
        """The level whose rule asks."""
        return self.ruling.level

    @property
    def rule(self) -> str | None:
        """The rule that asks; None when the default decided."""
        return self.ruling.rule

    @property
    def reason(self) -> str:
        """Why it is asked."""
        return self.ruling.reason

    @property
    def part(self) -> str:
        """What of the call the rule is about."""
        return self.ruling.part

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the call names."""
        return self.ruling.files


def question_lines(question: Mapping[str, Any]) -> list[str]:
    """The plain data of a `CommandRequest` as lines for a terminal: nothing in a command can imitate what stands around it."""
    tool, argument, part = str(question["tool"]), str(question["argument"]), str(question.get("part") or "")
    shown = [f"  | {line}" for line in sanitize(argument).splitlines() or [""]]
    if question.get("content") is not None:
        shown += ["  with", *(f"  | {line}" for line in sanitize(str(question["content"])).splitlines() or [""])]
    about = {
        "about": single_line(part) if part != argument else "",
        "files": ", ".join(single_line(str(file)) for file in question.get("files") or ()),
        "skills": ", ".join(single_line(str(skill)) for skill in question.get("skills") or ()),
    }
    by = f"{rule_name(question['level'], question.get('rule'))}: {single_line(str(question.get('reason') or ''))}"
    return [
        f"{_VERBS.get(tool, single_line(tool))} in {single_line(str(question['folder']))}?",
        *shown,
        *(f"  {name:<9} {text}" for name, text in about.items() if text),
        f"  asked by  {by}",
    ]
