"""What callers hold open over HTTP: workspaces with their sessions, the chat of an organisation, and tool sessions.

The session of a workspace stands from call to call, as long as one process serves the address; where several do, each call has
a session of its own, because the next one may reach another process. Nobody waits for a session: when too many stand, one that
nobody uses is ended, and when all of them work, the call is refused.

The chat and the tool sessions are made at their first use; the client libraries of models are not loaded before. What a tool
session has loaded is kept in the database, for whichever process is asked next.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, select
from starlette.concurrency import run_in_threadpool

from skillyard.database import insert_or_update, tool_sessions
from skillyard.errors import InvalidInput, NotYours, RecordNotFound, TooManySessions, TooManyWorkspaces
from skillyard.permissions import Approvals, CommandGate, CommandPolicy
from skillyard.server.background.approval_questions import rejecting_approver

if TYPE_CHECKING:
    from skillyard.conversations import Chat
    from skillyard.database import Database
    from skillyard.library import Catalog
    from skillyard.server.server_settings import WorkspaceLimits
    from skillyard.tools import Language, SkillTools
    from skillyard.workspace import OutputStream, Workspace, WorkspaceAnswer, WorkspaceFolder, WorkspaceRecord, Workspaces

_RETRY_S: Final = 5
_PIECES: Final = 4096  # of output that wait for a client: what is over that is only in the answer


def _inode(folder: str) -> int:
    try:
        return Path(folder).stat().st_ino
    except OSError:
        return 0


@dataclass(slots=True)
class _OpenSession:
    """A workspace that was called in this process: for whom, and how many calls of it are under way."""

    owner: str
    workspace: Workspace
    inode: int
    calls: int = 0

    @property
    def stands(self) -> bool:
        return self.calls > 0 or self.workspace.is_open

    @property
    def idle(self) -> bool:
        """Whether nobody would miss its session but for the state of the shell."""
        return not self.calls and not any(process.state == "running" for process in self.workspace.processes())


class SessionSlots:
    """The sessions of one process, over all organisations, within the limits; with `lasting` they stand from call to call."""

    def __init__(self, limits: WorkspaceLimits, *, lasting: bool) -> None:
        self.limits: Final = limits
        self.lasting: Final = lasting
        self._sessions: OrderedDict[str, _OpenSession] = OrderedDict()
        """By the folder, the one that was not used for longest first."""

    def works(self, folder: str) -> bool:
        """Whether a call over that folder is under way, or something works in its background."""
        session = self._sessions.get(folder)
        return session is not None and not session.idle

    @asynccontextmanager
    async def use(self, owner: str, workspace: Workspace) -> AsyncIterator[None]:
        """Count a call inside the block, for which a session may begin.

        Raises:
            TooManySessions: so many work that none can be ended for it.
        """
        session = await self._room(owner, workspace)
        session.calls += 1
        try:
            yield
        finally:
            session.calls -= 1
            if not self.lasting and not session.calls and self._sessions.get(workspace.folder) is session:
                await self.drop(workspace.folder)

    async def _room(self, owner: str, workspace: Workspace) -> _OpenSession:
        """The place of a workspace's session, once there is room for it; looked at anew after each session that was ended."""
        folder = workspace.folder
        while True:
            session = self._sessions.setdefault(folder, _OpenSession(owner, workspace, _inode(folder)))
            self._sessions.move_to_end(folder)
            if session.workspace is not workspace:  # it was ended and opened again: two sessions may not share a folder
                await self.drop(folder)
            elif session.stands or (unused := self._in_the_way(owner, session)) is None:
                return session
            else:
                await self.drop(unused)

    def is_replaced(self, workspace: Workspace) -> bool:
        """Whether another folder lies where that of a session was."""
        session = self._sessions.get(workspace.folder)
        return session is not None and session.inode != _inode(workspace.folder)

    async def drop(self, folder: str) -> None:
        """End the session over a folder, if there is one, and forget it."""
        session = self._sessions.pop(folder, None)
        if session is not None:
            await session.workspace.close()

    def _in_the_way(self, owner: str, new: _OpenSession) -> str | None:
        """The folder whose session is to end before another one may begin; None when there is room."""
        for most, whose in ((self.limits.sessions_each, owner), (self.limits.sessions, None)):
            standing = self._standing(whose, new)
            if len(standing) < most:
                continue
            unused = next((folder for folder, session in standing if session.idle), None)
            if unused is None:
                hint = "wait until a command has ended, or end a session of yours"
                many = "sessions of yours" if whose else "sessions"
                raise TooManySessions(f"{most} {many} are running, and no more are started", hint=hint, retry_after=_RETRY_S)
            return unused
        return None

    def _standing(self, owner: str | None, new: _OpenSession) -> list[tuple[str, _OpenSession]]:
        sessions = [(folder, session) for folder, session in self._sessions.items() if session is not new and session.stands]
        return [(folder, session) for folder, session in sessions if owner is None or session.owner == owner]


class BegunCall:
    """One call that works: its `output` while it comes, then None, and the `task` that gives its answer."""

    def __init__(self) -> None:
        self.output: Final[asyncio.Queue[tuple[OutputStream, str] | None]] = asyncio.Queue()
        self.admitted: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[WorkspaceAnswer]

    def add(self, stream: OutputStream, text: str) -> None:
        """Keep a piece of output; a client that reads slowly gets what fits."""
        if self.output.qsize() < _PIECES:
            self.output.put_nowait((stream, text))

    async def cancel(self) -> None:
        """End the call, and return when nothing of it is left."""
        self.task.cancel()
        await asyncio.wait([self.task])


class CallerWorkspaces:
    """The workspaces of the callers of one organisation; the methods that are not coroutines block."""

    def __init__(self, catalog: Catalog, slots: SessionSlots) -> None:
        self.slots: Final = slots
        self._catalog = catalog
        self._made: Workspaces | None = None
        self._making = asyncio.Lock()

    async def open(self) -> Workspaces:
        """The workspaces of the organisation, within its settings."""
        async with self._making:
            if self._made is None:
                self._made = await run_in_threadpool(self._catalog.workspaces)
            return self._made

    def _gate(self, workspace: Workspace) -> CommandGate:
        """What decides about one call: the operator's rules about commands. Nobody can be asked."""
        policy = CommandPolicy.of(self._catalog.configuration)
        return CommandGate(lambda: policy, Approvals(), lambda: workspace.path)

    async def create(self, workspace_id: str, owner: str) -> WorkspaceRecord:
        """A new workspace of `owner`.

        Raises:
            TooManyWorkspaces: the owner has as many as are kept.
            PathRefused, RecordExists: as `Workspaces.create`.
        """
        workspaces = await self.open()
        if len(await run_in_threadpool(workspaces.records, owner)) >= self.slots.limits.each:
            raise TooManyWorkspaces(f"{self.slots.limits.each} workspaces are kept of one caller", hint="delete one first")
        return await run_in_threadpool(workspaces.create, workspace_id, owner)

    async def records(self, owner: str) -> tuple[WorkspaceRecord, ...]:
        """The workspaces of `owner`, by id."""
        return await run_in_threadpool((await self.open()).records, owner)

    async def own(self, workspace_id: str, owner: str, *, everybody: bool = False) -> WorkspaceRecord:
        """A workspace of `owner`, with `everybody` of anybody in the organisation.

        Raises:
            RecordNotFound: there is none of that id.
            NotYours: it is somebody else's.
        """
        record = await run_in_threadpool((await self.open()).record, workspace_id)
        if record.owner != owner and not everybody:
            raise NotYours("the workspace is somebody else's", hint="ask them, or use a key with the scope admin")
        return record

    async def folder(self, record: WorkspaceRecord) -> WorkspaceFolder:
        """The files of a workspace."""
        return (await self.open()).folder(record.id)

    async def begin_call(self, record: WorkspaceRecord, tool: str, arguments: Mapping[str, Any]) -> BegunCall:
        """Begin a call of a tool of a workspace.

        Raises:
            TooManySessions: no session can be begun for it now.
            InvalidInput: a command for the background, where sessions last no longer than a call.
            PathRefused: its folder is gone.
        """
        if arguments.get("background") and not self.slots.lasting:
            message = "nothing works in the background where several processes serve: each call has a session of its own"
            raise InvalidInput(message, hint="do it in one command: `server & client`")
        workspaces = await self.open()
        workspace = await run_in_threadpool(workspaces.get, record.id)
        if self.slots.is_replaced(workspace):  # another server has deleted it, and somebody has made it again
            await self.end(record)
            workspace = await run_in_threadpool(workspaces.get, record.id)
        call = BegunCall()
        call.task = asyncio.create_task(self._call(call, record.owner, workspace, tool, arguments))
        waited: list[asyncio.Future[Any]] = [call.task, call.admitted]
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            call.task.cancel()
            raise
        if not call.admitted.done():
            call.task.result()
        return call

    async def _call(
        self, call: BegunCall, owner: str, workspace: Workspace, tool: str, arguments: Mapping[str, Any]
    ) -> WorkspaceAnswer:
        async with self.slots.use(owner, workspace):
            call.admitted.set_result(None)
            try:
                return await workspace.call(tool, arguments, listener=call.add, authorizer=self._gate(workspace))
            finally:
                call.output.put_nowait(None)

    async def find(self, record: WorkspaceRecord) -> Workspace | None:
        """The workspace, if it was called in this process."""
        return (await self.open()).find(record.id)

    async def end(self, record: WorkspaceRecord) -> None:
        """End the session of a workspace with all that runs in it; the files stay."""
        workspaces = await self.open()
        if (found := workspaces.find(record.id)) is not None:
            await self.slots.drop(found.folder)
            await workspaces.end(record.id)

    async def remove(self, record: WorkspaceRecord) -> None:
        """End the session of a workspace and delete its files; what is gone already stays gone."""
        await self.end(record)
        try:
            await (await self.open()).remove(record.id)
        except RecordNotFound:
            return

    @property
    def busy(self) -> bool:
        """Whether a call is under way, or something works in the background."""
        return self._made is not None and any(self.slots.works(one.folder) for one in self._opened())

    def _opened(self) -> list[Workspace]:
        made = self._made
        return [found for one in made.list() if (found := made.find(one))] if made is not None else []

    async def close(self) -> None:
        """End every session."""
        if self._made is not None:
            for workspace in self._opened():
                await self.slots.drop(workspace.folder)
            await self._made.close()


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
        self._kept: OrderedDict[tuple[str, Language, str | None], SkillTools] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, catalog: Catalog, owner: str, language: Language, folder: str | None = None) -> SkillTools:
        """The tools of `owner` in that language; their runs are recorded with all others.

        With a `folder` they are over the skills of the project there, which is looked at anew each time.

        Raises:
            FileMissing, PathRefused: that folder cannot be worked in, as `checked_folder` says.
        """
        from skillyard.execution import RunOrigin
        from skillyard.tools import SkillTools
        from skillyard.workspace import checked_folder

        folder = checked_folder(folder) if folder is not None else None
        with self._lock:
            key = (owner, language, folder)
            tools = self._kept.get(key)
            if tools is not None and folder is not None:
                tools.access.catalog.refresh()
            if tools is None:
                catalog = catalog.in_folder(folder) if folder is not None else catalog
                tools = SkillTools(
                    catalog,
                    approver=rejecting_approver(),
                    engine=catalog.engine(),
                    language=language,
                    context={"userId": owner},
                    origin=RunOrigin("http", owner),
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
