"""The `landlock` backend: for machines without bubblewrap or user namespaces.

Landlock rules on which files a run may open, a seccomp filter takes the network and whatever Landlock does not rule on, process
limits and a watchdog bound the rest, and a reaper ends the whole tree. It is weaker than namespaces: the run can see that other
files exist (names, sizes, times) though it cannot read or change them, and it shares the machine's process numbers.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar, Final

from skillyard.errors import SandboxUnavailable
from skillyard.sandbox.job import Job, Level, Limit, Probe, SandboxResult, UnmetRequirement
from skillyard.sandbox.policy import Policy, base_environment
from skillyard.sandbox.preparation import PreparedRun, own_script
from skillyard.sandbox.process_launch import Descriptors, SandboxCommand
from skillyard.sandbox.processes import threads_of_user
from skillyard.sandbox.run_job import common_limits, process_limits, run_job
from skillyard.sandbox.runtimes import runtime_for, settable
from skillyard.sandbox.seccomp import FilterOptions
from skillyard.sandbox.session_preparation import PreparedSession, session_limits

_CREATE_RULESET: Final = 444
_OLDEST: Final = 3  # before it, files could be truncated that may not be written
_SCOPES: Final = 6  # from it on, signals stay inside
_READ: Final = 0b1101  # execute, read a file, read a folder
_READ_WRITE_FILE: Final = 0b110
_FILE_BITS: Final = 0b1_1000_0000_0000_0111  # the rights that exist for a single file: execute, write, read, device ioctl
_DEVICES: Final = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")
_MEMORY_DEVICE: Final = "/dev/zero"  # a shared mapping of it is memory that nobody is charged with
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")
_NEW_DEVICES: Final = 1 << 6 | 1 << 11
_PLAIN: Final = 2  # a version of marshal that every Python reads
_MEBIBYTE: Final = 1024 * 1024
REMEDIES: Final = ("use Linux 6.2 or newer with Landlock enabled (lsm=…,landlock on the kernel's command line)",)


@dataclass(frozen=True, slots=True)
class LandlockBackend:
    """Runs jobs under Landlock, seccomp and process limits."""

    name: ClassVar[str] = "landlock"
    level: ClassVar[Level] = "lsm"
    own_folders: ClassVar[bool] = True
    own_network: ClassVar[bool] = False
    overhead_processes: ClassVar[int] = 1  # the reaper
    overhead_bytes: ClassVar[int] = 16 * _MEBIBYTE

    def probe(self) -> Probe:
        """Whether the kernel has Landlock, and it holds against attacks."""
        from skillyard.sandbox.backend_probe import probe_by_attack  # loads asyncio and threads, which only a probe needs

        version = landlock_version()
        facts = {"abi": str(version)}
        if version < _OLDEST:
            reason = f"the kernel's Landlock is version {version or 'none'}, at least {_OLDEST} is needed"
            return Probe(self.name, ok=False, reason=reason, remedies=REMEDIES, facts=facts)
        return probe_by_attack(self, binary=None, remedies=REMEDIES, facts=facts)

    def supports(self, policy: Policy) -> list[UnmetRequirement]:
        """What of the policy cannot be enforced: any network, because Landlock knows ports and not hosts."""
        return [_PORTS_ONLY] if policy.reaches_network else []

    async def run(self, job: Job) -> SandboxResult:
        """Run one job; see `run_job`."""
        return await run_job(self, job)

    def files(self) -> tuple[bytes, ...]:
        """Nothing beside the filter."""
        return ()

    def filter_options(self, *, counted: bool) -> FilterOptions:
        """Beside the usual: nothing that reaches the same user's files and processes past Landlock, and no IPC objects."""
        return FilterOptions(
            uncounted_memory=not counted,
            shared_objects=True,
            metadata=True,
            neighbours=True,
            signals=landlock_version() < _SCOPES,
        )

    def limits(self, run: PreparedRun) -> tuple[Limit, ...]:
        """Everything is enforced, some of it by looking every 25 ms."""
        return (
            *common_limits(run, processes="rlimit", files="watchdog"),
            Limit("network", run.policy.network, True, "seccomp"),
            Limit("filesystem", run.policy.filesystem, True, "landlock"),
            Limit("file_metadata", "hidden", False, "landlock cannot hide names, sizes and times of files"),
        )

    def command(self, run: PreparedRun, descriptors: Descriptors) -> SandboxCommand:
        """The launcher's command line and the configuration it reads from its control pipe."""
        own = runtime_for("launcher.py", as_other=False)
        launcher = run.stage.add_file(*own_script("landlock_launcher", compiled=own.same_python))
        argv = [own.program, "-I", "-S", "-B", launcher, str(descriptors.control)]
        return SandboxCommand(argv, marshal.dumps(_configuration(run, descriptors), _PLAIN), own_reaper=True)

    def session_command(self, session: PreparedSession, descriptors: Descriptors) -> SandboxCommand:
        """The launcher's command line for a session.

        Raises:
            SandboxUnavailable: a folder cannot be reached by the user of the session, or is to be seen at another path.
        """
        if session.hidden or any(mount.source != os.path.realpath(mount.target) for mount in session.mounts):
            raise SandboxUnavailable(
                f"{session.folder} cannot be reached by the user of the sandbox without bubblewrap",
                hint="install bubblewrap, or put the folder below one that every user may enter",
            )
        own = runtime_for("launcher.py", as_other=False)
        launcher = session.stage.add_file(*own_script("landlock_launcher", compiled=own.same_python))
        argv = [own.program, "-I", "-S", "-B", launcher, str(descriptors.control)]
        configuration = marshal.dumps(_session_configuration(session, descriptors), _PLAIN)
        return SandboxCommand(argv, configuration, own_reaper=True)


_PORTS_ONLY: Final = UnmetRequirement(
    "network.allowlist", "Landlock can allow ports but not hosts; an allow-list needs a network namespace"
)


@cache
def landlock_version() -> int:
    """The kernel's Landlock version (its ABI number), 0 when there is none."""
    if sys.platform != "linux":  # the number means another call there
        return 0
    call = ctypes.CDLL(None, use_errno=True).syscall
    return max(0, int(call(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(1))))


def _configuration(run: PreparedRun, descriptors: Descriptors) -> dict[str, object]:
    policy, stage = run.policy, run.stage
    inner = run.runtime.command(f"{stage.tree}/{run.entry}", run.job, runner=stage.runner, result=3, gate=4, limits={})
    granted = stage.environment.process_variables(base_environment(scratch=stage.scratch), stage.package_folders)
    return {
        "parent": os.getpid(),
        "result": descriptors.result,
        "gate": descriptors.gate,
        "filter": descriptors.files[0],
        "user": run.identity.uid if run.identity else None,
        "folder": stage.workspace if run.has_workspace else stage.tree,
        "limits": _limits(run),
        "handled": _handled(landlock_version()),
        "rules": _rules(run),
        "argv": inner,
        "environment": {**granted, **policy.environment},
    }


def _session_configuration(session: PreparedSession, descriptors: Descriptors) -> dict[str, object]:
    stage = session.stage
    everything = _handled(landlock_version())[0] & ~_NEW_DEVICES
    seen = (*session.extra_programs, stage.tree, stage.programs, *stage.granted_folders, *session.shown)
    rules = _readable_rules((*_SYSTEM, *session.runtime.folders, *seen), memory_device=session.cgroup is not None)
    inside = replace(descriptors, result=3, gate=4)
    writable = () if session.request.read_only else (session.folder,)
    return {
        "parent": os.getpid(),
        "result": descriptors.result,
        "gate": descriptors.gate,
        "filter": descriptors.files[0],
        "user": session.identity.uid if session.identity else None,
        "folder": session.folder,
        "limits": _with_processes(dict(session_limits(session)), session),
        "handled": _handled(landlock_version()),
        "rules": rules + [(path, everything) for path in (stage.scratch, *writable)],
        "argv": session.command(f"{stage.tree}/{session.program}", inside, {}),
        "environment": session.environment(scratch=stage.scratch, programs=stage.programs, seen=stage.package_folders),
    }


def _limits(run: PreparedRun) -> dict[str, int]:
    return _with_processes(dict(process_limits(run)), run)


def _with_processes(limits: dict[str, int], run: PreparedRun | PreparedSession) -> dict[str, int]:
    if run.cgroup is None:
        # The kernel counts per user: a run with a user of its own starts from nothing, others on top of what runs already.
        single_identity = run.identity is not None and run.identity.single
        user = run.identity.uid if run.identity else os.getuid()
        limits["NPROC"] = run.policy.pids + (0 if single_identity else threads_of_user(user))
    return settable(limits)


def _handled(version: int) -> tuple[int, int, int, int]:
    """What the ruleset rules on (files, network, scopes) and the size of the structure that says so."""
    files = 0x1FFF | 1 << 13 | 1 << 14 | (1 << 15 if version >= 5 else 0)
    if version < 4:
        return files, 0, 0, 8
    return (files, 3, 3, 24) if version >= _SCOPES else (files, 3, 0, 16)


def _rules(run: PreparedRun) -> list[tuple[str, int]]:
    """Which paths may be used how."""
    everything = _handled(landlock_version())[0] & ~_NEW_DEVICES
    stage = run.stage
    ours = (*(path for path in (stage.runner, stage.library) if path), *stage.granted_folders)
    given = (stage.workspace,) if run.job.workspace else ()
    readable = (
        *_SYSTEM,
        *run.runtime.folders,
        *run.runtime.extra_programs,
        stage.tree,
        *ours,
        *given,
        *stage.environment.mounts,
    )
    writable = (stage.scratch, *((stage.workspace,) if run.policy.filesystem == "read-write" else ()))
    rules = _readable_rules(readable, memory_device=run.cgroup is not None)
    return rules + [(path, everything) for path in writable if Path(path).is_dir()]


def _readable_rules(paths: Iterable[str], *, memory_device: bool) -> list[tuple[str, int]]:
    """Reading and executing below `paths`, and the few devices everyone needs."""
    real = dict.fromkeys(os.path.realpath(path) for path in paths)
    rules = [(path, _READ if Path(path).is_dir() else _READ & _FILE_BITS) for path in real if Path(path).exists()]
    devices = (*_DEVICES, _MEMORY_DEVICE) if memory_device else _DEVICES
    return rules + [(path, _READ_WRITE_FILE) for path in devices if Path(path).exists()]
