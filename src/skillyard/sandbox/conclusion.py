"""Turns what the supervisor saw into a result: one status, one sentence, and output without secrets."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from skillyard.sandbox.ending import Ending
from skillyard.sandbox.environment import redact
from skillyard.sandbox.job import Limit, Result, Status
from skillyard.sandbox.network.contact import Contact
from skillyard.sandbox.policy import Policy
from skillyard.sandbox.protocol import MalformedResult, read_result

__all__ = ["conclude", "tail"]

_SIGNAL_BASE: Final = 128
# A program may well choose an exit code above 128 itself; these are the signals that end runs.
_FATAL: Final = {
    signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM,
    signal.SIGXCPU, signal.SIGXFSZ, signal.SIGSYS,
}  # fmt: skip
_OUT_OF_MEMORY_WORDS: Final = (
    b"MemoryError", b"Cannot allocate memory", b"cannot allocate",
    b"Array buffer allocation failed", b"could not allocate memory",
)  # fmt: skip
# Node says so before a long list of its own frames.
_HEAP_WORDS: Final = (b"JavaScript heap out of memory", b"Fatal JavaScript out of memory", b"Fatal process out of memory")
_SENTENCES: Final[Mapping[str, str]] = {
    "timeout": "the run took longer than {policy.timeout_ms} ms and was ended",
    "memory": "the run needed more than {policy.memory_mb} MiB of memory",
    "pids": "the run started more than {policy.pids} processes or threads",
    "output_limit": "the run wrote more than it may and was ended",
    "unavailable": "the run could not be put under its limits and was not let go",
    "result_invalid": "the run wrote more than {policy.result_bytes} bytes to its result pipe",
}


@dataclass(frozen=True, slots=True)
class _Verdict:
    status: Status
    detail: str = ""
    value: object = None


def conclude(
    ending: Ending,
    policy: Policy,
    *,
    limits: tuple[Limit, ...],
    isolation: str,
    interpreter: str,
    warnings: tuple[str, ...],
    contacts: tuple[Contact, ...] = (),
) -> Result:
    """The result of a run that has ended."""
    secrets = policy.secret_values
    stdout, stderr, result = (redact(received.take(), secrets) for received in (ending.stdout, ending.stderr, ending.result))
    number = _signal_number(ending.returncode)
    verdict = _verdict(ending, policy, number, stderr, result)
    return Result(
        status=verdict.status,
        exit_code=None if number or ending.reason else ending.returncode,
        result=result or None,
        value=verdict.value,
        stdout=stdout,
        stderr=stderr,
        duration_ms=ending.duration_ms,
        limits=limits,
        isolation=isolation,
        interpreter=interpreter,
        detail=verdict.detail,
        signal=number,
        warnings=warnings,
        contacts=tuple(_without_secrets(item, secrets) for item in contacts),
    )


def _without_secrets(contact: Contact, secrets: tuple[str, ...]) -> Contact:
    """A host or a path that a skill asks for may be made of a secret."""
    host, reason = (redact(text.encode(), secrets).decode() for text in (contact.host, contact.reason))
    return replace(contact, host=host, reason=reason)


def tail(data: bytes, *, limit: int = 2_000) -> str:
    """The end of a log as text, at most `limit` characters."""
    return data[-4 * limit :].decode("utf-8", "replace").strip()[-limit:]


def _signal_number(returncode: int) -> int | None:
    """The signal that ended the run: its own, or the one a sandbox program reports as 128 + number."""
    number = -returncode if returncode < 0 else returncode - _SIGNAL_BASE
    return number if returncode < 0 or number in _FATAL else None


def _verdict(ending: Ending, policy: Policy, number: int | None, stderr: bytes, result: bytes) -> _Verdict:
    value, problem = _read(result, policy)
    if status := _limit_reached(ending, policy, stderr):
        return _Verdict(status, _SENTENCES[status].format(policy=policy), value)
    if not ending.begun:  # nothing of the skill has run, so these words are the sandbox's own
        words = tail(stderr, limit=300) or f"it ended with code {ending.returncode}"
        return _Verdict("unavailable", f"the sandbox did not start: {words}")
    if number is not None:
        name = signal.Signals(number).name if number in signal.valid_signals() else str(number)
        return _Verdict("killed", f"the run was ended by {name}", value)
    if ending.returncode != 0:
        return _Verdict("error", f"the script ended with exit code {ending.returncode}", value)
    if problem:
        return _Verdict("result_invalid", problem)
    return _Verdict("ok", "", value)


def _limit_reached(ending: Ending, policy: Policy, stderr: bytes) -> Status | None:
    if ending.reason:
        return ending.reason
    if ending.returncode == 0:
        return None
    if ending.out_of_memory or (_may_be_out_of_memory(ending, policy) and _says_out_of_memory(stderr)):
        return "memory"
    return "pids" if ending.out_of_processes else None


def _may_be_out_of_memory(ending: Ending, policy: Policy) -> bool:
    """Whether a script that says so is believed: node gives up by itself close to the limit, and process limits kill nobody."""
    return ending.memory_peak is None or ending.memory_peak >= policy.memory_bytes // 2


def _says_out_of_memory(stderr: bytes) -> bool:
    return any(word in stderr[-2_000:] for word in _OUT_OF_MEMORY_WORDS) or any(
        word in stderr[-16_000:] for word in _HEAP_WORDS
    )


def _read(result: bytes, policy: Policy) -> tuple[object, str]:
    if not result:
        return None, ""
    try:
        return read_result(result, limit=policy.result_bytes), ""
    except MalformedResult as error:
        return None, str(error)
