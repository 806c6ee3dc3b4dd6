"""A conversation whose model is a script: each call of a `ScriptedModel` is the model's next response in one turn."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import BinaryContent, ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from benchmarks.acceptance.model import StepFailed
from skillyard.permissions import ApprovalAnswer
from skillyard.tools import ToolResult
from skillyard.workspace import WorkspaceImage

if TYPE_CHECKING:
    from skillyard.conversations import Chat, Conversation, Turn, TurnEvent

_STARTED = re.compile(r"\bStarted in the background as (\w+)")


@dataclass(frozen=True)
class _Received:
    """What the model is sent for a call."""

    text: str
    images: tuple[WorkspaceImage, ...]


@dataclass
class _Call:
    """One call: what the model is sent for it, and what a person who follows the turn is shown."""

    id: str
    name: str
    arguments: Mapping[str, object]
    received: asyncio.Future[_Received] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    shown: asyncio.Future[Mapping[str, Any]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class ScriptedTalk:
    """One turn: `call` is done by its model. Questions are answered with `once`, and counted in `questions`.

    `notices` are what a person who follows the turn was told.
    """

    def __init__(self) -> None:
        self.questions = 0
        self.notices: list[str] = []
        self.model = FunctionModel(stream_function=self._respond, model_name="scripted")
        self._wanted: asyncio.Queue[_Call | None] = asyncio.Queue()
        self._open: _Call | None = None
        self._count = 0
        self._following: asyncio.Task[None] | None = None

    async def begin(self, chat: Chat, conversation: Conversation, text: str) -> None:
        """Send the message that the turn is about."""
        turn = await chat.send(conversation, text)
        self._following = asyncio.create_task(self._follow(chat, conversation, turn))

    async def call(self, name: str, arguments: Mapping[str, object]) -> ToolResult:
        """Let the model call a tool; what it is answered.

        Raises:
            StepFailed: the turn ended before.
        """
        self._count += 1
        call = _Call(f"step_{self._count}", name, arguments)
        await self._wanted.put(call)
        if self._following is None:
            raise StepFailed("the turn has not begun")
        answers = asyncio.gather(call.received, call.shown)
        await asyncio.wait([answers, self._following], return_when=asyncio.FIRST_COMPLETED)
        if not answers.done():
            answers.cancel()
            await self._following
            raise StepFailed(f"the turn ended before {name} was answered")
        received, shown = answers.result()
        started = _STARTED.search(received.text)
        data = {"exit_code": shown["exit_code"]} | ({"process": started[1]} if started else {})
        return ToolResult(received.text, shown["ok"], shown["code"], shown["title"], data, received.images)

    async def end(self) -> None:
        """Let the model say that it is done, and wait until the turn has ended."""
        await self._wanted.put(None)
        if self._following is not None:
            await self._following

    def cancel(self) -> None:
        """Follow the turn no longer."""
        if self._following is not None:
            self._following.cancel()

    async def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        if self._open is not None:
            self._open.received.set_result(_received(self._open.id, messages[-1]))
        self._open = await self._wanted.get()
        if self._open is None:
            yield "Done."
            return
        call = self._open
        yield {0: DeltaToolCall(name=call.name, json_args=json.dumps(call.arguments), tool_call_id=call.id)}

    async def _follow(self, chat: Chat, conversation: Conversation, turn: Turn) -> None:
        fresh = False
        while True:
            ended: TurnEvent | None = None
            async for event in chat.events(turn, fresh=fresh):
                ended = event
                if event.kind == "result" and self._open is not None and event.data["id"] == self._open.id:
                    self._open.shown.set_result(event.data)
                elif event.kind == "notice":
                    self.notices.append(event.data["text"])
                elif event.kind == "error":
                    raise StepFailed(f"the turn failed: {event.data['message']}")
            state = ended.data["state"] if ended is not None else "unknown"
            if state != "waiting":
                if state != "done":
                    raise StepFailed(f"the turn ended as {state}")
                return
            turn, fresh = await chat.turn(conversation, turn.id), True
            for question in turn.questions:
                self.questions += 1
                turn = await chat.answer(turn, question["call"], ApprovalAnswer("once"))


def _received(call_id: str, message: ModelMessage) -> _Received:
    """The answer for a call in the newest message to the model, with the pictures that came."""
    text, images = "", []
    for part in message.parts:
        if isinstance(part, ToolReturnPart) and part.tool_call_id == call_id:
            text = str(part.content)
        elif isinstance(part, UserPromptPart) and not isinstance(part.content, str):
            images += [WorkspaceImage(it.media_type, it.data) for it in part.content if isinstance(it, BinaryContent)]
    return _Received(text, tuple(images))
