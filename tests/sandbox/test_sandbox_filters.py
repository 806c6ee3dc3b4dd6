"""The seccomp programs, run by a small interpreter of our own for both machines."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.sandbox import seccomp
from skillyard.sandbox.run_job import seccomp_filter
from skillyard.sandbox.seccomp import AARCH64, X86_64, FilterOptions, Machine, build_filter, this_machine

_ERRORS = (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT, errno.ENOMEM)
EVERYTHING = FilterOptions(
    uncounted_memory=True, shared_objects=True, metadata=True, neighbours=True, signals=True, streams=True
)


def verdict(program: bytes, machine: Machine, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the kernel would answer."""
    values = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=iIQ6Q", number, architecture or machine.audit_arch, 0, *values)
    code = list(struct.iter_unpack("=HBBI", program))
    place, accumulator = 0, 0
    while True:
        operation, if_true, if_false, value = code[place]
        place += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x05:
            place += value
        elif operation == 0x15:
            place += if_true if accumulator == value else if_false
        elif operation == 0x45:
            place += if_true if accumulator & value else if_false
        elif operation == 0x06:
            return int(value)


@pytest.fixture(params=[X86_64, AARCH64], ids=lambda machine: machine.name)
def machine(request: pytest.FixtureRequest) -> Machine:
    return request.param


@pytest.mark.parametrize("options", [FilterOptions(), EVERYTHING])
def test_dangerous_calls_fail_and_everyday_ones_pass(machine: Machine, options: FilterOptions) -> None:
    program = build_filter(machine, options)
    for name in ("mount", "ptrace", "bpf", "io_uring_setup", "unshare", "setns", "keyctl", "process_vm_readv", "kexec_load"):
        assert verdict(program, machine, machine.calls[name]) == seccomp.error(errno.EPERM), name
    assert verdict(program, machine, machine.calls["clone3"]) == seccomp.error(errno.ENOSYS)
    for number in (0, 1, 3, 60, 93, 257):  # read, write, open and their like on either machine
        if number not in machine.calls.values():
            assert verdict(program, machine, number) == seccomp.ALLOW


@pytest.mark.abuse("B13")
def test_a_foreign_call_table_kills(machine: Machine) -> None:
    program = build_filter(machine, FilterOptions())
    assert verdict(program, machine, 1, architecture=0x40000003) == seccomp.KILL
    if machine is X86_64:
        assert verdict(program, machine, 0x40000000 + 1) == seccomp.KILL


def test_no_socket_of_any_family_can_be_made(machine: Machine) -> None:
    program = build_filter(machine, FilterOptions())
    for family in range(46):
        assert verdict(program, machine, machine.calls["socket"], family, 1) == seccomp.error(errno.EAFNOSUPPORT)


def test_with_streams_only_tcp_sockets_can_be_made(machine: Machine) -> None:
    program = build_filter(machine, FilterOptions(streams=True, uncounted_memory=True))
    allowed = set()
    for family in range(46):
        for kind in (1, 2, 3, 4, 5, 10, 1 | 0o2000000, 1 | 0o4000, 2 | 0o4000):
            for protocol in (0, 1, 6, 17, 132, 256, 262):
                answer = verdict(program, machine, machine.calls["socket"], family, kind, protocol)
                assert answer in (seccomp.ALLOW, seccomp.error(errno.EAFNOSUPPORT))
                if answer == seccomp.ALLOW:
                    allowed.add((family, kind & 0xF, protocol))
    assert allowed == {(2, 1, 0), (2, 1, 6), (10, 1, 0), (10, 1, 6)}
    assert verdict(program, machine, machine.calls["socketpair"], 1, 2) == seccomp.error(errno.EAFNOSUPPORT)
    assert verdict(program, machine, machine.calls["mount"]) == seccomp.error(errno.EPERM)


def test_buffers_that_nobody_counts_cannot_grow_and_everyday_options_can_be_set(machine: Machine) -> None:
    program = build_filter(machine, FilterOptions(streams=True, uncounted_memory=True))
    number = machine.calls["setsockopt"]
    for level, option in ((1, 2), (1, 9), (6, 1), (6, 4), (41, 26)):
        assert verdict(program, machine, number, 3, level, option) == seccomp.ALLOW
    for level, option in ((1, 7), (1, 8), (1, 18), (1, 32), (1, 33), (6, 10), (0, 4), (41, 1), (6, 31)):
        assert verdict(program, machine, number, 3, level, option) == seccomp.error(errno.EPERM)
    counted = build_filter(machine, FilterOptions(streams=True))
    assert verdict(counted, machine, number, 3, 1, 8) == seccomp.ALLOW


def test_only_connected_unix_pairs_can_be_made(machine: Machine) -> None:
    program = build_filter(machine, FilterOptions())
    pair = machine.calls["socketpair"]
    for kind, allowed in ((1, True), (5, True), (2, False), (3, False), (1 | 0o2000000, True), (2 | 0o4000, False)):
        assert (verdict(program, machine, pair, 1, kind) == seccomp.ALLOW) is allowed
    assert verdict(program, machine, pair, 2, 1) == seccomp.error(errno.EAFNOSUPPORT)


def test_local_sockets_are_streams_and_come_beside_those_of_the_network(machine: Machine) -> None:
    program = build_filter(machine, FilterOptions(streams=True, local_sockets=True))
    allowed = {
        (family, kind)
        for family in (1, 2, 10, 16, 17, 38, 40)
        for kind in range(1, 11)
        if verdict(program, machine, machine.calls["socket"], family, kind, 0) == seccomp.ALLOW
    }
    assert allowed == {(1, 1), (1, 5), (2, 1), (10, 1)}


@pytest.mark.abuse("B9")
def test_clone_may_make_processes_and_threads_but_no_namespaces(machine: Machine) -> None:
    program = build_filter(machine, FilterOptions())
    clone = machine.calls["clone"]
    assert verdict(program, machine, clone, 17) == seccomp.ALLOW
    assert verdict(program, machine, clone, 0x3D0F00) == seccomp.ALLOW
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert verdict(program, machine, clone, flag | 17) == seccomp.error(errno.EPERM)


@pytest.mark.abuse("B8")
def test_typing_into_a_terminal_is_denied_whatever_the_high_bits_are(machine: Machine) -> None:
    program = build_filter(machine, FilterOptions())
    ioctl = machine.calls["ioctl"]
    for command in (0x5412, 0x541C, 0x1_0000_5412, 0xFFFFFFFF_0000_5412 & 0xFFFFFFFFFFFFFFFF):
        assert verdict(program, machine, ioctl, 0, command) == seccomp.error(errno.EPERM)
    assert verdict(program, machine, ioctl, 0, 0x5401) == seccomp.ALLOW


@pytest.mark.abuse("A18")
def test_each_option_denies_its_own_calls_and_no_others(machine: Machine) -> None:
    plain = build_filter(machine, FilterOptions())
    for option, names, number in (
        ("uncounted_memory", ("memfd_create", "shmget", "vmsplice", "landlock_create_ruleset"), errno.ENOSYS),
        ("uncounted_memory", ("setsockopt",), errno.EPERM),
        ("shared_objects", ("shmget", "shmat", "shmctl", "shmdt", "msgget", "msgsnd", "msgrcv", "msgctl"), errno.ENOSYS),
        ("shared_objects", ("semget", "semop", "semtimedop", "semctl", "mq_open", "mq_unlink"), errno.ENOSYS),
        ("shared_objects", ("mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr"), errno.ENOSYS),
        ("metadata", ("fchmodat", "fchownat", "utimensat", "setxattr", "fremovexattr"), errno.EPERM),
        ("neighbours", ("ioprio_set", "inotify_add_watch", "sendmsg", "sendmmsg"), errno.EPERM),
        ("neighbours", ("bind", "connect", "listen", "statmount", "listmount"), errno.EPERM),
        ("neighbours", ("getxattr", "lgetxattr", "listxattr"), errno.ENOSYS),
        ("signals", ("kill", "tgkill", "pidfd_send_signal"), errno.EPERM),
    ):
        program = build_filter(machine, FilterOptions(**{option: True}))
        for name in names:
            assert verdict(plain, machine, machine.calls[name]) == seccomp.ALLOW
            assert verdict(program, machine, machine.calls[name]) == seccomp.error(number)


@pytest.mark.abuse("B24")
def test_counters_that_the_whole_machine_shares_cannot_be_used_up(machine: Machine) -> None:
    program = build_filter(machine, FilterOptions())
    shared = [name for name in ("io_setup", "inotify_init", "inotify_init1") if name in machine.calls]
    assert len(shared) >= 2
    for name in shared:
        assert verdict(program, machine, machine.calls[name]) == seccomp.error(errno.ENOSYS), name
    assert verdict(program, machine, machine.calls["fanotify_init"]) == seccomp.error(errno.EPERM)


@pytest.mark.abuse("B24")
def test_a_user_of_its_own_gets_an_inotify_instance_and_cannot_watch_what_others_do(machine: Machine) -> None:
    own = seccomp_filter(FilterOptions(), streams=True, own_user=True, processor=machine.name)
    refused = seccomp.error(errno.ENOSYS)
    assert verdict(own, machine, machine.calls["inotify_init1"]) == seccomp.ALLOW
    assert verdict(own, machine, machine.calls["inotify_add_watch"]) == refused
    assert verdict(own, machine, machine.calls["io_setup"]) == refused
    for options in (FilterOptions(neighbours=True), FilterOptions(uncounted_memory=True)):
        shared = seccomp_filter(options, streams=True, own_user=True, processor=machine.name)
        assert verdict(shared, machine, machine.calls["inotify_init1"]) == refused


@pytest.mark.abuse("B23")
@pytest.mark.parametrize("high", [0, 1 << 32, 0xFFFFFFFF << 32])
def test_no_signals_about_descriptors_can_be_ordered_whatever_the_high_bits_are(machine: Machine, high: int) -> None:
    shared, alone = (build_filter(machine, FilterOptions(neighbours=value)) for value in (True, False))
    fcntl, ioctl = machine.calls["fcntl"], machine.calls["ioctl"]
    for call, values in ((fcntl, (8, 10, 15)), (ioctl, (0x8901, 0x8902))):
        for value in values:
            assert verdict(shared, machine, call, 3, high | value) == seccomp.error(errno.EPERM), hex(value)
            assert verdict(alone, machine, call, 3, high | value) == seccomp.ALLOW, hex(value)
    for value in (1024, 1026):  # leases and notices hold up whoever else uses the file
        assert verdict(alone, machine, fcntl, 3, high | value) == seccomp.error(errno.EPERM)
    for value in (0, 1, 2, 3, 4, 5, 6, 7, 9, 37, 1030, 1032, 1033):
        assert verdict(shared, machine, fcntl, 3, high | value) == seccomp.ALLOW, value
    for value in (0x5401, 0x5421, 0x541B, 0x8903):
        assert verdict(shared, machine, ioctl, 3, high | value) == seccomp.ALLOW, hex(value)


@pytest.mark.abuse("C12", "A18")
def test_the_options_look_into_the_arguments_that_are_theirs(machine: Machine) -> None:
    plain = build_filter(machine, FilterOptions())
    for option, name, arguments in (
        ("uncounted_memory", "fcntl", (3, 1031)),
        ("uncounted_memory", "prctl", (78, 1)),
        ("uncounted_memory", "prctl", (4, 0)),
        ("metadata", "ioctl", (3, 0x40086602)),
        ("metadata", "ioctl", (3, 0x401C5820)),
    ):
        program = build_filter(machine, FilterOptions(**{option: True}))
        assert verdict(plain, machine, machine.calls[name], *arguments) == seccomp.ALLOW, name
        assert verdict(program, machine, machine.calls[name], *arguments) == seccomp.error(errno.EPERM), name


def test_a_run_that_shares_its_user_may_only_change_itself(machine: Machine) -> None:
    program = build_filter(machine, FilterOptions(neighbours=True))
    for name in ("prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"):
        assert verdict(program, machine, machine.calls[name], 0) == seccomp.ALLOW, name
        assert verdict(program, machine, machine.calls[name], 1234) == seccomp.error(errno.EPERM), name
    priority = machine.calls["setpriority"]
    assert verdict(program, machine, priority, 0, 0) == seccomp.ALLOW
    for kind, who in ((0, 1234), (1, 0), (2, 0)):
        assert verdict(program, machine, priority, kind, who) == seccomp.error(errno.EPERM)
    assert verdict(program, machine, machine.calls["prctl"], 15) == seccomp.ALLOW
    assert verdict(program, machine, machine.calls["prctl"], 4) == seccomp.error(errno.EPERM)


def test_without_a_count_only_memory_that_a_process_is_charged_with_can_be_mapped(machine: Machine) -> None:
    program, mmap = build_filter(machine, FilterOptions(uncounted_memory=True)), machine.calls["mmap"]
    for flags, allowed in ((0x22, True), (0x01, True), (0x02, True), (0x21, False), (0x100021, False), (0x23, False)):
        assert (verdict(program, machine, mmap, 0, 4096, 3, flags) == seccomp.ALLOW) is allowed, hex(flags)
    assert verdict(build_filter(machine, FilterOptions()), machine, mmap, 0, 4096, 3, 0x21) == seccomp.ALLOW


@given(st.integers(0, 2**31 - 1), st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_every_call_gets_a_verdict(number: int, arguments: list[int]) -> None:
    for machine in (X86_64, AARCH64):
        answer = verdict(build_filter(machine, EVERYTHING), machine, number, *arguments)
        known = {seccomp.ALLOW, seccomp.KILL, *(seccomp.error(code) for code in _ERRORS)}
        assert answer in known


def test_jumps_that_cannot_be_encoded_are_refused() -> None:
    with pytest.raises(ValueError, match="no label"):
        seccomp.assemble([seccomp.jump("nowhere")])
    with pytest.raises(ValueError, match="away"):
        seccomp.assemble([seccomp.Label("back"), seccomp.load(0), seccomp.jump_if_equal(1, "back")])
    with pytest.raises(ValueError, match="away"):
        seccomp.assemble(
            [seccomp.jump_if_equal(1, "far"), *[seccomp.load(0)] * 300, seccomp.Label("far"), seccomp.stop(seccomp.ALLOW)]
        )


def test_this_machine_has_a_table() -> None:
    assert this_machine() in (X86_64, AARCH64)
