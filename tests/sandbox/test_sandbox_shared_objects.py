"""Kernel objects that all processes of a user share: a run reaches none of them and uses up no counter of the machine."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillyard.sandbox import SandboxBackend, landlock, preparation
from skillyard.sandbox.process_launch import Identity

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
_ANYONE = 0o1666  # with IPC_CREAT; only the sandbox stands between the run and the object
_REMOVE = 0
_NOBODY = 65_534
_WORDS = b"of somebody else"


class Objects:
    """One of each kind, as another program of the machine may have them."""

    def __init__(self) -> None:
        self.queue_name = f"/skillyard-test-{os.getpid()}".encode()
        self.memory = libc.shmget(0, 4096, _ANYONE)
        self.messages = libc.msgget(0, _ANYONE)
        self.semaphores = libc.semget(0, 1, _ANYONE)
        before = os.umask(0)
        self.queue = libc.mq_open(self.queue_name, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o666, None)
        os.umask(before)
        assert min(self.memory, self.messages, self.semaphores, self.queue) >= 0
        self.place = libc.shmat(self.memory, None, 0)
        ctypes.memmove(self.place, _WORDS, len(_WORDS))
        assert libc.msgsnd(self.messages, (1).to_bytes(8, "little") + _WORDS, len(_WORDS), 0) == 0
        assert libc.mq_send(self.queue, _WORDS, len(_WORDS), 0) == 0

    def words(self) -> bytes:
        """What the shared memory holds."""
        return ctypes.string_at(self.place, len(_WORDS))

    def messages_left(self) -> int:
        """How many messages wait in both queues."""
        piece = ctypes.create_string_buffer(8192)
        left = int(libc.msgrcv(self.messages, piece, 100, 0, 0o4000) >= 0)  # IPC_NOWAIT
        return left + int(libc.mq_receive(self.queue, piece, 8192, None) >= 0)

    def close(self) -> bool:
        """Remove all; whether all were still there."""
        if not self.place:
            return True
        libc.shmdt(ctypes.c_void_p(self.place))
        self.place = None
        done = [libc.shmctl(self.memory, _REMOVE, None), libc.msgctl(self.messages, _REMOVE, None)]
        done += [libc.semctl(self.semaphores, 0, _REMOVE), libc.mq_unlink(self.queue_name)]
        os.close(self.queue)
        return not any(done)


@pytest.fixture
def objects() -> Iterator[Objects]:
    made = Objects()
    yield made
    made.close()


_REACH = """
libc.shmat.restype = ctypes.c_void_p
memory, messages, semaphores, name = json.loads(sys.stdin.read())
def said(number):
    return "done" if number not in (None, -1, 2**64 - 1) else errno.errorcode[ctypes.get_errno()]
piece = ctypes.create_string_buffer(8192)
found = {"attach": said(place := libc.shmat(memory, None, 0))}
if found["attach"] == "done":
    ctypes.memmove(place, b"overwritten by it", 17)
found["change memory"] = said(libc.shmctl(memory, 0, None))
found["receive"] = said(libc.msgrcv(messages, piece, 100, 0, 0o4000))
found["send"] = said(libc.msgsnd(messages, (1).to_bytes(8, "little") + b"x", 1, 0o4000))
found["remove messages"] = said(libc.msgctl(messages, 0, None))
found["post"] = said(libc.semop(semaphores, struct.pack("=Hhh", 0, 1, 0o4000), 1))
found["remove semaphores"] = said(libc.semctl(semaphores, 0, 0))
found["open queue"] = said(libc.mq_open(name.encode(), os.O_RDWR | os.O_NONBLOCK))
found["remove queue"] = said(libc.mq_unlink(name.encode()))
answer(found)
"""


@pytest.mark.abuse("B22")
async def test_objects_of_other_programs_are_out_of_reach(run_script, objects: Objects) -> None:
    numbers = [objects.memory, objects.messages, objects.semaphores, objects.queue_name.decode()]
    result = await run_script(_REACH, stdin=json.dumps(numbers).encode())
    assert result.status == "ok", result.stderr
    assert len(result.value) == 9
    assert "done" not in result.value.values(), result.value
    assert objects.words() == _WORDS
    assert objects.messages_left() == 2
    assert objects.close(), "one of them was removed"


@pytest.mark.abuse("B22")
async def test_no_object_is_left_behind_for_the_next_run(run_script, counting: str) -> None:
    result = await run_script(
        """
        made = [libc.shmget(77001, 4096, 0o1666), libc.msgget(77001, 0o1666), libc.semget(77001, 1, 0o1666)]
        made.append(libc.mq_open(b"/left-behind", os.O_CREAT | os.O_RDWR, 0o666, None))
        os._exit(0)
        """
    )
    assert result.status == "ok", result.stderr
    for kind in ("shm", "msg", "sem"):
        keys = [line.split()[0] for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]]
        assert "77001" not in keys, kind
    assert libc.mq_open(b"/left-behind", os.O_RDWR) == -1


@pytest.mark.abuse("B24")
async def test_counters_of_the_machine_are_not_used_up(run_script) -> None:
    result = await run_script(
        """
        context = ctypes.c_ulong(0)
        found = {"asynchronous io": system_call(CALLS["io_setup"], ctypes.c_uint(1000), ctypes.byref(context))}
        found["inotify"] = system_call(CALLS["inotify_init1"], 0)
        found["fanotify"] = system_call(CALLS["fanotify_init"], 0, 0)
        answer(found)
        """
    )
    assert result.value == {"asynchronous io": "ENOSYS", "inotify": "ENOSYS", "fanotify": "EPERM"}


@pytest.mark.abuse("B24")
async def test_a_script_that_watches_a_folder_is_told_that_it_cannot_and_goes_on(run_script) -> None:
    result = await run_script(
        """
        const fs = require('fs');
        let said = 'watched';
        const failed = (error) => { said = error.code; };
        try { fs.watch(process.env.TMPDIR, () => {}).on('error', failed); } catch (error) { failed(error); }
        setTimeout(() => { fs.writeSync(3, JSON.stringify(said)); process.exit(0); }, 20);
        """,
        entry="scripts/main.js",
    )
    assert (result.status, result.value) == ("ok", "ENOSYS"), result.stderr


class Victim:
    """A process of the run's own user that any signal ends."""

    def __init__(self) -> None:
        user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        self.process = subprocess.Popen(["/bin/sleep", "60"], env={}, **user)

    def ended(self, seconds: float) -> bool:
        """Whether it ends within that time."""
        limit = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < limit:
            time.sleep(0.01)
        return self.process.returncode is not None


@pytest.fixture
def victim(monkeypatch: pytest.MonkeyPatch) -> Iterator[Victim]:
    if os.geteuid() == 0:
        monkeypatch.setattr(preparation, "pick_identity", lambda: Identity(_NOBODY, _NOBODY, single=False))
    made = Victim()
    yield made
    made.process.kill()
    made.process.wait()


_ORDER_SIGNALS = """
import fcntl
victim = int(sys.stdin.read())
def owned(pid):
    return struct.pack("=ii", 1, pid)  # F_OWNER_PID
found, kept = {}, []
for name, order in {
    "F_SETOWN": lambda end: fcntl.fcntl(end, 8, victim),
    "F_SETOWN_EX": lambda end: fcntl.fcntl(end, 15, owned(victim)),
    "F_SETSIG": lambda end: fcntl.fcntl(end, 10, signal.SIGTERM),
    "FIOSETOWN": lambda end: fcntl.ioctl(end, 0x8901, struct.pack("=i", victim)),
    "SIOCSPGRP": lambda end: fcntl.ioctl(end, 0x8902, struct.pack("=i", victim)),
}.items():
    ends = socket.socketpair()
    kept.append(ends)
    found[name] = attempt(order, ends[0].fileno())
    attempt(fcntl.fcntl, ends[0].fileno(), 10, signal.SIGTERM)
    attempt(fcntl.fcntl, ends[0].fileno(), fcntl.F_SETFL, os.O_ASYNC)
    ends[1].send(b"x")
time.sleep(0.2)
answer(found)
"""


@pytest.mark.abuse("B23")
@pytest.mark.parametrize("version", [3, 4, 5, None])
async def test_data_on_a_descriptor_signals_nobody_outside(
    backend: SandboxBackend, run_script, victim: Victim, version: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if version is not None:  # kernels whose Landlock knows nothing of signals
        monkeypatch.setattr(landlock, "landlock_version", lambda: version)
    result = await run_script(_ORDER_SIGNALS, stdin=str(victim.process.pid).encode())
    assert result.status == "ok", result.stderr
    assert len(result.value) == 5
    assert not victim.ended(0.3), f"the run ended it with {signal.Signals(-victim.process.returncode).name}"
    if backend.name == "landlock":
        assert set(result.value.values()) == {"EPERM"}, result.value


@pytest.mark.abuse("B23")
@pytest.mark.parametrize("version", [5, None])
async def test_processes_of_the_same_user_get_no_signal(
    run_script, victim: Victim, version: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if version is not None:
        monkeypatch.setattr(landlock, "landlock_version", lambda: version)
    result = await run_script(
        """
        victim = int(sys.stdin.read())
        found = [attempt(os.kill, victim, 15), system_call(CALLS["tkill"], victim, 15)]
        found.append(system_call(CALLS["rt_sigqueueinfo"], victim, 15, struct.pack("=iii116x", 15, 0, -1)))
        file = attempt(lambda: globals().update(handle=os.pidfd_open(victim)))
        found.append(attempt(signal.pidfd_send_signal, handle, 15) if file == "done" else file)
        answer(found)
        """,
        stdin=str(victim.process.pid).encode(),
    )
    assert result.status == "ok", result.stderr
    assert len(result.value) == 4
    assert "done" not in result.value, result.value
    assert not victim.ended(0.2)
