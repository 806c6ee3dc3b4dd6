"""The first program of a session, inside the sandbox: starts commands, passes on what they write, and reports their ends.

`session_agent.py RESULT_FD GATE_FD LIMITS`. It reads requests from standard input (four bytes of length, then a `marshal`
dictionary from our own process) and writes frames to the result pipe: one byte of kind, four bytes with the number of the
call, four bytes of length, then the data. The kinds: `r` ready, `o` and `e` what a command wrote to standard output and error,
`s` the state that its shell has left, `p` its process number, `x` its end, as an exit code or, below zero, a signal, `f` why
it could not be started, `g` that its folder is gone, `w` the process number of the interpreter that waits for a program, 0 when
there is none.

Operations on files are in `session_files.py`; each is a process of its own, so that it ends like a command when it takes too
long. What waits for a program is `session_code.py`, started when it is asked for (the kind `standby`); a request for code gets
it when nothing differs: the command, the folder and the state of the shell. This file stands alone: it imports nothing of
Skillyard and little else, because it is on the way of every first call.
"""

from __future__ import annotations

import marshal
import posix
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable
    from typing import Any
else:
    import _signal as signal

_PIECE = 1 << 16
_GATE = 251  # where an interpreter that was started beforehand waits for its program
_SHELL = ("bash", "command", "folder", "state")  # what of a request decides what a program sees of its shell
_LATE_PIECES = 16  # that are read after the end of a command that left others behind
_USUAL = (signal.SIGPIPE, signal.SIGXFSZ)  # signals that Python ignores and commands expect
# A child that is forked while a signal ends the shell runs its trap too: only the shell itself says what it leaves.
_WRAPPER = """\
__skillyard_keep() { [ -n "$__skillyard_kept" ] || [ "$BASHPID" != "$$" ] || { pwd -P || printf '%s\\n' "$PWD"; \
printf '\\0'; declare -px; printf '\\0'; declare -f; printf '\\0'; } 2>/dev/null >|"$__skillyard_to"; __skillyard_kept=1; }
trap __skillyard_keep EXIT
__skillyard_state=$SKILLYARD_SHELL_STATE __skillyard_command=$SKILLYARD_SHELL_COMMAND __skillyard_to=$SKILLYARD_SHELL_TO
unset SKILLYARD_SHELL_STATE SKILLYARD_SHELL_COMMAND SKILLYARD_SHELL_TO
eval "$__skillyard_state" 2>/dev/null
unset __skillyard_state
eval "$__skillyard_command"
__skillyard_status=$?
__skillyard_keep
exit "$__skillyard_status"
"""


class _FolderGone(OSError):
    """The folder of a call is not there, or is reached through a link now."""


class _Command:
    """One thing that was started: its process, and what of it is still open.

    A shell opens `reported`, the end of a pipe that is open here, when its command has ended: no command has it from the start.
    """

    def __init__(self, call: int, pid: int, pipes: dict[int, bytes], written: str, reported: tuple[int, ...]) -> None:
        self.call = call
        self.pid = pid
        self.pipes = pipes
        self.state = b""
        self.written = written  # a file of code, removed at the end
        self.reported = reported


class _WaitingInterpreter:
    """An interpreter that waits for a program: its process, its pipes, both ends of its gate, and the shell it came from."""

    def __init__(
        self, pid: int, pipes: dict[int, bytes], reported: tuple[int, ...], gate: tuple[int, int], shell: list[Any]
    ) -> None:
        self.pid = pid
        self.pipes = pipes
        self.reported = reported
        self.gate = gate  # its end too: so no write to it can fail for a reader that is gone
        self.shell = shell


class CommandServer:
    """Everything that runs in the session, by the numbers of the calls."""

    def __init__(self, result: int) -> None:
        self._result = result
        self._poll = select.poll()
        self._requests = b""
        self._commands: dict[int, _Command] = {}  # by process number
        self._owners: dict[int, _Command | None] = {}  # by descriptor; None: nobody waits for what comes
        self._standby: _WaitingInterpreter | None = None
        self._woken, wake = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        posix.set_blocking(0, False)
        for fd in (0, self._woken):
            self._poll.register(fd, select.POLLIN)

    def serve(self) -> None:
        """Do what is asked until nobody asks any more."""
        self._send(b"r", 0, b"")
        while True:
            for fd, _ in self._poll.poll():
                if fd == 0:
                    if not self._read_requests():
                        return
                elif fd == self._woken:
                    self._drain(self._woken)
                elif fd in self._owners:
                    self._pass_on(fd)
            self._reap()

    def _send(self, kind: bytes, call: int, data: bytes) -> None:
        frame = memoryview(kind + call.to_bytes(4, "big") + len(data).to_bytes(4, "big") + data)
        while frame:
            frame = frame[posix.write(self._result, frame) :]

    def _read_requests(self) -> bool:
        try:
            piece = posix.read(0, _PIECE)
        except BlockingIOError:
            return True
        self._requests += piece
        while len(self._requests) >= 4:
            end = 4 + int.from_bytes(self._requests[:4], "big")
            if len(self._requests) < end:
                break
            request = marshal.loads(self._requests[4:end])  # noqa: S302 # from our own process
            self._requests = self._requests[end:]
            self._do(request)
        return bool(piece)

    def _do(self, request: dict[str, Any]) -> None:
        if request["kind"] == "signal":
            for command in self._commands.values():
                if command.call == request["call"]:
                    self._signal(command.pid, request["signal"])
            return
        try:
            if request["kind"] == "shell":
                self._start_shell(request)
            elif request["kind"] == "standby":
                self._stand_by(request)
            else:
                self._start_operation(request)
        except _FolderGone:
            self._send(b"g", request["call"], b"")
        except (OSError, ValueError) as error:
            self._send(b"f", request["call"], str(error).encode("utf-8", "replace"))

    @staticmethod
    def _signal(pid: int, number: int) -> None:
        for send in (posix.killpg, posix.kill):
            try:
                send(pid, number)
            except OSError:
                continue

    def _start_shell(self, request: dict[str, Any]) -> None:
        """Start a shell that takes up the state of the one before, executes the command, and reports its own state."""
        written = self._write_code(request)
        standby = self._claim(request) if written else None
        if standby is not None:
            posix.write(standby.gate[1], b"\0".join((_bytes(request["folder"]), _bytes(written))))
            _close_all(standby.gate)
            self._watch(request["call"], standby.pid, standby.pipes, written, standby.reported)
            return
        command = request["command"].replace(request.get("placeholder") or "\0", written)
        try:
            pid, pipes, reported = self._spawn(request, command, ())
        except OSError:
            _remove(written)
            raise
        self._watch(request["call"], pid, pipes, written, reported)

    def _stand_by(self, request: dict[str, Any]) -> None:
        """Start an interpreter that waits for the program of a later request."""
        self._dismiss()
        waiting = sys.argv[0].rpartition("/")[0] + "/session_code.py"
        gate = posix.pipe2(posix.O_CLOEXEC)
        command = request["command"].replace(request["placeholder"], waiting)
        try:
            pid, pipes, reported = self._spawn(request, command, ((posix.POSIX_SPAWN_DUP2, gate[0], _GATE),))
        except OSError:  # nobody waits for it: the program will start an interpreter of its own
            _close_all(gate)
            return
        self._standby = _WaitingInterpreter(pid, pipes, reported, gate, [request[name] for name in _SHELL])
        self._send(b"w", 0, str(pid).encode())

    def _claim(self, request: dict[str, Any]) -> _WaitingInterpreter | None:
        """The interpreter that waits, if it came from the very shell that the request would begin with."""
        self._reap()
        standby = self._standby
        same = standby is not None and standby.shell == [request[name] for name in _SHELL]
        if standby is None or not same or not _is_there(request["folder"]):
            return None
        self._standby = None
        self._send(b"w", 0, b"0")
        return standby

    def _dismiss(self, *, ended: bool = False) -> None:
        """Do without the interpreter that waits, and end it if it has not `ended`."""
        standby, self._standby = self._standby, None
        if standby is None:
            return
        _close_all((*standby.gate, *standby.pipes, *standby.reported))
        if ended:
            self._send(b"w", 0, b"0")
        else:
            self._signal(standby.pid, signal.SIGKILL)

    def _spawn(
        self, request: dict[str, Any], command: str, actions: tuple[tuple[Any, ...], ...]
    ) -> tuple[int, dict[int, bytes], tuple[int, ...]]:
        """Start a shell with the state and in the folder of a request.

        The answer: its process number, our ends of its pipes, and the end that it opens by its path after its command.
        """
        pipes = {kind: posix.pipe2(posix.O_CLOEXEC) for kind in (b"o", b"e", b"s")}
        reported = pipes[b"s"][1]
        variables = {
            **posix.environ,
            b"SKILLYARD_SHELL_TO": b"/proc/%d/fd/%d" % (posix.getpid(), reported),
            b"SKILLYARD_SHELL_STATE": _bytes(request["state"]),
            b"SKILLYARD_SHELL_COMMAND": _bytes(command),
        }
        moves = [
            (posix.POSIX_SPAWN_OPEN, 0, "/dev/null", posix.O_RDONLY, 0),
            *((posix.POSIX_SPAWN_DUP2, pipes[kind][1], to) for kind, to in ((b"o", 1), (b"e", 2))),
            *actions,
        ]
        argv = [request["bash"], "--noprofile", "--norc", "-c", _WRAPPER, "bash"]
        here = posix.open(".", posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            _enter(request["folder"])
            pid = posix.posix_spawn(argv[0], argv, variables, file_actions=moves, setsid=True, setsigdef=_USUAL)
        except OSError:
            _close_all((reported, *(read for read, _ in pipes.values())))
            raise
        finally:
            posix.fchdir(here)
            _close_all((here, *(write for _, write in pipes.values() if write != reported)))
        return pid, {read: kind for kind, (read, _) in pipes.items()}, (reported,)

    @staticmethod
    def _write_code(request: dict[str, Any]) -> str:
        """Put the code of the request into a file of its own, in its folder, or in the temporary one if that takes none."""
        if not request.get("code_name"):
            return ""
        for folder in (request["folder"], posix.environ[b"TMPDIR"].decode()):
            path = f"{folder}/{request['code_name']}"
            try:
                file = posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o600)
            except OSError:
                continue
            try:
                view = memoryview(request["code"])
                while view:
                    view = view[posix.write(file, view) :]
                return path
            except OSError:
                _remove(path)
            finally:
                posix.close(file)
        raise OSError("there is no space left for the code")

    def _start_operation(self, request: dict[str, Any]) -> None:
        """Do an operation on files in a process of its own; its answer is what it writes."""
        if "session_files" not in sys.modules:
            sys.path.append(sys.argv[0].rpartition("/")[0])
        import session_files  # type: ignore[import-not-found] # beside this file in the sandbox

        read, write = posix.pipe2(posix.O_CLOEXEC)
        try:
            pid = posix.fork()
        except OSError:
            posix.close(read)
            posix.close(write)
            raise
        if pid == 0:
            code = 1
            try:
                posix.setsid()
                signal.set_wakeup_fd(-1)
                posix.close(self._result)
                session_files.answer(request, write)
                code = 0
            finally:
                posix._exit(code)
        posix.close(write)
        self._watch(request["call"], pid, {read: b"o"}, "", ())

    def _watch(self, call: int, pid: int, pipes: dict[int, bytes], written: str, reported: tuple[int, ...]) -> None:
        command = self._commands[pid] = _Command(call, pid, pipes, written, reported)
        for fd in pipes:
            posix.set_blocking(fd, False)
            self._owners[fd] = command
            self._poll.register(fd, select.POLLIN)
        self._send(b"p", call, str(pid).encode())

    def _pass_on(self, fd: int) -> bool:
        """Pass on one piece; whether there was one."""
        command = self._owners[fd]
        try:
            piece = posix.read(fd, _PIECE)
        except BlockingIOError:
            return False
        if not piece:
            self._close(fd)
            return False
        if command is not None:
            if command.pipes[fd] == b"s":
                command.state += piece
            else:
                self._send(command.pipes[fd], command.call, piece)
        return True

    def _close(self, fd: int) -> None:
        self._poll.unregister(fd)
        command = self._owners.pop(fd)
        if command is not None:
            del command.pipes[fd]
        posix.close(fd)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = posix.waitpid(-1, posix.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._standby is not None and self._standby.pid == pid:
                self._dismiss(ended=True)
            command = self._commands.pop(pid, None)
            if command is not None:
                self._finish(command, posix.WTERMSIG(status) * -1 if posix.WIFSIGNALED(status) else posix.WEXITSTATUS(status))

    def _finish(self, command: _Command, code: int) -> None:
        """Read what is left, report the end; what others left behind write later is read and forgotten."""
        for fd in tuple(command.pipes):
            for _ in range(_LATE_PIECES):
                if not self._pass_on(fd):
                    break
        for fd in tuple(command.pipes):
            if command.pipes[fd] == b"s":
                self._close(fd)
            else:
                self._owners[fd] = None
        _close_all(command.reported)
        _remove(command.written)
        if command.state:
            self._send(b"s", command.call, command.state)
        self._send(b"x", command.call, str(code).encode())

    @staticmethod
    def _drain(fd: int) -> None:
        try:
            posix.read(fd, 4096)
        except BlockingIOError:
            return


def _enter(folder: str) -> None:
    """Go into the very folder of a call, which was judged by its name."""
    try:
        posix.chdir(folder)
        found = posix.getcwd()
    except OSError:
        raise _FolderGone from None
    if found != folder:
        raise _FolderGone


def _is_there(folder: str) -> bool:
    here = posix.open(".", posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        _enter(folder)
    except _FolderGone:
        return False
    finally:
        posix.fchdir(here)
        posix.close(here)
    return True


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _close_all(files: Iterable[int]) -> None:
    for file in files:
        posix.close(file)


def _remove(path: str) -> None:
    if path:
        try:
            posix.unlink(path)
        except OSError:
            return


def _show_packages() -> None:
    """Put granted packages where a Python looks that was started without `PYTHONPATH`: its user's own packages name them."""
    granted, home = posix.environ.get(b"PYTHONPATH"), posix.environ.get(b"HOME")
    if not granted or not home:
        return
    folder = home
    try:
        for part in (b".local", b"lib", b"python%d.%d" % sys.version_info[:2], b"site-packages"):
            folder += b"/" + part
            posix.mkdir(folder, 0o755)
        file = posix.open(folder + b"/skillyard.pth", posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o644)
        posix.write(file, granted + b"\n")
        posix.close(file)
    except OSError:
        return


def main() -> None:
    """Set the limits, wait at the gate, then serve."""
    result, gate, limits = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    if limits:
        import resource

        for item in limits.split(","):
            name, _, number = item.partition("=")
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), (int(number), int(number)))
    opened = True
    if gate >= 0:  # in a container nothing starts before it may
        opened = bool(posix.read(gate, 1))
        posix.close(gate)
    if opened:
        posix.set_inheritable(result, False)
        _show_packages()
        CommandServer(result).serve()
    posix._exit(0)


main()
