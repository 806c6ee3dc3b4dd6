"""What is told of the work on a turn as it goes on: to who watches, to the trail, and of files to the conversation."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from skillyard.agent.events import Event
from skillyard.agent.forms import Wanted
from skillyard.agent.trail import Step
from skillyard.errors import SkillyardError
from skillyard.prompt import count_tokens
from skillyard.text import sanitize

if TYPE_CHECKING:
    from skillyard.agent.conversation import Attachment
    from skillyard.agent.desk import Desk
    from skillyard.agent.files import WorkFolder
    from skillyard.agent.live import Live
    from skillyard.agent.trail import Trail
    from skillyard.tools import ToolResult

__all__ = ["Telling"]

_SHOWN: Final = 4_000
_NAMES: Final[Mapping[str, str]] = {
    "skill": "skill",
    "skills_load": "name",
    "read_skill_file": "skill_name",
    "run_skill": "name",
}
_EVENTS: Final[Mapping[str, Any]] = {"skill": "loaded", "skills_load": "loaded", "read_skill_file": "read"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Telling:
    """Who is told of one turn; `used` are the ids of the skills that it has had to do with so far."""

    conversation_id: str
    turn_id: str
    desk: Desk
    live: Live
    trail: Trail
    folder: WorkFolder
    used: set[str] = field(default_factory=set)

    async def result(self, call: Wanted, result: ToolResult, text: str, duration_ms: int) -> None:
        """Show and write down what a call gave."""
        skill = await asyncio.to_thread(self._skill_of, call)
        run = result.data.get("run_id")
        tokens = count_tokens(text)
        shown = {"id": call.id, "tool": sanitize(call.tool)[:200], "ok": result.ok, "title": result.title, "code": result.code}
        shown |= {"text": text[:_SHOWN], "skill": skill, "run": run, "tokens": tokens, "duration_ms": duration_ms}
        await self.live.show(Event("result", shown))
        event = _EVENTS.get(call.tool, "run" if run else None)
        if event is not None and skill is not None:
            detail = str(run or result.data.get("path") or "") or None
            cost = 0 if result.data.get("repeated") else tokens
            await self.happened(event, skill, detail, ok=result.ok, tokens=cost, duration_ms=duration_ms)
        files = result.data.get("files") if run else None
        for name in files if isinstance(files, (list, tuple)) else ():
            await self._written(str(name), str(run))

    async def _written(self, name: str, run: str) -> None:
        file = await asyncio.to_thread(lambda: self.folder.note(name, origin=run))
        if file is not None:
            await self.file(file)

    async def file(self, file: Attachment) -> None:
        """Show a file of the conversation."""
        shown = {"name": file.name, "size": file.size_bytes, "media_type": file.media_type, "origin": file.origin}
        await self.live.show(Event("file", shown))

    def _skill_of(self, call: Wanted) -> str | None:
        """The id of the skill that a call is about; it counts as used from now on."""
        given = call.block.parameters if call.block else call.arguments
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except (ValueError, RecursionError):
                return None
        named = given.get(_NAMES.get(call.tool, ""), given.get("name")) if isinstance(given, Mapping) else None
        skill = self.desk.find(named) if isinstance(named, str) and call.tool in _NAMES else None
        if skill is None or skill.status != "ok":
            return None
        self.used.add(skill.id)
        try:
            self.desk.used(skill)
        except (SkillyardError, OSError):
            _log.info("the version of %s cannot be held", skill.id, exc_info=True)
        return skill.id

    async def happened(self, event: Any, skill: str, detail: str | None, **values: Any) -> None:
        """Write into the trail what became of a skill."""
        self.used.add(skill)
        step = Step(self.conversation_id, self.turn_id, event, skill, detail, **values)
        await asyncio.to_thread(self.trail.add, [step])
