"""All tool calls of one message of a model, answered as the API it came from wants them answered."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from skillyard.errors import InvalidInput

if TYPE_CHECKING:
    from skillyard.tools.results import ToolResult


class MessageCall(NamedTuple):
    """One call in a message: its id, the tool, its arguments as the model wrote them, and which API it is of."""

    id: str
    name: str
    arguments: Mapping[str, object] | str | None
    anthropic: bool


def message_calls(message: object) -> list[MessageCall]:
    """The calls of a message: of OpenAI's chat completions (`tool_calls`) or of Anthropic's (`content` with `tool_use`).

    It is the object of the client library, or the same as a dictionary.

    Raises:
        InvalidInput: it is neither.
    """
    calls, content = _of(message, "tool_calls"), _of(message, "content")
    if calls is None and _of(message, "role") is None:
        raise InvalidInput("this is no message of a model", hint="give `answer.choices[0].message`, or the answer of Anthropic")
    found = [_openai_call(call) for call in _items(calls)]
    found += [_anthropic_call(block) for block in _items(content) if _of(block, "type") == "tool_use"]
    return found


async def answer_calls(message: object, call: Callable[[MessageCall], Awaitable[ToolResult]]) -> list[dict[str, Any]]:
    """Execute the calls one after the other, and give the messages that answer them; none for a message without calls."""
    answers: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []
    for one in message_calls(message):
        result = await call(one)
        if one.anthropic:
            blocks.append(
                {"type": "tool_result", "tool_use_id": one.id, "content": list(_content(result)), "is_error": not result.ok}
            )
        else:
            answers.append({"role": "tool", "tool_call_id": one.id, "content": result.text})
    return [*answers, {"role": "user", "content": blocks}] if blocks else answers


def _openai_call(call: object) -> MessageCall:
    function = _of(call, "function") or _of(call, "custom")
    arguments = _of(function, "arguments")
    return MessageCall(str(_of(call, "id")), str(_of(function, "name")), arguments, anthropic=False)


def _anthropic_call(block: object) -> MessageCall:
    return MessageCall(str(_of(block, "id")), str(_of(block, "name")), _of(block, "input"), anthropic=True)


def _content(result: ToolResult) -> Iterator[dict[str, Any]]:
    yield {"type": "text", "text": result.text}
    for image in result.images:
        data = base64.b64encode(image.data).decode("ascii")
        yield {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": data}}


def _of(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _items(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else ()
