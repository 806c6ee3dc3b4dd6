"""Conversations with a model that uses skills: begin one, send a message, follow the turn, answer its questions, stop it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from skillyard.conversations.conversation import (
    FOLDER,
    OPEN_TURN_STATES,
    START_POSITION,
    ChatSettings,
    Conversation,
    EventPosition,
    EventPositioner,
    InvocableSkill,
    Turn,
    WaitingQuestion,
    WorkspaceState,
    parse_event,
    replay_events,
)
from skillyard.conversations.conversation_store import ConversationStore
from skillyard.conversations.conversation_tools import StricterRules, settings_from_agent, versions_of_locks, visible_catalog
from skillyard.conversations.model_context import invocable_skills, parse_command
from skillyard.conversations.model_loop import DEFAULT_TURN_LIMITS, TurnLimits
from skillyard.conversations.skill_usage import SkillUsageLog
from skillyard.conversations.turn_runner import TurnRunner
from skillyard.conversations.work_folder import WorkFolder
from skillyard.errors import ConversationBusy, FileProblem, InvalidInput, RecordNotFound, SandboxUnavailable
from skillyard.execution.run import new_id
from skillyard.text import shorten, single_line
from skillyard.workspace import checked_folder

if TYPE_CHECKING:
    import os

    from pydantic_ai.models import Model

    from skillyard.conversations.conversation import TurnEvent
    from skillyard.database import Database
    from skillyard.library import Catalog
    from skillyard.permissions import ApprovalAnswer


_LONGEST: Final = 400_000
_TITLE: Final = 60
_LONGEST_TITLE: Final = 200
_KEPT_MEMORY: Final = ("versions", "known", "announced", FOLDER)  # the parts of `memory` that stay when turns are replaced


class Chat:
    """The conversations of one home, over the skills of `catalog`.

    Turns run in the background: `events` yields their events from the beginning, to any number of callers. They are recorded as
    they proceed, so a conversation is there after a restart, with a turn that was cut off marked `interrupted`. Without
    `addresses` only models of known providers can be chosen. `models` are model objects of pydantic-ai under names of yours:
    a conversation with such a name uses that object, whatever a provider calls its own.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        addresses: bool = True,
        limits: TurnLimits = DEFAULT_TURN_LIMITS,
        models: Mapping[str, Model] | None = None,
    ) -> None:
        self._catalog = catalog
        self.records: Final = ConversationStore(self._database)
        self.usage_log: Final = SkillUsageLog(self._database)
        self._runner = TurnRunner(catalog, self.records, self.usage_log, addresses=addresses, limits=limits, models=models)
        self._answering = asyncio.Lock()

    async def begin(
        self,
        owner: str,
        *,
        agent: str | None = None,
        model: str | None = None,
        settings: ChatSettings | None = None,
        title: str = "",
        folder: str | os.PathLike[str] | None = None,
    ) -> Conversation:
        """Begin a conversation: with an agent's prompt, skills and rules, or with `settings` of its own.

        It works in a folder of its own, or in `folder`, which belongs to the user and stays when it is deleted. There it sees
        the skills of that project, whose settings hold.

        Raises:
            FileMissing, PathRefused: that folder cannot be worked in, as `checked_folder` says.
            RecordNotFound: there is no such agent.
            VersionNotFound: a version that it is locked to is not installed.
            InvalidInput: the model cannot be used.
        """
        memory: dict[str, Any] = {}
        if agent is not None:
            chosen = await asyncio.to_thread(self._catalog.agents().get, agent)
            agent, model, settings = chosen.name, model or chosen.model, settings or settings_from_agent(chosen)
            memory = {"versions": await asyncio.to_thread(lambda: versions_of_locks(chosen, self._catalog.registry()))}
        if folder is not None:
            memory[FOLDER] = checked_folder(folder, self._catalog.data_directory)
        await self._runner.model(model)
        shown = shorten(single_line(title), _TITLE)
        conversation = Conversation(new_id("chat"), owner, shown, agent, model, settings or ChatSettings(), memory)
        await asyncio.to_thread(self.records.begin, conversation)
        return conversation

    async def get(self, conversation_id: str, owner: str) -> Conversation:
        """A conversation of this person.

        Raises:
            RecordNotFound: there is none.
        """
        return await asyncio.to_thread(self.records.get, conversation_id, owner)

    async def list(self, owner: str, *, limit: int = 50, text: str = "") -> tuple[Conversation, ...]:
        """The person's conversations, most recently used first; with `text` those whose title or messages contain it."""
        return await asyncio.to_thread(lambda: self.records.list(owner, limit=limit, text=text))

    async def waiting(self, owner: str) -> tuple[WaitingQuestion, ...]:
        """The pending requests for approval of the person's conversations, oldest first."""
        return await asyncio.to_thread(self.records.waiting, owner)

    async def change(self, conversation: Conversation, *, title: str | None = None, model: str | None = None) -> Conversation:
        """Change the title of a conversation, or the model of its next turns.

        Raises:
            InvalidInput: the title is empty, or the model cannot be used.
        """
        values: dict[str, str] = {}
        if title is not None:
            values["title"] = shorten(single_line(title), _LONGEST_TITLE)
            if not values["title"]:
                raise InvalidInput("the title is empty", hint="write a few words")
        if model is not None:
            await self._runner.model(model)
            values["model"] = model
        if values:
            await asyncio.to_thread(lambda: self.records.change(conversation.id, used=False, **values))
        return await self.get(conversation.id, conversation.owner)

    def commands(self, conversation: Conversation | None, text: str, *, limit: int = 20) -> tuple[InvocableSkill, ...]:
        """The skills that a person may start by name and whose name contains `text`, the best first. Blocks."""
        if conversation is None:
            return invocable_skills(self._catalog, self._catalog.rules(), text, limit=limit)
        settings, catalog = conversation.settings, self._runner.catalog_of(conversation)
        rules = StricterRules(catalog.rules(), settings.permissions, catalog.configuration.permission_match)
        return invocable_skills(visible_catalog(catalog, settings), rules, text, limit=limit)

    async def turns(self, conversation: Conversation, *, replaced: bool = False) -> tuple[Turn, ...]:
        """The turns of a conversation; those that lost their process are marked."""
        return await asyncio.to_thread(lambda: self.records.turns(conversation.id, replaced=replaced))

    async def turn(self, conversation: Conversation, turn_id: str) -> Turn:
        """One turn of a conversation.

        Raises:
            RecordNotFound: it has none with that id.
        """
        turn = await asyncio.to_thread(self.records.turn, turn_id)
        if turn.conversation_id != conversation.id:
            raise RecordNotFound(f"there is no turn {turn_id!r}", hint="the conversation lists its turns")
        return turn

    def folder(self, conversation: Conversation) -> WorkFolder:
        """The files of a conversation."""
        return self._runner.folder(conversation)

    async def workspace(self, conversation: Conversation) -> WorkspaceState:
        """Whether a conversation has a workspace, and the state of its session."""
        try:
            workspace = (await asyncio.to_thread(self._runner.workspace, conversation)).workspace
        except (SandboxUnavailable, InvalidInput, FileProblem) as error:
            return WorkspaceState(False, error.message)
        return WorkspaceState(True, None, workspace.path, workspace.is_open, workspace.working_folder, workspace.processes())

    async def end_session(self, conversation: Conversation) -> None:
        """End the session of a conversation's workspace with its processes; the next call starts a new one."""
        await self._runner.end_workspace(conversation)

    async def delete(self, conversation: Conversation) -> None:
        """Delete a conversation with its turns and files; an open turn is stopped first.

        Its record goes last: what could not be deleted is deleted when this is called again.

        Raises:
            StoreFailed: what was saved of its files cannot be deleted.
        """
        for turn in await self.turns(conversation):
            if turn.state in OPEN_TURN_STATES:
                await self.stop(turn)
        await self._runner.forget_workspace(conversation)
        self._runner.clear(conversation)
        await asyncio.to_thread(self.folder(conversation).remove)
        await asyncio.to_thread(self.records.delete, conversation.id)

    async def send(
        self, conversation: Conversation, text: str, *, replacing: int | None = None, files: Sequence[str] = ()
    ) -> Turn:
        """Send a message and return its turn; with `replacing` it replaces the turns from that number on.

        `files` are names of files of the conversation that the message is about.

        Raises:
            FileMissing: one of the files is not there.
            InvalidInput: the message is empty or too long; the model cannot be used.
            ConversationBusy: a turn is open.
            SkillNotFound, SkillUnusable, PermissionDenied: `/name` means a skill that cannot be started.
        """
        if not text.strip() or len(text) > _LONGEST:
            raise InvalidInput(
                "there is nothing to send" if not text.strip() else f"over {_LONGEST} characters", hint="write less"
            )
        conversation = await self.get(conversation.id, conversation.owner)
        given = await asyncio.to_thread(lambda: self.folder(conversation).named(files))
        model = await self._runner.model(conversation.model)
        if replacing is not None:
            self._runner.clear(conversation)
            conversation = await self._rewound(conversation, replacing)
        tools = await self._runner.tools_for(conversation)
        command = await asyncio.to_thread(parse_command, text, tools.skill_tools)
        named = conversation.model or f"{model.system}:{model.model_name}"
        turn = Turn(new_id("turn"), conversation.id, 0, "running", text, model=named)
        turn = await asyncio.to_thread(lambda: self.records.start(turn, replacing=replacing))
        if not conversation.title:
            title = shorten(single_line(text), _TITLE)
            await asyncio.to_thread(lambda: self.records.change(conversation.id, title=title))
        earlier = tuple(item for item in await self.turns(conversation) if item.number < turn.number)
        execution = self._runner.execution(conversation, turn, earlier, model, tools)
        execution.command, execution.files = command, given
        self._runner.start(execution, execution.begin())
        return turn

    async def retry(self, conversation: Conversation) -> Turn:
        """Retry the newest turn.

        Raises:
            InvalidInput: there is no turn yet.
        """
        turns = await self.turns(conversation)
        if not turns:
            raise InvalidInput("there is no turn to retry", hint="send a message first")
        return await self._again(conversation, turns[-1], turns[-1].request)

    async def edit(self, conversation: Conversation, turn: Turn, text: str) -> Turn:
        """Send another message in place of a turn; it and all after it are replaced."""
        return await self._again(conversation, turn, text)

    async def _again(self, conversation: Conversation, turn: Turn, text: str) -> Turn:
        """Send a text in place of a turn, with those of its files that are still there."""
        there = {file.name for file in await asyncio.to_thread(self.folder(conversation).list)}
        files = [name for name in turn.given if name in there]
        return await self.send(conversation, text, replacing=turn.number, files=files)

    async def answer(self, turn: Turn, call_id: str, answer: ApprovalAnswer) -> Turn:
        """Answer a question of a turn that waits, and all others about the same content; it continues after the last one.

        Raises:
            ConversationBusy: it does not wait, or not for this.
            InvalidInput: a call of a tool cannot be agreed to for the whole workspace.
        """
        async with self._answering:
            turn = await asyncio.to_thread(self.records.turn, turn.id)
            asked = ((turn.pending or {}).get("questions") or {}).get(call_id) or {}
            if answer.decision == "workspace" and asked.get("type") == "command":
                raise InvalidInput("a call of a tool is agreed to once, or for the session", hint="answer once or session")
            decision = {"decision": answer.decision, "reason": answer.reason}
            pending = await asyncio.to_thread(self.records.decide, turn.id, call_id, decision)
            if pending is None:
                raise ConversationBusy("the turn does not wait for this answer", hint="see the questions of the turn")
            if set(pending["decided"]) < set(pending["questions"]):
                return replace(turn, pending=pending)
            if not await asyncio.to_thread(self.records.resume, turn.id):
                raise ConversationBusy("it was answered already", hint="see the turn again")
        conversation = await asyncio.to_thread(self.records.of_turn, turn)
        earlier = tuple(item for item in await self.turns(conversation) if item.number < turn.number)
        tools = await self._runner.tools_for(conversation)
        model = await self._runner.model(conversation.model)
        execution = self._runner.execution(conversation, turn, earlier, model, tools, before=replay_events(turn)[:-1])
        self._runner.start(execution, execution.resume(pending))
        return replace(turn, state="running", pending=None)

    async def stop(self, turn: Turn) -> bool:
        """Stop a turn in any process; False when it has ended.

        One whose machine does not answer is marked as interrupted after a while, so that the conversation can go on.
        """
        if await self._runner.stop(turn):
            return True
        if not await asyncio.to_thread(self.records.ask_to_stop, turn.id):
            return False
        self._runner.give_up_later(turn)
        return True

    async def events(self, turn: Turn, *, fresh: bool = False) -> AsyncGenerator[TurnEvent, None]:
        """The events of a turn, from the beginning to its end or to a question it waits for.

        With `fresh` only what happens since its last question was answered.
        """
        live = self._runner.live(turn)
        if live is None:
            async with aclosing(self.follow(turn)) as positioned_events:
                async for _, event in positioned_events:
                    yield event
            return
        async with aclosing(live.follow(live.earlier if fresh else 0)) as events:
            async for event in events:
                yield event

    async def follow(
        self, turn: Turn, after: EventPosition = START_POSITION
    ) -> AsyncGenerator[tuple[EventPosition, TurnEvent], None]:
        """The events of a turn after a position, whichever process executes it; each event with its own position."""
        live, positioner = self._runner.live(turn), EventPositioner(after)
        async with aclosing(live.follow() if live is not None else self._events_elsewhere(turn)) as events:
            async for event in events:
                if (positioned := positioner.take(event)) is not None:
                    yield positioned
        if live is None:
            positioner = EventPositioner(max(after, positioner.position))
            for event in replay_events(await asyncio.to_thread(self.records.turn, turn.id)):
                if (positioned := positioner.take(event)) is not None:
                    yield positioned

    async def _events_elsewhere(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """The events of a turn that another process executes, until it stops running."""
        from skillyard.database import wait_for_change

        database, number = await asyncio.to_thread(self._database), 0
        async with database.notifier.subscribe(turn.id) as changed:
            while True:
                state, events = await asyncio.to_thread(self.records.events_since, turn.id, number)
                if state != "running":
                    return
                for number, shapes in events:  # noqa: B007 # where it continues the next time
                    for shape in shapes:
                        yield parse_event(shape)
                await wait_for_change(changed, database.timing.turn_look_s)
                await asyncio.to_thread(self.records.turns, turn.conversation_id)  # marks the turn when its process has ended

    @property
    def busy(self) -> bool:
        """Whether a turn runs here."""
        return self._runner.busy

    async def close(self) -> None:
        """Stop every turn of this process, and close the connections to models."""
        await self._runner.close()

    def _database(self) -> Database:
        return self._catalog.records().database

    async def _rewound(self, conversation: Conversation, number: int) -> Conversation:
        """The conversation without the skills that were loaded since that turn: they are no longer in the history."""
        memory = {key: value for key, value in conversation.memory.items() if key in _KEPT_MEMORY}
        compacted = conversation.memory.get("compacted")
        if compacted and compacted["until"] < number:
            memory["compacted"] = compacted
        await asyncio.to_thread(lambda: self.records.change(conversation.id, memory=memory))
        return replace(conversation, memory=memory)
