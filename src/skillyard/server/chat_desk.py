"""The conversations of one home, made when somebody first talks: what speaks to models is not loaded before."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from skillyard.errors import InvalidInput

if TYPE_CHECKING:
    from skillyard.agent import Chat
    from skillyard.library import Catalog

__all__ = ["ChatDesk"]


class ChatDesk:
    """Gives the chat over a catalog."""

    def __init__(self) -> None:
        self._chat: Chat | None = None
        self._lock = threading.Lock()

    def of(self, catalog: Catalog) -> Chat:
        """The chat; models at addresses cannot be chosen over HTTP, because the server would ask for whoever names one.

        Raises:
            InvalidInput: what speaks to models is not installed.
        """
        with self._lock:
            if self._chat is None:
                try:
                    from skillyard.agent import Chat
                except ImportError:
                    hint = "pip install 'pydantic-ai-slim[anthropic,google,openai]>=1'"
                    raise InvalidInput("chat is not installed here", hint=hint) from None
                self._chat = Chat(catalog, addresses=False)
            return self._chat

    @property
    def busy(self) -> bool:
        """Whether a turn goes on."""
        return self._chat is not None and self._chat.busy

    async def close(self) -> None:
        """Stop every turn."""
        if self._chat is not None:
            await self._chat.close()
