"""What one level says about tools: lists of what is allowed, asked about and denied, and the default for the rest.

Deny wins over ask, ask over allow. A line of shell is allowed when every command in it is, also those that other commands run,
and so are the files it is redirected to. What cannot be understood is never allowed by a list: it is asked about, and denied
where a rule that denies could be meant.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, Self, get_args

from skillyard.catalog import Permission
from skillyard.errors import InvalidInput
from skillyard.permissions.command_line import CommandLine, CommandStep
from skillyard.permissions.command_matching import (
    MOVES,
    CommandPattern,
    Fit,
    among_devices,
    possible_paths,
    searches_below,
    searches_here,
    working_folders,
)
from skillyard.permissions.opaque_commands import assigned_names, opaque_reason
from skillyard.permissions.shell_words import ShellWord, is_descriptor, word_set
from skillyard.permissions.tool_rules import (
    JudgementBudget,
    NamedPath,
    ToolKind,
    ToolRule,
    TooMuchToJudge,
    parse_tool_rule,
    runs_code,
    tool_kind,
)
from skillyard.wire import WireForm

_MOST_RULES: Final = 500
_HARMLESS_FILES: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin"})
_HARMLESS_VARIABLES: Final = word_set(
    "LANG LANGUAGE TZ NO_COLOR FORCE_COLOR CLICOLOR COLUMNS LINES CI DEBUG PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE "
    "PYTHONIOENCODING PYTHONUTF8 NODE_ENV"
)
_SEARCHING: Final = frozenset({"file_search", "file_list", "grep", "glob", "ls"})  # tools that go through a whole folder


_READING_ALL: Final = frozenset({"file_search", "grep"})  # and read what is in it


@dataclass(frozen=True, slots=True)
class LevelRuling(WireForm):
    """What one level says: its `permission`, the rule that decided (None: the default), why, and about what.

    `part` is the command or file of the call that the rule is about.
    """

    permission: Permission
    rule: str | None
    reason: str
    part: str = ""


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A call to be decided: the tool, its command, path or address, the folder it works in, and the command as it was read.

    Relative paths of rules are below `root`, those of the call below `folder`.
    """

    tool: str
    argument: str | None
    folder: str
    root: str
    line: CommandLine | None = None

    @classmethod
    def read(cls, tool: str, argument: str | None, folder: str, root: str) -> Self:
        """The call of a tool; a command is parsed, once for all levels, and code is taken for what runs it: `python3 -`."""
        line = None
        if argument is not None and tool_kind(tool) == "command":
            if runs_code(tool):
                line = CommandLine.parse("python3 -" if argument.startswith("python") else "node -")
            else:
                line = CommandLine.parse(argument)
            if among_devices(folder, line.steps):
                line = replace(line, unclear=(*line.unclear, "a path may lead to a descriptor there"))
        return cls(tool, argument, folder, root, line)

    def absolute(self, path: str) -> str:
        """A path of the call, absolute where rules and call do not start from the same folder."""
        return path if self.folder == self.root else posixpath.join(self.folder, path)


class CommandRules:
    """The lists of one level.

    `default` applies where no rule does; without it that is `ask` for kinds of tools of which something is allowed by
    the list, and `allow` for the others.

    Raises:
        InvalidInput: an entry that is no rule, too many of them, or an unknown default.
    """

    __slots__ = ("allow", "ask", "default", "deny")

    def __init__(
        self,
        *,
        allow: Iterable[str | ToolRule] = (),
        ask: Iterable[str | ToolRule] = (),
        deny: Iterable[str | ToolRule] = (),
        default: Permission | None = None,
    ) -> None:
        if default is not None and default not in get_args(Permission):
            raise InvalidInput(f"what no rule fits cannot be {default!r}", hint="use 'allow', 'ask' or 'deny'")
        self.allow, self.ask, self.deny = (_rules(entries) for entries in (allow, ask, deny))
        self.default: Permission | None = default

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """The rules that a table of settings has: `allow`, `ask` and `deny`, lists of text, and `default`.

        Raises:
            InvalidInput: another key, or a value that cannot be meant.
        """
        for key, value in settings.items():
            if key not in ("allow", "ask", "deny", "default"):
                raise InvalidInput(f"rules of commands have no {key[:40]!r}", hint="use allow, ask, deny and default")
            if key != "default" and not (isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)):
                raise InvalidInput(f"{key} of the rules of commands is not a list of rules", hint='such as ["Bash(git:*)"]')
        return cls(**settings)

    def __repr__(self) -> str:
        lists = {name: [str(rule) for rule in getattr(self, name)] for name in ("allow", "ask", "deny")}
        return f"CommandRules({lists!r}, default={self.default!r})"

    def __bool__(self) -> bool:
        return bool(self.allow or self.ask or self.deny or self.default)

    def decide(self, call: JudgedCall) -> LevelRuling | None:
        """What these rules say of a call; None when they have nothing to say about such calls."""
        if not self:
            return None
        try:
            if call.line is not None:
                return _LineDecision(self, call, call.line).ruling()
            return _CallDecision(self, call).ruling()
        except TooMuchToJudge:
            says: Permission = "deny" if self.deny else _stricter("ask", self.rest(call.tool))
            return LevelRuling(says, None, "there is too much in it to compare with all rules; make it shorter")

    def rest(self, tool: str) -> Permission:
        """The permission of a call of the tool that no rule fits."""
        return self.default or ("ask" if any(rule.speaks_of(tool) for rule in self.allow) else "allow")


def _rules(entries: Iterable[str | ToolRule]) -> tuple[ToolRule, ...]:
    rules = tuple(parse_tool_rule(entry) if isinstance(entry, str) else entry for entry in entries)
    if len(rules) > _MOST_RULES:
        raise InvalidInput(f"there are over {_MOST_RULES} rules in one list", hint="use patterns such as Bash(git:*)")
    return rules


@dataclass(slots=True)
class _CallDecision:
    """One call of a tool that works on one file, or on no file."""

    rules: CommandRules
    call: JudgedCall
    budget: JudgementBudget = field(default_factory=JudgementBudget)

    def ruling(self) -> LevelRuling | None:
        call = self.call
        named = f"{call.tool} {call.argument}" if call.argument is not None else call.tool
        below = None
        for permission, rules in (("deny", self.rules.deny), ("ask", self.rules.ask)):
            for rule in rules:
                if self._may_fit(rule):
                    return below if below and permission == "ask" else _by_rule(permission, rule, named)
                if below is None and self._may_be_below(rule):
                    reason = f"files that a rule to {permission} is about may be below; name a folder without them"
                    below = LevelRuling("ask", f"{permission} {rule}", reason, named)
        if below is not None:
            return below
        for rule in self.rules.allow:
            if self._fits(rule):
                return _by_rule("allow", rule, named)
        if self.rules.default is None and not any(rule.speaks_of(call.tool) for rule in self._all()):
            return None
        return _by_default(self.rules.rest(call.tool), named)

    def _all(self) -> Iterator[ToolRule]:
        yield from (*self.rules.allow, *self.rules.ask, *self.rules.deny)

    def _fits(self, rule: ToolRule) -> bool:
        if not rule.speaks_of(self.call.tool):
            return False
        if rule.kind in ("read", "write"):
            self.budget.spend(1 + (self.call.argument or "").count("/"))
            return rule.permits_path(self.call.argument and self.call.absolute(self.call.argument), self.call.root)
        return rule.fits_text(self.call.argument)

    def _may_fit(self, rule: ToolRule) -> bool:
        if not rule.speaks_of(self.call.tool):
            return False
        if rule.kind in ("read", "write") and self.call.argument is not None:
            if is_descriptor(self.call.absolute(self.call.argument)):
                return True
            return rule.may_fit_path(self._path(), self.call.root, self.budget)
        return self.call.argument is None or rule.fits_text(self.call.argument)

    def _may_be_below(self, rule: ToolRule) -> bool:
        """Whether a tool that goes through a folder may meet what the rule is about."""
        if self.call.tool.casefold() not in _SEARCHING or rule.kind != "read" or not rule.speaks_of(self.call.tool):
            return False
        if "/" not in (rule.argument or "/") and self.call.tool.casefold() in _READING_ALL:
            return True
        return rule.may_be_below(self._path(), self.call.root, self.budget)

    def _path(self) -> NamedPath:
        self.budget.spend((self.call.argument or "").count("/"))
        return NamedPath.of(self.call.absolute(self.call.argument or "."), self.call.root)


class _NamedFile(NamedTuple):
    """A word of a line that may be a file, what is done to it, and which paths it may be from each working folder.

    `paths` are all of them, `below` those of the whole word. `to_descriptor` says that it may lead to an open file.
    """

    word: ShellWord
    does: ToolKind | None
    paths: tuple[NamedPath, ...] = ()
    below: tuple[NamedPath, ...] = ()
    to_descriptor: bool = False


@dataclass
class _LineDecision:
    """One line of shell; what all rules are compared with is found once."""

    rules: CommandRules
    call: JudgedCall
    line: CommandLine
    budget: JudgementBudget = field(default_factory=JudgementBudget)

    def ruling(self) -> LevelRuling | None:
        asked = None
        for permission, rules in (("deny", self.rules.deny), ("ask", self.rules.ask)):
            for rule in rules:
                fit, part = self._fit(rule)
                if fit == "yes":
                    return asked if asked and permission == "ask" else _by_rule(permission, rule, part)
                if fit == "maybe" and asked is None:
                    reason = f"{part} could be one that a rule to {permission} is about"
                    asked = LevelRuling("ask", f"{permission} {rule}", reason, part)
        return asked or self._stricter_than(self._opaque())

    def _opaque(self) -> LevelRuling | None:
        """To ask about a command whose doing cannot be seen, where something is denied or asked about."""
        rules = [("deny", rule) for rule in self.rules.deny] + [("ask", rule) for rule in self.rules.ask]
        about = next((one for one in rules if one[1].speaks_of(self.call.tool) or one[1].kind in ("read", "write")), None)
        if about is None:
            return None
        for step in self.line.steps:
            found = opaque_reason(step.command)
            if found is None or (step.passes and found.word == step.name):  # the script of `bash -c` is read
                continue
            if not self._is_named(step, found.word):
                reason = f"{found.reason}, perhaps what a rule to {about[0]} is about"
                return LevelRuling("ask", f"{about[0]} {about[1]}", reason, step.command.text)
        return None

    def _is_named(self, step: CommandStep, word: str) -> bool:
        """Whether a rule allows the command by the word that makes it opaque: the program, or its option."""
        patterns = [CommandPattern.parse(rule.argument) for rule in self.rules.allow if rule.speaks_of(self.call.tool)]
        own = word == step.name
        self.budget.spend(sum(1 + len(step.command.words) * pattern.may_start(step.command) for pattern in patterns))
        if runs_code(self.call.tool) and any(str(rule).casefold() == self.call.tool.casefold() for rule in self.rules.allow):
            return True
        return any(
            pattern.words and pattern.permits(step.command) and (own or any(_names(each, word) for each in pattern.words[1:]))
            for pattern in patterns
        )

    def _stricter_than(self, opaque: LevelRuling | None) -> LevelRuling | None:
        allowed = self._allowed()
        return opaque if opaque is not None and (allowed is None or allowed.permission != "deny") else allowed

    def _fit(self, rule: ToolRule) -> tuple[Fit, str]:
        """Whether the rule could be about some part of the line, and which."""
        if rule.kind == "command" and rule.speaks_of(self.call.tool):
            return self._fit_command(CommandPattern.parse(rule.argument))
        return self._fit_files(rule, rule.kind) if rule.kind in ("read", "write") else ("no", "")

    def _fit_command(self, pattern: CommandPattern) -> tuple[Fit, str]:
        maybe = ""
        for step in self.line.steps:
            self.budget.spend(1)
            if not pattern.may_start(step.command):
                continue
            self.budget.spend(len(step.command.words) * len(pattern.words))
            fit = pattern.may_fit(step.command)
            if fit == "yes":
                return "yes", step.command.text
            if fit == "maybe":
                maybe = maybe or step.command.text
        if (self.line.unclear or maybe) and self._may_be_in(pattern):
            return "yes", maybe or self.line.text
        return ("maybe", maybe) if maybe else ("no", "")

    def _may_be_in(self, pattern: CommandPattern) -> bool:
        self.budget.spend(sum(len(self._tokens) if "*" in word or "?" in word else 1 for word in pattern.words))
        return pattern.may_be_in(self._tokens)

    @cached_property
    def _tokens(self) -> frozenset[str]:
        return self.line.tokens()

    @cached_property
    def _places(self) -> list[str]:
        return working_folders(self.line.steps, self.call.folder)

    @cached_property
    def _named_files(self) -> tuple[_NamedFile, ...]:
        root, folders = self.call.root, self._places or [self.call.folder]
        among = any(is_descriptor(place) for place in self._places)
        found: dict[tuple[str | None, ToolKind | None], _NamedFile] = {}
        for word, does in self._files():
            if (word.text, does) in found:
                continue
            named = _NamedFile(word, does)
            if word.text is not None:
                texts = possible_paths(word.text)
                self.budget.spend(len(texts) * len(folders) * (1 + word.text.count("/")))
                below = [NamedPath.of(posixpath.join(folder, word.text), root) for folder in folders]
                others = [NamedPath.of(posixpath.join(folder, text), root) for text in texts[1:] for folder in folders]
                paths = tuple(dict.fromkeys([*below, *others]))
                named = _NamedFile(word, does, paths, tuple(dict.fromkeys(below)), among or is_descriptor(word.text))
            found[word.text, does] = named
        return tuple(found.values())

    @cached_property
    def _open_ended(self) -> str:
        return next((step.command.text for step in self.line.steps if step.command.open_ended), "")

    @cached_property
    def _searching(self) -> str:
        return next((step.command.text for step in self.line.steps if searches_below(step.command)), "")

    def _fit_files(self, rule: ToolRule, kind: ToolKind) -> tuple[Fit, str]:
        """Files that the line is redirected to, and those that its commands name, which may be read or written."""
        maybe = ""
        root, budget = self.call.root, self.budget
        for word, does, paths, below, to_descriptor in self._named_files:
            if word.text is None:
                maybe = maybe or word.raw
                continue
            if to_descriptor:
                budget.spend(1 + word.text.count("/"))
                if _literal_name(rule.argument or "") in word.text.casefold().split("/"):
                    return "yes", word.text
                maybe = maybe or word.text
            fits = any(rule.may_fit_path(path, root, budget) for path in paths)
            if fits and (does == kind or (does is None and kind == "read")):
                return "yes", word.text
            near = fits and does is None
            above = does != "read" and any(rule.may_be_below(path, root, budget) for path in below)
            if near or above or not self._places:
                maybe = maybe or word.text
        maybe = maybe or self._open_ended
        if kind == "read" and "/" not in (rule.argument or "/"):  # a name in any folder
            maybe = maybe or self._searching
        if self.line.unclear and rule.argument and _literal_name(rule.argument) in self._tokens:
            return "yes", self.line.text
        maybe = maybe or (self.line.text if self.line.unclear else "")
        return ("maybe", maybe) if maybe else ("no", "")

    def _files(self) -> Iterator[tuple[ShellWord, ToolKind | None]]:
        for redirection in self.line.redirections:
            if redirection.target.text not in _HARMLESS_FILES:
                yield redirection.target, "write" if redirection.writes else "read"
        for step in self.line.steps:
            if step.name in MOVES:
                continue
            if searches_here(step.command):
                yield ShellWord(".", "."), None
            for word in step.command.words[1:]:
                if word.text is None or not word.text.startswith("-") or "=" in word.text or "/" in word.text:
                    yield word, None

    def _allowed(self) -> LevelRuling | None:
        """The ruling for a line that nothing asks about or denies."""
        tool, line = self.call.tool, self.line
        about = [rule for rule in self.rules.allow if rule.kind == "command" and rule.speaks_of(tool)]
        restricted = any(rule.speaks_of(tool) for rule in (*self.rules.ask, *self.rules.deny))
        everything = next((rule for rule in about if CommandPattern.parse(rule.argument).fits_all), None)
        if not about and not restricted and self.rules.default is None:
            return None
        if everything is not None and not restricted:
            return _by_rule("allow", everything, line.text)
        rest = "allow" if everything is not None else self.rules.rest(tool)
        if line.unclear:
            return LevelRuling(_stricter("ask", rest), None, f"{line.unclear[0]}, so no rule can allow it", line.text)
        if rest == "allow":
            return _by_rule("allow", everything, line.text) if everything else _by_default("allow", line.text)
        return self._each_allowed(about, rest)

    def _each_allowed(self, about: list[ToolRule], rest: Permission) -> LevelRuling:
        used: dict[str, None] = {}
        patterns = [(rule, CommandPattern.parse(rule.argument)) for rule in about]
        for step in self.line.steps:
            if name := _odd_variable(step):
                return LevelRuling(rest, None, f"it sets {name}, which can change what a command does", step.command.text)
            if step.passes:
                continue
            self.budget.spend(len(patterns))
            near = [(rule, pattern) for rule, pattern in patterns if pattern.may_start(step.command)]
            self.budget.spend(sum(len(step.command.words) * len(pattern.words) for _, pattern in near))
            rule = next((rule for rule, pattern in near if pattern.permits(step.command)), None)
            if rule is None:
                return _by_default(rest, step.command.text)
            used[f"allow {rule}"] = None
        for redirection in self.line.redirections:
            if redirection.target.text in _HARMLESS_FILES:
                continue
            file_rule = self._redirection_rule(redirection.target.text, "write" if redirection.writes else "read")
            if file_rule is None:
                does = "writes to" if redirection.writes else "reads from"
                return LevelRuling(rest, None, f"it {does} a file that no rule allows", redirection.target.raw)
            used[f"allow {file_rule}"] = None
        if not self.line.steps and not self.line.redirections and not used:
            return LevelRuling(rest, None, "there is no command in it", self.line.text)
        return LevelRuling("allow", ", ".join(used) or None, "every command in it is allowed", self.line.text)

    def _redirection_rule(self, path: str | None, kind: Literal["read", "write"]) -> ToolRule | None:
        if path is None or is_descriptor(path) or any(step.name in MOVES for step in self.line.steps):
            return None
        rules = [rule for rule in self.rules.allow if rule.kind == kind]
        self.budget.spend(len(rules) * (2 + path.count("/")))
        return next((rule for rule in rules if rule.permits_path(self.call.absolute(path), self.call.root)), None)


def _odd_variable(step: CommandStep) -> str | None:
    """A variable that the step sets and that may change what commands do; None when there is none."""
    for name in assigned_names(step.command):
        if name is None:
            return "a variable that is known only when it runs"
        if name in _HARMLESS_VARIABLES or name.startswith("LC_"):
            continue
        if name.islower() and not name.endswith("_proxy"):
            continue
        return name
    return None


def _names(pattern: str, word: str) -> bool:
    """Whether a word of a rule names the word by which a command is opaque: an option, also in a group, or another word."""
    if word.startswith("--"):
        return pattern.partition("=")[0] == word
    if word.startswith("-"):
        return pattern.startswith("-") and not pattern.startswith("--") and word[1:] in pattern
    return word in pattern


def _literal_name(pattern: str) -> str:
    """The last part of a path pattern that is no wildcard, in small letters."""
    parts = [part for part in pattern.casefold().split("/") if part and "*" not in part and "?" not in part]
    return parts[-1] if parts else ""


def _stricter(first: Permission, second: Permission) -> Permission:
    order = get_args(Permission)
    return max(first, second, key=order.index)


def _by_rule(permission: str, rule: ToolRule, part: str) -> LevelRuling:
    says: Permission = "deny" if permission == "deny" else "ask" if permission == "ask" else "allow"
    return LevelRuling(says, f"{says} {rule}", "this rule matches", part)


def _by_default(permission: Permission, part: str) -> LevelRuling:
    return LevelRuling(permission, None, "no rule matches", part)
