"""What may be done with tools, decided by every level that has rules: the narrowest wins, and the ruling names it.

Levels are the operator's settings, those of the project, the agent or, where there is none, the conversation, and the skills
that are followed. Each can only narrow what the others allow. A ruling carries what a person must see to answer: the very
command, and the files it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, get_args

from skillyard.catalog import Configuration, Permission
from skillyard.permissions.command_rules import CommandRules, JudgedCall, LevelRuling
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.permissions.tool_rules import ToolRule

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

    `level` and `rule` are None where nobody has a rule about it, `rule` also where it is what becomes of the rest.
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
    levels: tuple[LevelDecision, ...] = field(default=(), metadata=wire(omit_empty=True))

    @property
    def allowed(self) -> bool:
        """Whether it may be done without asking."""
        return self.permission == "allow"

    @property
    def sentence(self) -> str:
        """Why, in one line for people and models."""
        if self.level is None:
            return "allowed: nobody has a rule about it"
        by = f"{self.rule} of the {self.level}" if self.rule else f"the rules of the {self.level}"
        return f"{_WORDS[self.permission]} by {by}: {self.reason}"


_WORDS: Final[Mapping[Permission, str]] = {"allow": "allowed", "ask": "to be asked about", "deny": "denied"}


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
        half a second to read, whatever it is.
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
            return CommandRuling("allow", tool, argument, None, None, "no rule is about it", "", files, folder)
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
    from skillyard.permissions.tool_rules import tool_kind

    return (call.argument,) if call.argument and tool_kind(call.tool) in ("read", "write") else ()
