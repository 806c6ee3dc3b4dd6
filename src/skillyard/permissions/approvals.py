"""Approvals: the request, the approver and the answer; what was approved, for which content, and for how long.

An approval holds for a skill's id together with the digest of its content. When a byte of the skill changes, also while
someone is thinking about the answer, the question is put again.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from skillyard.document import DESCRIPTION_LIMIT
from skillyard.errors import ApprovalRejected, InvalidInput
from skillyard.permissions.approval_store import ApprovalRecord, ApprovalStore, MemoryApprovalStore
from skillyard.text import LABEL_LIMIT, is_label, shorten, single_line
from skillyard.times import utc_now
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from skillyard.catalog import Skill
    from skillyard.database import Database
    from skillyard.permissions.approval_tables import ApprovalTable, SqlSessionApprovals
    from skillyard.permissions.command_policy import CommandRequest


Decision = Literal["once", "session", "workspace", "reject"]
_DECISIONS: Final[dict[str, Decision]] = {
    "once": "once",
    "session": "session",
    "always": "session",  # what older clients send
    "workspace": "workspace",
    "reject": "reject",
}


@dataclass(frozen=True, slots=True)
class ApprovalRequest(WireForm, camel_case=True, also=("pattern", "title")):
    """A request for approval: the use of a skill, with exactly this content, in a session.

    `skill_name` is the skill's label: its name where that is plain, else its id. `digest` is the skill's content digest;
    `message_id` and `call_id` are the message and tool call of a chat that request it. `reason` says why, where no rule asks.
    """

    skill_id: str
    skill_name: str = field(metadata=wire(hidden=True))
    digest: str
    session_id: str
    message_id: str | None = None
    call_id: str | None = None
    directory: str = field(default="", metadata=wire(hidden=True))
    description: str = field(default="", metadata=wire(hidden=True))
    reason: str = field(default="", metadata=wire(omit_empty=True))
    type: Literal["skill"] = field(default="skill", init=False)

    @property
    def pattern(self) -> tuple[str, ...]:
        """The subject of the request: `("skill/<name>",)`."""
        return (f"skill/{self.skill_name}",)

    @property
    def title(self) -> str:
        """The heading of a dialog, on one line: nothing in a name can imitate our own text."""
        plain = is_label(self.skill_name)
        name = self.skill_name if plain else shorten(single_line(self.skill_id), LABEL_LIMIT)
        return f"Load skill: {name} ({self.reason})" if self.reason else f"Load skill: {name}"


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
    """Answers requests for approval: a person at a terminal, a dialog in a page, a policy."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Put the question and wait for the answer; may take as long as a person does, and may be cancelled."""


class CommandApprover(Protocol):
    """Answers questions about calls of tools; an approver that has no such method is not asked about them."""

    async def ask_command(self, request: CommandRequest) -> ApprovalAnswer:
        """Put the question and wait for the answer; may take as long as a person does, and may be cancelled."""


class PolicyApprover:
    """An approver that gives everyone the same answer, for tests and for programs without a user."""

    def __init__(self, decision: Decision, reason: str | None = None) -> None:
        self._answer = ApprovalAnswer.parse(decision, reason)

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """The answer this approver was made with."""
        return self._answer

    async def ask_command(self, request: CommandRequest) -> ApprovalAnswer:
        """The same about a call of a tool."""
        return self._answer


_ATTEMPTS: Final = 3  # how often a skill may change under the question
_Agreed = tuple[str, str, str]  # session, skill id, digest
_QuestionKey = tuple[object, int, _Agreed]  # event loop, id of the approver, approval


class Approvals:
    """What has been approved, and the approver for what has not.

    Session approvals live in this object unless they are `share`d, those for the workspace in the `store`; without one they end
    with this object too.
    """

    def __init__(self, approver: Approver | CommandApprover | None = None, *, store: ApprovalStore | None = None) -> None:
        self._approver = approver
        self.store: ApprovalStore = MemoryApprovalStore() if store is None else store
        self._session: set[_Agreed] = set()
        self._shared: SqlSessionApprovals | None = None
        self._questions: dict[_QuestionKey, _Question] = {}

    def share(self, sessions: SqlSessionApprovals) -> None:
        """Store session approvals there, where other processes can read them."""
        self._shared = sessions

    def asking(self, approver: Approver | CommandApprover | None) -> Approvals:
        """The same approvals with another approver: what is approved through one of them holds for both."""
        other = copy(self)
        other._approver = approver
        return other

    async def require(
        self,
        skill: Skill,
        *,
        session: str,
        message_id: str | None = None,
        call_id: str | None = None,
        reason: str = "",
    ) -> str:
        """The digest of `skill` when, with exactly that content, it may be used in `session`; asks when it is not approved.

        `reason` is shown to the person who is asked.

        Raises:
            ApprovalRejected: the answer was no, nobody can be asked, or the skill keeps changing.
        """
        import asyncio  # not at the top: a program without questions need not load it

        for _ in range(_ATTEMPTS):
            digest = await asyncio.to_thread(skill.digest)
            if await self._approved(skill.id, digest, session):
                return digest
            request = replace(_request(skill, digest, session, message_id, call_id), reason=reason)
            answer = await self._answer(request)
            if answer.decision not in ("once", "session", "workspace"):
                raise _rejected(request, answer)
            if await asyncio.to_thread(skill.digest) == digest:
                return digest
        raise ApprovalRejected(
            f"the skill {skill.label!r} changed while it was being approved",
            hint="wait until nothing changes the skill's folder, then try again",
        )

    async def permit(self, request: CommandRequest) -> None:
        """Return when exactly this tool call may be made; asks when it is not approved for the session.

        Raises:
            ApprovalRejected: the answer was no, or nobody can be asked.
        """
        if await self._approved(request.skill_id, request.digest, request.session_id):
            return
        answer = await self._answer(request)
        if answer.decision not in ("once", "session"):
            raise _rejected_command(request, answer)

    def end_session(self, session: str) -> None:
        """Forget what was approved for `session`."""
        self._session -= {key for key in set(self._session) if key[0] == session}
        if self._shared is not None:
            self._shared.end(session)

    def revoke(self, skill_id: str) -> bool:
        """Revoke every approval of the skill, in all sessions and in this workspace; False when there was none."""
        had = {key for key in set(self._session) if key[1] == skill_id}
        self._session -= had
        shared = self._shared is not None and self._shared.remove(skill_id)
        return self.store.remove(skill_id) or bool(had) or shared

    async def _approved(self, skill_id: str, digest: str, session: str) -> bool:
        import asyncio

        if (session, skill_id, digest) in self._session:
            return True
        if self._shared is not None and await asyncio.to_thread(self._shared.has, session, skill_id, digest):
            return True
        return await asyncio.to_thread(self.store.has, skill_id, digest)

    async def _answer(self, request: ApprovalRequest | CommandRequest) -> ApprovalAnswer:
        """The answer to `request`; the same question put to the same approver while it is open gets the same answer."""
        question = self._questions.get(self._key(request))
        if question is None:
            question = _Question(self._ask(request), lambda over: self._forget(request, over))
            self._questions[self._key(request)] = question
        return await question.answer()

    def _key(self, request: ApprovalRequest | CommandRequest) -> _QuestionKey:
        """An event loop cannot wait for a question of another one, and a question is for one approver and approval."""
        import asyncio

        return asyncio.get_running_loop(), id(self._approver), _agreed(request)

    def _forget(self, request: ApprovalRequest | CommandRequest, question: _Question) -> None:
        """Forget a question that is answered or given up; the next request asks again."""
        key = self._key(request)
        if self._questions.get(key) is question:
            del self._questions[key]

    async def _ask(self, request: ApprovalRequest | CommandRequest) -> ApprovalAnswer:
        try:
            answer = await self._put(request)
        except ApprovalRejected:
            raise
        except Exception as error:
            raise ApprovalRejected(
                f"asking about {_subject(request)} failed: {error}", hint="fix the approver, then try again"
            ) from error
        await self._remember(request, answer)
        return answer

    async def _put(self, request: ApprovalRequest | CommandRequest) -> ApprovalAnswer:
        """Put the question to who can answer it."""
        approver: Any = self._approver
        if isinstance(request, ApprovalRequest):
            ask, about = getattr(approver, "ask", None), {"skill": request.skill_id}
            command = approving_command(request, self.store)
            hint = f"a person can run `{command}`, or a program give an approver; then call this again"
            if request.reason:
                hint = f"{request.reason}; after reading it a person can run `skillyard approvals approve`"
        else:
            ask, about = getattr(approver, "ask_command", None), {}
            hint = "do it another way, or write an 'allow' rule for it in [permissions.commands] of skillyard.toml"
        if ask is None:
            by = "" if isinstance(request, ApprovalRequest) else f" by {request.ruling.decider}"
            raise ApprovalRejected(f"{_subject(request)} needs approval{by} and there is nobody to ask", hint=hint, **about)
        answer: ApprovalAnswer = await ask(request)
        return answer

    async def _remember(self, request: ApprovalRequest | CommandRequest, answer: ApprovalAnswer) -> None:
        import asyncio

        if answer.decision == "session":
            if self._shared is None:
                self._session.add(_agreed(request))
            else:
                await asyncio.to_thread(self._shared.add, *_agreed(request))
        if answer.decision == "workspace" and isinstance(request, ApprovalRequest):
            await asyncio.to_thread(self.store.add, request.skill_id, request.digest)
        if answer.decision in ("session", "workspace"):
            self._answer_alike(request, answer)

    def _answer_alike(self, request: ApprovalRequest | CommandRequest, answer: ApprovalAnswer) -> None:
        """Answer other open questions about the same content: of this session, or all for the workspace."""
        own_key = self._key(request)
        for key, question in list(self._questions.items()):
            loop, _, (session, *content) = key
            alike = session == request.session_id or answer.decision == "workspace"
            if loop is own_key[0] and key != own_key and alike and content == [request.skill_id, request.digest]:
                question.resolve(answer)


class _Question:
    """One question for all who wait for its answer; cancelled when nobody waits any longer."""

    def __init__(self, asking: Coroutine[object, object, ApprovalAnswer], forget: Callable[[_Question], object]) -> None:
        import asyncio

        self._forget = forget
        self._waiting = 0
        self._answered: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(asking)
        self._task.add_done_callback(self._finish)

    async def answer(self) -> ApprovalAnswer:
        """Wait for the answer; several may wait."""
        import asyncio

        self._waiting += 1
        try:
            return await asyncio.shield(self._answered)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._forget(self)
                self._task.cancel()

    def resolve(self, answer: ApprovalAnswer) -> None:
        """Set `answer`, which was given elsewhere, and cancel the question."""
        if not self._answered.done():
            self._answered.set_result(answer)
        self._task.cancel()

    def _finish(self, task: asyncio.Future[ApprovalAnswer]) -> None:
        self._forget(self)
        error = None if task.cancelled() else task.exception()
        if self._answered.done():
            return
        if task.cancelled():
            self._answered.cancel()
        elif error is not None:
            self._answered.set_exception(error)
        else:
            self._answered.set_result(task.result())


def approving_command(request: ApprovalRequest, store: ApprovalStore) -> str:
    """The command with which a person agrees to a skill where `store` keeps it, with the folder of skills that was named."""
    from shlex import quote

    name = request.skill_name if is_label(request.skill_name) else request.skill_id
    words = ["skillyard", "approvals", "approve", quote(name)]
    if request.directory and request.skill_id.startswith("config:"):
        words += ["--root", quote(str(PurePath(request.directory).parent))]
    if isinstance(store, SqlApprovalStore) and store.workspace:
        words += ["--project", quote(store.workspace)]
    return " ".join(words)


def _agreed(request: ApprovalRequest | CommandRequest) -> _Agreed:
    return request.session_id, request.skill_id, request.digest


def _request(skill: Skill, digest: str, session: str, message_id: str | None, call_id: str | None) -> ApprovalRequest:
    return ApprovalRequest(
        skill_id=skill.id,
        skill_name=skill.label,
        digest=digest,
        session_id=session,
        message_id=message_id,
        call_id=call_id,
        directory=skill.location,
        description=shorten(single_line(skill.description), DESCRIPTION_LIMIT),
    )


def _subject(request: ApprovalRequest | CommandRequest) -> str:
    return f"the skill {request.skill_name!r}" if isinstance(request, ApprovalRequest) else f"this call of {request.tool}"


def _rejected_command(request: CommandRequest, answer: ApprovalAnswer) -> ApprovalRejected:
    why = f": {single_line(answer.reason)}" if answer.reason else ""
    return ApprovalRejected(
        f"this call of {request.tool} was not approved{why}",
        hint="do it another way, or ask the user what to do instead",
        reason=answer.reason,
    )


def _rejected(request: ApprovalRequest, answer: ApprovalAnswer) -> ApprovalRejected:
    why = f": {single_line(answer.reason)}" if answer.reason else ""
    return ApprovalRejected(
        f"the skill {request.skill_name!r} was not approved{why}",
        hint="do the task without this skill, or ask the user what to do instead",
        skill=request.skill_id,
        reason=answer.reason,
    )


@dataclass(frozen=True, slots=True)
class SqlApprovalStore:
    """Approvals in the table `approvals`; `database` gives it, opened, when the first question needs it.

    Raises, from every method:
        DatabaseUnavailable: the database cannot be used; nothing is approved by that.
    """

    database: Callable[[], Database]
    workspace: str

    def has(self, skill_id: str, digest: str) -> bool:
        """Whether the skill with exactly this content is approved here."""
        return any(kept.digest == digest for kept in self._table().find(self.workspace, skill_id))

    def approved(self) -> tuple[ApprovalRecord, ...]:
        """What is approved here, by the skills' ids."""
        return self._table().find(self.workspace)

    def everywhere(self) -> tuple[ApprovalRecord, ...]:
        """What is approved in any workspace, by workspace and skill."""
        return self._table().find()

    def add(self, skill_id: str, digest: str) -> None:
        """Approve the skill with this content, instead of any earlier content of it."""
        self._table().put(ApprovalRecord(self.workspace, skill_id, digest, utc_now()))

    def remove(self, skill_id: str) -> bool:
        """Revoke the skill's approval; False when there was none."""
        return self._table().remove(self.workspace, skill_id)

    def _table(self) -> ApprovalTable:
        from skillyard.permissions.approval_tables import ApprovalTable  # it imports SQLAlchemy: only when there is a question

        return ApprovalTable(self.database())
