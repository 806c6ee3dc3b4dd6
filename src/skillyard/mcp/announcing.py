"""Telling clients that the skills have changed, in both generations of the protocol."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from mcp.server.session import ServerSession

__all__ = ["Announcer"]

_log = logging.getLogger(__name__)


class Announcer:
    """Publishes to clients that listen (2026-07-28 and later), and notifies the connection of an older one."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self._older: ServerSession | None = None

    def meet(self, session: ServerSession) -> None:
        """Remember the connection of a client that cannot listen, so that it can be told."""
        if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._older = session

    async def announce(self, updated: Sequence[str] = ()) -> None:
        """Say that tools and resources are others now, and that the resources `updated` have new content."""
        await self.bus.publish(ToolsListChanged())
        await self.bus.publish(ResourcesListChanged())
        for uri in updated:
            await self.bus.publish(ResourceUpdated(uri=uri))
        if self._older is not None:
            await self._older.send_tool_list_changed()
            await self._older.send_resource_list_changed()
