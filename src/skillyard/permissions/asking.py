"""Asking someone whether a skill may be used: the question, the answer, and who can be asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypedDict

from skillyard.errors import InvalidInput
from skillyard.text import LABEL_LIMIT, is_label, shorten, single_line

__all__ = ["ApprovalAnswer", "ApprovalRequest", "ApprovalRequestShape", "Approver", "Decision", "PolicyApprover"]

Decision = Literal["once", "session", "workspace", "reject"]
_DECISIONS: Final[dict[str, Decision]] = {
    "once": "once",
    "session": "session",
    "always": "session",  # what older clients send (row 001-18)
    "workspace": "workspace",
    "reject": "reject",
}


class ApprovalRequestShape(TypedDict):
    """A request as plain data, as a client's dialog receives it (row 001-18)."""

    type: Literal["skill"]
    pattern: list[str]
    sessionId: str
    messageId: str | None
    callId: str | None
    title: str
    skillId: str
    digest: str


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """The question whether a skill, with exactly this content, may be used in a session.

    `skill_name` is the skill's label: its name where that is plain, else its id. `digest` is the skill's content digest;
    `message_id` and `call_id` say which message and tool call of a chat ask.
    """

    skill_id: str
    skill_name: str
    digest: str
    session_id: str
    message_id: str | None = None
    call_id: str | None = None
    directory: str = ""
    description: str = ""
    type: Literal["skill"] = field(default="skill", init=False)

    @property
    def pattern(self) -> tuple[str, ...]:
        """What the answer is about: `("skill/<name>",)`."""
        return (f"skill/{self.skill_name}",)

    @property
    def title(self) -> str:
        """The heading of a dialog, on one line: nothing in a name can add a word of ours to it."""
        plain = is_label(self.skill_name)
        return f"Load skill: {self.skill_name if plain else shorten(single_line(self.skill_id), LABEL_LIMIT)}"

    def to_dict(self) -> ApprovalRequestShape:
        """The request as plain data."""
        return {
            "type": self.type,
            "pattern": list(self.pattern),
            "sessionId": self.session_id,
            "messageId": self.message_id,
            "callId": self.call_id,
            "title": self.title,
            "skillId": self.skill_id,
            "digest": self.digest,
        }


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """What was answered: yes this `once`, for the `session` or for the `workspace`, or `reject`; perhaps with a reason."""

    decision: Decision
    reason: str | None = None

    @classmethod
    def parse(cls, word: str, reason: str | None = None) -> ApprovalAnswer:
        """The answer a client sent as a word; `always` means `session`.

        Raises:
            InvalidInput: any other word.
        """
        if word not in _DECISIONS:
            raise InvalidInput(f"{word!r} does not answer an approval", hint=f"answer with one of {', '.join(_DECISIONS)}")
        return cls(_DECISIONS[word], reason)


class Approver(Protocol):
    """Someone or something that can be asked: a person at a terminal, a dialog in a page, a policy."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Put the question and wait for the answer; may take as long as a person does, and may be cancelled."""


class PolicyApprover:
    """An approver that gives everyone the same answer, for tests and for programs nobody watches."""

    def __init__(self, decision: Decision, reason: str | None = None) -> None:
        self._answer = ApprovalAnswer.parse(decision, reason)

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """The answer this approver was made with."""
        return self._answer
