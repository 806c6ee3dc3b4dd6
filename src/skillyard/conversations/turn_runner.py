"""The turns that run in this process: the tools of each conversation, the open models, the background tasks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from skillyard.conversations.conversation import LiveTurn
from skillyard.conversations.conversation_tools import ConversationTools, ConversationWorkspace
from skillyard.conversations.models import open_model
from skillyard.conversations.turn_execution import TurnExecution
from skillyard.conversations.work_folder import WorkFolder
from skillyard.errors import DatabaseUnavailable, FileProblem, InvalidInput, SandboxUnavailable

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from skillyard.conversations.conversation import Conversation, Turn, TurnEvent
    from skillyard.conversations.conversation_store import ConversationStore
    from skillyard.conversations.model_loop import TurnLimits
    from skillyard.conversations.skill_usage import SkillUsageLog
    from skillyard.library import Catalog


_log = logging.getLogger(__name__)
_KEPT_TOOLS: Final = 64
_KEPT_TURNS: Final = 256
_KEPT_CATALOGS: Final = 16


class TurnRunner:
    """The state of conversations over `catalog` in this process; their shared state is in the records."""

    def __init__(
        self,
        catalog: Catalog,
        records: ConversationStore,
        usage_log: SkillUsageLog,
        *,
        addresses: bool = True,
        limits: TurnLimits,
        models: Mapping[str, Model] | None = None,
    ) -> None:
        self._catalog = catalog
        self._records = records
        self._usage_log = usage_log
        self._addresses = addresses
        self._limits = limits
        self._given_models = dict(models or {})
        self._tools: OrderedDict[str, ConversationTools] = OrderedDict()
        self._catalogs: OrderedDict[str, Catalog] = OrderedDict()  # by the user's folder that is worked in
        self._live: OrderedDict[str, LiveTurn] = OrderedDict()
        self._models: dict[str, Model] = {}
        self._workspaces: dict[str, ConversationWorkspace] = {}
        self._waiting: set[asyncio.Task[None]] = set()  # for turns of other processes that were asked to stop
        self._working: set[str] = set()  # the conversations with a turn that is executed here

    def folder(self, conversation: Conversation, turn: Turn | None = None) -> WorkFolder:
        """The files of a conversation; for the `turn` that is executed here, or for everybody else."""
        return WorkFolder(
            self._catalog.data_directory,
            conversation.id,
            self._records,
            conversation.folder,
            store=self._catalog.configuration.package_store,
            settings=self._catalog.configuration.workspace,
            turn_id=turn.id if turn else None,
            busy=turn is None and conversation.id in self._working,
        )

    def catalog_of(self, conversation: Conversation) -> Catalog:
        """The skills where a conversation works: those of the project of its folder, when it has one of the user's. Blocks."""
        folder = conversation.folder
        if folder is None:
            return self._catalog
        catalog = self._catalogs.pop(folder, None) or self._catalog.in_folder(folder)
        self._catalogs[folder] = catalog
        while len(self._catalogs) > _KEPT_CATALOGS:
            self._catalogs.popitem(last=False)
        return catalog

    def workspace(self, conversation: Conversation) -> ConversationWorkspace:
        """The workspace of a conversation, made when there is none yet. Blocks.

        Raises:
            SandboxUnavailable: there are none, because of this machine, the operator or the settings of the conversation.
            InvalidConfiguration, InvalidPolicy: the operator's table cannot be understood.
        """
        if not conversation.settings.workspace:
            raise SandboxUnavailable("this conversation has no workspace", hint="its settings have workspace: false")
        if conversation.id not in self._workspaces:
            folder = self.folder(conversation)
            catalog, users = self.catalog_of(conversation), conversation.folder is not None
            made = ConversationWorkspace(catalog, conversation, folder.make(), folder.mark, users_folder=users)
            for unused in [name for name in tuple(self._workspaces) if self._is_unused(name)][:-_KEPT_TOOLS]:
                self._workspaces.pop(unused, None)
            self._workspaces.setdefault(conversation.id, made)
        return self._workspaces[conversation.id]

    def _is_unused(self, conversation_id: str) -> bool:
        return conversation_id not in self._tools and not self._workspaces[conversation_id].workspace.is_open

    async def end_workspace(self, conversation: Conversation) -> None:
        """End the session of a conversation with all that runs in it; its files stay."""
        made = self._workspaces.get(conversation.id)
        if made is not None:
            await made.workspace.close()

    async def model(self, name: str | None) -> Model:
        """The model that was given under that name, else the one it means, else the default; opened once.

        Raises:
            InvalidInput: it cannot be used.
        """
        key = name or ""
        if key not in self._models:
            model = self._given_models.get(key)
            if model is None:
                model = await asyncio.to_thread(lambda: open_model(name, addresses=self._addresses))
            self._models[key] = await model.__aenter__()
        return self._models[key]

    async def tools_for(self, conversation: Conversation) -> ConversationTools:
        """The tools of a conversation, made when they are not there, or when another process has continued it meanwhile."""
        tools = self._tools.get(conversation.id)
        if tools is None or not tools.matches_memory(conversation.memory):
            tools = await asyncio.to_thread(self._make_tools, conversation)
            self._tools[conversation.id] = tools
        self._tools.move_to_end(conversation.id)
        while len(self._tools) > _KEPT_TOOLS:
            self._tools.popitem(last=False)
        return tools

    def _make_tools(self, conversation: Conversation) -> ConversationTools:
        try:
            workspace = self.workspace(conversation)
        except (SandboxUnavailable, InvalidInput, FileProblem) as error:
            _log.info("a conversation has no workspace: %s", error.message)
            workspace = None
        catalog = self.catalog_of(conversation)
        return ConversationTools(catalog, conversation, self.folder(conversation).make(), workspace)

    def clear(self, conversation: Conversation) -> None:
        """Drop the tools of a conversation: it is deleted, or continues from an earlier turn."""
        self._tools.pop(conversation.id, None)

    async def forget_workspace(self, conversation: Conversation) -> None:
        """End the session of a conversation that is deleted."""
        await self.end_workspace(conversation)
        self._workspaces.pop(conversation.id, None)

    def live(self, turn: Turn) -> LiveTurn | None:
        """The turn as it runs here, or ended here last; None when another process has continued it."""
        live = self._live.get(turn.id)
        return None if live is not None and live.over and turn.state == "running" else live

    def execution(
        self,
        conversation: Conversation,
        turn: Turn,
        earlier: Sequence[Turn],
        model: Model,
        tools: ConversationTools,
        *,
        before: Sequence[TurnEvent] = (),
    ) -> TurnExecution:
        """The execution of a turn; `before` are its events up to the question that it waited for."""
        live = self._live[turn.id] = LiveTurn(
            before, partial(self._records.publish_events, turn.id), self._catalog.timing.gather_s
        )
        while len(self._live) > _KEPT_TURNS:
            self._live.popitem(last=False)
        return TurnExecution(
            conversation, turn, earlier, model, tools, live, self._records, self._usage_log,
            self.folder(conversation, turn),
            tools.catalog, self._limits,
        )  # fmt: skip

    def start(self, execution: TurnExecution, work: Coroutine[Any, Any, None]) -> None:
        """Execute a turn in the background, until it is done or stopped."""

        async def watched() -> None:
            execution.live.begun.set()
            self._working.add(execution.conversation.id)
            watch = asyncio.create_task(self._watch(execution.turn.id, execution.live))
            try:
                await work
            finally:
                self._working.discard(execution.conversation.id)
                watch.cancel()

        execution.live.task = asyncio.create_task(watched())

    async def stop(self, turn: Turn) -> bool:
        """Stop a turn that runs here; False when it does not."""
        live = self._live.get(turn.id)
        return live is not None and await live.stop()

    def give_up_later(self, turn: Turn) -> None:
        """Mark a turn that was asked to stop elsewhere as interrupted, when its process does not stop it."""

        async def wait() -> None:
            await asyncio.sleep(self._catalog.timing.grace_s)
            with suppress(DatabaseUnavailable):
                await asyncio.to_thread(self._records.give_up, turn.id)

        task = asyncio.create_task(wait())
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    @property
    def busy(self) -> bool:
        """Whether a turn runs here."""
        return any(self._going())

    async def close(self) -> None:
        """Stop every turn of this process, and close the connections to models."""
        for task in tuple(self._waiting):
            task.cancel()
        await asyncio.gather(*(live.stop() for live in self._going()))
        await asyncio.gather(*(made.workspace.close() for made in self._workspaces.values()))
        self._workspaces.clear()
        for model in self._models.values():
            await model.__aexit__(None, None, None)
        self._models.clear()

    def _going(self) -> list[LiveTurn]:
        return [live for live in self._live.values() if live.task is not None and not live.task.done()]

    async def _watch(self, turn_id: str, live: LiveTurn) -> None:
        """Send heartbeats of the turn, and stop it when that was requested in another process."""
        timing, sent = self._catalog.timing, time.monotonic()
        while True:
            await asyncio.sleep(timing.turn_look_s)
            with suppress(DatabaseUnavailable):
                if time.monotonic() - sent >= timing.heartbeat_s:
                    sent = time.monotonic()
                    await asyncio.to_thread(self._records.heartbeat, turn_id)
                if await asyncio.to_thread(self._records.stop_asked, turn_id):
                    await live.interrupt()
                    return
