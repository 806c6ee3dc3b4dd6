"""Commands of Python as forks of one process that has everything imported: a server starts in a tenth of the time.

`Popen` and `run` are called as those of `subprocess`, with a command of this Python: `-W`, then `-m` or `-c`. The fork is
made while its process has one thread and no event loop; it gets its own arguments, environment, folder, streams and signals,
and is killed with the process of the tests. What a command does before its first import is not tried by it: tests of the
command itself start it by `subprocess`.

Run as a program this file is the process that forks. Where tests run in several processes, one loads everything for all of
them (`share`): what each of them asks is a fork of it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

PIPE, STDOUT, DEVNULL = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
MODULES: Final = (
    "alembic.command",
    "alembic.config",
    "anyio._backends._asyncio",
    "httpx",
    "procrastinate",
    "psycopg",
    "skillyard.cli.commands.serve_commands",
    "skillyard.database.maintenance",
    "skillyard.engine.worker",
    "skillyard.library.catalog_services",
    "skillyard.mcp.mcp_server",
    "skillyard.mcp.transports",
    "skillyard.offload.forked_map",
    "skillyard.packages.tar_reader",
    "skillyard.packages.zip_reader",
    "skillyard.registry.registry_records",
    "skillyard.sandbox.backend_probe",
    "skillyard.sandbox.bubblewrap",
    "skillyard.sandbox.landlock",
    "skillyard.search.scoring",
    "skillyard.server.application",
    "skillyard.server.http_server",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "uvicorn",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.auto",
    "yaml.cyaml",
)
_MODELS: Final = (  # what speaks to models: as many modules again, loaded when a first command is given a scripted model
    "openai.resources.chat",
    "openai.resources.responses",
    "pydantic_ai.models.openai",
    "pydantic_ai.providers.openai",
    "skillyard.conversations.chat",
    "skillyard.execution.intent_runs",
    "skillyard.search.ranker",
)
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_MOST: Final = 1 << 20  # bytes of a request
_SHARED: Final = "SKILLYARD_TESTS_PRELOADED"  # a variable: the socket of the process that is shared


def first_file() -> Path | None:
    """The file of which new databases of SQLite are copies (`tests/first_file.py`); the fixtures of the tests say which."""
    return None


class Popen:
    """One command, as `subprocess.Popen` with `text=True` would have it."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        stdin: int | IO[Any] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        text: bool = True,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        start_new_session: bool = False,
    ) -> None:
        assert text, "bytes are not offered"
        self.args, self.returncode = [str(word) for word in command], None
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        self._lock = threading.Lock()
        environment = dict(os.environ if env is None else env)
        request = {
            "command": _words(self.args),
            "cwd": str(cwd or Path.cwd()),
            "environment": environment,
            "speaks": "OPENAI_BASE_URL" in environment,
            "session": start_new_session,
            "first": str(first_file() or ""),
        }
        with contextlib.ExitStack() as ours:
            ends = []
            for name, wanted in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)):
                theirs, mine = _stream(wanted, ours, reads=name == "stdin", out=ends[-1] if ends else -1)
                ends.append(theirs)
                if mine is not None:
                    setattr(self, name, os.fdopen(mine, "w" if name == "stdin" else "r", encoding="utf-8"))
            self._status, reported = os.pipe()
            ours.callback(os.close, reported)
            _process().ask(request, [*ends, reported])
        line = self._line()
        assert line, "the process that forks has ended"
        self.pid = int(line)

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it works."""
        with self._lock:
            if self.returncode is None and select.select([self._status], [], [], 0)[0]:
                self._ended()
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not, `timeout` seconds long.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            with contextlib.suppress(OSError, ValueError):  # another thread has seen it end
                select.select([self._status], [], [], 1 if left is None else min(left, 1))
        assert self.returncode is not None
        return self.returncode

    def communicate(self, input: str | None = None, timeout: float | None = None) -> tuple[str | None, str | None]:  # noqa: A002
        """Write `input`, read all, and wait."""
        found: dict[str, str] = {}

        def read(name: str, stream: IO[str]) -> None:
            with contextlib.suppress(ValueError):
                found[name] = stream.read()

        threads = [
            threading.Thread(target=read, args=(name, stream), daemon=True)
            for name, stream in (("stdout", self.stdout), ("stderr", self.stderr))
            if stream is not None and not stream.closed
        ]
        for thread in threads:
            thread.start()
        if self.stdin is not None and not self.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self.stdin.write(input or "")
                self.stdin.flush()
            with contextlib.suppress(BrokenPipeError):
                self.stdin.close()
        self.wait(timeout)
        for thread in threads:
            thread.join(timeout)
            if thread.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self._close()
        return tuple(found.get(name, "") if getattr(self, name) is not None else None for name in ("stdout", "stderr"))  # type: ignore[return-value]

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()
        self.wait()

    def _close(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _ended(self) -> None:
        line = self._line()
        self.returncode = int(line) if line else -signal.SIGKILL  # with the process that forked it
        os.close(self._status)

    def _line(self) -> str:
        """The next line about this command; empty when there is nobody to write one."""
        line = b""
        while not line.endswith(b"\n") and (more := os.read(self._status, 1)):
            line += more
        return line.decode()


def run(
    command: Sequence[str | Path],
    *,
    input: str | None = None,  # noqa: A002
    capture_output: bool = False,
    text: bool = True,
    check: bool = False,
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as `subprocess.run` does."""
    if capture_output:
        options |= {"stdout": PIPE, "stderr": PIPE}
    if input is not None:
        options["stdin"] = PIPE
    process = Popen(command, text=text, **options)
    try:
        out, errors = process.communicate(input, timeout)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    done = subprocess.CompletedProcess(process.args, process.wait(), out, errors)
    if check:
        done.check_returncode()
    return done


def _words(command: Sequence[str]) -> dict[str, Any]:
    """What a command of this Python asks of it."""
    program, *words = command
    assert Path(program) == Path(sys.executable), f"{program} is not this Python"
    warned = []
    while words[0] == "-W":
        warned, words = [*warned, words[1]], words[2:]
    kind, what, *arguments = words
    assert kind in ("-m", "-c"), command
    return {"kind": kind, "what": what, "arguments": arguments, "warned": warned}


def _stream(wanted: Any, ours: contextlib.ExitStack, *, reads: bool, out: int) -> tuple[int, int | None]:
    """The end of a stream that the command gets, and that which stays here."""
    if wanted is None:
        return (0 if reads else 1 if out <= 0 else 2), None
    if wanted == STDOUT:
        return out, None
    if wanted == DEVNULL:
        theirs = os.open(os.devnull, os.O_RDWR)
    elif wanted == PIPE:
        ends = os.pipe()
        theirs, mine = ends if reads else ends[::-1]
        ours.callback(os.close, theirs)
        return theirs, mine
    else:
        return (wanted if isinstance(wanted, int) else wanted.fileno()), None
    ours.callback(os.close, theirs)
    return theirs, None


class _Forking:
    """The process that has everything imported, as that of the tests sees it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if shared := os.environ.get(_SHARED):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.connect(shared)
        else:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                command = [sys.executable, __file__, str(theirs.fileno())]
                self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST)

    def ask(self, request: dict[str, Any], descriptors: list[int]) -> None:
        socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)

    def close(self) -> None:
        self._socket.close()
        if self._process is not None:
            self._process.wait()


_only: list[_Forking] = []
_making = threading.Lock()


def _process() -> _Forking:
    with _making:
        if not _only:
            _only.append(_Forking())
            atexit.register(_only[0].close)
        return _only[0]


def share() -> None:
    """Load everything once for the processes that this one starts and that inherit its environment; ends with it."""
    folder = tempfile.mkdtemp(prefix="skillyard-preloaded-")  # nobody else may ask it to run something
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"{folder}/socket")
        listener.listen()
        command = [sys.executable, __file__, str(listener.fileno()), "shared"]
        process = subprocess.Popen(
            command, pass_fds=[listener.fileno()], stdin=subprocess.PIPE, env=os.environ | {"HOME": folder}
        )
    atexit.register(process.communicate)  # the end of its standard input ends it
    os.environ[_SHARED] = f"{folder}/socket"


def _fork_for_each(listener: socket.socket) -> socket.socket:
    """In each fork the connection that it is for; never returns in the process that forks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            os._exit(0)  # and all of them with this process
        connection, _ = listener.accept()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)  # one whose tests have ended
        parent = os.getpid()
        if os.fork() == 0:
            listener.close()
            _die_with(parent)
            return connection
        connection.close()


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


class _Waiting:
    """The process that forks: it waits for requests and for the end of its children."""

    def __init__(self, asked: socket.socket) -> None:
        self._socket = asked
        self._woken, self._wakes = socket.socketpair()
        self._wakes.setblocking(False)
        self._woken.setblocking(False)
        self._status: dict[int, int] = {}
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the tests end what they started
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes.fileno())

    def child(self) -> tuple[dict[str, Any], list[int]]:
        """Fork for each request; gives only the children their requests, and their streams."""
        while True:
            ready, _, _ = select.select([self._socket, self._woken], [], [])
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(4096)
                self._reap()
            if self._socket in ready:
                data, descriptors, _, _ = socket.recv_fds(self._socket, _MOST, 4)
                if not data:
                    os._exit(0)  # and all of them with this process
                reported = descriptors.pop()
                request = json.loads(data)
                if request["speaks"]:
                    _load(_MODELS)
                parent = os.getpid()
                if (pid := os.fork()) == 0:
                    os.close(reported)
                    self._leave(parent)
                    return request, descriptors
                os.write(reported, f"{pid}\n".encode())
                self._status[pid] = reported
                for descriptor in descriptors:
                    os.close(descriptor)

    def _reap(self) -> None:
        while self._status:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            reported = self._status.pop(pid)
            with contextlib.suppress(BrokenPipeError):
                os.write(reported, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(reported)

    def _leave(self, parent: int) -> None:
        """What a process has that was started by itself: no handlers and nothing open but its streams."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for one in (self._socket, self._woken, self._wakes):
            one.close()
        for reported in self._status.values():
            os.close(reported)
        _die_with(parent)


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Take the place of a process that was started with the command."""
    if request["session"]:
        os.setsid()
    for at, descriptor in enumerate(descriptors):
        os.dup2(descriptor, at)
    for descriptor in descriptors:
        os.close(descriptor)
    for at, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        stream = os.fdopen(at, old.mode, encoding=old.encoding, errors=old.errors, closefd=False)
        stream.reconfigure(line_buffering=name == "stderr" or stream.isatty())
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    if request["first"]:
        connection.Database.open = copies(Path(request["first"]), lambda: True)  # type: ignore[method-assign]
    command = request["command"]
    sys.argv = [command["kind"], *command["arguments"]]
    sys.path[0] = request["cwd"] if command["kind"] == "-m" else ""
    from multiprocessing import util

    util.spawnv_passfds = _fork_of_fork  # type: ignore[attr-defined]
    for word in command["warned"]:
        sys.warnoptions.append(word)
        warnings.simplefilter(word)


def _fork_of_fork(path: object, words: Sequence[bytes | str], descriptors: Sequence[int]) -> int:
    """In the place of `multiprocessing.util.spawnv_passfds`, with which a server starts the others: they are forks too."""
    if pid := os.fork():
        return pid
    status = 1
    try:
        for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
            if descriptor > 2 and descriptor not in descriptors:
                with contextlib.suppress(OSError):  # the one through which they are listed
                    os.close(descriptor)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        reported = [os.fsdecode(word) for word in words]
        code, *arguments = reported[reported.index("-c") + 1 :]
        ctypes.CDLL(None).prctl(_PR_SET_NAME, code.partition("import ")[2].encode()[:15])
        sys.argv = ["-c", *arguments]
        prometheus_client.values.ValueClass = prometheus_client.values.get_value_class()  # an import has chosen it
        exec(code, {})
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(status)


def _load(modules: Sequence[str]) -> None:
    """Import them, unless they are there; what is here then stays: the forks share its memory."""
    if all(module in sys.modules for module in modules):
        return
    gc.disable()  # nothing of modules becomes garbage
    for module in modules:
        importlib.import_module(module)
    assert threading.active_count() == len(list(Path("/proc/self/task").iterdir())) == 1, "a fork has only one thread"
    gc.collect()
    gc.freeze()
    gc.enable()


def _execute(command: dict[str, Any]) -> None:
    if command["kind"] == "-m":
        runpy.run_module(command["what"], run_name="__main__", alter_sys=True)
    else:
        exec(compile(command["what"], "<string>", "exec"), vars(sys.modules["__main__"]))


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy would start others
    _load(MODULES)
    import prometheus_client.values
    from first_file import copies

    from skillyard.database import connection

    asked = socket.socket(fileno=int(sys.argv[1]))
    if sys.argv[2:] == ["shared"]:
        _load(_MODELS)
        asked = _fork_for_each(asked)
    child = _Waiting(asked).child()
    _become(*child)
    _execute(child[0]["command"])
