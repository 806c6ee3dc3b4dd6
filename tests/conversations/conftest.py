"""A chat over the test's skills with a scripted model, and a skill of the structure that people publish for PDF forms."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog
from skillyard.conversations import Chat, ChatSettings, Conversation, Turn, TurnEvent, TurnLimits

CHECK = """\
import re, sys
data = open(sys.argv[1], "rb").read()
fields = re.findall(rb"/T \\((.*?)\\)", data)
names = ", ".join(name.decode() for name in fields)
print(f"This PDF has fillable form fields: {names}" if b"/AcroForm" in data else "No form.")
"""
FILL = """\
import sys
source, target, name = sys.argv[1:4]
open(target, "wb").write(open(source, "rb").read() + b"% name=" + name.encode() + b"\\n")
print("written", target)
"""


@dataclass
class Desk:
    """A chat with one conversation, and short ways to use it."""

    chat: Chat
    conversation: Conversation
    models: Any

    async def say(self, text: str, **options: Any) -> tuple[Turn, list[TurnEvent]]:
        turn = await self.chat.send(self.conversation, text, **options)
        return await self.watch(turn)

    async def watch(self, turn: Turn) -> tuple[Turn, list[TurnEvent]]:
        events = [event async for event in self.chat.events(turn)]
        self.conversation = await self.chat.get(self.conversation.id, self.conversation.owner)
        return await self.chat.turn(self.conversation, turn.id), events

    def results(self, events: list[TurnEvent]) -> list[dict[str, Any]]:
        return [dict(event.data) for event in events if event.kind == "result"]


@pytest.fixture(autouse=True)
def _timing(timing: Any) -> None:
    """Nothing here waits for seconds."""


@pytest.fixture
def pdf(skills_root: Path, make_skill: Callable[..., Path]) -> Path:
    return make_skill(
        skills_root,
        "pdf",
        description="Works with PDF files: reads, merges, splits them and fills in forms. Use when the user mentions a PDF.",
        body="# PDF guide\n\nTo fill in a form, read FORMS.md and do what it says.\n",
        files={
            "FORMS.md": "# Forms\n\nRun scripts/check_fillable_fields <file.pdf>, then scripts/fill.py <in> <out> <name>.\n",
            "scripts/check_fillable_fields.py": CHECK,
            "scripts/fill.py": FILL,
        },
    )


@pytest.fixture
async def open_chat(models: Any, skills_root: Path) -> AsyncIterator[Callable[..., Any]]:
    """Give a function that begins a conversation; takes `ChatSettings`, and what `Chat.begin` takes."""
    chats: list[Chat] = []

    async def open_it(
        *,
        model: str = "openai-chat:gpt-5",
        settings: ChatSettings | None = None,
        limits: TurnLimits | None = None,
        **options: Any,
    ) -> Desk:
        catalog = options.pop("catalog", None) or Catalog.discover(roots=[skills_root])
        chat = Chat(catalog, **({"limits": limits} if limits else {}))
        chats.append(chat)
        return Desk(chat, await chat.begin("ada", model=model, settings=settings, **options), models)

    yield open_it
    for chat in chats:
        await chat.close()
