"""The first program in a container: starts the skill's interpreter, carries its streams, watches it, and ends everything.

`container_init.py PROGRAM...` says hello (what it finds here of the named programs, and which limits count), reads its job,
starts it under process limits and a seccomp filter, and ends when that ends or when its own input ends: with the first program
of a container the kernel ends all others. Skillyard holds the other end of the input, so nothing outlives it. This file stands
alone but for those beside it, and works on every Python from 3.9.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from skillyard.sandbox import container_frames as frames
    from skillyard.sandbox import processes
    from skillyard.sandbox.container_frames import ContainerLinks
else:  # the files beside this one, where it runs
    import container_frames as frames
    import processes
    from container_frames import ContainerLinks

_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 4, 22, 38
_SECCOMP_FILTER = 2
_PIECE = 1 << 15
_RESULT = 3
_HIGH = 100
_NETWORK = "/proc/self/net"  # of the whole container
_UNLIMITED = 1 << 60
_SPARE_PROCESSES = 8  # a look finds processes that have just ended
# The files of the control group that a container sees as its own: version 2, then version 1.
_MEMORY = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_PIDS = ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")
_KILLED = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
_REFUSED = ("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events")
_PEAK = ("/sys/fs/cgroup/memory.peak", "/sys/fs/cgroup/memory/memory.max_usage_in_bytes")

_libc = ctypes.CDLL(None, use_errno=True)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _number(paths: Collection[str]) -> int | None:
    for path in paths:
        text = _read(path).strip()
        if text.isdigit():
            return int(text)
    return None


def _event(paths: Collection[str], key: str) -> int:
    for path in paths:
        for line in _read(path).splitlines():
            name, _, number = line.partition(" ")
            if name == key and number.isdigit():
                return int(number)
    return 0


def counted_limits() -> dict[str, Any]:
    """What the control group of this container allows: bytes of memory and processes, None for no limit, and its version."""
    memory, pids = _number(_MEMORY), _number(_PIDS)
    return {
        "memory": memory if memory is not None and memory < _UNLIMITED else None,
        "pids": pids,
        "version": 2 if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else 1,
    }


def end_processes(asked: dict[str, Any], ours: set[int]) -> int:
    """Kill what was started since a moment, or in the last `age` seconds, and is not below one of `keep`; how many."""
    since = time.clock_gettime(time.CLOCK_BOOTTIME) - asked["age"] if "age" in asked else asked["since"]
    begun = int(since * os.sysconf("SC_CLK_TCK"))
    kept = {pid for number in asked["keep"] for pid in (number, *processes.descendants(number))} | ours
    victims = [pid for pid in processes.descendants(os.getpid()) if pid not in kept and processes.started_at(pid) >= begun]
    for pid in victims:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(victims)


class ContainerWatch:
    """Says when a job has more than it may; `job` has the numbers, 0 for what something else counts."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._memory = job["watch_memory"]
        self._pids = job["watch_pids"]
        self._files = job["watch_files"]
        self._deleted = job["watch_deleted"]
        self._killed = _event(_KILLED, "oom_kill")
        self._every = job["tick_ms"] / 1000 * 0.9
        self._turns = 0
        self._reported = ""
        self._next = 0.0

    def counted(self) -> dict[str, Any]:
        """What the control group counted in the end."""
        return {
            "out_of_memory": _event(_KILLED, "oom_kill") > self._killed,
            "out_of_processes": _event(_REFUSED, "max") > 0,
            "memory_peak": _number(_PEAK),
        }

    def exceeded(self) -> str:
        """`memory`, `pids` or `output_limit` when it is over one, once; empty otherwise."""
        now = time.monotonic()
        if self._reported or now < self._next:
            return ""
        self._next = now + self._every
        self._reported = self._look()
        return self._reported

    def _look(self) -> str:
        if _event(_KILLED, "oom_kill") > self._killed:
            return "memory"
        self._turns += 1
        pids = processes.descendants(os.getpid()) if self._memory or self._deleted else []
        if self._pids and len(pids) > self._pids + _SPARE_PROCESSES:
            return "pids"
        if self._memory and self._too_much_memory(pids):
            return "memory"
        if self._files and any(_files_in(folder) > self._files for folder in ("/tmp", "/dev/shm", "/workspace")):  # noqa: S108
            return "output_limit"
        if self._deleted and self._turns % 4 == 0 and processes.deleted_bytes(pids, "/workspace") > self._deleted:
            return "output_limit"
        return ""

    def _too_much_memory(self, pids: list[int]) -> bool:
        left: int = self._memory - processes.kernel_memory_bytes(pids, _NETWORK)
        return left < 0 or processes.memory_in_use(pids, enough=left) > left


def _files_in(folder: str) -> int:
    """How many files a file system in memory holds; 0 for any other, which has no such number of its own."""
    try:
        if os.stat(folder).st_dev == os.stat("/").st_dev:
            return 0
        counts = os.statvfs(folder)
    except OSError:
        return 0
    return counts.f_files - counts.f_ffree if _is_in_memory(folder) else 0


def _is_in_memory(folder: str) -> bool:
    return any(line.split(" ")[1:3] == [folder, "tmpfs"] for line in _read("/proc/mounts").splitlines())


class _SeccompProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _prctl(option: int, first: Any, second: Any = 0) -> None:
    numbers = [ctypes.c_ulong(item) if isinstance(item, int) else item for item in (first, second, 0, 0)]
    if _libc.prctl(option, *numbers) < 0:
        number = ctypes.get_errno()
        raise OSError(number, "prctl: " + os.strerror(number))


def _send(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _send_json(kind: bytes, value: Any) -> None:
    _send(frames.frame(kind, json.dumps(value).encode()))


def _hello(names: list[str]) -> dict[str, Any]:
    """What is here: the machine, the programs, the version of node, and what the control group counts."""
    programs = {name: shutil.which(name) or "" for name in names}
    version = ""
    if programs.get("node"):
        answer = subprocess.run([programs["node"], "--version"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)  # noqa: S603 # of the image
        version = answer.stdout.decode("ascii", "replace").strip()
    return {
        "machine": os.uname().machine,
        "python": sys.executable,
        "python_version": list(sys.version_info[:2]),
        "programs": programs,
        "node_version": version[:40],
        "limits": counted_limits(),
    }


def _read_job(reader: frames.FrameReader) -> tuple[dict[str, Any], list[tuple[bytes, int, bytes]]]:
    """The job, in one frame or several, and the frames that came after it."""
    pieces: list[bytes] = []
    while True:
        piece = os.read(0, 1 << 16)
        if not piece:
            os._exit(1)
        found = reader.feed(piece)
        for index, (kind, last, payload) in enumerate(found):
            if kind != frames.JOB:
                raise frames.InvalidFrame("no job")
            pieces.append(payload)
            if last:
                return json.loads(b"".join(pieces)), found[index + 1 :]


class Container:
    """The state of the one job of this container."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job
        self._reader = frames.FrameReader()
        self._poll = select.poll()
        self._outputs: dict[int, bytes] = {}
        self._links = ContainerLinks(self._poll, _send)
        self._input = -1
        self._waiting_input = bytearray()
        self._input_ends = False
        self._status: int | None = None
        self._stopped = False
        self._child = 0
        self._watch = ContainerWatch(job)

    def run(self, early: list[tuple[bytes, int, bytes]], reader: frames.FrameReader) -> None:
        """Start the job, and carry everything until it has ended."""
        self._reader = reader
        wake, ring = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        if self._job["proxy_port"]:
            self._links.listen(self._job["proxy_port"])
        problem = self._start()
        if problem:
            _send_json(frames.TERMINATED, {"problem": problem})
            return
        _send(frames.frame(frames.STARTED))
        self._poll.register(0, select.POLLIN)
        self._poll.register(wake, select.POLLIN)
        for item in early:
            self._take(*item)
        while self._status is None and not self._stopped:
            self._turn(wake)
        self._finish(signal.SIGKILL if self._status is None else self._status)

    def _start(self) -> str:
        """Start the child; why it could not be started, empty when it runs."""
        inward, to_child = os.pipe2(os.O_CLOEXEC)
        outward = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        problems_in, problems_out = os.pipe2(os.O_CLOEXEC)
        self._child = os.fork()
        if self._child == 0:
            problems_out = fcntl.fcntl(problems_out, fcntl.F_DUPFD_CLOEXEC, 2 * _HIGH)
            try:
                self._become([inward, *(write for _, write in outward)], problems_out)
            except BaseException as error:  # whatever it is, the skill must not start
                os.write(problems_out, (type(error).__name__ + ": " + str(error)).encode()[:500])
            finally:
                os._exit(126)
        for fd in (inward, problems_out, *(write for _, write in outward)):
            os.close(fd)
        problem = os.read(problems_in, 500).decode("utf-8", "replace")
        os.close(problems_in)
        if problem:
            return problem
        self._input = to_child
        os.set_blocking(to_child, False)
        for (read, _), kind in zip(outward, (frames.OUTPUT, frames.ERRORS, frames.RESULT)):  # noqa: B905 # Python 3.9 has no strict
            os.set_blocking(read, False)
            self._outputs[read] = kind
            self._poll.register(read, select.POLLIN)
        return ""

    def _become(self, pipes: list[int], problems_out: int) -> None:
        """In the child: everything that makes it harmless, then the interpreter."""
        job = self._job
        os.setsid()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, _HIGH) for fd in pipes]  # out of the way of the numbers with a meaning
        for number, fd in enumerate(high):
            os.dup2(fd, number)
        os.closerange(_RESULT + 1, problems_out)
        os.closerange(problems_out + 1, 4096)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        _prctl(_PR_SET_DUMPABLE, 1)
        self._first_to_go()
        os.chdir(job["folder"])
        for name, number in job["limits"].items():
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), (number, number))
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        instructions = base64.b64decode(job["filter"])
        program = _SeccompProgram(len(instructions) // 8, instructions)
        _prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(program))
        os.execve(job["argv"][0], job["argv"], job["environment"])  # noqa: S606 # no shell

    @staticmethod
    def _first_to_go() -> None:
        """Where memory runs out the kernel is to end the skill and not this program, which has to report it."""
        try:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("1000")
        except OSError:
            pass

    def _turn(self, wake: int) -> None:
        """Whatever there is to do now; a look at the job even when there is nothing."""
        for fd, event in self._poll.poll(self._job["tick_ms"]):
            if fd == 0:
                self._instructed()
            elif fd == wake:
                os.read(wake, 4096)
            elif fd in self._outputs:
                self._carry(fd)
            elif fd == self._input:
                self._feed()
            else:
                self._links.ready(fd, event)
        self._reap()
        reason = self._watch.exceeded()
        if reason:
            _send(frames.frame(frames.EXCEEDED, reason.encode()))

    def _instructed(self) -> None:
        piece = os.read(0, 1 << 16)
        if not piece:  # nobody is there any more: the kernel ends everything with this process
            os._exit(1)
        for item in self._reader.feed(piece):
            self._take(*item)

    def _take(self, kind: bytes, number: int, payload: bytes) -> None:
        if kind == frames.INPUT:
            self._waiting_input += payload
            self._input_ends = self._input_ends or not payload
            self._feed()
        elif kind == frames.END_PROCESSES:
            asked = json.loads(payload)
            count = end_processes(asked, {os.getpid(), self._child})
            _send_json(frames.ENDED_PROCESSES, {"call": asked["call"], "count": count})
        elif kind == frames.STOP:
            self._stopped = True
        else:
            self._links.take(kind, number, payload)

    def _carry(self, fd: int) -> bool:
        """Carry one piece of output; whether there may be more."""
        try:
            piece = os.read(fd, _PIECE)
        except BlockingIOError:
            return False
        if piece:
            _send(frames.frame(self._outputs[fd], piece))
            return True
        self._poll.unregister(fd)
        os.close(fd)
        del self._outputs[fd]
        return False

    def _feed(self) -> None:
        """Give the skill what of its input it takes."""
        if self._input == -1:
            _give_back(len(self._waiting_input))
            self._waiting_input.clear()
            return
        try:
            count = os.write(self._input, self._waiting_input) if self._waiting_input else 0
        except BlockingIOError:
            count = 0
        except OSError:  # the other side closed it: it wants no more
            self._input_ends, count = True, len(self._waiting_input)
        del self._waiting_input[:count]
        _give_back(count)
        if self._waiting_input:
            self._poll.register(self._input, select.POLLOUT)
            return
        with contextlib.suppress(KeyError):
            self._poll.unregister(self._input)
        if self._input_ends:
            os.close(self._input)
            self._input = -1

    def _reap(self) -> None:
        """Take in what has ended, also what has lost its parent."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._child:
                self._status = status

    def _finish(self, status: int) -> None:
        """End what the job has left behind, carry what is in its pipes, report its end."""
        left = self._end_all()
        for fd in tuple(self._outputs):
            while self._carry(fd):
                pass
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        _send_json(frames.TERMINATED, {"code": code, "left": left, **self._watch.counted()})

    @staticmethod
    def _end_all() -> bool:
        """Kill every other process; whether one of them resisted."""
        for _ in range(200):
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return False
            select.select([], [], [], 0.01)
        return True


def _give_back(count: int) -> None:
    if count:
        _send(frames.taken(count))


def main() -> None:
    """Say hello, read the job, run it."""
    _prctl(_PR_SET_DUMPABLE, 0)
    _send_json(frames.HELLO, _hello(sys.argv[1:]))
    reader = frames.FrameReader()
    job, early = _read_job(reader)
    Container(job).run(early, reader)
    os._exit(0)


main()
