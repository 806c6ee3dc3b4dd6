"""All tool calls of one message are answered by one call, as each API wants it."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillyard import Catalog, SkillTools
from skillyard.errors import InvalidInput

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "skills"


@pytest.fixture
def tools() -> SkillTools:
    return SkillTools(Catalog.discover(roots=[EXAMPLES], cache=False))


_OPENAI = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "skills_list", "arguments": "{}"}},
        {"id": "b", "type": "function", "function": {"name": "skill", "arguments": "no JSON"}},
    ],
}
_ANTHROPIC = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "a", "name": "skills_load", "input": {"skill": "text-statistics"}},
        {"type": "tool_use", "id": "b", "name": "nothing", "input": {}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


async def test_calls_of_a_chat_completion_become_one_message_each(tools: SkillTools) -> None:
    from openai.types.chat import ChatCompletionMessage

    answered = await tools.answer(ChatCompletionMessage.model_validate(_OPENAI))
    assert [(one["role"], one["tool_call_id"]) for one in answered] == [("tool", "a"), ("tool", "b")]
    assert "text-statistics" in str(answered[0]["content"])
    assert await tools.answer(_OPENAI) == answered


async def test_calls_of_an_anthropic_message_become_one_message(tools: SkillTools) -> None:
    from anthropic.types import Message  # it takes a second to load

    answered = await tools.answer(Message.model_validate(_ANTHROPIC))
    blocks = (await tools.answer(_ANTHROPIC))[0]["content"]
    assert [one["role"] for one in answered] == ["user"]
    assert [(block["tool_use_id"], block["is_error"]) for block in blocks] == [("a", False), ("b", True)]


async def test_a_message_without_calls_ends_the_turn(tools: SkillTools) -> None:
    assert await tools.answer({"role": "assistant", "content": "Done."}) == []
    with pytest.raises(InvalidInput):
        await tools.answer({"text": "Done."})
