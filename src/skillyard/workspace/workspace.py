"""A workspace: a folder with a persistent sandboxed session, and the tools for a model.

The folder is there before and after; the session is begun by the first call that needs it, and again, fresh, when it has ended.
Every tool answers with a `WorkspaceAnswer`, whatever happens.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from skillyard.errors import DiskFull, InvalidInput, PermissionDenied, RecordNotFound, SkillyardError
from skillyard.paths import is_inside
from skillyard.permissions import WORKSPACE_TOOL_NAMES
from skillyard.workspace.answers import (
    FRESH_NOTE,
    RENEWED_NOTE,
    LiveText,
    WorkspaceAnswer,
    answer_command,
    answer_process,
    refusal_answer,
)
from skillyard.workspace.channel import SessionCall
from skillyard.workspace.file_answers import FileTools
from skillyard.workspace.folder import FolderQuota
from skillyard.workspace.held_back import held_part
from skillyard.workspace.held_guard import HeldGuard
from skillyard.workspace.workspace_options import CommandListener, ToolAuthorizer, WorkspaceOptions, checked_folder, seen_folder
from skillyard.workspace.workspace_session import KEPT_BYTES, LANGUAGES, WorkspaceSession

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.workspace.workspace_session import BackgroundProcess

_WRITING: Final = frozenset({"bash", "code_run", "file_write", "file_edit"})
_WORD: Final = re.compile(r"[^\s;|&()<>'\"`=,]+")
_MOST_WORDS: Final = 2_000
_LINK_SECONDS: Final = 10.0
_MOST_JUDGED: Final = 5  # times, for a call in whose time the working folder becomes another
_call_authorizer: Final[ContextVar[ToolAuthorizer | None]] = ContextVar("authorizer of a call", default=None)
_ALIASES: Final = {"py": "python", "python3": "python", "js": "javascript", "node": "javascript", "ts": "typescript"}


class Workspace:
    """One workspace over the existing folder `folder`; `close` it at the end.

    It belongs to the event loop that calls it first until it is closed there; calls from another one are refused.

    `authorizer` decides about each call before anything is done. `resumed` says that somebody has worked in the folder before,
    so that even the first session is said to be fresh. Commands run one after the other; file tools and background processes
    at once with them.

    Raises:
        FileMissing, PathRefused: as `checked_folder` says.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        options: WorkspaceOptions | None = None,
        authorizer: ToolAuthorizer | None = None,
        resumed: bool = False,
    ) -> None:
        self.options = options or WorkspaceOptions()
        self.folder: Final = checked_folder(folder, self.options.own_home)
        self._authorizer = authorizer
        self._had_session = resumed
        self._note = FRESH_NOTE
        self._session: WorkspaceSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._commands = asyncio.Lock()
        self._current: SessionCall | None = None
        self._quota = FolderQuota(self.folder, self.options.quota_mb)
        self._guards: list[asyncio.Task[None]] = []
        self._held = HeldGuard(self.folder, self.options.writable) if self.options.held_back else None
        self._calls_so_far = 0
        self._idle_since_settled = True  # whether nothing of the session can write now
        self._idle: asyncio.TimerHandle | None = None
        self._sleeping: asyncio.Task[None] | None = None
        self._calls = 0
        self._files = FileTools(self.options, self.authorize, lambda: self.judged, self.session, self._refuse_held)

    @property
    def path(self) -> str:
        """The path of the folder as commands see it: its real path under Landlock, else `/workspace`."""
        if self._session is not None:
            return self._session.folder
        return self.folder if self.options.backend_here().name == "landlock" else "/workspace"

    @property
    def own_paths(self) -> bool:
        """Whether all paths in the session are the real ones, so that nothing can be mounted elsewhere."""
        return self.path == self.folder

    @property
    def working_folder(self) -> str:
        """Where the next command begins, as it sees it."""
        return self._session.working_folder if self._session is not None and self._session.alive else self.path

    @property
    def is_open(self) -> bool:
        """Whether a session is open."""
        return self._session is not None and self._session.alive

    def skill_folder(self, skill: Skill) -> str:
        """The folder of a skill as a session sees it, where a model is shown that it is."""
        return seen_folder(skill, skill.root.alias is not None and self.own_paths)  # only then a sandbox has to be there

    def shows(self, skill: Skill) -> bool:
        """Whether a session that begins now sees the folder of that skill."""
        folder = self.skill_folder(skill)
        shown = (mount.target or mount.source for mount in self.options.mounts(self.folder))
        return any(folder == target or folder.startswith(f"{target.rstrip('/')}/") for target in shown)

    def may_write(self, path: str) -> bool:
        """Whether a session can write a path of this machine, links followed."""
        real = os.path.realpath(path)
        if self.options.read_only or not is_inside(real, self.folder):
            return False
        held = held_part(real[len(self.folder) + 1 :], self.options.writable) if self.options.held_back else None
        return held is None

    def show(self, options: WorkspaceOptions) -> None:
        """Use other skills or packages from the next call on; the limits stay.

        Where that is another sandbox than the one that stands, a new session takes over the working folder and the variables.
        """
        self.options = replace(self.options, skills=options.skills, environment=options.environment)

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        listener: CommandListener | None = None,
        authorizer: ToolAuthorizer | None = None,
    ) -> WorkspaceAnswer:
        """Call a tool by its name, with the arguments a model gave; the names are those of the methods' parameters.

        `authorizer` decides about this call beside the one of the workspace.
        """
        if tool not in WORKSPACE_TOOL_NAMES:
            hint = f"the tools are: {', '.join(WORKSPACE_TOOL_NAMES)}"
            return refusal_answer(tool, InvalidInput(f"no tool {tool!r}", hint=hint))
        more = {"listener": listener} if tool in ("bash", "code_run") else {}
        method: Callable[..., Awaitable[WorkspaceAnswer]] = getattr(self, tool)
        try:
            inspect.signature(method).bind(**arguments)
        except TypeError as error:
            return refusal_answer(tool, InvalidInput(f"the arguments do not fit {tool}: {error}", hint="see the tool's schema"))
        token = _call_authorizer.set(authorizer)
        try:
            return await method(**{**arguments, **more})
        finally:
            _call_authorizer.reset(token)

    async def bash(
        self,
        command: str | None = None,
        *,
        timeout: int | None = None,
        background: bool = False,
        process: str | None = None,
        stop: bool = False,
        listener: CommandListener | None = None,
    ) -> WorkspaceAnswer:
        """Run a command in a shell with the folder, exported variables and functions of the previous one.

        `timeout` is in milliseconds. With `background` it goes on while other calls are made; the answer has its `process`.
        With `process` instead of a command: the newest output of that background process, after its end or `timeout` when one
        is given; with `stop` it is ended.
        """
        if process is not None:
            return await self._guarded("bash", self._process(process, timeout, stop=stop))
        if command is None or not _is_text(command):
            return refusal_answer("bash", InvalidInput("there is no command", hint="give the text of a shell command"))
        work = self._background(command) if background else self._command("bash", command, "", "", timeout, listener)
        return await self._guarded("bash", work)

    async def code_run(
        self, language: str, code: str, *, timeout: int | None = None, listener: CommandListener | None = None
    ) -> WorkspaceAnswer:
        """Run code in the working folder. `language` is `python`, `javascript` or `typescript`, `timeout` in milliseconds."""
        chosen = _ALIASES.get(str(language).lower(), str(language).lower())
        if chosen not in LANGUAGES:
            return refusal_answer(
                "code_run", InvalidInput(f"no language {language!r}", hint=f"the languages are: {', '.join(LANGUAGES)}")
            )
        if not _is_text(code):
            return refusal_answer("code_run", InvalidInput("there is no code", hint="give the text of the program"))
        return await self._guarded("code_run", self._command("code_run", code, chosen, code, timeout, listener))

    async def file_read(self, file_path: str, *, offset: int = 1, limit: int = 2000) -> WorkspaceAnswer:
        """Read a text file, its lines numbered from `offset`, at most `limit` of them; or a picture, or pages of a PDF."""
        return await self._guarded("file_read", self._files.read(file_path, offset, limit))

    async def file_write(self, file_path: str, content: str | bytes) -> WorkspaceAnswer:
        """Write a whole file, a new one or replacing the old content. Missing folders are created."""
        if not self._quota.takes(_size(content)):
            return refusal_answer("file_write", DiskFull("the workspace is full", hint="delete what is not needed"))
        return await self._guarded("file_write", self._files.write(file_path, content))

    async def file_edit(
        self, file_path: str, old_string: str, new_string: str, *, replace_all: bool = False
    ) -> WorkspaceAnswer:
        """Replace a text that is in the file exactly once, or everywhere with `replace_all`."""
        return await self._guarded("file_edit", self._files.edit(file_path, old_string, new_string, replace_all=replace_all))

    async def file_list(self, path: str = ".", *, pattern: str | None = None, limit: int = 500) -> WorkspaceAnswer:
        """List a folder; with a `pattern` such as `**/*.py` the files below it that fit, the newest first."""
        return await self._guarded("file_list", self._files.list(path, pattern, limit))

    async def file_search(
        self,
        pattern: str,
        *,
        path: str = ".",
        glob: str | None = None,
        output_mode: str = "content",
        ignore_case: bool = False,
        head_limit: int = 200,
    ) -> WorkspaceAnswer:
        """Search files for a regular expression (Python's). `output_mode` is `content` or `files_with_matches`."""
        work = self._files.search(pattern, path, glob, output_mode, ignore_case=ignore_case, limit=head_limit)
        return await self._guarded("file_search", work)

    def processes(self) -> tuple[BackgroundProcess, ...]:
        """The background processes of the session."""
        return self._session.background.list() if self._session is not None and self._session.alive else ()

    async def interrupt(self) -> bool:
        """End the command that runs now, if any; its call answers with the code `interrupted`."""
        self._enter_loop()
        call, session = self._current, self._session
        if call is None or session is None or call.finished.done():
            return False
        await session.channel.end(call, "interrupted")
        return True

    async def restart(self) -> None:
        """End the session with its processes; the next call starts a new one.

        Raises:
            InvalidInput: it was begun in another event loop.
        """
        self._enter_loop()
        async with self._opening:
            await self._end_session()

    async def close(self) -> None:
        """End the session with all its processes; the folder stays."""
        await self.restart()

    async def __aenter__(self) -> Self:
        """This workspace, closed at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def ready(self) -> None:
        """Begin the session now, so that the first call finds it ready.

        Raises:
            SandboxUnavailable: nothing here can hold it.
            InvalidInput: it was begun in another event loop.
        """
        await self.session()

    async def session(self) -> tuple[WorkspaceSession, bool]:
        """The open session, begun when there is none, and whether it takes the place of one that has ended."""
        self._enter_loop()
        async with self._opening:
            before = self._session if self._session is not None and self._session.alive else None
            if before is None:
                await self._end_session()
            idle = before is None or self._idle_since_settled
            changed = self._held is not None and idle and await self._held.accept_current()
            self._calls_so_far += 1
            if before is not None and before.options == self.options and not changed:
                self._idle_since_settled = False
                return before, False
            fresh = self._had_session
            if self._held is not None:
                await self._end_session()  # nothing may change the folder while copies are mounted over it
            held = self._held.to_show() if self._held is not None else ()
            opened = await WorkspaceSession.open(self.folder, self.options, held)
            await self._end_session()
            self._session, self._idle_since_settled = opened, False
            self._note = FRESH_NOTE
            if before is not None:
                opened.follow(before)
                self._note = RENEWED_NOTE
            watch = self._quota.guard(opened.channel, busy=lambda: self._calls > 0, current=lambda: self._current)
            self._guards = [asyncio.create_task(watch)]
            if self._held is not None:
                self._held.begin(opened.channel.session.held, mounted=opened.channel.session.isolation != "landlock")
                self._guards.append(asyncio.create_task(self._watch_held(opened, self._held)))
            self._had_session = True
            return self._session, fresh

    @property
    def judged(self) -> bool:
        """Whether somebody has rules about this call: an authorizer has, unless its `judges` says that there are none now."""
        return any(getattr(one, "judges", True) for one in filter(None, (self._authorizer, _call_authorizer.get())))

    async def authorize(self, tool: str, subject: str, folder: str | None = None, content: str | None = None) -> str:
        """Check whether a tool call is permitted in a folder (None: the working folder); it may be executed only there.

        Raises:
            PermissionDenied: it may not.
        """
        folder = folder or self.working_folder
        for authorizer in filter(None, (self._authorizer, _call_authorizer.get())):
            ruling = await authorizer.authorize(tool, subject, folder=folder, content=content)
            if not ruling.allowed:
                message = ruling.reason or f"{tool} is not allowed here"
                raise PermissionDenied(message, hint="do it another way, or ask the user")
        return folder

    def _enter_loop(self) -> None:
        """Bind the workspace to the loop that runs.

        Raises:
            InvalidInput: it is in use in another one.
        """
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._session is not None or self._calls or self._opening.locked():
            raise InvalidInput(
                "this workspace was begun in another event loop",
                hint="do all of its calls in one `asyncio.run`, within `async with catalog.workspace(folder) as workspace`",
            )
        self._loop, self._opening, self._commands = loop, asyncio.Lock(), asyncio.Lock()

    async def _guarded(self, tool: str, work: Coroutine[Any, Any, WorkspaceAnswer]) -> WorkspaceAnswer:
        try:
            self._enter_loop()
        except InvalidInput as error:
            work.close()
            return refusal_answer(tool, error)
        self._stay_awake()
        try:
            answer = await work
            if self._held is not None and tool in _WRITING:
                answer = await self._held.check(answer)
            return replace(answer, text=f"{self._note}\n{answer.text}") if answer.fresh else answer
        except SkillyardError as error:
            return refusal_answer(tool, error)
        finally:
            self._rest()

    def _refuse_held(self, path: str) -> None:
        """Refuse a path, as the session sees it, that is held back; links are seen to when something has been written."""
        if self._held is not None and path.startswith(f"{self.path}/"):
            self._held.refuse(path[len(self.path) + 1 :])

    async def _watch_held(self, session: WorkspaceSession, held: HeldGuard) -> None:
        """Look at what is held back for as long as anything of the session may write."""
        while session.alive:
            await asyncio.sleep(held.seconds)
            if self._idle_since_settled:
                continue
            busy, begun = self._calls > 0, self._calls_so_far
            left = await asyncio.to_thread(session.channel.session.processes)
            await held.settle()
            counted = session.channel.session.isolation != "container"  # an engine elsewhere shows no processes
            self._idle_since_settled = counted and not busy and not left and begun == self._calls_so_far

    async def _command(
        self, tool: str, subject: str, language: str, code: str, timeout: int | None, listener: CommandListener | None
    ) -> WorkspaceAnswer:
        seconds = self._seconds(timeout)
        fresh = False
        for _ in range(_MOST_JUDGED):  # a person may have taken their time, and commands before this one gone elsewhere
            folder = await self.authorize(tool, f"{language}\n{code}" if language else subject)
            async with self._commands:
                session, begun = await self.session()
                fresh = fresh or begun
                if session.working_folder == folder or not self.judged:
                    await self._authorize_links(session, subject, folder)
                    answer = await self._execute(session, tool, subject, language, code, seconds, listener)
                    return replace(answer, fresh=fresh)
        raise _unsettled()

    async def _authorize_links(self, session: WorkspaceSession, command: str, folder: str) -> None:
        """Ask about what the links lead to that a command names: its words alone do not say.

        Raises:
            PermissionDenied: it may not be read or written.
        """
        if not self.judged:
            return
        words = [word for word in _words(command) if not word.startswith("-")][:_MOST_WORDS]
        arguments = {"paths": words, "below": session.folder}
        found = await session.operation("links", arguments, seconds=_LINK_SECONDS, folder=folder)
        if isinstance(found, SessionCall) or "error" in found:
            return  # the command is executed in the same folder, or not at all
        for real in dict.fromkeys(map(str, found["real"])):
            for tool in ("file_read", "file_write"):  # which of both is not known
                await self.authorize(tool, real, folder)

    async def _execute(
        self,
        session: WorkspaceSession,
        tool: str,
        subject: str,
        language: str,
        code: str,
        seconds: float,
        listener: CommandListener | None,
    ) -> WorkspaceAnswer:
        """Execute what was judged, in the folder that the session is in."""
        session.judged = self.judged
        live = LiveText(listener, self.options.policy.secret_values)
        call = (
            session.start_code(language, code, listener=live.feed) if language else session.start(subject, listener=live.feed)
        )
        self._current = call
        try:
            await session.channel.finish(call, seconds)
        finally:
            self._current = None
            live.end()
            session.take_state(call)
            session.rest()
        return await answer_command(session, tool, subject, call, seconds)

    async def _background(self, command: str) -> WorkspaceAnswer:
        fresh = False
        for _ in range(_MOST_JUDGED):
            folder = await self.authorize("bash", command)
            session, begun = await self.session()
            fresh = fresh or begun
            if session.working_folder == folder or not self.judged:
                await self._authorize_links(session, command, folder)
                break
        else:
            raise _unsettled()
        session.background.check_room()
        session.judged = self.judged
        call = session.start(command, listener=None, rolling_bytes=KEPT_BYTES)
        name = session.background.add(command, call)
        text = f'Started in the background as {name}. See its output with {{"process": "{name}"}}, end it with "stop": true.'
        answer = WorkspaceAnswer("bash", text, process=name, data={"process": name})
        return replace(answer, fresh=fresh)

    async def _process(self, name: str, timeout: int | None, *, stop: bool) -> WorkspaceAnswer:
        session = self._session
        if session is None or not session.alive:
            raise RecordNotFound("there are no background processes: no session is running", hint="start one with background")
        if not stop:
            seconds = self._seconds(timeout) if timeout is not None else 0
            await asyncio.wait([session.background.call(name).finished], timeout=seconds)
        state = await session.background.stop(name) if stop else session.background.get(name)
        return await answer_process(session, state, session.background.call(name).output)

    def _seconds(self, timeout: int | None) -> float:
        longest = self.options.policy.timeout_ms
        if timeout is None:
            return min(self.options.default_timeout_ms, longest) / 1000
        if not _is_positive(timeout):
            raise InvalidInput(f"the timeout {timeout!r} is not a number of milliseconds", hint="for example 60000")
        return min(timeout, longest) / 1000

    def _stay_awake(self) -> None:
        self._calls += 1
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _rest(self) -> None:
        self._calls -= 1
        if self._calls == 0 and self._session is not None:
            self._idle = asyncio.get_running_loop().call_later(self.options.idle_seconds, self._fall_asleep)

    def _fall_asleep(self) -> None:
        """End a session that nobody uses; one with a background process stays."""
        self._idle = None
        session = self._session
        if session is None or self._calls:
            return
        if session.background.running:
            self._idle = asyncio.get_running_loop().call_later(self.options.idle_seconds, self._fall_asleep)
        else:
            self._sleeping = asyncio.ensure_future(self._end_unused(session))

    async def _end_unused(self, session: WorkspaceSession) -> None:
        async with self._opening:
            if self._session is session and not self._calls:
                await self._end_session()

    async def _end_session(self) -> None:
        session, self._session = self._session, None
        idle = self._idle_since_settled
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if session is not None:
            if self._held is not None:  # what is put back is copied from what the session was shown
                session.channel.session.stop()
                await session.channel.session.ended.wait()
                await (self._held.end() if idle else self._held.finish())
            await session.close()
        guards, self._guards = self._guards, []
        for guard in guards:
            guard.cancel()
        if guards:
            await asyncio.wait(guards)


def _unsettled() -> PermissionDenied:
    return PermissionDenied(
        "the working folder changed each time this call was judged", hint="call it again when the other commands have ended"
    )


def _words(command: str) -> tuple[str, ...]:
    """What in a command may be a path, with quotes and without."""
    try:
        split = shlex.split(command)
    except ValueError:
        split = []
    return tuple(dict.fromkeys([*split, *_WORD.findall(command)]))


def _size(content: object) -> int:
    return len(content) if isinstance(content, (str, bytes)) else 0


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
