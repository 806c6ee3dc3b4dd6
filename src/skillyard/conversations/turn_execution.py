"""The execution of one turn: build its context, let the model loop run, keep files, usage and memory, record how it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RunUsage

from skillyard.concurrency import completed
from skillyard.conversations.conversation import TurnEvent, condense_events
from skillyard.conversations.conversation_tools import ApprovalDecision
from skillyard.conversations.model_context import (
    KEPT_TURNS,
    build_history,
    build_turn_prompt,
    compacted_summary,
    dump_messages,
    load_messages,
    recall_memories,
    summarise,
    transcript,
    user_message,
)
from skillyard.conversations.model_loop import ModelLoop, TurnLimits, TurnOutcome, usage_of
from skillyard.conversations.skill_usage import SkillUsageEvent
from skillyard.conversations.tool_calling import MOST_PICTURE_BYTES, RequestedCall, call_format_for, limit_pictures
from skillyard.conversations.turn_reporter import TurnReporter, turn_span
from skillyard.errors import ConversationBusy, SkillyardError
from skillyard.permissions import ApprovalAnswer
from skillyard.prompt import count_tokens
from skillyard.text import sanitize, single_line
from skillyard.tools.reading_tools import render_skill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.models import Model

    from skillyard.conversations.conversation import Attachment, Conversation, LiveTurn, Turn
    from skillyard.conversations.conversation_store import ConversationStore
    from skillyard.conversations.conversation_tools import ConversationTools
    from skillyard.conversations.model_context import SlashCommand
    from skillyard.conversations.skill_usage import SkillUsageLog
    from skillyard.conversations.work_folder import WorkFolder
    from skillyard.library import Catalog


_log = logging.getLogger(__name__)
_NAMED: Final = 5


class TurnStopped(Exception):  # nothing went wrong
    """The stop of the turn was requested in another process."""


@dataclass(slots=True)
class TurnExecution:
    """Everything that the work on one turn of a conversation needs."""

    conversation: Conversation
    turn: Turn
    earlier: Sequence[Turn]
    model: Model
    tools: ConversationTools
    live: LiveTurn
    records: ConversationStore
    usage_log: SkillUsageLog
    folder: WorkFolder
    catalog: Catalog
    limits: TurnLimits
    command: SlashCommand | None = None
    messages: list[ModelMessage] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=dict)
    loop: ModelLoop | None = None
    files: Sequence[Attachment] = ()
    _spent: RunUsage = field(default_factory=RunUsage)
    _unsaved: bool = False  # whether it was said that files could not be saved, and is still so
    _reporter: TurnReporter = field(init=False)

    def __post_init__(self) -> None:
        self._reporter = TurnReporter(self.conversation.id, self.turn.id, self.tools, self.live, self.usage_log, self.folder)

    async def begin(self) -> None:
        """Execute a new turn to its end; raises only when it is cancelled at the end of the program."""
        await self._guarded(self._begin())

    async def resume(self, pending: Mapping[str, Any]) -> None:
        """Continue a turn whose questions are answered."""
        await self._guarded(self._resume(pending))

    async def _begin(self) -> TurnOutcome:
        await self.live.show(
            TurnEvent("begin", {"turn": self.turn.id, "conversation": self.conversation.id, "model": self.turn.model})
        )
        await self._bring()
        for file in self.files:
            await self._reporter.file(file)
        await self._reporter.look()
        self.memory = dict(self.conversation.memory)
        await self._make_room()
        loop = await self._loop()
        request = self.command.text if self.command else self.turn.request
        prepared = await self.tools.skill_tools.preprocess(
            self.turn.request, session=self.conversation.id, message_id=self.turn.id
        )
        for item in prepared:
            await self._reporter.record_usage(
                "run", item.skill.id, item.run.run_id, ok=item.run.ok, duration_ms=item.run.duration_ms
            )
        given = user_message(request, prepared, files=[file.name for file in self.files])
        self.messages.append(ModelRequest(parts=[UserPromptPart(given)]))
        if self.command is not None:
            await self._started(self.command)
        await self._note()
        return await loop.run()

    async def _resume(self, pending: Mapping[str, Any]) -> TurnOutcome:
        await self._bring()
        self.memory = dict(self.conversation.memory)
        self.messages = load_messages(self.turn.messages)
        self._spent = RunUsage(**self.turn.usage or {})
        loop = await self._loop()
        loop.refused.update(pending.get("refused") or {})
        decided = {
            call: ApprovalDecision(ApprovalAnswer(it["decision"], it.get("reason")), it["digest"])
            for call, it in pending["decided"].items()
        }
        calls = [RequestedCall.read(call) for call in pending["wanted"]]
        waiting = await loop.answer(calls, decided, pending["answers"], pending.get("pictures") or {})
        return waiting if waiting is not None else await loop.run()

    async def _loop(self) -> ModelLoop:
        conversation, settings = self.conversation, self.conversation.settings
        changes = await asyncio.to_thread(self.tools.refresh)
        for change in (*changes, *await self.tools.show_workspace()):
            await self.live.show(TurnEvent("notice", {"text": change}))
        memories = await recall_memories(self.catalog.memory(), self.turn.request, conversation.owner)
        files = await asyncio.to_thread(self.folder.list)
        prompt = await build_turn_prompt(
            self.tools.skill_tools,
            settings,
            self.turn.request,
            conversation.id,
            files=files,
            memories=memories,
            changes=changes,
        )
        offered = prompt.index.added if prompt.index.turn > 1 else (*prompt.index.kept, *prompt.index.shortened)
        share = prompt.index.tokens // max(1, len(prompt.index.lines))
        steps = [SkillUsageEvent(conversation.id, self.turn.id, "offered", skill, tokens=share) for skill in offered]
        await asyncio.to_thread(self.usage_log.add, steps)
        self.loop = ModelLoop(
            model=self.model,
            form=call_format_for(self.tools.skill_tools, functions=settings.tools),
            fixed=prompt.fixed,
            moving=prompt.moving,
            history=limit_pictures(build_history(self.earlier, self.memory), MOST_PICTURE_BYTES if settings.pictures else 0),
            messages=self.messages,
            session=conversation.id,
            turn_id=self.turn.id,
            show=self.live.show,
            note=self._note,
            done=self._reporter.result,
            settings=ModelSettings(temperature=settings.temperature) if settings.temperature is not None else ModelSettings(),
            limits=self.limits,
            pictures=settings.pictures,
            usage=self._spent,
        )
        return self.loop

    async def _make_room(self) -> None:
        """Compact the history when it has become too long; the skills that were used come back within their budget."""
        history = build_history(self.earlier, self.memory)
        old = self.earlier[:-KEPT_TURNS]
        until = (self.memory.get("compacted") or {}).get("until", 0)
        if count_tokens(transcript(history)) <= self.conversation.settings.history_tokens or not old or old[-1].number <= until:
            return
        summary, self._spent = await summarise(self.model, build_history(old, self.memory))
        kept = transcript(build_history(self.earlier[-KEPT_TURNS:], {}))
        used = await asyncio.to_thread(lambda: [(name, self._text_of(name)) for name in self.tools.loaded()])
        still = tuple(name for name, text in used if text.partition("\n")[0] in kept)
        texts = [(name, text) for name, text in used if text and name not in still]
        text, whole = compacted_summary(summary, texts, history_tokens=self.conversation.settings.history_tokens)
        self.memory["compacted"] = {"until": old[-1].number, "text": text}
        self.tools.forget_loaded_texts((*whole, *still))
        back = f"; skills restored: {', '.join(name for name, _ in texts)}" if texts else ""
        notice = f"the beginning of the conversation was summarised{back}"
        await self.live.show(TurnEvent("notice", {"text": notice, "detail": sanitize(summary)}))

    def _text_of(self, skill_id: str) -> str:
        try:
            skill = self.tools.skill_tools.access.find(skill_id)
            files = tuple(file.name for file in skill.files())
            folder = self.tools.skill_tools.skill_folder(skill)
            return render_skill(skill, skill.document().body, files, folder=folder)
        except (SkillyardError, OSError):
            return ""

    async def _started(self, command: SlashCommand) -> None:
        """Record that a person started a skill: its text is in the conversation now."""
        skill = command.skill
        loaded = {skill.id: {"fingerprint": command.mark, "allowed_tools": list(skill.allowed_tools)}}
        self.tools.skill_tools.restore_session(self.conversation.id, {"loaded": loaded})
        await asyncio.to_thread(self.tools.note_used, skill)
        for problem in await self.tools.show_workspace():
            await self.live.show(TurnEvent("notice", {"text": problem}))
        await self._reporter.record_usage("loaded", skill.id, "started by the user", tokens=count_tokens(command.text))

    async def _note(self) -> None:
        """Record the progress of the turn.

        Raises:
            TurnStopped: its stop was requested.
        """
        await self._keep()
        usage = usage_of(self._spent)
        values = {"messages": dump_messages(self.messages), "events": condense_events(self.live.events), "usage": usage}
        if await asyncio.to_thread(lambda: self.records.note(self.turn.id, **values)):
            raise TurnStopped

    async def _guarded(self, work: Any) -> None:
        """Record how the turn ends, whatever happens; a stop that is requested from then on has no effect."""
        ending: Coroutine[Any, Any, None]
        try:
            with turn_span(self.conversation.id, self.model, self.conversation.agent) as used:
                try:
                    outcome: TurnOutcome = await work
                finally:
                    before = self.turn.usage or {}  # of a turn that goes on after an answer
                    used({name: many - before.get(name, 0) for name, many in usage_of(self._spent).items()})
        except (asyncio.CancelledError, TurnStopped):
            ending = self._ended("stopped")
        except SkillyardError as error:
            ending = self._failed(error)
        except Exception as problem:
            _log.exception("a turn failed")
            fault = SkillyardError("internal error", hint="see the log")
            ending = self._failed(fault, type(problem).__name__)
        else:
            ending = self._waiting(outcome) if outcome.questions else self._ended("done", outcome.answer)
        with suppress(asyncio.CancelledError):
            await completed(ending)

    async def _failed(self, error: SkillyardError, detail: str | None = None) -> None:
        await self.live.show(_error_event(error))
        await self._ended("failed", error=error, detail=detail)

    async def _waiting(self, outcome: TurnOutcome) -> None:
        await self._keep()
        await self.live.settled()
        values = {"state": "waiting", "pending": outcome.to_dict(), "events": condense_events(self.live.events)}
        if await asyncio.to_thread(lambda: self.records.note(self.turn.id, **values)):
            await self._ended("stopped")  # its stop was requested before it waited
            return
        await self._keep_memory()
        await self.live.show(TurnEvent("end", {"state": "waiting", "answer": ""}))

    async def _ended(
        self, state: Any, answer: str = "", *, error: SkillyardError | None = None, detail: str | None = None
    ) -> None:
        await self._keep()
        await self.live.settled()
        partial = self.loop.partial if self.loop else ""
        if partial and state != "done":
            self.messages.append(ModelResponse(parts=[TextPart(partial)]))
            answer = self.loop.form.visible(partial) if self.loop else partial
        usage = usage_of(self._spent)
        values: dict[str, Any] = {"state": state, "answer": sanitize(answer), "finished_at": datetime.now(UTC), "usage": usage}
        values |= {"messages": dump_messages(self.messages), "events": condense_events(self.live.events)}
        if error is not None:
            values |= {"error_code": error.code, "error_message": error.message}
        if state == "stopped":
            values["pending"] = None  # it may have been about to wait
        spent = usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
        ended = datetime.now(UTC) - self.turn.created_at
        steps = [
            SkillUsageEvent(
                self.conversation.id, self.turn.id, "outcome", skill, detail or state, ok=state == "done", tokens=spent,
                duration_ms=round(ended.total_seconds() * 1000),
            )
            for skill in sorted(self._reporter.used)
        ]  # fmt: skip
        try:
            await asyncio.to_thread(lambda: self.records.note(self.turn.id, **values))
            await asyncio.to_thread(self.usage_log.add, steps)
            await self._keep_memory()
        except SkillyardError:
            _log.exception("how a turn ended could not be written down")
        await self.live.show(TurnEvent("end", {"state": state, "answer": values["answer"]}))

    async def _bring(self) -> None:
        """Bring the files that another machine has saved."""
        brought = await asyncio.to_thread(self.folder.bring)
        if brought is not None and brought.missing:
            names = ", ".join(single_line(name)[:80] for name in brought.missing[:_NAMED])
            text = f"{len(brought.missing)} files of the conversation are not in the store any more: {names}"
            await self.live.show(TurnEvent("notice", {"text": text}))

    async def _keep(self) -> None:
        """Save the files, for a turn that works at another machine; the next step tries again what could not be saved."""
        try:
            await asyncio.to_thread(self.folder.keep)
        except SkillyardError as error:
            _log.warning("the files of %s could not be saved: %s", self.conversation.id, error)
            if isinstance(error, ConversationBusy) or self._unsaved:
                return
            self._unsaved = True
            text = f"the files could not be saved for other machines: {error.message}"
            await self.live.show(TurnEvent("notice", {"text": text}))
        else:
            self._unsaved = False

    async def _keep_memory(self) -> None:
        memory = self.memory | self.tools.memory()
        await asyncio.to_thread(lambda: self.records.change(self.conversation.id, memory=memory))


def _error_event(error: SkillyardError) -> TurnEvent:
    """The error event of a turn that failed, with the message of the model's service, if there is one."""
    service_message = {"said": error.details["said"]} if "said" in error.details else {}
    return TurnEvent("error", {"code": error.code, "message": error.message, "hint": error.hint, **service_message})
