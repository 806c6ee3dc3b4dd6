"""Started by the `landlock` backend, outside any sandbox: restricts a child, starts the skill's program in it, ends its tree.

`launcher.py CONTROL_FD` reads its configuration from the control pipe. The parent stays outside the restrictions as the reaper
of everything the child leaves behind; it ends the tree when the child ends, on SIGTERM, and when its own parent dies. This file
stands alone, so that it starts fast: it imports nothing of Skillyard, and the C modules below `signal` and `json`.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping
else:
    import _signal as signal  # without the enumerations around it, which take longer than all else

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 36, 38
_SECCOMP_FILTER = 2
_BLOCKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)

_libc = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("folder", ctypes.c_int32))


def _checked(value: int, what: str) -> int:
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return value


def _prctl(option: int, first: object, second: object = 0) -> None:
    numbers = [ctypes.c_ulong(item) if isinstance(item, int) else item for item in (first, second, 0, 0)]
    _checked(_libc.prctl(option, *numbers), f"prctl {option}")


def _system_call(number: int, *values: object) -> int:
    return _checked(_libc.syscall(ctypes.c_long(number), *values), f"system call {number}")


def _landlock(config: Mapping[str, object]) -> None:
    """Allow the listed paths and nothing else; the sizes and bits fit the kernel's version."""
    numbers: list[int] = config["handled"]  # type: ignore[assignment] # written by landlock.py
    files, net, scoped, size = numbers
    rules = _Ruleset(files, net, scoped)
    ruleset = _system_call(_LANDLOCK_CREATE, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint(0))
    for path, access in config["rules"]:  # type: ignore[attr-defined]
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = _PathRule(access, folder)
        _system_call(_LANDLOCK_ADD, ctypes.c_int(ruleset), ctypes.c_int(1), ctypes.byref(rule), ctypes.c_uint(0))
        os.close(folder)
    _system_call(_LANDLOCK_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint(0))
    os.close(ruleset)


def _restrict(config: Mapping[str, object], filter_bytes: bytes, parent: int) -> None:
    """Everything that makes the child harmless, in an order in which each step is still allowed."""
    user = config["user"]
    if isinstance(user, int):
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)
    os.setsid()
    os.chdir(str(config["folder"]))
    for name, number in config["limits"].items():  # type: ignore[attr-defined]
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (number, number))
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _landlock(config)
    program = _Filter(len(filter_bytes) // 8, filter_bytes)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(program))


def _child(config: Mapping[str, object], parent: int) -> None:
    numbers: list[int] = [config[name] for name in ("filter", "result", "gate")]  # type: ignore[misc]
    filter_fd, result, gate = numbers
    filter_bytes = os.pread(filter_fd, 1 << 16, 0)
    os.close(filter_fd)
    os.dup2(gate, os.dup2(result, 3) + 1)
    os.closerange(5, 65_536)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    _restrict(config, filter_bytes, parent)
    argv: list[str] = config["argv"]  # type: ignore[assignment]
    os.execve(argv[0], argv, config["environment"])  # type: ignore[arg-type] # noqa: S606 # no shell, a trusted program


def _below(pid: int) -> list[int]:
    """Every process below `pid`, from the parent numbers in `/proc`."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
    descendants: set[int] = set()
    fresh = {pid}
    while fresh:
        fresh = {child for child, parent in parents.items() if parent in fresh} - descendants
        descendants |= fresh
    return list(descendants)


def _end_tree() -> None:
    """Kill until nothing is left: a process that loses its parent becomes a child of this process, so none can hide."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            for other in _below(os.getpid()):
                try:
                    os.kill(other, signal.SIGKILL)
                except OSError:
                    continue
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return


def _reap(child: int) -> int:
    """Wait for the child or for an order to end; the exit code, 128 and the signal when one ended it."""
    while True:
        if signal.sigwait(_BLOCKED) != signal.SIGCHLD:
            return 128 + signal.SIGKILL
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == child:
                code: int = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            if pid == 0:
                break


def main() -> None:
    """Fork, restrict, run, wait, and leave nothing alive."""
    with os.fdopen(int(sys.argv[1]), "rb") as control:
        config = marshal.loads(control.read())  # noqa: S302 # from our own parent
    signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    _prctl(_PR_SET_SUBREAPER, 1)
    _prctl(_PR_SET_DUMPABLE, 0)
    if os.getppid() != config["parent"]:
        os._exit(1)
    own = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _child(config, own)
        except BaseException as error:  # whatever it is, the skill must not start
            os.write(2, f"skillyard: the sandbox could not be set up: {error}\n".encode())
        finally:
            os._exit(126)
    os.closerange(0, 65_536)  # the run's pipes belong to the run alone
    code = _reap(child)
    _end_tree()
    os._exit(code)


main()
