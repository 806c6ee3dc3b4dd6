"""Calls of tools in the messages to a model: as functions of its API, or as blocks in text; and their pictures.

Where the API has no functions, calls are blocks in text. Pictures that tools give are sent after the results they belong to,
within a bound of bytes.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic_ai.messages import (
    BinaryContent,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from skillyard.execution.run import new_id
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from skillyard.execution import AbpCall
    from skillyard.tools import SkillTools, ToolResult
    from skillyard.workspace import CommandListener


MOST_PICTURE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of pictures that the messages of one turn keep, and as many those of all earlier turns together."""

_REPLACED: Final = "[A picture was here, which is not sent any more. Read its file again to see it.]"


def picture_content(calls: Iterable[tuple[str, str]], pictures: Mapping[str, Sequence[BinaryContent]]) -> list[UserContent]:
    """What a user message has after the results of these calls (id and tool); `pictures` are by the ids of calls."""
    content: list[UserContent] = []
    for call_id, tool in calls:
        if given := pictures.get(call_id):
            content += [f"What {tool[:64]} gave as pictures, as data:", *given]
    return content


def limit_pictures(messages: Sequence[ModelMessage], most: int = MOST_PICTURE_BYTES) -> list[ModelMessage]:
    """The messages with at most that many bytes of pictures, the newest; a sentence is in the place of each other one."""
    room, limited = most, list(messages)
    for index in range(len(limited) - 1, -1, -1):
        message = limited[index]
        if not isinstance(message, ModelRequest) or not _has_pictures(message):
            continue
        parts: list[Any] = list(message.parts)
        for at, part in enumerate(parts):
            if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
                content: list[UserContent] = []
                for item in part.content:
                    if isinstance(item, BinaryContent):
                        kept = len(item.data) <= room
                        room -= len(item.data) if kept else room  # nothing older comes after a gap
                        content.append(item if kept else _REPLACED)
                    else:
                        content.append(item)
                parts[at] = replace(part, content=content)
        limited[index] = replace(message, parts=parts)
    return limited


def any_pictures(messages: Sequence[ModelMessage]) -> bool:
    """Whether a picture is among the messages."""
    return any(isinstance(message, ModelRequest) and _has_pictures(message) for message in messages)


def _has_pictures(message: ModelRequest) -> bool:
    contents = [
        part.content for part in message.parts if isinstance(part, UserPromptPart) and not isinstance(part.content, str)
    ]
    return any(isinstance(item, BinaryContent) for content in contents for item in content)


def text_of_content(content: object) -> str:
    """The content of a part as text, without the bytes of pictures."""
    if isinstance(content, (list, tuple)):
        return " ".join("[picture]" if isinstance(item, BinaryContent) else str(item) for item in content)
    return str(content)


def write_pictures(pictures: Mapping[str, Sequence[BinaryContent]]) -> dict[str, list[dict[str, str]]]:
    """Pictures by the ids of calls as plain data, for a turn that waits."""
    return {
        call: [{"media_type": item.media_type, "data": base64.b64encode(item.data).decode()} for item in given]
        for call, given in pictures.items()
    }


def read_pictures(values: Mapping[str, Sequence[Mapping[str, str]]]) -> dict[str, list[BinaryContent]]:
    """The pictures that `write_pictures` wrote."""
    return {
        call: [BinaryContent(base64.b64decode(item["data"]), media_type=item["media_type"]) for item in given]
        for call, given in values.items()
    }


_NOT_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME: Final = 64
_LONGEST: Final = 100_000
_SHOWN: Final = 2_000
_MARKER: Final = "[[ABP_"


@dataclass(frozen=True, slots=True)
class RequestedCall(WireForm):
    """One call that a model requests; `block` is the call where it was written in text."""

    id: str
    tool: str
    arguments: Mapping[str, Any] | str | None
    block: AbpCall | None = None

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> RequestedCall:
        """The call that `to_dict` wrote."""
        from skillyard.execution import AbpCall

        block = AbpCall(**values["block"]) if values.get("block") else None
        return cls(values["id"], values["tool"], values["arguments"], block)

    @property
    def shown(self) -> object:
        """The arguments as they may be shown: as an object where they are one, else as they were written."""
        if isinstance(self.arguments, Mapping):
            return dict(self.arguments)
        parsed = _object(self.arguments)
        return str(self.arguments)[:_SHOWN] if "unreadable" in parsed else parsed


class ToolCallFormat(Protocol):
    """How calls are offered, parsed and answered."""

    def parameters(self, fixed: str, moving: str) -> ModelRequestParameters:
        """What goes with each request: the tools, and the system prompt with its moving part last."""

    def received(self, response: ModelResponse) -> tuple[ModelResponse, list[RequestedCall]]:
        """The response as it may stand in the history, and the calls in it."""

    async def perform(
        self, call: RequestedCall, session: str, message_id: str, listener: CommandListener
    ) -> tuple[ToolResult, str]:
        """Execute one call; the result, and the text for the model. `listener` gets what a command writes meanwhile."""

    def reply(
        self, answers: Sequence[tuple[RequestedCall, str]], pictures: Mapping[str, Sequence[BinaryContent]]
    ) -> ModelRequest:
        """The answers to all calls of a response, and after them their `pictures`, by the ids of calls."""

    def visible(self, text: str) -> str:
        """How much of a text that is still being written may be shown."""


def call_format_for(tools: SkillTools, *, functions: bool) -> ToolCallFormat:
    """The format for a conversation."""
    return FunctionCallFormat(tools) if functions else TextCallFormat(tools)


def _instructions(fixed: str, moving: str) -> list[InstructionPart]:
    parts = [InstructionPart(fixed), InstructionPart(moving, dynamic=True)]
    return [part for part in parts if part.content.strip()]


@dataclass(frozen=True, slots=True)
class FunctionCallFormat:
    """Tools as functions of the model's API."""

    tools: SkillTools

    def parameters(self, fixed: str, moving: str) -> ModelRequestParameters:
        """The offered tools, those that skills declare among them."""
        shapes = [shape["function"] for shape in self.tools.definitions("openai", abp_tools=True, index=False)]
        functions = [
            ToolDefinition(
                name=shape["name"],
                description=shape["description"],
                parameters_json_schema=shape["parameters"],
                strict=False,  # what a script takes is open, and a strict schema is closed
            )
            for shape in shapes
        ]
        return ModelRequestParameters(function_tools=functions, instruction_parts=_instructions(fixed, moving))

    def received(self, response: ModelResponse) -> tuple[ModelResponse, list[RequestedCall]]:
        """The response with calls that every API takes back: names, ids and arguments fixed where they were none."""
        calls: list[RequestedCall] = []
        parts: list[Any] = []
        for part in response.parts:
            if not isinstance(part, ToolCallPart):
                parts.append(part)
                continue
            call_ids = {call.id for call in calls}
            identity = part.tool_call_id if part.tool_call_id and part.tool_call_id not in call_ids else new_id("call")
            calls.append(RequestedCall(identity, part.tool_name, part.args))
            fixed: Any = part
            parts.append(replace(fixed, tool_name=_api_name(part.tool_name), args=_object(part.args), tool_call_id=identity))
        return replace(response, parts=parts), calls

    async def perform(
        self, call: RequestedCall, session: str, message_id: str, listener: CommandListener
    ) -> tuple[ToolResult, str]:
        """Call the tool."""
        result = await self.tools.call(
            call.tool, call.arguments, session=session, message_id=message_id, call_id=call.id, listener=listener
        )
        return result, result.text

    def reply(
        self, answers: Sequence[tuple[RequestedCall, str]], pictures: Mapping[str, Sequence[BinaryContent]]
    ) -> ModelRequest:
        """One result for each call; pictures are a user's part, which every API takes."""
        parts: list[ModelRequestPart] = [
            ToolReturnPart(tool_name=_api_name(call.tool), content=text, tool_call_id=call.id) for call, text in answers
        ]
        shown = picture_content([(call.id, _api_name(call.tool)) for call, _ in answers], pictures)
        return ModelRequest(parts=[*parts, UserPromptPart(shown)] if shown else parts)

    def visible(self, text: str) -> str:
        """All of it."""
        return text


@dataclass(frozen=True, slots=True)
class TextCallFormat:
    """Calls as blocks in ordinary text, for models without functions."""

    tools: SkillTools

    def parameters(self, fixed: str, moving: str) -> ModelRequestParameters:
        """No functions; the format is described in the system prompt."""
        explained = "\n\n".join(filter(None, [fixed, self.tools.text_prompt()]))
        return ModelRequestParameters(instruction_parts=_instructions(explained, moving))

    def received(self, response: ModelResponse) -> tuple[ModelResponse, list[RequestedCall]]:
        """The response, and the blocks in its text; one that cannot be read is a call that fails."""
        blocks = self.tools.text_calls(response_text(response))
        readable = [RequestedCall(call.id, call.tool, call.parameters, call) for call in blocks.calls]
        wrong = [RequestedCall(new_id("call"), problem.tool or "unknown", problem.message) for problem in blocks.problems]
        only_text = [part for part in response.parts if isinstance(part, TextPart)]
        return replace(response, parts=only_text or [TextPart("")]), readable + wrong

    async def perform(
        self, call: RequestedCall, session: str, message_id: str, listener: CommandListener
    ) -> tuple[ToolResult, str]:
        """Answer the block."""
        from skillyard.tools import ToolResult

        if call.block is None:
            return ToolResult(str(call.arguments), ok=False, code="invalid_input", title="A call could not be read"), (
                f"[[ABP_RESULT:{_api_name(call.tool)}]]\nTool execution failed: {call.arguments}\n[[END_ABP_RESULT]]"
            )
        return await self.tools.answer_call(call.block, session=session, message_id=message_id, listener=listener)

    def reply(
        self, answers: Sequence[tuple[RequestedCall, str]], pictures: Mapping[str, Sequence[BinaryContent]]
    ) -> ModelRequest:
        """All results as the next message."""
        text = "\n\n".join(text for _, text in answers)
        shown = picture_content([(call.id, _api_name(call.tool)) for call, _ in answers], pictures)
        return ModelRequest(parts=[UserPromptPart([text, *shown] if shown else text)])

    def visible(self, text: str) -> str:
        """Everything before the first block, and nothing that may become one."""
        at = text.find("[[")
        if at == -1:
            return text[:-1] if text.endswith("[") else text
        rest = text[at : at + len(_MARKER)]
        return text[:at] if _MARKER.startswith(rest) or rest.startswith(_MARKER) else text


def _api_name(tool: str) -> str:
    """The name of a tool as every API takes it."""
    return _NOT_A_NAME.sub("_", tool)[:_LONGEST_NAME] or "unknown"


def response_text(response: ModelResponse) -> str:
    """The text of a response."""
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def _object(arguments: Mapping[str, Any] | str | None) -> dict[str, Any]:
    """Arguments as an object, which every API requires in a history."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"unreadable": str(arguments)[:_LONGEST]}
