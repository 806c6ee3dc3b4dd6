"""Pictures that a model reads are sent to it in every wire format, within a bound, and not where they are switched off."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import BinaryContent, ModelRequest, UserPromptPart
from scripted_models import Call, Fail, Say

from skillyard.conversations import ChatSettings
from skillyard.conversations.tool_calling import any_pictures, limit_pictures, text_of_content
from skillyard.permissions import ApprovalAnswer

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
SENT = base64.b64encode(PNG).decode()
LOOK = Call("file_read", {"file_path": "dot.png"})


def _body(seen: Any) -> str:
    """What was sent; Gemini is sent the alphabet of addresses."""
    return json.dumps(seen.body).replace(SENT.replace("+", "-").replace("/", "_"), SENT)


async def _desk(open_chat: Callable[..., Any], **options: Any) -> Any:
    harness = await open_chat(**options)
    folder = Path(harness.chat.folder(harness.conversation).make())
    (folder / "dot.png").write_bytes(PNG)
    return harness


@pytest.mark.parametrize(
    "model", ["openai-chat:gpt-5", "openai:gpt-5", "anthropic:claude-sonnet-4-6", "google:gemini-2.5-flash"]
)
@pytest.mark.parametrize("tools", [True, False])
async def test_a_picture_comes_after_the_results_and_stays_in_the_history(
    open_chat: Callable[..., Any], pdf: Path, model: str, tools: bool
) -> None:
    harness = await _desk(open_chat, model=model, settings=ChatSettings(tools=tools))
    given = json.dumps({"action": "read", "parameters": LOOK.arguments})
    block = f"[[ABP_TOOL:file_read]]\n{given}\n[[END_ABP_TOOL]]"
    harness.models.script(LOOK if tools else Say(block), Say("A dot."), Say("Still a dot."))
    turn, _ = await harness.say("What is on it?")
    assert (turn.state, harness.models.faults) == ("done", [])
    await harness.say("And now?")
    first, second, third = (_body(seen) for seen in harness.models.seen)
    assert SENT not in first
    assert second.count(SENT) == third.count(SENT) == 1


async def test_a_conversation_without_pictures_is_sent_only_text(open_chat: Callable[..., Any], pdf: Path) -> None:
    harness = await _desk(open_chat, settings=ChatSettings(pictures=False))
    harness.models.script(LOOK, Say("I cannot see it."))
    turn, events = await harness.say("What is on it?")
    assert turn.state == "done"
    assert harness.results(events)[0]["ok"]
    assert not any(SENT in _body(seen) for seen in harness.models.seen)


async def test_a_service_that_refuses_pictures_is_reported_with_the_way_out(open_chat: Callable[..., Any], pdf: Path) -> None:
    harness = await _desk(open_chat)
    harness.models.script(LOOK, Fail(400, "this model does not take images"))
    turn, _ = await harness.say("What is on it?")
    assert turn.state == "failed"
    assert "pictures: false" in turn.error["hint"]
    assert "--no-pictures" in turn.error["hint"]


async def test_pictures_are_kept_while_a_turn_waits(open_chat: Callable[..., Any], pdf: Path) -> None:
    harness = await _desk(open_chat, settings=ChatSettings(tool_permissions={"bash": "ask"}))
    harness.models.script([LOOK, Call("bash", {"command": "echo"})], Say("A dot."))
    turn, _ = await harness.say("What is on it?")
    assert turn.state == "waiting"
    await harness.chat.answer(turn, turn.questions[0]["call"], ApprovalAnswer("once"))
    turn, _ = await harness.watch(turn)
    assert turn.state == "done"
    assert _body(harness.models.seen[-1]).count(SENT) == 1


def _request(*data: bytes) -> ModelRequest:
    return ModelRequest(
        parts=[UserPromptPart(["What file_read gave:", *(BinaryContent(it, media_type="image/png") for it in data)])]
    )


def test_the_newest_pictures_are_kept_and_the_others_become_a_sentence() -> None:
    messages = [_request(b"a" * 6), _request(b"b" * 3), _request(b"c" * 4)]
    old, middle, new = limit_pictures(messages, 8)
    assert [any_pictures([it]) for it in (old, middle, new)] == [False, True, True]
    assert "A picture was here" in text_of_content(old.parts[0].content)
    assert any_pictures([messages[0]]), "what was given is not changed"
    assert not any_pictures(limit_pictures(messages, 0))
    assert text_of_content(new.parts[0].content) == "What file_read gave: [picture]"
