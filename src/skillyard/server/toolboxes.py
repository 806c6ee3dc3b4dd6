"""The tools of each caller: they remember what a conversation has loaded, so they are kept from one request to the next."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from skillyard.server.questions import nobody

if TYPE_CHECKING:
    from skillyard.library import Catalog
    from skillyard.tools import Language, SkillTools

__all__ = ["Toolboxes"]

_KEPT: Final = 64


class Toolboxes:
    """Gives the tools of a caller; of those that were not used for the longest time the sessions are forgotten."""

    def __init__(self) -> None:
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
                    approver=nobody(),
                    engine=catalog.engine(),
                    language=language,
                    context={"userId": owner},
                )
                self._kept[key] = tools
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return tools
