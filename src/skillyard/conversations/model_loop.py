"""One turn with a model: ask it, do the calls it makes, answer it, until it is done; every step is bounded and recorded.

A response is recorded before any of its calls is executed, and each result before the next request. So whatever cuts a
turn off, its messages are recorded, and nothing is executed twice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import BinaryContent, ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RunUsage

from skillyard.conversations.conversation import TurnEvent, event_time
from skillyard.conversations.conversation_tools import ApprovalDecision, decision_in_context, pending_question
from skillyard.conversations.models import provider_error
from skillyard.conversations.tool_calling import (
    RequestedCall,
    any_pictures,
    limit_pictures,
    read_pictures,
    response_text,
    write_pictures,
)
from skillyard.conversations.turn_reporter import report_output
from skillyard.errors import ModelFailed, TurnLimitExceeded
from skillyard.prompt.fence import cut_fenced
from skillyard.text import sanitize
from skillyard.tools import ToolResult
from skillyard.tracing import captures_content, is_traced
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model
    from pydantic_ai.models.instrumented import InstrumentationSettings

    from skillyard.conversations.tool_calling import ToolCallFormat


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """How far a model may go in one turn.

    `requests` to it, `calls` in one response and `calls_in_all`; `repeats` of the same call with the same result; characters of
    one `result`; seconds that its service may be silent.
    """

    requests: int = 30
    calls: int = 16
    calls_in_all: int = 100
    repeats: int = 3
    result: int = 48_000
    silence_s: float = 300


DEFAULT_TURN_LIMITS: Final = TurnLimits()
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TurnOutcome(WireForm):
    """How far a turn came: its answer, or the `questions` it waits for, by the ids of the calls.

    `refused` are the reasons of what a person has refused in the turn, by the digests of the contents.
    """

    answer: str = field(default="", metadata=wire(hidden=True))
    questions: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    calls: Sequence[RequestedCall] = field(default=(), metadata=wire(name="wanted"))
    answers: Mapping[str, str] = field(default_factory=dict)
    pictures: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    refused: Mapping[str, str | None] = field(default_factory=dict)
    decided: Mapping[str, object] = field(default_factory=dict, init=False)
    """For the answers to the questions, in what is kept to continue from."""


@dataclass(slots=True)
class ModelLoop:
    """The work on one turn; `messages` are those of the turn, after the `history`, `refused` as a `TurnOutcome` has it."""

    model: Model
    form: ToolCallFormat
    fixed: str
    moving: str
    history: Sequence[ModelMessage]
    messages: list[ModelMessage]
    session: str
    turn_id: str
    show: Callable[[TurnEvent], Awaitable[None]]
    note: Callable[[], Awaitable[None]]
    done: Callable[[RequestedCall, ToolResult, str, int], Awaitable[None]]
    settings: ModelSettings = field(default_factory=lambda: ModelSettings())
    limits: TurnLimits = DEFAULT_TURN_LIMITS
    pictures: bool = True
    usage: RunUsage = field(default_factory=RunUsage)
    partial: str = ""
    refused: dict[str, str | None] = field(default_factory=dict)
    _seen: Counter[str] = field(default_factory=Counter)
    _calls: int = 0
    _pictures: dict[str, list[BinaryContent]] = field(default_factory=dict)

    async def run(self) -> TurnOutcome:
        """Continue until the model is done, or an approval is needed.

        Raises:
            ModelFailed: its service refuses, or is silent for too long.
            TurnLimitExceeded: it does not come to an end.
        """
        for _ in range(self.limits.requests):
            response, calls = self.form.received(await self._ask())
            self.messages.append(response)
            await self.note()
            if not calls:
                return TurnOutcome(answer=response_text(response))
            if (waiting := await self.answer(calls, {}, {}, {})) is not None:
                return waiting
        raise TurnLimitExceeded(
            f"the model did not finish in {self.limits.requests} requests",
            hint="ask for a smaller step, or continue with another message",
        )

    async def answer(
        self,
        calls: Sequence[RequestedCall],
        decided: Mapping[str, ApprovalDecision],
        answered: Mapping[str, str],
        pictures: Mapping[str, Sequence[Mapping[str, str]]],
    ) -> TurnOutcome | None:
        """Do the calls that are not `answered` yet, and note the results; the outcome when some of them have to wait.

        `pictures` are those of the answered ones, as an earlier outcome has them.
        """
        self._pictures = read_pictures(pictures)
        rejected = [one for one in decided.values() if one.answer.decision == "reject"]
        self.refused |= {one.digest: one.answer.reason for one in rejected}
        texts: dict[str, str] = dict(answered)
        questions: dict[str, Mapping[str, object]] = {}
        for number, call in enumerate(calls):
            if call.id in texts:
                continue
            result, text = await self._perform(call, number, decided.get(call.id))
            if (question := pending_question(result)) is not None:
                questions[call.id] = question
                await self.show(TurnEvent("ask", {"id": call.id, "at": event_time(), "question": question}))
            else:
                texts[call.id] = text
        if questions:
            return TurnOutcome(
                questions=questions, calls=calls, answers=texts, pictures=write_pictures(self._pictures), refused=self.refused
            )
        self.messages.append(self.form.reply([(call, texts[call.id]) for call in calls], self._pictures))
        self.messages[:] = limit_pictures(self.messages)
        await self.note()
        return None

    async def _ask(self) -> ModelResponse:
        self.partial = shown = ""
        began_at, begun = event_time(), time.monotonic()
        parameters = self.form.parameters(self.fixed, self.moving)
        try:
            async with model_request_stream(
                self.model,
                [*self.history, *self.messages],
                model_settings=self.settings,
                model_request_parameters=parameters,
                instrument=_instrumentation(),
            ) as stream:
                events = aiter(stream)
                while True:
                    try:
                        async with asyncio.timeout(self.limits.silence_s):
                            event = await anext(events)
                    except StopAsyncIteration:
                        break
                    self.partial += _written(event)
                    visible = self.form.visible(self.partial)
                    if len(visible) > len(shown):
                        await self.show(TurnEvent("text", {"delta": sanitize(visible[len(shown) :])}))
                        shown = visible
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise asyncio.CancelledError  # a stream may take being stopped for its end
                response = stream.get()
        except TimeoutError:
            raise ModelFailed("the model's service has been silent for too long", hint="try again") from None
        except Exception as error:  # each provider's library has its own; what is ours is not in here
            _log.info("a model's service failed", exc_info=error)
            pictures = any_pictures([*self.history, *self.messages])
            raise provider_error(error, self.model, pictures=pictures) from None
        self.partial = ""
        self.usage.requests += 1
        self.usage.incr(response.usage)
        request = {
            "began_at": began_at,
            "duration_ms": round((time.monotonic() - begun) * 1000),
            "input_tokens": response.usage.input_tokens,
            "output_tokens": response.usage.output_tokens,
        }
        await self.show(TurnEvent("usage", {**usage_of(self.usage), "request": request}))
        return response

    async def _perform(self, call: RequestedCall, number: int, decided: ApprovalDecision | None) -> tuple[ToolResult, str]:
        if decided is None:
            called = {"id": call.id, "at": event_time(), "tool": sanitize(call.tool)[:200], "arguments": call.shown}
            await self.show(TurnEvent("call", called))
        begun = time.monotonic()
        refused = self._refusal(call, number)
        if refused is not None:
            result, text = ToolResult(refused, ok=False, code="turn_limit", title="Too many calls"), refused
        else:
            with decision_in_context(decided, self.refused):
                async with report_output(call.id, self.show) as listener:
                    result, text = await self.form.perform(call, self.session, self.turn_id, listener)
        if pending_question(result) is not None:
            return result, text
        if self.pictures and result.images:
            self._pictures[call.id] = [BinaryContent(image.data, media_type=image.media_type) for image in result.images]
        text = cut_fenced(text, self.limits.result)
        await self.done(call, result, text, round((time.monotonic() - begun) * 1000))
        return result, text

    def _refusal(self, call: RequestedCall, number: int) -> str | None:
        """Why a call is not executed: too many calls, or the same one again and again."""
        self._calls += 1
        if number >= self.limits.calls:
            return f"At most {self.limits.calls} calls in one message are done. Call again what you still need."
        if self._calls > self.limits.calls_in_all:
            return "No more calls are done in this turn. Answer with what you have."
        same = f"{call.tool}\0{json.dumps(call.shown, sort_keys=True, default=str)}"
        self._seen[same] += 1
        if self._seen[same] > self.limits.repeats:
            return f"You have made this call {self.limits.repeats} times already. Use what it gave, or do something else."
        return None


def _instrumentation() -> InstrumentationSettings | bool:
    """How pydantic-ai reports a request: with what is said in it only where that is switched on."""
    if not is_traced():
        return False
    from pydantic_ai.models.instrumented import InstrumentationSettings

    content = captures_content()
    return InstrumentationSettings(
        include_content=content, include_binary_content=False, include_model_request_parameters=content
    )


def usage_of(usage: RunUsage) -> dict[str, int]:
    """What a turn has used, as plain data."""
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "requests": usage.requests}


def _written(event: object) -> str:
    """What an event adds to the text of a response."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""
