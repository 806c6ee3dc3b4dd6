"""Agents that use skills: a toolset for pydantic-ai, and conversations that are kept.

    agent = Agent("openai:gpt-5", toolsets=[SkillToolset(Catalog.discover())])

    chat = Chat(catalog)
    conversation = await chat.begin("ada", model="openai:gpt-5")
    turn = await chat.send(conversation, "How long is this text?")
    async for event in chat.events(turn): ...

It needs the extra `agent`: `pip install 'pydantic-ai-slim[anthropic,google,openai]>=1'`.
"""

from __future__ import annotations

from skillyard.agent.chat import Chat
from skillyard.agent.chat_records import ChatRecords
from skillyard.agent.conversation import Attachment, ChatSettings, Conversation, Turn, TurnState
from skillyard.agent.events import KINDS, Event, EventKind
from skillyard.agent.files import WorkFolder
from skillyard.agent.loop import Limits
from skillyard.agent.models import open_model
from skillyard.agent.providers import Choices, Provider, choices
from skillyard.agent.toolset import SkillToolset
from skillyard.agent.trail import SkillUse, Step, Trail, TrailReport

__all__ = [
    "KINDS",
    "Attachment",
    "Chat",
    "ChatRecords",
    "ChatSettings",
    "Choices",
    "Conversation",
    "Event",
    "EventKind",
    "Limits",
    "Provider",
    "SkillToolset",
    "SkillUse",
    "Step",
    "Trail",
    "TrailReport",
    "Turn",
    "TurnState",
    "WorkFolder",
    "choices",
    "open_model",
]
