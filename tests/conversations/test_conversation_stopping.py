"""A turn that is stopped ends in one state and tells its end to everyone, at whatever moment it is stopped."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from scripted_models import Call, Hold, Say

from skillyard.conversations import ChatSettings
from skillyard.conversations.conversation_store import ConversationStore


class Held:
    """Holds the note that a turn has that state, after it is written, until `go` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        note = ConversationStore.note

        def held(records: ConversationStore, turn_id: str, **values: Any) -> bool:
            given = note(records, turn_id, **values)
            if values.get("state") == state:
                self.reached.set()
                assert self.go.wait(60)
            return given

        monkeypatch.setattr(ConversationStore, "note", held)

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 60)


async def _ends(harness: Any, turn: Any) -> list[str]:
    """The states that followers are told at the end."""
    async with asyncio.timeout(30):
        return [event.data["state"] async for event in harness.chat.events(turn) if event.kind == "end"]


async def test_a_turn_that_is_stopped_before_its_first_step_was_stopped(open_chat: Any) -> None:
    harness = await open_chat()
    harness.models.script(Say("Hello"))
    turn = await harness.chat.send(harness.conversation, "Hello")
    assert await harness.chat.stop(turn)
    assert (await harness.chat.turn(harness.conversation, turn.id)).state == "stopped"
    assert await _ends(harness, turn) == ["stopped"]


async def test_a_turn_that_is_stopped_while_its_end_is_written_down_is_done_and_says_so(
    open_chat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = await open_chat()
    harness.models.script(Say("Hello"))
    held = Held(monkeypatch, "done")
    turn = await harness.chat.send(harness.conversation, "Hello")
    following = asyncio.create_task(_ends(harness, turn))
    await held.wait()
    stopping = asyncio.create_task(harness.chat.stop(turn))
    for _ in range(5):
        await asyncio.sleep(0)
    held.go.set()
    await stopping
    assert await following == ["done"]
    assert (await harness.chat.turn(harness.conversation, turn.id)).state == "done"


async def test_who_stops_a_turn_twice_gets_it_stopped_once_and_whole(open_chat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = await open_chat()
    harness.models.script(Hold("Once upon a time"))
    held = Held(monkeypatch, "stopped")
    turn = await harness.chat.send(harness.conversation, "Tell me a story")
    written = ""
    async for event in harness.chat.events(turn):
        written += event.data["delta"] if event.kind == "text" else ""
        if written == "Once upon a time":
            break
    first = asyncio.create_task(harness.chat.stop(turn))
    await held.wait()
    second = asyncio.create_task(harness.chat.stop(turn))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not second.done()
    assert not first.done()
    held.go.set()
    assert [await first, await second] == [True, True]
    assert await _ends(harness, turn) == ["stopped"]
    found = await harness.chat.turn(harness.conversation, turn.id)
    assert (found.state, found.answer) == ("stopped", "Once upon a time")


async def test_a_turn_that_is_stopped_elsewhere_as_it_begins_to_wait_was_stopped(
    open_chat: Any, pdf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = await open_chat(settings=ChatSettings(permissions={"pdf": "ask"}))
    harness.models.script(Call("skill", {"skill": "pdf"}))
    note = ConversationStore.note

    def asked_before(records: ConversationStore, turn_id: str, **values: Any) -> bool:
        if values.get("state") == "waiting":
            assert records.ask_to_stop(turn_id)
        return note(records, turn_id, **values)

    monkeypatch.setattr(ConversationStore, "note", asked_before)
    turn = await harness.chat.send(harness.conversation, "Fill in the form")
    assert await _ends(harness, turn) == ["stopped"]
    found = await harness.chat.turn(harness.conversation, turn.id)
    assert (found.state, found.pending) == ("stopped", None)
