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
# Memory that process limits do not count (no cgroup to count it), and System V objects that outlive or cross a run.
_MEMORY_FILES: Final = ("memfd_create", "vmsplice")
_LARGER_BUFFERS: Final = ("setsockopt",)
_SHARED_OBJECTS: Final = ("shmget", "msgget", "semget", "mq_open")
# Landlock does not rule on these; without a mount namespace they would reach the user's own files.
_METADATA: Final = (
    "chmod", "chown", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "file_setattr", "fremovexattr", "fsetxattr",
    "futimesat", "lchown", "lremovexattr", "lsetxattr", "removexattr", "removexattrat", "setxattr", "setxattrat", "utime",
    "utimensat", "utimes",
)  # fmt: skip
# Of a run that shares its user with others: watching their folders, and keeping deleted files where nobody can count them.
_NEIGHBOURS: Final = ("inotify_add_watch", "ioprio_set", "sendmmsg", "sendmsg")
_ATTRIBUTES: Final = ("getxattr", "getxattrat", "lgetxattr", "listxattr", "listxattrat", "llistxattr")
# These change any process of the same user, unless their first argument is 0: the caller itself.
_ON_A_PROCESS: Final = ("prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler")
_SIGNALS: Final = ("kill", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "tgkill", "tkill")


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """What a filter denies beside the calls no run may make.

    `uncounted_memory`: no cgroup counts memory, so memory goes that no process is charged with: memory files, shared memory
    without a file, gifts to pipes, larger socket buffers. `shared_objects`: System V IPC and message queues go. `metadata`:
    changes of mode, owner, times and extended attributes go. `neighbours`: other processes of the same user keep their limits,
    priorities and processors, folders cannot be watched, attributes not be read, open files not be hidden. `signals`: no signal
    can be sent at all. `streams`: TCP sockets can be made, and no others.
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
    missing = (_MEMORY_FILES if options.uncounted_memory else ()) + (
        _SHARED_OBJECTS if options.shared_objects or options.uncounted_memory else ()
    )
    missing += _ATTRIBUTES if options.neighbours else ()
    denied = _DENIED + (_METADATA if options.metadata else ()) + (_SIGNALS if options.signals else ())
    buffers = "buffers" if options.streams else "denied"
    denied += _NEIGHBOURS if options.neighbours else ()
    return bpf.assemble([
        *_same_machine(machine),
        *_jumps(machine, denied, "denied"),
        *_jumps(machine, ("clone3", *missing), "missing"),
        *(_jumps(machine, _LARGER_BUFFERS, buffers) if options.uncounted_memory else ()),
        *_jumps(machine, ("socket",), "socket" if options.streams else "no network"),
        *_jumps(machine, ("socketpair",), "socketpair"),
        *_jumps(machine, ("clone",), "clone"),
        *_jumps(machine, ("ioctl",), "ioctl"),
        *(_jumps(machine, ("mmap",), "mmap") if options.uncounted_memory else ()),
        *(_neighbourly(machine) if options.neighbours else ()),
        bpf.Label("allowed"),
        bpf.stop(bpf.ALLOW),
        *(_BUFFERS if options.streams else ()),
        *(_SOCKET if options.streams else ()),
        *_SOCKETPAIR,
        *_CLONE,
        *_IOCTL,
        bpf.jump("allowed too"),
        *_MMAP,
        *_ON_ITSELF,
        bpf.Label("allowed too"),
        bpf.stop(bpf.ALLOW),
        bpf.Label("denied"),
        bpf.stop(bpf.error(errno.EPERM)),
        bpf.Label("missing"),
        bpf.stop(bpf.error(errno.ENOSYS)),
        bpf.Label("no memory"),
        bpf.stop(bpf.error(errno.ENOMEM)),
        bpf.Label("no network"),
        bpf.stop(bpf.error(errno.EAFNOSUPPORT)),
        bpf.Label("foreign"),
        bpf.stop(bpf.KILL),
    ])  # fmt: skip


def _same_machine(machine: Machine) -> list[bpf.Instruction | bpf.Label]:
    start: list[bpf.Instruction | bpf.Label] = [
        bpf.load(_ARCHITECTURE),
        bpf.jump_if_equal(machine.audit_arch, "native"),
        bpf.jump("foreign"),
        bpf.Label("native"),
        bpf.load(_NUMBER),
    ]
    return [*start, bpf.jump_if_any_bit(machine.foreign_bit, "foreign")] if machine.foreign_bit else start


def _jumps(machine: Machine, names: Iterable[str], target: str) -> list[bpf.Instruction]:
    return [bpf.jump_if_equal(machine.calls[name], target) for name in names if name in machine.calls]


def _neighbourly(machine: Machine) -> list[bpf.Instruction]:
    return [
        *_jumps(machine, _ON_A_PROCESS, "on a process"),
        *_jumps(machine, ("setpriority",), "priority"),
        *_jumps(machine, ("prctl",), "prctl"),
    ]


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
    bpf.jump_if_equal(0, "allowed too"),
    bpf.jump_if_equal(_TCP, "allowed too"),
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
    *(bpf.jump_if_equal(option, "allowed too") for option in (2, 9, 13, 15, 20, 21)),
    bpf.jump("denied"),
    bpf.Label("stream option"),
    bpf.load(_argument(2)),
    # TCP_NODELAY, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT
    *(bpf.jump_if_equal(option, "allowed too") for option in (1, 4, 5, 6, 18)),
    bpf.jump("denied"),
    bpf.Label("address option"),
    bpf.load(_argument(2)),
    bpf.jump_if_equal(26, "allowed too"),  # IPV6_V6ONLY
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
    bpf.jump_if_equal(_SOCK_STREAM, "allowed too"),
    bpf.jump_if_equal(_SOCK_SEQPACKET, "allowed too"),
    bpf.jump("no network"),
)
_CLONE: Final = (
    bpf.Label("clone"),
    bpf.load(_argument(0)),
    bpf.jump_if_any_bit(_NEW_NAMESPACES, "denied"),
    bpf.jump("allowed too"),
)
_IOCTL: Final = (
    bpf.Label("ioctl"),
    bpf.load(_argument(1)),
    bpf.jump_if_equal(_TIOCSTI, "denied"),
    bpf.jump_if_equal(_TIOCLINUX, "denied"),
)
# Shared memory without a file lives on, charged to nobody, while one page of it is mapped.
_MMAP: Final = (
    bpf.Label("mmap"),
    bpf.load(_argument(3)),
    bpf.mask(_MAP_SHARED | _MAP_ANONYMOUS),
    bpf.jump_if_equal(_MAP_SHARED | _MAP_ANONYMOUS, "no memory"),
    bpf.jump("allowed too"),
)
_ON_ITSELF: Final = (
    bpf.Label("priority"),  # which kind of target (0: a process), then which one
    bpf.load(_argument(0)),
    bpf.jump_if_equal(0, "one process"),
    bpf.jump("denied"),
    bpf.Label("one process"),
    bpf.load(_argument(1)),
    bpf.jump_if_equal(0, "allowed too"),
    bpf.jump("denied"),
    bpf.Label("on a process"),
    bpf.load(_argument(0)),
    bpf.jump_if_equal(0, "allowed too"),
    bpf.jump("denied"),
    bpf.Label("prctl"),
    bpf.load(_argument(0)),
    bpf.jump_if_equal(_PR_SET_DUMPABLE, "denied"),
)
