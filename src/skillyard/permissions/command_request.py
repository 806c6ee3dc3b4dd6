"""The question whether a tool may be called so: the very command, code or path, and which rule of whom asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from skillyard.text import sanitize, shorten, single_line
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.permissions.command_policy import CommandRuling

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
        """The rule that asks; None when it is what becomes of the rest."""
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
    rule = f"{single_line(str(question['rule']))} of the {question['level']}" if question.get("rule") else ""
    asker = rule or f"the rules of the {question['level']}"
    by = f"{asker}: {single_line(str(question.get('reason') or ''))}"
    return [
        f"{_VERBS.get(tool, single_line(tool))} in {single_line(str(question['folder']))}?",
        *shown,
        *(f"  {name:<9} {text}" for name, text in about.items() if text),
        f"  asked by  {by}",
    ]
