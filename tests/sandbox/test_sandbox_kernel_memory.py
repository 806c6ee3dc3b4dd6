"""Memory that the kernel holds for a run and no process shows: bounded where nothing counts it, or said to be unbounded."""

from __future__ import annotations

import os
import socket

import pytest

from skillyard.sandbox import Policy
from skillyard.sandbox.processes import kernel_memory_bytes

SMALL = Policy(timeout_ms=20_000, memory_mb=64)
_CROWD = """
EVENTS = [os.eventfd(0) for _ in range(120)]
def fill(end, size):
    end.setblocking(False)
    try:
        while True:
            end.send(b"x" * size)
    except OSError:
        pass
def hold():
    keep = []
    try:
        while True:
            {hold}
    except OSError:
        return keep
for _ in range(40):
    if os.fork() == 0:
        kept = hold()
        time.sleep(30)
        os._exit(0)
time.sleep(30)
"""
_WAYS = {
    "socket pairs": "keep += socket.socketpair(); fill(keep[-1], 32768); fill(keep[-2], 32768)",
    "one end of each": "kept, gone = socket.socketpair(); fill(gone, 1); gone.close(); keep.append(kept)",
    "sequenced packets": "keep += socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET); fill(keep[-1], 100000)",
    "pipes": "ends = os.pipe(); os.set_blocking(ends[1], False); keep += ends; os.write(ends[1], b'x' * 65536)",
    "queues of events": "import select; keep.append(select.epoll()); [keep[-1].register(end) for end in EVENTS]",
}


@pytest.mark.abuse("C12")
@pytest.mark.parametrize("way", list(_WAYS))
async def test_queues_that_are_never_read_are_counted(run_script, counting: str, way: str) -> None:
    result = await run_script(_CROWD.replace("{hold}", _WAYS[way]), policy=SMALL)
    assert result.status == "memory", result


@pytest.mark.abuse("C12")
async def test_page_tables_are_counted_for_the_children_of_node_too(run_script, counting: str) -> None:
    result = await run_script(
        r"""
        const { spawn } = require('child_process');
        const source = `
        import mmap, time
        keep = []
        for _ in range(64):
            place = mmap.mmap(-1, 16 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
            keep.append(place)
            for at in range(0, 16 << 30, 2 << 20):
                place[at]
        time.sleep(60)
        `;
        for (let i = 0; i < 4; i++) spawn('/usr/bin/python3', ['-c', source], { stdio: 'ignore' });
        setTimeout(() => {}, 60000);
        """,
        entry="scripts/main.js",
        policy=Policy(timeout_ms=40_000, memory_mb=128),
    )
    assert result.status == "memory", result


@pytest.mark.abuse("C12")
@pytest.mark.usefixtures("uncounted")
async def test_tables_of_the_kernel_cannot_be_ordered_where_nobody_counts_them(run_script) -> None:
    result = await run_script(
        """
        found = {"table of futexes": "done" if libc.prctl(78, 1, ctypes.c_ulong(1 << 14), 0, 0) == 0 else "EPERM"}
        found["rules"] = system_call(CALLS["landlock_create_ruleset"], struct.pack("=Q", 1), ctypes.c_size_t(8), 0)
        ends = os.pipe()
        import fcntl
        found["larger pipe"] = attempt(fcntl.fcntl, ends[0], 1031, 1 << 20)
        found["hidden"] = "done" if libc.prctl(4, 0, 0, 0, 0) == 0 else "EPERM"
        answer(found)
        """
    )
    assert result.value == {"table of futexes": "EPERM", "rules": "ENOSYS", "larger pipe": "EPERM", "hidden": "EPERM"}


async def test_an_ordinary_program_with_children_and_pipes_is_not_taken_for_a_hog(run_script, counting: str) -> None:
    result = await run_script(
        """
        import asyncio
        async def main():
            programs = [await asyncio.create_subprocess_exec("/bin/cat", stdin=-1, stdout=-1) for _ in range(8)]
            said = [(await program.communicate(b"word"))[0].decode() for program in programs]
            await asyncio.sleep(0.2)
            return said
        pairs = [socket.socketpair() for _ in range(8)]
        answer(asyncio.run(main()))
        """,
        policy=Policy(timeout_ms=20_000),
    )
    assert (result.status, result.value) == ("ok", ["word"] * 8), result


async def test_the_report_says_what_nobody_counts(run_script, counting: str) -> None:
    limits = {limit.name: limit for limit in (await run_script("answer(1)")).limits}
    if limits["memory_mb"].by.startswith("cgroup"):
        assert "kernel_memory" not in limits
    else:
        assert not limits["kernel_memory"].enforced
        assert "mappings" in limits["kernel_memory"].by


def test_what_queues_could_hold_is_estimated_once_for_each_of_them() -> None:
    me = [os.getpid()]
    before = kernel_memory_bytes(me)
    pairs = [socket.socketpair() for _ in range(60)]
    doubled = [os.dup(pair[0].fileno()) for pair in pairs]
    try:
        assert kernel_memory_bytes(me) - before > 60 * 212_992
        single = kernel_memory_bytes(me)
        doubled += [os.dup(pair[1].fileno()) for pair in pairs]
        assert kernel_memory_bytes(me) - single < 60 * 4096
    finally:
        for pair in pairs:
            pair[0].close()
            pair[1].close()
        for number in doubled:
            os.close(number)
    assert kernel_memory_bytes([2**22 - 1]) == 0
