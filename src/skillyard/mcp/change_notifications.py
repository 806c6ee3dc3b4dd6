"""Notifying clients that the skills have changed, in both generations of the protocol."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, get_args

import anyio
from mcp import types
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from skillyard.errors import InvalidInput
from skillyard.mcp.published_skills import PublishedSkills

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession

    from skillyard.catalog import Skill


_KEPT: Final = 4096  # connections of older clients; the least recently used is forgotten first
_WATCHED: Final = 1000  # addresses that one connection may subscribe to
_LONGEST: Final = 2000
_DISCONNECTED: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)
_LEVELS: Final[tuple[str, ...]] = get_args(types.LoggingLevel)
"""From the least to the gravest, as the protocol lists them."""


@dataclass(slots=True)
class _LegacyConnection:
    """The connection of a client that cannot listen: the addresses it watches, and from which level on it wants messages."""

    session: ServerSession
    watched: set[str] = field(default_factory=set)
    level: types.LoggingLevel | None = None

    def wants(self, level: types.LoggingLevel) -> bool:
        return self.level is not None and _LEVELS.index(level) >= _LEVELS.index(self.level)


class ChangeAnnouncer:
    """Publishes to clients that listen (2026-07-28 and later), and notifies the connections of older ones."""

    def __init__(self, announced: tuple[Skill, ...] = ()) -> None:
        self.bus = InMemorySubscriptionBus()
        self._announced = announced
        self._older: OrderedDict[str, _LegacyConnection] = OrderedDict()

    def remember_connection(self, context: ServerRequestContext[Any, Any]) -> None:
        """Remember the connection of a client that cannot listen, so that it can be notified."""
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._connection(context)

    def subscribe(self, context: ServerRequestContext[Any, Any], uri: str) -> None:
        """Notify this client when what is at an address changes; the skill there need not exist yet.

        Raises:
            InvalidInput: it watches too many already, or that is no address.
        """
        if len(uri) > _LONGEST:
            raise InvalidInput(f"an address has at most {_LONGEST} characters", hint="list the resources to see theirs")
        watched = self._connection(context).watched
        if len(watched) >= _WATCHED and uri not in watched:
            raise InvalidInput(f"a client may watch {_WATCHED} addresses", hint="unsubscribe from some")
        watched.add(uri)

    def unsubscribe(self, context: ServerRequestContext[Any, Any], uri: str) -> None:
        """Stop notifying this client of that address."""
        self._connection(context).watched.discard(uri)

    def set_level(self, context: ServerRequestContext[Any, Any], level: types.LoggingLevel) -> None:
        """Send this client messages of that level and graver ones; clients that never set a level get none."""
        self._connection(context).level = level

    async def announce_changes(self, offered: tuple[Skill, ...]) -> None:
        """Announce what is different since the last time, whoever scanned the folders; else do nothing."""
        before, self._announced = self._announced, offered
        if before is offered or before == offered:
            return
        earlier, now = {skill.id: skill for skill in before}, {skill.id: skill for skill in offered}
        changed = [one for one in PublishedSkills(offered) if earlier.get(one.skill.id, one.skill) != one.skill]
        for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
            await self.bus.publish(event)
        for published in changed:
            await self.bus.publish(ResourceUpdated(uri=published.uri))
        other = {skill_id for skill_id in earlier.keys() | now.keys() if earlier.get(skill_id) != now.get(skill_id)}
        both = (*PublishedSkills(before), *PublishedSkills(offered))
        await self._notify({one.address() for one in both if one.skill.id in other})
        await self.log("info", {"changed": sorted(other)})

    async def log(self, level: types.LoggingLevel, data: object) -> None:
        """Send a message to the older clients that set such a level."""
        params = types.LoggingMessageNotificationParams(level=level, logger="skillyard", data=data)
        for name, older in list(self._older.items()):
            if older.wants(level):
                with self._forgotten(name):
                    await older.session.send_notification(types.LoggingMessageNotification(params=params))

    async def _notify(self, folders: set[str]) -> None:
        """Notify older clients that the lists changed, and of each address they watch below these folders of skills."""
        for name, older in list(self._older.items()):
            with self._forgotten(name):
                await older.session.send_tool_list_changed()
                await older.session.send_prompt_list_changed()
                await older.session.send_resource_list_changed()
                for uri in sorted(older.watched):
                    if any(uri.startswith(f"{folder}/") for folder in folders):
                        await older.session.send_resource_updated(uri)

    def _connection(self, context: ServerRequestContext[Any, Any]) -> _LegacyConnection:
        """The connection of an older client.

        One over HTTP is identified by its session; the one of standard input and output has none.
        """
        headers = getattr(context.request, "headers", {})
        name = headers.get("mcp-session-id", "")
        older = self._older.setdefault(name, _LegacyConnection(context.session))
        older.session = context.session
        self._older.move_to_end(name)
        while len(self._older) > _KEPT:
            self._older.popitem(last=False)
        return older

    @contextlib.contextmanager
    def _forgotten(self, name: str) -> Iterator[None]:
        """Forget a connection whose session has ended."""
        try:
            yield
        except _DISCONNECTED:
            self._older.pop(name, None)
