"""The seccomp filters: which system calls a run may not make, and how they fail.

A call of a foreign table (32-bit, x32) kills the run. Calls that reach for other processes, kernel facilities, new namespaces
or the network fail with an error that programs know. What is not named is allowed: everyday programs must work.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from skillyard.sandbox import bpf
from skillyard.sandbox.syscalls import Machine

__all__ = ["FilterOptions", "build_filter"]

_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_NEW_NAMESPACES: Final = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_AF_UNIX: Final = 1
_AF_INET: Final = 2
_AF_INET6: Final = 10
_TCP: Final = 6
_SOL_SOCKET: Final = 1
_IPV6: Final = 41
_SOCK_STREAM: Final = 1
_SOCK_SEQPACKET: Final = 5
_MAP_SHARED: Final = 0x01
_MAP_ANONYMOUS: Final = 0x20
_PR_SET_DUMPABLE: Final = 4
_PR_FUTEX_HASH: Final = 78
# Commands of fcntl (`fcntl.h`): who is signalled about a descriptor, leases and notices on files, the size of a pipe.
_F_SETOWN: Final = 8
_F_SETSIG: Final = 10
_F_SETOWN_EX: Final = 15
_F_SETLEASE: Final = 1024
_F_NOTIFY: Final = 1026
_F_SETPIPE_SZ: Final = 1031
# Requests of ioctl: the owner of a socket (`asm/sockios.h`), the flags of a file (`linux/fs.h`).
_FIOSETOWN: Final = 0x8901
_SIOCSPGRP: Final = 0x8902
_FS_IOC_SETFLAGS: Final = 0x40086602
_FS_IOC_FSSETXATTR: Final = 0x401C5820

# Calls that no skill needs and that have carried escapes, or that look at other processes, the clock or the machine.
_DENIED: Final = (
    "acct", "add_key", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime", "create_module", "delete_module",
    "fanotify_init", "finit_module", "fsconfig", "fsmount", "fsopen", "fspick", "get_kernel_syms", "init_module",
    "io_uring_enter", "io_uring_register", "io_uring_setup", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load",
    "keyctl", "lookup_dcookie", "mbind", "memfd_secret", "migrate_pages", "mknod", "mknodat", "mount", "mount_setattr",
    "move_mount", "move_pages", "name_to_handle_at", "nfsservctl", "open_by_handle_at", "open_tree", "open_tree_attr",
    "perf_event_open", "personality", "pidfd_getfd", "pivot_root", "process_madvise", "process_vm_readv",
    "process_vm_writev", "ptrace", "query_module", "quotactl", "quotactl_fd", "reboot", "request_key",
    "set_mempolicy_home_node", "setdomainname", "sethostname", "setns", "settimeofday", "swapoff", "swapon", "syslog",
    "umount2", "unshare", "uselib", "userfaultfd", "vhangup",
)  # fmt: skip
# Counters of the whole machine or of the user, which a run would use up for everybody else. Programs know kernels without them.
_SHARED_COUNTERS: Final = ("inotify_init", "inotify_init1", "io_setup")
# Memory that process limits do not count (no cgroup to count it).
_UNCOUNTED: Final = ("landlock_create_ruleset", "memfd_create", "vmsplice")
_LARGER_BUFFERS: Final = ("setsockopt",)
# System V objects and message queues outlive a run. All calls are named and not only those that make one: the number of an
# object of the same user is enough to use it.
_SHARED_OBJECTS: Final = (
    "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl", "msgget", "msgrcv",
    "msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl", "shmdt", "shmget",
)  # fmt: skip
# Landlock does not rule on these; without a mount namespace they would reach the user's own files.
_METADATA: Final = (
    "chmod", "chown", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "file_setattr", "fremovexattr", "fsetxattr",
    "futimesat", "lchown", "lremovexattr", "lsetxattr", "removexattr", "removexattrat", "setxattr", "setxattrat", "utime",
    "utimensat", "utimes",
)  # fmt: skip
# Of a run that shares its user, its mounts and its network namespace with others: watching their folders, taking the names of
# their sockets, reading where their disks are, and keeping deleted files where nobody can count them.
_NEIGHBOURS: Final = (
    "bind", "connect", "inotify_add_watch", "ioprio_set", "listen", "listmount", "sendmmsg", "sendmsg", "statmount",
)  # fmt: skip
_ATTRIBUTES: Final = ("getxattr", "getxattrat", "lgetxattr", "listxattr", "listxattrat", "llistxattr")
# These change any process of the same user, unless their first argument is 0: the caller itself.
_ON_A_PROCESS: Final = ("prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler")
_SIGNALS: Final = ("kill", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "tgkill", "tkill")


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """What a filter denies beside the calls no run may make.

    `uncounted_memory`: no cgroup counts memory, so memory goes that no process is charged with: memory files, shared memory
    without a file, gifts to pipes, larger pipes and socket buffers, rule sets, tables of futexes; and nobody hides from the
    watchdog. `shared_objects`: System V IPC and message queues go. `metadata`: changes of mode, owner, times, flags and
    extended attributes go. `neighbours`: other processes of the same user keep their limits, priorities and processors and
    are not signalled about descriptors, folders cannot be watched, attributes not be read, open files not be hidden, sockets
    not be named. `signals`: no signal can be sent at all. `streams`: TCP sockets can be made, and no others; for bubblewrap,
    whose network namespace is empty.
    """

    uncounted_memory: bool = False
    shared_objects: bool = False
    metadata: bool = False
    neighbours: bool = False
    signals: bool = False
    streams: bool = False


@lru_cache(maxsize=16)
def build_filter(machine: Machine, options: FilterOptions) -> bytes:
    """The filter for a run, as the bytes that seccomp takes."""
    return bpf.assemble([
        *_same_machine(machine),
        *_refused_calls(machine, options),
        *_looked_into(machine, options),
        bpf.stop(bpf.ALLOW),
        *(_BUFFERS if options.streams else ()),
        *(_SOCKET if options.streams else ()),
        *_SOCKETPAIR,
        *_CLONE,
        *_requests(options),
        *_MMAP,
        *_ON_ITSELF,
        *_process_options(options),
        bpf.Label("allowed"),
        bpf.stop(bpf.ALLOW),
        bpf.Label("denied"),
        bpf.stop(bpf.error(errno.EPERM)),
        bpf.Label("no memory"),
        bpf.stop(bpf.error(errno.ENOMEM)),
        bpf.Label("no network"),
        bpf.stop(bpf.error(errno.EAFNOSUPPORT)),
    ])  # fmt: skip


def _same_machine(machine: Machine) -> list[bpf.Instruction | bpf.Label]:
    """Kill whoever uses another table of calls; then the number of the call is in the accumulator."""
    foreign = (bpf.jump_if_any_bit(machine.foreign_bit, "foreign"),) if machine.foreign_bit else ()
    return [
        bpf.load(_ARCHITECTURE),
        bpf.jump_if_equal(machine.audit_arch, "native"),
        bpf.stop(bpf.KILL),
        bpf.Label("native"),
        bpf.load(_NUMBER),
        *foreign,
        bpf.jump("same table"),
        bpf.Label("foreign"),
        bpf.stop(bpf.KILL),
        bpf.Label("same table"),
    ]


def _refused_calls(machine: Machine, options: FilterOptions) -> list[bpf.Instruction | bpf.Label]:
    """Refuse what is refused whatever its arguments are; their verdicts stand here, because a jump reaches 255 instructions."""
    denied = _DENIED + (_METADATA if options.metadata else ()) + (_SIGNALS if options.signals else ())
    denied += _NEIGHBOURS if options.neighbours else ()
    missing = ("clone3", *_SHARED_COUNTERS, *(_UNCOUNTED if options.uncounted_memory else ()))
    missing += _SHARED_OBJECTS if options.shared_objects or options.uncounted_memory else ()
    missing += _ATTRIBUTES if options.neighbours else ()
    return [
        *_jumps(machine, denied, "denied call"),
        *_jumps(machine, missing, "missing call"),
        bpf.jump("other call"),
        bpf.Label("denied call"),
        bpf.stop(bpf.error(errno.EPERM)),
        bpf.Label("missing call"),
        bpf.stop(bpf.error(errno.ENOSYS)),
        bpf.Label("other call"),
    ]


def _looked_into(machine: Machine, options: FilterOptions) -> list[bpf.Instruction]:
    """Where the arguments of a call decide."""
    return [
        *(_jumps(machine, _LARGER_BUFFERS, "buffers" if options.streams else "denied") if options.uncounted_memory else ()),
        *_jumps(machine, ("socket",), "socket" if options.streams else "no network"),
        *_jumps(machine, ("socketpair",), "socketpair"),
        *_jumps(machine, ("clone",), "clone"),
        *_jumps(machine, ("fcntl",), "fcntl"),
        *_jumps(machine, ("ioctl",), "ioctl"),
        *(_jumps(machine, ("mmap",), "mmap") if options.uncounted_memory else ()),
        *(_jumps(machine, _ON_A_PROCESS, "on a process") if options.neighbours else ()),
        *(_jumps(machine, ("setpriority",), "priority") if options.neighbours else ()),
        *(_jumps(machine, ("prctl",), "prctl") if options.neighbours or options.uncounted_memory else ()),
    ]


def _jumps(machine: Machine, names: Iterable[str], target: str) -> list[bpf.Instruction]:
    return [bpf.jump_if_equal(machine.calls[name], target) for name in names if name in machine.calls]


def _argument(index: int) -> int:
    """Where the low 32 bits of an argument are; both machines are little-endian."""
    return 16 + 8 * index


# Streams to the proxy; other protocols that call themselves streams (SCTP, MPTCP, SMC) go.
_SOCKET: Final[tuple[bpf.Instruction | bpf.Label, ...]] = (
    bpf.Label("socket"),
    bpf.load(_argument(0)),
    bpf.jump_if_equal(_AF_INET, "internet"),
    bpf.jump_if_equal(_AF_INET6, "internet"),
    bpf.jump("no network"),
    bpf.Label("internet"),
    bpf.load(_argument(1)),
    bpf.mask(0xF),
    bpf.jump_if_equal(_SOCK_STREAM, "stream"),
    bpf.jump("no network"),
    bpf.Label("stream"),
    bpf.load(_argument(2)),
    bpf.jump_if_equal(0, "allowed"),
    bpf.jump_if_equal(_TCP, "allowed"),
    bpf.jump("no network"),
)
# What programs set on a stream as a matter of course; whatever could make its buffers larger is not among it.
_BUFFERS: Final[tuple[bpf.Instruction | bpf.Label, ...]] = (
    bpf.Label("buffers"),
    bpf.load(_argument(1)),
    bpf.jump_if_equal(_SOL_SOCKET, "socket option"),
    bpf.jump_if_equal(_TCP, "stream option"),
    bpf.jump_if_equal(_IPV6, "address option"),
    bpf.jump("denied"),
    bpf.Label("socket option"),
    bpf.load(_argument(2)),
    # SO_REUSEADDR, SO_KEEPALIVE, SO_LINGER, SO_REUSEPORT, SO_RCVTIMEO, SO_SNDTIMEO
    *(bpf.jump_if_equal(option, "allowed") for option in (2, 9, 13, 15, 20, 21)),
    bpf.jump("denied"),
    bpf.Label("stream option"),
    bpf.load(_argument(2)),
    # TCP_NODELAY, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT
    *(bpf.jump_if_equal(option, "allowed") for option in (1, 4, 5, 6, 18)),
    bpf.jump("denied"),
    bpf.Label("address option"),
    bpf.load(_argument(2)),
    bpf.jump_if_equal(26, "allowed"),  # IPV6_V6ONLY
    bpf.jump("denied"),
)
# A connected pair is how programs talk to their own children; a datagram pair could be re-connected elsewhere.
_SOCKETPAIR: Final = (
    bpf.Label("socketpair"),
    bpf.load(_argument(0)),
    bpf.jump_if_equal(_AF_UNIX, "unix pair"),
    bpf.jump("no network"),
    bpf.Label("unix pair"),
    bpf.load(_argument(1)),
    bpf.mask(0xF),
    bpf.jump_if_equal(_SOCK_STREAM, "allowed"),
    bpf.jump_if_equal(_SOCK_SEQPACKET, "allowed"),
    bpf.jump("no network"),
)
_CLONE: Final = (
    bpf.Label("clone"),
    bpf.load(_argument(0)),
    bpf.jump_if_any_bit(_NEW_NAMESPACES, "denied"),
    bpf.jump("allowed"),
)
# Shared memory without a file lives on, charged to nobody, while one page of it is mapped.
_MMAP: Final = (
    bpf.Label("mmap"),
    bpf.load(_argument(3)),
    bpf.mask(_MAP_SHARED | _MAP_ANONYMOUS),
    bpf.jump_if_equal(_MAP_SHARED | _MAP_ANONYMOUS, "no memory"),
    bpf.jump("allowed"),
)
_ON_ITSELF: Final = (
    bpf.Label("priority"),  # which kind of target (0: a process), then which one
    bpf.load(_argument(0)),
    bpf.jump_if_equal(0, "one process"),
    bpf.jump("denied"),
    bpf.Label("one process"),
    bpf.load(_argument(1)),
    bpf.jump_if_equal(0, "allowed"),
    bpf.jump("denied"),
    bpf.Label("on a process"),
    bpf.load(_argument(0)),
    bpf.jump_if_equal(0, "allowed"),
    bpf.jump("denied"),
)


def _requests(options: FilterOptions) -> list[bpf.Instruction | bpf.Label]:
    """What may be asked of a descriptor. The kernel reads 32 bits of a command, and so does the filter."""
    commands = [_F_SETLEASE, _F_NOTIFY]
    requests = [_TIOCSTI, _TIOCLINUX]
    if options.neighbours:
        commands += [_F_SETOWN, _F_SETSIG, _F_SETOWN_EX]
        requests += [_FIOSETOWN, _SIOCSPGRP]
    if options.uncounted_memory:
        commands.append(_F_SETPIPE_SZ)
    if options.metadata:
        requests += [_FS_IOC_SETFLAGS, _FS_IOC_FSSETXATTR]
    return [*_none_of("fcntl", 1, commands), *_none_of("ioctl", 1, requests)]


def _process_options(options: FilterOptions) -> list[bpf.Instruction | bpf.Label]:
    """What a process may not say of itself: that nobody may look at it, and how large a table of futexes it wants."""
    return _none_of("prctl", 0, [_PR_SET_DUMPABLE, *([_PR_FUTEX_HASH] if options.uncounted_memory else [])])


def _none_of(label: str, argument: int, values: Iterable[int]) -> list[bpf.Instruction | bpf.Label]:
    """Deny a call whose argument is one of `values`."""
    return [
        bpf.Label(label),
        bpf.load(_argument(argument)),
        *(bpf.jump_if_equal(value, "denied") for value in values),
        bpf.jump("allowed"),
    ]
