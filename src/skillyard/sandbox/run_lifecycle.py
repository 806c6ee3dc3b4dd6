"""The course of every run, whatever the backend: prepare, start, supervise, build the result, clean up."""

from __future__ import annotations

import asyncio
import os
import weakref
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from skillyard.errors import InvalidInput, SandboxUnavailable
from skillyard.sandbox.job import Job, SandboxResult
from skillyard.sandbox.limits import quota_check
from skillyard.sandbox.policy import Policy
from skillyard.sandbox.preparation import IsolationMechanism, PreparedRun, SpawnedMechanism, prepare
from skillyard.sandbox.results import build_result
from skillyard.sandbox.run_output import ProcessRecord
from skillyard.sandbox.seccomp import FilterOptions, build_filter, machine_named, this_machine
from skillyard.sandbox.supervisor import supervise
from skillyard.sandbox.work_files import copy_changes_back

if TYPE_CHECKING:
    from skillyard.network import Contact
    from skillyard.network.proxy import Proxy


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

    trusted = read_rules(policy.trusted_hosts)
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
        raise InvalidInput("an argument holds a NUL character", hint="give arguments as plain text")


def run_slot() -> asyncio.Semaphore:
    """What each run of the current loop holds while it lasts; twice as many as there are processors."""
    loop = asyncio.get_running_loop()
    if loop not in _slots:
        _slots[loop] = asyncio.Semaphore(2 * (os.cpu_count() or 1))
    return _slots[loop]
