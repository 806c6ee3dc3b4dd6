"""Inside the sandbox of a watched skill: starts commands, runs Python scripts, and records what they ask of the world.

One file for three uses; it stands alone. `watch_agent.py RESULT GATE LIMITS` is the first program of the sandbox: it reads a
request in JSON from each line of standard input and writes an answer in JSON as a line to the result pipe. For each round it begins
anew with the variables of that round (`--serve RESULT REQUESTS`). A script in
Python runs as in a program that knows the entry contract, and so does an example of a text: in a fork of the first program, which
has imported what most scripts import. Under the name `sitecustomize` every other Python of the sandbox loads it first: connections are led to the one listener there is, waiting is cut
short, and packages that are not here are imitated. A script can undo that; what it does to files and sends is seen from outside.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_CALLS = "/workspace/.world/calls"
_PACKAGES = "/workspace/.world/packages"  # what is imitated better than by `_ImitatedObject`
_PROXY = ("127.0.0.1", 3128)
_MARKS = ("skillyard:canned", '"skillyard":"canned"')
_MOST_OUTPUT = 64 * 1024
_MOST_LEFT = 20
_GRACE = 0.4
_IMPORTED = (
    "argparse", "base64", "collections", "datetime", "hashlib", "json", "pathlib", "random", "re", "shutil", "socket", "subprocess",
    "tempfile", "threading", "time", "typing", "urllib.request", "zipfile",
)  # fmt: skip
_FORBIDDEN = ("/proc/1/", "/etc/shadow", "/var/run/docker.sock", "/run/docker.sock", "/sys/fs/cgroup/", "/dev/mem", "/dev/kmem")


def note(*words: object) -> None:
    """Add a line to the record of what was asked for: words with tabs between them."""
    line = "\t".join(" ".join(str(word).split()) for word in words)[:4000] + "\n"
    try:
        file = os.open(_CALLS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return
    os.write(file, line.encode("utf-8", "replace"))
    os.close(file)


# The first program.


def serve(result: int, requests: int) -> None:
    """Do what each line of `requests` asks for, one after the other, until nothing more comes."""
    import json

    received = b""
    while True:
        line, found, rest = received.partition(b"\n")
        if found:
            received, request = rest, json.loads(line)
            if "become" in request:
                _begin_round(result, requests, request["become"])
            _answer(result, _run(request))
        elif piece := os.read(requests, 1 << 16):
            received += piece
        else:
            return


def _answer(result: int, answer: dict[str, Any]) -> None:
    import json

    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[os.write(result, data) :]


def _begin_round(result: int, requests: int, variables: dict[str, str]) -> None:
    """Become a program that has these variables from its beginning, as everything that it starts has them."""
    for descriptor in (result, requests):
        os.set_inheritable(descriptor, True)
    os.execve(sys.executable, ["python3", __file__, "--serve", str(result), str(requests)], variables)  # noqa: S606 # without a shell


def _allow_inspection(shown: bool) -> None:
    """Whether other programs of the sandbox may look into this process, and write to its pipes."""
    import ctypes

    ctypes.CDLL(None).prctl(4, int(shown), 0, 0, 0)  # PR_SET_DUMPABLE


def _run(request: dict[str, Any]) -> dict[str, Any]:
    """Put files back as they were, or run one command to its end or its deadline; nothing of it is left then."""
    if "write" in request:
        return {"failed": [path for path, text in request["write"].items() if not _put_back(path, text)]}
    import time

    reading, writing = os.pipe()
    given, giving = os.pipe()
    os.write(giving, request["stdin"].encode()[:4096])
    os.close(giving)
    started = time.monotonic()
    process, problem = _start(request, given, writing)
    os.close(writing)
    os.close(given)
    if process is None:
        os.close(reading)
        return {"exit": 127, "ms": 0, "late": False, "output": problem, "left": []}
    output, late = _read(reading, process, started + request["seconds"])
    left = [] if late else _left_behind()
    _end_all()
    code = process.returncode if process.returncode is not None else -9
    spent = int((time.monotonic() - started) * 1000)
    return {"exit": code, "ms": spent, "late": late, "output": output.decode("utf-8", "replace"), "left": left}


def _start(request: dict[str, Any], given: int, writing: int) -> tuple[Any, str]:
    """The process of a command, or None and why there is none; a script in Python gets a fork, which leaves this function in an error."""
    import subprocess

    argv = request["argv"]
    try:
        if argv[0] not in ("--script", "--example"):
            return subprocess.Popen(  # noqa: S603 # what this is for
                argv, cwd=request["cwd"], stdin=given, stdout=writing, stderr=writing, start_new_session=True
            ), ""
        if process := os.fork():
            return _ForkedProcess(process), ""
    except OSError as error:
        return None, str(error)
    os.setsid()
    for descriptor, standard in ((given, 0), (writing, 1), (writing, 2)):
        os.dup2(descriptor, standard)
    os.closerange(3, 256)
    os.chdir(request["cwd"])
    _allow_inspection(True)
    hook_python()
    sys.orig_argv[:] = ["python3", *argv[1:]]
    _forget_imported(os.path.dirname(argv[1]))
    if argv[0] == "--script":
        run_script(argv[1], argv[2:])
    else:
        run_example(argv[1])
    raise SystemExit(0)


def _forget_imported(folder: str) -> None:
    """Where a script has a file of its own under the name of what was imported, that is what it gets."""
    for name in {one.partition(".")[0] for one in _IMPORTED}:
        if os.path.exists(f"{folder}/{name}.py") or os.path.exists(f"{folder}/{name}"):
            for module in [one for one in sys.modules if one.partition(".")[0] == name]:
                del sys.modules[module]


class _ForkedProcess:
    """A fork of this process, as far as it is asked about like a process of `subprocess`."""

    def __init__(self, process: int) -> None:
        self._process = process
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """How it ended; None while it runs."""
        if self.returncode is None:
            try:
                ended, status = os.waitpid(self._process, os.WNOHANG)
            except OSError:
                ended, status = self._process, 9
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _put_back(path: str, text: str) -> bool:
    import shutil

    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return False
    return True


def _read(reading: int, process: Any, until: float) -> tuple[bytes, bool]:
    """What a command writes until it ends, and whether it had not ended in time."""
    import select
    import time

    output, open_ = _Output(), True
    try:
        while process.poll() is None and (rest := until - time.monotonic()) > 0:
            if open_ and select.select([reading], [], [], min(rest, 0.02))[0]:
                piece = os.read(reading, 1 << 16)
                open_ = bool(piece)
                output.add(piece)
            elif not open_:
                _wait(0.005)
        late = process.poll() is None
        while open_ and select.select([reading], [], [], 0)[0] and (piece := os.read(reading, 1 << 16)):
            output.add(piece)
    finally:
        os.close(reading)
    return output.kept(), late


class _Output:
    """The beginning and the end of what a command writes, each up to 32 KiB."""

    def __init__(self) -> None:
        self._first = self._last = b""

    def add(self, piece: bytes) -> None:
        """Take more of it."""
        room = _MOST_OUTPUT // 2 - len(self._first)
        self._first += piece[:room] if room > 0 else b""
        self._last = (self._last + piece[max(room, 0) :])[-_MOST_OUTPUT // 2 :]

    def kept(self) -> bytes:
        """Both, one after the other."""
        return self._first + self._last


def _left_behind() -> list[str]:
    """What still runs a moment after a command has ended: what ends with it needs a moment too."""
    import time

    until = time.monotonic() + _GRACE
    while (others := _others()) and time.monotonic() < until:
        _wait(0.02)
    return others


def _others() -> list[str]:
    """The command lines of the processes that run beside this one."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    state = file.read().rpartition(")")[2].split()[0]
                with open(f"/proc/{name}/cmdline", "rb") as line:
                    words = line.read(1000).replace(b"\0", b" ").decode("utf-8", "replace").strip()
            except (OSError, IndexError):
                continue
            if state not in "ZX" and words and "/.world/bin/" not in words:
                found.append(words)
    return found[:_MOST_LEFT]


def _end_all() -> None:
    import signal

    try:
        os.kill(-1, signal.SIGKILL)
        while os.waitpid(-1, 0)[0]:
            continue
    except OSError:
        return  # there is none, or none any more


# Running one script.


def run_script(path: str, arguments: Sequence[str]) -> None:
    """Run a Python script as a program, then call what only a caller would: `execute`, or a `main` that nothing calls."""
    import types

    with open(path, "rb") as file:
        source = file.read()
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(path)
    exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102 # what this is for
    if callable(execute := module.__dict__.get("execute")):
        print(execute({"text": "sample", "path": "/workspace/project/sample.txt", "query": "sample"}))
    elif b"__main__" not in source:
        for name in ("main", "run", "setup", "handler"):
            if callable(call := module.__dict__.get(name)):
                call()


def run_example(path: str) -> None:
    """Run an example of a text, one statement after the other: what it leaves out, its reader would add."""
    import ast
    import importlib

    names: dict[str, Any] = {"__name__": "__main__"}
    for name in ("base64", "json", "os", "pathlib", "re", "requests", "shutil", "socket", "subprocess", "sys", "time"):
        names[name] = importlib.import_module(name)
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for statement in tree.body:
        try:
            exec(compile(ast.Module([statement], []), path, "exec"), names)  # noqa: S102 # what this is for
        except Exception as error:
            print(f"{type(error).__name__}: {error}")


# In every Python of the sandbox.


def hook_python() -> None:
    """Lead connections to the listener, cut waiting short, play missing packages, and note what is asked for."""
    import time

    time.sleep = lambda seconds: _wait(min(max(float(seconds), 0.0), 0.01))
    _shorten_waits()
    sys.addaudithook(_note_audit_event)
    _RedirectedConnections().install()
    if "-m" not in getattr(sys, "orig_argv", ())[:5]:
        sys.path.append(_PACKAGES)
        sys.meta_path.append(_ImitatedPackages())


_LONGEST_WAIT = 0.3
"""How long Python waits for anything with a time limit of its own, in seconds."""


def _shorten_waits() -> None:
    """Cut short what waits in other ways than by `time.sleep`: for events, for files, for an alarm, in an event loop."""
    import select
    import signal
    import threading

    def short(seconds: Any) -> Any:
        return min(float(seconds), _LONGEST_WAIT) if isinstance(seconds, int | float) else seconds

    waits, selects, timers = threading.Event.wait, select.select, signal.setitimer
    threading.Event.wait = lambda self, timeout=None: waits(self, short(timeout))  # type: ignore[method-assign]
    select.select = lambda r, w, x, timeout=None: selects(r, w, x, short(timeout))
    signal.setitimer = lambda which, seconds, interval=0.0: timers(which, short(seconds), interval)
    signal.alarm = lambda seconds: round(timers(signal.ITIMER_REAL, short(seconds))[0])

    class Hurried:
        """Finds nothing; the event loop is made to hurry once it is there."""

        def find_spec(self, name: str, *_: object) -> None:
            if name == "asyncio.selector_events" and (module := sys.modules.get("asyncio.base_events")) is not None:
                later = module.BaseEventLoop.call_later
                module.BaseEventLoop.call_later = lambda self, delay, *more, **named: later(self, short(delay), *more, **named)

    sys.meta_path.insert(0, Hurried())


def _wait(seconds: float) -> None:
    """Wait; the clock that is ahead knows no other way of it than this."""
    import select

    select.select((), (), (), seconds)


def _note_audit_event(event: str, values: tuple[Any, ...]) -> None:
    if event == "compile" and isinstance(values[0], str | bytes):
        text = values[0] if isinstance(values[0], str) else values[0].decode("utf-8", "replace")
        if any(mark in text for mark in _MARKS) and "_LedConnections" not in text:
            note("ran-download", "python", str(values[1])[:100])
    elif event == "open" and isinstance(values[0], str) and values[0].startswith(_FORBIDDEN):
        note("reached", values[0])


class _RedirectedConnections:
    """The names that were looked up, each with an address of its own, and the way of a connection to the listener."""

    def __init__(self) -> None:
        import socket

        self._socket = socket
        self._names: dict[str, str] = {}
        self._look_up = socket.getaddrinfo
        self._look_up_name = socket.gethostbyname
        self._connect = socket.socket.connect

    def install(self) -> None:
        """Put these in the place of what every program uses."""
        socket: Any = self._socket
        socket.getaddrinfo = self.getaddrinfo
        socket.gethostbyname = lambda host: self._look_up_name(host) if _is_here(host) else self._address_of(host)
        socket.socket.connect = lambda made, address: self.connect(made, address)
        socket.socket.connect_ex = lambda made, address: self.connect_number(made, address)

    def getaddrinfo(self, host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:  # noqa: A002
        """As that of `socket`: every name has an address."""
        if _is_here(host):
            return self._look_up(host, port, family, type, proto, flags)
        known = {"https": 443, "http": 80, "smtp": 25, "ftp": 21, "ssh": 22}
        number = int(port) if str(port or 0).isdigit() else known.get(str(port), 0)
        address = self._address_of(host)
        kind = self._socket.AF_INET6 if ":" in address else self._socket.AF_INET
        return [(kind, type or self._socket.SOCK_STREAM, proto or 6, "", (address, number))]

    def connect(self, made: Any, address: Any) -> None:
        """As that of a socket: it is connected with the listener, which learns the host that the program means."""
        if made.family not in (self._socket.AF_INET, self._socket.AF_INET6) or _is_here(address[0]):
            self._connect(made, address)
            return
        host, waits = self._address_of(address[0]), made.gettimeout()
        made.settimeout(3)
        self._connect(made, _PROXY if made.family == self._socket.AF_INET else ("::ffff:127.0.0.1", _PROXY[1]))
        made.sendall(f"TUNNEL {self._names.get(host, host)} {address[1]}\r\n\r\n".encode("utf-8", "replace"))
        made.settimeout(waits)

    def connect_number(self, made: Any, address: Any) -> int:
        """As `connect_ex` of a socket."""
        try:
            self.connect(made, address)
        except OSError as error:
            return error.errno or 111
        return 0

    def _address_of(self, host: Any) -> str:
        text = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
        if self._is_address(text):
            return text
        note("lookup", text)
        for address, known in self._names.items():
            if known == text:
                return address
        number = len(self._names) + 1
        address = f"198.18.{number // 250 % 250}.{number % 250 + 1}"
        self._names[address] = text
        return address

    def _is_address(self, host: str) -> bool:
        for family in (self._socket.AF_INET, self._socket.AF_INET6):
            try:
                self._socket.inet_pton(family, host)
            except (OSError, ValueError):
                continue
            return True
        return False


def _is_here(host: Any) -> bool:
    return not host or host in ("localhost", "0.0.0.0", "::1", "::") or str(host).startswith("127.")  # noqa: S104


class _ImitatedObject:
    """Stands for whatever a missing package has: every name, every call and every number of it."""

    def __init__(self, *_: object, **__: object) -> None:
        return

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _ImitatedObject()

    def __call__(self, *values: Any, **_: Any) -> Any:
        return values[0] if len(values) == 1 and callable(values[0]) else _ImitatedObject()  # as a decorator does

    def __iter__(self) -> Any:
        return iter(())

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __getitem__(self, _: object) -> Any:
        return _ImitatedObject()

    def __setitem__(self, _: object, __: object) -> None:
        return

    def __contains__(self, _: object) -> bool:
        return False

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return 0

    def __int__(self) -> int:
        return 0

    __index__ = __int__

    def __float__(self) -> float:
        return 0.0

    def __str__(self) -> str:
        return ""

    def __add__(self, _: object) -> Any:
        return self

    __radd__ = __sub__ = __mul__ = __truediv__ = __or__ = __and__ = __add__


class _ImitatedPackages:
    """Finds every package that nothing else has found, and makes it up."""

    def __init__(self) -> None:
        self._played: set[str] = set()

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        import importlib.machinery

        top = name.partition(".")[0]
        if (name != top and top not in self._played) or top.startswith("_") or top in sys.stdlib_module_names:
            return None
        if name == top and any(os.path.exists(os.path.join(folder, top)) for folder in sys.path):
            return None  # a folder of the skill's own, which has no such module
        self._played.add(top)
        loader: Any = self
        return importlib.machinery.ModuleSpec(name, loader, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return None

    def exec_module(self, module: Any) -> None:
        def attribute(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (_ImitatedObject,), {}) if name[:1].isupper() else _ImitatedObject()

        module.__getattr__ = attribute


def main() -> None:
    """Be the first program, from the beginning of the sandbox or of a round."""
    if sys.argv[1] == "--serve":
        import importlib

        for name in _IMPORTED:
            importlib.import_module(name)
        os.set_inheritable(int(sys.argv[2]), False)
        os.set_inheritable(int(sys.argv[3]), False)
        sys.dont_write_bytecode = True
        os.environ.pop("FAKETIME_SHARED", None)  # a clock that is shared ends with the first fork
        _allow_inspection(False)
        _answer(int(sys.argv[2]), {})
        serve(int(sys.argv[2]), int(sys.argv[3]))
        os._exit(0)
    result, gate, limits = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    if limits:
        import resource

        for item in limits.split(","):
            name, _, number = item.partition("=")
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), (int(number), int(number)))
    opened = bool(os.read(gate, 1))
    os.close(gate)
    if opened:
        requests, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        serve(result, requests)
    os._exit(0)


if __name__ == "sitecustomize":
    if sys.orig_argv[2:3] != ["--serve"]:
        hook_python()
elif __name__ == "__main__":
    main()
