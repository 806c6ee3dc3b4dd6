"""Conversations with models that use skills, and a toolset for pydantic-ai.

    agent = Agent("openai:gpt-5", toolsets=[SkillToolset(Catalog.discover())])

    chat = Chat(catalog)
    conversation = await chat.begin("ada", model="openai:gpt-5")
    turn = await chat.send(conversation, "How long is this text?")
    async for event in chat.events(turn): ...

It needs the extra `agent`, except for the usage of skills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.conversations.skill_usage import SkillUsageEvent, SkillUsageLog, SkillUsageReport, TurnFilter, TurnSummary
from skillyard.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from skillyard.conversations.chat import Chat
    from skillyard.conversations.conversation import Attachment, ChatSettings, Conversation, Turn, TurnEvent
    from skillyard.conversations.conversation_store import ConversationStore
    from skillyard.conversations.model_loop import TurnLimits
    from skillyard.conversations.models import available_models
    from skillyard.conversations.toolset import SkillToolset

__all__ = [
    "Attachment",
    "Chat",
    "ChatSettings",
    "Conversation",
    "ConversationStore",
    "SkillToolset",
    "SkillUsageEvent",
    "SkillUsageLog",
    "SkillUsageReport",
    "Turn",
    "TurnEvent",
    "TurnFilter",
    "TurnLimits",
    "TurnSummary",
    "available_models",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "chat": ("Chat",),
        "conversation": ("Attachment", "ChatSettings", "Conversation", "Turn", "TurnEvent"),
        "conversation_store": ("ConversationStore",),
        "model_loop": ("TurnLimits",),
        "models": ("available_models",),
        "toolset": ("SkillToolset",),
    },
)
