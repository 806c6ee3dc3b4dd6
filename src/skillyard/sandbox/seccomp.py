"""The seccomp filters: which system calls a run may not make, and how they fail.

A call of a foreign table (32-bit, x32) kills the run. Calls that reach for other processes, kernel facilities, new namespaces
or the network fail with an error that programs know. What is not named is allowed. The numbers of the calls are from the
kernel's own tables (`asm/unistd_64.h`, `asm-generic/unistd.h`).
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

ALLOW: Final = 0x7FFF0000
"""The verdict: let the call through."""
KILL: Final = 0x80000000
"""The verdict: kill the whole process."""

_LOAD_WORD: Final = 0x20
_AND: Final = 0x54
_JUMP: Final = 0x05
_JUMP_EQUAL: Final = 0x15
_JUMP_BITS: Final = 0x45
_RETURN: Final = 0x06
_FARTHEST: Final = 255


@dataclass(frozen=True, slots=True)
class Label:
    """A position in a program that jumps can name."""

    name: str


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `target` is where it jumps when its test holds."""

    code: int
    value: int = 0
    target: str | None = None


def load(offset: int) -> Instruction:
    """Put the 32-bit word at `offset` of the call's data into the accumulator."""
    return Instruction(_LOAD_WORD, offset)


def mask(bits: int) -> Instruction:
    """Keep only `bits` of the accumulator."""
    return Instruction(_AND, bits)


def jump(target: str) -> Instruction:
    """Go to `target`."""
    return Instruction(_JUMP, 0, target)


def jump_if_equal(value: int, target: str) -> Instruction:
    """Go to `target` when the accumulator is `value`."""
    return Instruction(_JUMP_EQUAL, value, target)


def jump_if_any_bit(bits: int, target: str) -> Instruction:
    """Go to `target` when the accumulator has any of `bits`."""
    return Instruction(_JUMP_BITS, bits, target)


def stop(verdict: int) -> Instruction:
    """End with a verdict."""
    return Instruction(_RETURN, verdict)


def error(number: int) -> int:
    """The verdict: the call fails with this `errno`."""
    return 0x00050000 | number


def assemble(program: Sequence[Instruction | Label]) -> bytes:
    """The program as the kernel wants it.

    Raises:
        ValueError: a jump goes backwards or farther than 255 instructions, or names a label that is not there.
    """
    positions: dict[str, int] = {}
    instructions: list[Instruction] = []
    for item in program:
        if isinstance(item, Label):
            positions[item.name] = len(instructions)
        else:
            instructions.append(item)
    return b"".join(_encode(item, index, positions) for index, item in enumerate(instructions))


def _encode(item: Instruction, index: int, positions: dict[str, int]) -> bytes:
    if item.target is None:
        return struct.pack("=HBBI", item.code, 0, 0, item.value)
    if item.target not in positions:
        raise ValueError(f"no label {item.target}")
    distance = positions[item.target] - index - 1
    if item.code == _JUMP and distance >= 0:
        return struct.pack("=HBBI", item.code, 0, 0, distance)
    if not 0 <= distance <= _FARTHEST:
        raise ValueError(f"{item.target} is {distance} instructions away")
    return struct.pack("=HBBI", item.code, distance, 0, item.value)


_X86_64_CALLS: Final = {
    "acct": 163, "add_key": 248, "adjtimex": 159, "bind": 49, "bpf": 321, "chmod": 90, "chown": 92, "chroot": 161,
    "clock_adjtime": 305, "clock_settime": 227, "clone": 56, "clone3": 435, "connect": 42, "create_module": 174,
    "delete_module": 176, "fanotify_init": 300, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452, "fchown": 93, "fchownat": 260,
    "fcntl": 72, "file_setattr": 469, "finit_module": 313, "fremovexattr": 199, "fsconfig": 431, "fsetxattr": 190,
    "fsmount": 432, "fsopen": 430, "fspick": 433, "futimesat": 261, "get_kernel_syms": 177, "getxattr": 191, "getxattrat": 464,
    "init_module": 175, "inotify_add_watch": 254, "inotify_init": 253, "inotify_init1": 294, "io_setup": 206,
    "io_uring_enter": 426, "io_uring_register": 427, "io_uring_setup": 425, "ioctl": 16, "ioperm": 173, "iopl": 172,
    "ioprio_set": 251, "kcmp": 312, "kexec_file_load": 320, "kexec_load": 246, "keyctl": 250, "kill": 62,
    "landlock_create_ruleset": 444, "lchown": 94, "lgetxattr": 192, "listen": 50, "listmount": 458, "listxattr": 194,
    "listxattrat": 465, "llistxattr": 195, "lookup_dcookie": 212, "lremovexattr": 198, "lsetxattr": 189, "mbind": 237,
    "memfd_create": 319, "memfd_secret": 447, "migrate_pages": 256, "mknod": 133, "mknodat": 259, "mmap": 9, "mount": 165,
    "mount_setattr": 442, "move_mount": 429, "move_pages": 279, "mq_getsetattr": 245, "mq_notify": 244, "mq_open": 240,
    "mq_timedreceive": 243, "mq_timedsend": 242, "mq_unlink": 241, "msgctl": 71, "msgget": 68, "msgrcv": 70, "msgsnd": 69,
    "name_to_handle_at": 303, "nfsservctl": 180, "open_by_handle_at": 304, "open_tree": 428, "open_tree_attr": 467,
    "perf_event_open": 298, "personality": 135, "pidfd_getfd": 438, "pidfd_send_signal": 424, "pivot_root": 155, "prctl": 157,
    "prlimit64": 302, "process_madvise": 440, "process_vm_readv": 310, "process_vm_writev": 311, "ptrace": 101,
    "query_module": 178, "quotactl": 179, "quotactl_fd": 443, "reboot": 169, "removexattr": 197, "removexattrat": 466,
    "request_key": 249, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "sched_setaffinity": 203, "sched_setattr": 314,
    "sched_setparam": 142, "sched_setscheduler": 144, "semctl": 66, "semget": 64, "semop": 65, "semtimedop": 220,
    "sendmmsg": 307, "sendmsg": 46, "set_mempolicy": 238, "set_mempolicy_home_node": 450, "setdomainname": 171,
    "sethostname": 170, "setns": 308, "setpriority": 141, "setsockopt": 54, "settimeofday": 164, "setxattr": 188,
    "setxattrat": 463, "shmat": 30, "shmctl": 31, "shmdt": 67, "shmget": 29, "socket": 41, "socketpair": 53, "statmount": 457,
    "swapoff": 168, "swapon": 167, "syslog": 103, "tgkill": 234, "tkill": 200, "umount2": 166, "unshare": 272, "uselib": 134,
    "userfaultfd": 323, "utime": 132, "utimensat": 280, "utimes": 235, "vhangup": 153, "vmsplice": 278,
}  # fmt: skip

_AARCH64_CALLS: Final = {
    "acct": 89, "add_key": 217, "adjtimex": 171, "bind": 200, "bpf": 280, "chroot": 51, "clock_adjtime": 266,
    "clock_settime": 112, "clone": 220, "clone3": 435, "connect": 203, "delete_module": 106, "fanotify_init": 262, "fchmod": 52,
    "fchmodat": 53, "fchmodat2": 452, "fchown": 55, "fchownat": 54, "fcntl": 25, "file_setattr": 469, "finit_module": 273,
    "fremovexattr": 16, "fsconfig": 431, "fsetxattr": 7, "fsmount": 432, "fsopen": 430, "fspick": 433, "getxattr": 8,
    "getxattrat": 464, "init_module": 105, "inotify_add_watch": 27, "inotify_init1": 26, "io_setup": 0, "io_uring_enter": 426,
    "io_uring_register": 427, "io_uring_setup": 425, "ioctl": 29, "ioprio_set": 30, "kcmp": 272, "kexec_file_load": 294,
    "kexec_load": 104, "keyctl": 219, "kill": 129, "landlock_create_ruleset": 444, "lgetxattr": 9, "listen": 201,
    "listmount": 458, "listxattr": 11, "listxattrat": 465, "llistxattr": 12, "lookup_dcookie": 18, "lremovexattr": 15,
    "lsetxattr": 6, "mbind": 235, "memfd_create": 279, "memfd_secret": 447, "migrate_pages": 238, "mknodat": 33, "mmap": 222,
    "mount": 40, "mount_setattr": 442, "move_mount": 429, "move_pages": 239, "mq_getsetattr": 185, "mq_notify": 184,
    "mq_open": 180, "mq_timedreceive": 183, "mq_timedsend": 182, "mq_unlink": 181, "msgctl": 187, "msgget": 186, "msgrcv": 188,
    "msgsnd": 189, "name_to_handle_at": 264, "nfsservctl": 42, "open_by_handle_at": 265, "open_tree": 428,
    "open_tree_attr": 467, "perf_event_open": 241, "personality": 92, "pidfd_getfd": 438, "pidfd_send_signal": 424,
    "pivot_root": 41, "prctl": 167, "prlimit64": 261, "process_madvise": 440, "process_vm_readv": 270, "process_vm_writev": 271,
    "ptrace": 117, "quotactl": 60, "quotactl_fd": 443, "reboot": 142, "removexattr": 14, "removexattrat": 466,
    "request_key": 218, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "sched_setaffinity": 122, "sched_setattr": 274,
    "sched_setparam": 118, "sched_setscheduler": 119, "semctl": 191, "semget": 190, "semop": 193, "semtimedop": 192,
    "sendmmsg": 269, "sendmsg": 211, "set_mempolicy": 237, "set_mempolicy_home_node": 450, "setdomainname": 162,
    "sethostname": 161, "setns": 268, "setpriority": 140, "setsockopt": 208, "settimeofday": 170, "setxattr": 5,
    "setxattrat": 463, "shmat": 196, "shmctl": 195, "shmdt": 197, "shmget": 194, "socket": 198, "socketpair": 199,
    "statmount": 457, "swapoff": 225, "swapon": 224, "syslog": 116, "tgkill": 131, "tkill": 130, "umount2": 39, "unshare": 97,
    "userfaultfd": 282, "utimensat": 88, "vhangup": 58, "vmsplice": 75,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Machine:
    """One kind of processor: its audit number, its calls, and the bit of a second call table when it has one."""

    name: str
    audit_arch: int
    calls: Mapping[str, int] = field(hash=False)
    foreign_bit: int = 0


X86_64: Final = Machine("x86_64", 0xC000003E, _X86_64_CALLS, foreign_bit=0x40000000)  # the bit marks x32 calls
AARCH64: Final = Machine("aarch64", 0xC00000B7, _AARCH64_CALLS)


def this_machine() -> Machine | None:
    """The machine this process runs on, or `None` when no filter can be built for it."""
    return machine_named(platform.machine())


def machine_named(processor: str) -> Machine | None:
    """The machine with such a processor, as the kernel names it."""
    return {"x86_64": X86_64, "aarch64": AARCH64}.get(processor)


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

# Calls that no skill needs and that have enabled escapes, or that look at other processes, the clock or the machine.
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
_SHARED_COUNTERS: Final = ("io_setup",)
# Counted for each user: whoever is a user of its own takes them from nobody. Bundlers hang without one, whatever they watch.
_WATCHERS: Final = ("inotify_init", "inotify_init1")
# What is watched would tell what everybody else does with the files of the system.
_WATCHING: Final = ("inotify_add_watch",)
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
    whose network namespace is empty. `watchers`: an inotify instance can be made, and nothing be watched with it.
    `local_sockets`, where `streams` are: local stream sockets (`AF_UNIX`) too.
    """

    uncounted_memory: bool = False
    shared_objects: bool = False
    metadata: bool = False
    neighbours: bool = False
    signals: bool = False
    streams: bool = False
    local_sockets: bool = False
    watchers: bool = False


@lru_cache(maxsize=16)
def build_filter(machine: Machine, options: FilterOptions) -> bytes:
    """The filter for a run, as the bytes that seccomp takes."""
    return assemble([
        *_same_machine(machine),
        *_refused_calls(machine, options),
        *_looked_into(machine, options),
        stop(ALLOW),
        *(_BUFFERS if options.streams else ()),
        *(_sockets(local=options.local_sockets) if options.streams else ()),
        *_SOCKETPAIR,
        *_CLONE,
        *_requests(options),
        *_MMAP,
        *_ON_ITSELF,
        *_process_options(options),
        Label("allowed"),
        stop(ALLOW),
        Label("denied"),
        stop(error(errno.EPERM)),
        Label("no memory"),
        stop(error(errno.ENOMEM)),
        Label("no network"),
        stop(error(errno.EAFNOSUPPORT)),
    ])  # fmt: skip


def _same_machine(machine: Machine) -> list[Instruction | Label]:
    """Kill processes that use another table of calls; then the number of the call is in the accumulator."""
    foreign = (jump_if_any_bit(machine.foreign_bit, "foreign"),) if machine.foreign_bit else ()
    return [
        load(_ARCHITECTURE),
        jump_if_equal(machine.audit_arch, "native"),
        stop(KILL),
        Label("native"),
        load(_NUMBER),
        *foreign,
        jump("same table"),
        Label("foreign"),
        stop(KILL),
        Label("same table"),
    ]


def _refused_calls(machine: Machine, options: FilterOptions) -> list[Instruction | Label]:
    """Refuse what is refused whatever its arguments are; their verdicts stand here, because a jump reaches 255 instructions."""
    denied = _DENIED + (_METADATA if options.metadata else ()) + (_SIGNALS if options.signals else ())
    denied += _NEIGHBOURS if options.neighbours else ()
    missing = ("clone3", *_SHARED_COUNTERS, *(_UNCOUNTED if options.uncounted_memory else ()))
    missing += _SHARED_OBJECTS if options.shared_objects or options.uncounted_memory else ()
    missing += _ATTRIBUTES if options.neighbours else ()
    missing += _WATCHING if options.watchers else _WATCHERS
    return [
        *_jumps(machine, denied, "denied call"),
        *_jumps(machine, missing, "missing call"),
        jump("other call"),
        Label("denied call"),
        stop(error(errno.EPERM)),
        Label("missing call"),
        stop(error(errno.ENOSYS)),
        Label("other call"),
    ]


def _looked_into(machine: Machine, options: FilterOptions) -> list[Instruction]:
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


def _jumps(machine: Machine, names: Iterable[str], target: str) -> list[Instruction]:
    return [jump_if_equal(machine.calls[name], target) for name in names if name in machine.calls]


def _argument(index: int) -> int:
    """Where the low 32 bits of an argument are; both machines are little-endian."""
    return 16 + 8 * index


def _sockets(*, local: bool) -> list[Instruction | Label]:
    """Streams to the proxy, and with `local` those among the programs of a sandbox; what else calls itself a stream goes.

    Such are SCTP, MPTCP and SMC. A local socket has one protocol, 0 or that of its family.
    """
    return [
        Label("socket"),
        load(_argument(0)),
        jump_if_equal(_AF_INET, "stream family"),
        jump_if_equal(_AF_INET6, "stream family"),
        *((jump_if_equal(_AF_UNIX, "local"),) if local else ()),
        jump("no network"),
        *(_LOCAL if local else ()),
        Label("stream family"),
        load(_argument(1)),
        mask(0xF),
        jump_if_equal(_SOCK_STREAM, "stream"),
        jump("no network"),
        Label("stream"),
        load(_argument(2)),
        jump_if_equal(0, "allowed"),
        jump_if_equal(_TCP, "allowed"),
        jump("no network"),
    ]


_LOCAL: Final = (
    Label("local"),
    load(_argument(1)),
    mask(0xF),
    jump_if_equal(_SOCK_STREAM, "allowed"),
    jump_if_equal(_SOCK_SEQPACKET, "allowed"),
    jump("no network"),
)
# What programs set on a stream as a matter of course; whatever could make its buffers larger is not among it.
_BUFFERS: Final[tuple[Instruction | Label, ...]] = (
    Label("buffers"),
    load(_argument(1)),
    jump_if_equal(_SOL_SOCKET, "socket option"),
    jump_if_equal(_TCP, "stream option"),
    jump_if_equal(_IPV6, "address option"),
    jump("denied"),
    Label("socket option"),
    load(_argument(2)),
    # SO_REUSEADDR, SO_KEEPALIVE, SO_LINGER, SO_REUSEPORT, SO_RCVTIMEO, SO_SNDTIMEO
    *(jump_if_equal(option, "allowed") for option in (2, 9, 13, 15, 20, 21)),
    jump("denied"),
    Label("stream option"),
    load(_argument(2)),
    # TCP_NODELAY, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT
    *(jump_if_equal(option, "allowed") for option in (1, 4, 5, 6, 18)),
    jump("denied"),
    Label("address option"),
    load(_argument(2)),
    jump_if_equal(26, "allowed"),  # IPV6_V6ONLY
    jump("denied"),
)
# A connected pair is how programs talk to their own children; a datagram pair could be re-connected elsewhere.
_SOCKETPAIR: Final = (
    Label("socketpair"),
    load(_argument(0)),
    jump_if_equal(_AF_UNIX, "unix pair"),
    jump("no network"),
    Label("unix pair"),
    load(_argument(1)),
    mask(0xF),
    jump_if_equal(_SOCK_STREAM, "allowed"),
    jump_if_equal(_SOCK_SEQPACKET, "allowed"),
    jump("no network"),
)
_CLONE: Final = (
    Label("clone"),
    load(_argument(0)),
    jump_if_any_bit(_NEW_NAMESPACES, "denied"),
    jump("allowed"),
)
# Shared memory without a file lives on, charged to nobody, while one page of it is mapped.
_MMAP: Final = (
    Label("mmap"),
    load(_argument(3)),
    mask(_MAP_SHARED | _MAP_ANONYMOUS),
    jump_if_equal(_MAP_SHARED | _MAP_ANONYMOUS, "no memory"),
    jump("allowed"),
)
_ON_ITSELF: Final = (
    Label("priority"),  # which kind of target (0: a process), then which one
    load(_argument(0)),
    jump_if_equal(0, "one process"),
    jump("denied"),
    Label("one process"),
    load(_argument(1)),
    jump_if_equal(0, "allowed"),
    jump("denied"),
    Label("on a process"),
    load(_argument(0)),
    jump_if_equal(0, "allowed"),
    jump("denied"),
)


def _requests(options: FilterOptions) -> list[Instruction | Label]:
    """The commands a descriptor may get. The kernel reads 32 bits of a command, and so does the filter."""
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


def _process_options(options: FilterOptions) -> list[Instruction | Label]:
    """What a process may not say of itself: that nobody may look at it, and how large a table of futexes it wants."""
    return _none_of("prctl", 0, [_PR_SET_DUMPABLE, *([_PR_FUTEX_HASH] if options.uncounted_memory else [])])


def _none_of(label: str, argument: int, values: Iterable[int]) -> list[Instruction | Label]:
    """Deny a call whose argument is one of `values`."""
    return [
        Label(label),
        load(_argument(argument)),
        *(jump_if_equal(value, "denied") for value in values),
        jump("allowed"),
    ]
