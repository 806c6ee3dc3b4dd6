"""The chat of an organisation and the tool sessions of its callers, made at their first use.

The client libraries of models are not loaded before. What a tool session has loaded is kept in the database, for whichever
process is asked next.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, select

from skillyard.database import insert_or_update, tool_sessions
from skillyard.errors import InvalidInput
from skillyard.server.background.approval_questions import rejecting_approver

if TYPE_CHECKING:
    from skillyard.conversations import Chat
    from skillyard.database import Database
    from skillyard.library import Catalog
    from skillyard.tools import Language, SkillTools


class LazyChat:
    """Gives the chat over a catalog."""

    def __init__(self) -> None:
        self._chat: Chat | None = None
        self._lock = threading.Lock()

    def of(self, catalog: Catalog) -> Chat:
        """The chat; models at addresses cannot be chosen over HTTP, because the server would send requests to them.

        Raises:
            InvalidInput: what speaks to models is not installed.
        """
        with self._lock:
            if self._chat is None:
                try:
                    from skillyard.conversations import Chat
                except ImportError:
                    hint = "pip install 'pydantic-ai-slim[anthropic,google,openai]>=1'"
                    raise InvalidInput("chat is not installed here", hint=hint) from None
                self._chat = Chat(catalog, addresses=False)
            return self._chat

    @property
    def busy(self) -> bool:
        """Whether a turn is running."""
        return self._chat is not None and self._chat.busy

    async def close(self) -> None:
        """Stop every turn."""
        if self._chat is not None:
            await self._chat.close()


_KEPT: Final = 64
_LASTS: Final = timedelta(days=1)


class CallerToolSessions:
    """Gives the tools of a caller; a session that was not used for a day is forgotten. The methods block."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._kept: OrderedDict[tuple[str, Language], SkillTools] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, catalog: Catalog, owner: str, language: Language) -> SkillTools:
        """The tools of `owner` in that language; their runs are recorded with all others."""
        from skillyard.tools import SkillTools

        with self._lock:
            key = (owner, language)
            tools = self._kept.get(key)
            if tools is None:
                tools = SkillTools(
                    catalog,
                    approver=rejecting_approver(),
                    engine=catalog.engine(),
                    language=language,
                    context={"userId": owner},
                )
                self._kept[key] = tools
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return tools

    def resume_session(self, tools: SkillTools, owner: str, session: str) -> Mapping[str, Any]:
        """Let the tools know what the session has loaded through other processes, and give that."""
        table = tool_sessions.c
        query = select(table.state).where(table.owner == owner, table.name == session)
        with self._database().read() as connection:
            kept: Mapping[str, Any] = connection.execute(query).scalar() or {}
        if kept != _plain(tools.session_state(session)):
            tools.end_session(session)
            tools.restore_session(session, kept)
        return kept

    def keep(self, tools: SkillTools, owner: str, session: str, before: Mapping[str, Any]) -> None:
        """Keep what the session has loaded now, when that is something else than `before`."""
        state, now = _plain(tools.session_state(session)), datetime.now(UTC)
        if state == before or not any(state.values()):
            return
        row = {"owner": owner, "name": session, "state": state, "at": now}
        with self._database().write() as connection:
            connection.execute(delete(tool_sessions).where(tool_sessions.c.at < now - _LASTS))
            connection.execute(insert_or_update(connection, tool_sessions, row))

    def end(self, tools: SkillTools, owner: str, session: str) -> None:
        """Forget what the session loaded, and what was approved for it."""
        tools.end_session(session)
        conditions = (tool_sessions.c.owner == owner, tool_sessions.c.name == session)
        with self._database().write() as connection:
            connection.execute(delete(tool_sessions).where(*conditions))


def _plain(state: Mapping[str, object]) -> dict[str, Any]:
    """The state as the database gives it back."""
    plain: dict[str, Any] = json.loads(json.dumps(state))
    return plain
