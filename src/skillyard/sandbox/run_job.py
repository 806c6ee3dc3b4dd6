"""The course of every run, whatever the backend: prepare, start, supervise, build the result, clean up; and its limits.

The limits are those of its processes and of what it writes, with the report of all of them and what enforces each.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from skillyard.errors import InvalidInput, SandboxUnavailable
from skillyard.sandbox.job import Job, Limit, SandboxResult
from skillyard.sandbox.policy import Policy
from skillyard.sandbox.preparation import IsolationMechanism, PreparedRun, SpawnedMechanism, prepare
from skillyard.sandbox.processes import deleted_bytes, files_in
from skillyard.sandbox.run_output import ProcessRecord, build_result
from skillyard.sandbox.seccomp import FilterOptions, build_filter, machine_named, this_machine
from skillyard.sandbox.supervisor import supervise
from skillyard.sandbox.work_files import copy_changes_back

if TYPE_CHECKING:
    from skillyard.network import Contact
    from skillyard.network.proxy import Proxy
    from skillyard.sandbox.session_preparation import PreparedSession


_MEBIBYTE: Final = 1024 * 1024
_ESTIMATED: Final = (
    "a watchdog that estimates sockets, pipes and page tables; lists of mappings and locks on files are not counted"
)


def common_limits(run: PreparedRun, *, processes: str, files: str) -> tuple[Limit, ...]:
    """The limits all backends have; `processes` and `files` say what counts processes and written files."""
    policy = run.policy
    cgroup = run.counted_by
    return (
        Limit("timeout_ms", policy.timeout_ms, True, "supervisor"),
        Limit("memory_mb", policy.memory_mb, True, cgroup or "rlimit and watchdog"),
        *(() if cgroup else (Limit("kernel_memory", policy.memory_mb, False, _ESTIMATED),)),
        Limit("pids", policy.pids, True, cgroup or processes),
        Limit("cpu_seconds", policy.timeout_ms // 1000 + 1, True, "rlimit"),
        Limit("nofile", policy.nofile, True, "rlimit"),
        Limit("file_size_mb", policy.file_size_mb, True, "rlimit"),
        Limit("stack_mb", 8, True, "rlimit"),
        Limit("core_bytes", 0, True, "rlimit"),
        Limit("tmp_mb", policy.tmp_mb, True, files),
        Limit("output_bytes", policy.output_bytes, True, "supervisor"),
        Limit("result_bytes", policy.result_bytes, True, "supervisor"),
    )


def process_limits(run: PreparedRun) -> Mapping[str, int]:
    """The process limits to set just before the skill's own program, by the names of `resource.RLIMIT_*`.

    Memory is only limited where no cgroup counts it, and address space never for node, which reserves far more than it uses.
    The number of processes is counted for the user, so its limit is only set where the user is the run's own.
    """
    policy = run.policy
    limits = {
        "CORE": 1,  # one byte also stops the program of the machine that collects cores; zero only stops files
        "NOFILE": policy.nofile,
        "FSIZE": policy.file_size_mb * _MEBIBYTE,
        "STACK": 8 * _MEBIBYTE,
        "CPU": policy.timeout_ms // 1000 + 1,
    }
    if not run.counted_by:
        limits["DATA"] = policy.memory_bytes + run.runtime.reserve_mb * _MEBIBYTE
        if run.runtime.kind != "node":
            limits["AS"] = 2 * policy.memory_bytes + 128 * _MEBIBYTE
    return limits


_A_FILE: Final = 4096  # bytes that a file takes whatever is in it


def quota_check(engine: IsolationMechanism, run: PreparedRun) -> Callable[[list[int]], bool] | None:
    """How to see, from the numbers of the run's processes, that it has written too much; `None` where the kernel sees to it."""
    if engine.own_folders:
        return partial(_folders_over_quota, run)
    in_memory = partial(_too_many_files, run) if not run.counted_by else None
    if not run.job.workspace:
        return in_memory
    return lambda pids: _folders_over_quota(run, pids, "/workspace") or (in_memory is not None and in_memory(pids))


def session_quota(engine: IsolationMechanism, session: PreparedSession) -> Callable[[list[int]], bool] | None:
    """How to see that the temporary folder of a session is too large; `None` where it is a file system of that size."""
    if not engine.own_folders:
        return None
    allowed = session.policy.tmp_mb * _MEBIBYTE
    return lambda _pids: folder_bytes(session.stage.scratch, allowed) > allowed


def _folders_over_quota(run: PreparedRun, pids: list[int], seen_as: str = "") -> bool:
    """Whether the run's own folders, or files it has deleted and still holds, are larger than they may be.

    What lay in the workspace before does not count.
    """
    allowed, stage = run.policy.tmp_mb * _MEBIBYTE, run.stage
    given = stage.seeded.size + 2 * _A_FILE * len(stage.seeded.marks) if stage.seeded else 0
    large = folder_bytes(stage.scratch, allowed) > allowed or folder_bytes(stage.workspace, allowed + given) > allowed + given
    return large or deleted_bytes(pids, stage.base, seen_as=seen_as) > allowed + given


def folder_bytes(folder: str, enough: int) -> int:
    """The bytes that a folder takes; more than `enough` when a part of it cannot be looked into."""
    total, waiting = 0, [folder]
    while waiting and total <= enough:
        try:
            with os.scandir(waiting.pop()) as items:
                for item in items:
                    total += _A_FILE + item.stat(follow_symlinks=False).st_blocks * 512
                    if item.is_dir(follow_symlinks=False):
                        waiting.append(item.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:  # made unreadable, or nested deeper than a path is long
            return enough + 1
    return total


def _too_many_files(run: PreparedRun, pids: list[int]) -> bool:
    """Whether the file systems in memory hold more files than fit their size: an empty file is memory that nobody counts."""
    allowed = run.policy.tmp_mb * _MEBIBYTE // _A_FILE
    folders = ["/tmp", "/dev/shm"]  # noqa: S108
    if not run.job.workspace:  # a folder that was given is on a disk with all its other files
        folders.append("/workspace")
    return any(files_in(pids[0], folder) > allowed for folder in folders if pids)


_slots: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]] = weakref.WeakKeyDictionary()


async def run_job(engine: SpawnedMechanism, job: Job) -> SandboxResult:
    """Run one job to its end; no more than twice as many at once as there are processors.

    Raises:
        InvalidInput: an argument or the input cannot be passed on.
        NotExecutable, RuntimeUnavailable, PathRefused, FileMissing, FileTooLarge: the entry cannot be started.
    """
    check_input(job)
    async with run_slot():
        run = await prepare(engine, job)
        try:
            return await collected(run, await _run(engine, run))
        finally:
            # Does not delay the answer; closing the loop waits for it, and so does the end of the process.
            asyncio.get_running_loop().run_in_executor(None, run.stage.remove)


async def collected(run: PreparedRun, result: SandboxResult) -> SandboxResult:
    """The result, when what the run made of its workspace is back; a run that was ended gives nothing back."""
    seeded = run.stage.seeded
    if seeded is None or run.policy.filesystem != "read-write" or result.status not in ("ok", "error"):
        return result
    collected = await asyncio.to_thread(copy_changes_back, run.stage.workspace, seeded, run.job.workspace, run.policy)
    return replace(result, files=collected.files, warnings=(*result.warnings, *collected.warnings))


async def _run(engine: SpawnedMechanism, run: PreparedRun) -> SandboxResult:
    proxy = policy_proxy(run.policy)
    try:
        record = await supervise(
            partial(engine.command, run),
            policy=run.policy,
            stdin=run.job.stdin,
            files=sealed_files(engine, run),
            cgroup=run.cgroup,
            over_quota=quota_check(engine, run),
            proxy_listener=proxy,
        )
    except OSError as error:
        raise SandboxUnavailable(f"the sandbox could not be started: {error}", hint="run `skillyard doctor`") from None
    return run_result(engine, run, record, proxy.contacts if proxy else ())


def run_result(
    engine: IsolationMechanism, run: PreparedRun, record: ProcessRecord, contacts: tuple[Contact, ...] = ()
) -> SandboxResult:
    """The result of a run that has ended."""
    return build_result(
        record,
        run.policy,
        limits=engine.limits(run),
        isolation=engine.name,
        interpreter=run.runtime.program,
        warnings=_warnings(run, record),
        contacts=contacts,
    )


def policy_proxy(policy: Policy) -> Proxy | None:
    """The way out for a run that may reach hosts."""
    if not policy.reaches_network:
        return None
    from skillyard.network.hosts import read_rules
    from skillyard.network.proxy import Proxy  # loads the HTTP parser, which other runs do not need

    trusted = read_rules(host for host in policy.trusted_hosts if "*" not in host)  # anybody may have a name below a domain
    return Proxy(read_rules(policy.network_allowlist), private=policy.private_networks, trusted=trusted)


def sealed_files(engine: SpawnedMechanism, run: PreparedRun) -> tuple[bytes, ...]:
    """What the run's program gets as files in memory, its seccomp filter first; see `filter_files`."""
    local = engine.own_network and run.stage.environment.local_sockets
    return filter_files(
        engine, counted=run.cgroup is not None, streams=run.policy.reaches_network or local, local_sockets=local
    )


def filter_files(
    engine: SpawnedMechanism, *, counted: bool, streams: bool, own_user: bool = False, local_sockets: bool = False
) -> tuple[bytes, ...]:
    """What a sandbox gets as files in memory, its seccomp filter first; see `seccomp_filter`."""
    options = engine.filter_options(counted=counted)
    return (seccomp_filter(options, streams=streams, own_user=own_user, local_sockets=local_sockets), *engine.files())


def seccomp_filter(
    options: FilterOptions, *, streams: bool, own_user: bool = False, local_sockets: bool = False, processor: str = ""
) -> bytes:
    """The filter of a run; `streams` when it may make TCP sockets. Without a `processor` for that of this machine.

    With a user of its own (`own_user`) it may change modes and times of files, because it owns only its own; where its memory
    is counted and its mounts are its own, its bundlers may make what they would watch files with. With `local_sockets` its
    programs may speak with each other over local sockets.

    Raises:
        SandboxUnavailable: there is no filter for this machine.
    """
    machine = machine_named(processor) if processor else this_machine()
    if machine is None:
        raise SandboxUnavailable("no seccomp filter is known for this processor", hint="use an x86_64 or aarch64 machine")
    metadata = options.metadata and not own_user
    watchers = own_user and not (options.neighbours or options.uncounted_memory)
    chosen = replace(options, streams=streams, metadata=metadata, local_sockets=local_sockets, watchers=watchers)
    return build_filter(machine, chosen)


def _warnings(run: PreparedRun, record: ProcessRecord) -> tuple[str, ...]:
    skipped = [f"{name} is not a regular file and was left out" for name in run.stage.skipped[:20]]
    held = [] if record.drained else ["something still held the run's output open after its end"]
    return (*skipped, *held)


def check_input(job: Job) -> None:
    """Refuse what cannot be handed over.

    Raises:
        InvalidInput: the input is too large, or an argument cannot be one.
    """
    if len(job.stdin) > job.policy.input_bytes:
        raise InvalidInput(f"the input is over {job.policy.input_bytes} bytes", hint="give the skill less input")
    if any("\0" in argument for argument in job.arguments):
        raise InvalidInput("an argument has a NUL character", hint="give arguments as plain text")


def run_slot() -> asyncio.Semaphore:
    """What each run of the current loop holds while it lasts; twice as many as there are processors."""
    loop = asyncio.get_running_loop()
    if loop not in _slots:
        _slots[loop] = asyncio.Semaphore(2 * (os.cpu_count() or 1))
    return _slots[loop]
