"""Telling clients that the skills have changed, in both generations of the protocol."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from skillyard.mcp.published import PublishedSkills

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession

    from skillyard.catalog import Skill

__all__ = ["Announcer"]

_KEPT: Final = 4096  # connections of older clients; who asks nothing for longest is forgotten first
_GONE: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)
_log = logging.getLogger(__name__)


class Announcer:
    """Publishes to clients that listen (2026-07-28 and later), and notifies the connections of older ones."""

    def __init__(self, told: tuple[Skill, ...] = ()) -> None:
        self.bus = InMemorySubscriptionBus()
        self._told = told
        self._older: OrderedDict[str, ServerSession] = OrderedDict()

    def meet(self, context: ServerRequestContext[Any, Any]) -> None:
        """Remember the connection of a client that cannot listen, so that it can be told.

        A connection over HTTP is known by its session, the one of standard input and output by having none.
        """
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        headers = getattr(context.request, "headers", {})
        session = headers.get("mcp-session-id", "")
        self._older[session] = context.session
        self._older.move_to_end(session)
        while len(self._older) > _KEPT:
            self._older.popitem(last=False)

    async def tell(self, offered: tuple[Skill, ...]) -> None:
        """Announce what is different since the last time, whoever has looked at the folders in between; else do nothing."""
        before, self._told = self._told, offered
        if before is offered or before == offered:
            return
        known = {skill.id: skill for skill in before}
        changed = [one for one in PublishedSkills(offered) if known.get(one.skill.id, one.skill) != one.skill]
        for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
            await self.bus.publish(event)
        for published in changed:
            await self.bus.publish(ResourceUpdated(uri=published.uri))
        await self._notify()

    async def _notify(self) -> None:
        for name, session in list(self._older.items()):
            try:
                await session.send_tool_list_changed()
                await session.send_prompt_list_changed()
                await session.send_resource_list_changed()
            except _GONE:  # that session has ended
                self._older.pop(name, None)
