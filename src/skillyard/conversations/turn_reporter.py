"""What is reported of a turn while it runs: results, files and script output to who follows it, skill usage, trace spans.

The span of a turn is `invoke_agent` of OpenTelemetry's GenAI conventions, where the program has loaded it; below it are the
requests to the model (`chat`) and the calls of tools (`execute_tool`).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from skillyard.conversations.conversation import TurnEvent, event_time
from skillyard.conversations.skill_usage import SkillUsageEvent
from skillyard.conversations.tool_calling import RequestedCall
from skillyard.engine.live_output import parse_step_note
from skillyard.errors import SkillyardError
from skillyard.execution.run import MOST_STEPS
from skillyard.permissions import WORKSPACE_TOOL_NAMES
from skillyard.prompt import count_tokens
from skillyard.sandbox import listen_to_output
from skillyard.text import sanitize, shorten, single_line
from skillyard.tools.tool_arguments import named_skill
from skillyard.tracing import open_span

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from skillyard.catalog import Skill
    from skillyard.conversations.conversation import Attachment, LiveTurn
    from skillyard.conversations.conversation_tools import ConversationTools
    from skillyard.conversations.skill_usage import SkillUsageLog
    from skillyard.conversations.work_folder import WorkFolder
    from skillyard.tools import ToolResult
    from skillyard.workspace import CommandListener


@contextmanager
def turn_span(conversation_id: str, model: Model, agent: str | None) -> Iterator[Callable[[Mapping[str, int]], None]]:
    """The span of a turn; what is given is called at its end with the tokens that it used, by `input_tokens` and so on."""
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": conversation_id,
        "gen_ai.provider.name": model.system,
        "gen_ai.request.model": model.model_name,
    }
    with open_span("invoke_agent", attributes | ({"gen_ai.agent.name": agent} if agent else {})) as span:

        def used(usage: Mapping[str, int]) -> None:
            for name in ("input_tokens", "output_tokens") if span is not None else ():
                span.set_attribute(f"gen_ai.usage.{name}", usage[name])

        yield used


_GATHER_S: Final = 0.15  # what is printed closer together is reported at once
_MOST: Final = 30_000  # characters of one call that are reported; the record of the run has the rest

_Stream = Literal["stdout", "stderr"]


@asynccontextmanager
async def report_output(call_id: str, show: Callable[[TurnEvent], Awaitable[None]]) -> AsyncIterator[CommandListener]:
    """Report what everything inside the block prints, as `log` events of that call, and its steps as `step`.

    Gives the listener for what a command of a workspace writes, which is reported in the same way.
    """
    reporter = _OutputReporter(call_id, show)
    reporting = asyncio.create_task(reporter.run())
    try:
        with listen_to_output(reporter.add_output, noted=reporter.add_note):
            yield reporter.add_output
    finally:
        reporting.cancel()
        await asyncio.wait([reporting])
        await reporter.flush()


class _OutputReporter:
    """Gathers what is printed and which steps end, and reports it from time to time."""

    def __init__(self, call_id: str, show: Callable[[TurnEvent], Awaitable[None]]) -> None:
        self._call = call_id
        self._show = show
        self._gathered: list[TurnEvent] = []
        self._left = _MOST
        self._steps = 0
        self._news = asyncio.Event()

    def add_output(self, stream: _Stream, text: str) -> None:
        if self._left <= 0:
            return
        self._print(stream, text[: self._left])
        self._left -= len(text)
        if self._left <= 0:
            self._print(stream, "\n[the rest is in the record of the run, or in the answer]\n")
        self._news.set()

    def add_note(self, note: str) -> None:
        step = parse_step_note(note)
        if step is not None and self._steps < MOST_STEPS:
            self._steps += 1
            self._gathered.append(TurnEvent("step", {"id": self._call, "step": step}))
            self._news.set()

    def _print(self, stream: _Stream, text: str) -> None:
        """Add a piece of output; consecutive pieces of one stream are joined."""
        last = self._gathered[-1].data if self._gathered else {}
        if last.get("stream") == stream:
            text = self._gathered.pop().data["text"] + text
        self._gathered.append(TurnEvent("log", {"id": self._call, "stream": stream, "text": text}))

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self.flush()
            await asyncio.sleep(_GATHER_S)

    async def flush(self) -> None:
        """Report what was gathered."""
        events, self._gathered = self._gathered, []
        for event in events:
            cleaned = {"text": sanitize(event.data["text"])} if event.kind == "log" else {}
            await self._show(TurnEvent(event.kind, {**event.data, **cleaned}))


_SHOWN_CHARACTERS: Final = 4_000
_FILES_SHOWN: Final = 50  # of one call
_RULING: Final = 500  # characters
_REFUSED: Final = ("permission_denied", "approval_rejected")
_OVER_SKILLS: Final = ("skill", "skills_load", "read_skill_file", "run_skill")
_USAGE_EVENTS: Final[Mapping[str, Any]] = {"skill": "loaded", "skills_load": "loaded", "read_skill_file": "read"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TurnReporter:
    """Reports of one turn; `used` are the ids of the skills that it has used so far."""

    conversation_id: str
    turn_id: str
    tools: ConversationTools
    live: LiveTurn
    usage_log: SkillUsageLog
    folder: WorkFolder
    used: set[str] = field(default_factory=set)
    announced: dict[str, int] = field(default_factory=dict)

    async def result(self, call: RequestedCall, result: ToolResult, text: str, duration_ms: int) -> None:
        """Show and record what a call gave."""
        skill = await asyncio.to_thread(self._skill_of, call)
        run = result.data.get("run_id")
        tokens = count_tokens(text)
        shown = {"id": call.id, "tool": sanitize(call.tool)[:200], "ok": result.ok, "title": result.title, "code": result.code}
        shown |= {
            "at": event_time(),
            "text": text[:_SHOWN_CHARACTERS],
            "skill": skill,
            "run": run,
            "tokens": tokens,
            "duration_ms": duration_ms,
        }
        shown |= {"exit_code": result.data.get("exit_code"), "rule": result.data.get("rule")}
        await self.live.show(TurnEvent("result", shown))
        if result.data.get("ruling"):
            await self._record_ruling(call.tool, result)
        event = _USAGE_EVENTS.get(call.tool, "run" if run else None)
        if event is not None and skill is not None:
            detail = str(run or result.data.get("path") or "") or None
            cost = 0 if result.data.get("repeated") else tokens
            await self.record_usage(event, skill, detail, ok=result.ok, tokens=cost, duration_ms=duration_ms)
        for named in await asyncio.to_thread(self._skills_in, call) if call.tool in WORKSPACE_TOOL_NAMES else ():
            did = "run" if call.tool in ("bash", "code_run") else "read"
            await self.record_usage(did, named, call.tool, ok=result.ok, tokens=tokens, duration_ms=duration_ms)
        files = result.data.get("files") if run else None
        for name in files if isinstance(files, (list, tuple)) else ():
            await self._written(str(name), str(run))
        if call.tool in WORKSPACE_TOOL_NAMES:
            await self.look()
        for problem in await self.tools.show_workspace() if event in ("loaded", "read") and result.ok else ():
            await self.live.show(TurnEvent("notice", {"text": problem}))

    async def _written(self, name: str, run: str) -> None:
        file = await asyncio.to_thread(lambda: self.folder.note(name, origin=run))
        if file is not None:
            await self.file(file)

    async def look(self) -> None:
        """Record and show what commands have written into the folder, and what is gone."""
        if self.tools.workspace is None:
            return
        changes = await asyncio.to_thread(lambda: self.folder.look(origin=self.turn_id))
        for file in changes.written[:_FILES_SHOWN]:
            await self.file(file)
        for name in changes.removed[:_FILES_SHOWN]:
            await self.live.show(TurnEvent("file_removed", {"name": name}))
        more = changes.more + max(len(changes.written) - _FILES_SHOWN, 0) + max(len(changes.removed) - _FILES_SHOWN, 0)
        if more and more != self.announced.get("more"):
            self.announced["more"] = more
            await self.live.show(TurnEvent("notice", {"text": f"{more} more files of the workspace have changed"}))

    async def _record_ruling(self, tool: str, result: ToolResult) -> None:
        """Record which rule has decided about a call, for each skill that is followed, or for none."""
        ruling: Any = result.data["ruling"]
        detail = shorten(single_line(f"{tool}: {result.data['rule']}"), _RULING)
        followed = self.tools.loaded()[:1] if ruling.get("level") == "skill" else ()
        for skill in followed or (None,):
            step = SkillUsageEvent(self.conversation_id, self.turn_id, "ruled", skill, detail, ok=result.code not in _REFUSED)
            await asyncio.to_thread(self.usage_log.add, [step])

    async def file(self, file: Attachment) -> None:
        """Show a file of the conversation."""
        shown = {"name": file.name, "size": file.size_bytes, "media_type": file.media_type, "origin": file.origin}
        await self.live.show(TurnEvent("file", shown))

    def _named_skill(self, call: RequestedCall) -> Skill | None:
        """The usable skill that the arguments of a call name."""
        given = call.block.parameters if call.block else call.arguments
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except (ValueError, RecursionError):
                return None
        named = named_skill(given) if isinstance(given, Mapping) else None
        skill = self.tools.find(named) if isinstance(named, str) and call.tool in _OVER_SKILLS else None
        return skill if skill is not None and skill.status == "ok" else None

    def _skill_of(self, call: RequestedCall) -> str | None:
        """The id of the skill that a call is about; it counts as used from now on."""
        skill = self._named_skill(call)
        if skill is None:
            return None
        self.used.add(skill.id)
        try:
            self.tools.note_used(skill)
        except (SkillyardError, OSError):
            _log.info("the version of %s cannot be held", skill.id, exc_info=True)
        return skill.id

    def _skills_in(self, call: RequestedCall) -> list[str]:
        """The ids of the loaded skills whose folder a call of the workspace names."""
        folder_of = self.tools.skill_tools.skill_folder
        text = str(call.block.parameters if call.block else call.arguments)
        skills = [self.tools.find(name) for name in self.tools.loaded()]
        return [skill.id for skill in skills if skill is not None and f"{folder_of(skill)}/" in text]

    async def record_usage(self, event: Any, skill: str, detail: str | None, **values: Any) -> None:
        """Record a use of a skill."""
        self.used.add(skill)
        step = SkillUsageEvent(self.conversation_id, self.turn_id, event, skill, detail, **values)
        await asyncio.to_thread(self.usage_log.add, [step])
