"""What a run writes: buffered pipes, listeners for its streams, notes; and the result: status, sentence, document, output.

A note is a record of RFC 7464 (the byte 1E, JSON, a line feed) before the result in the same pipe. Listeners get whole lines,
without secrets, of every run that begins inside their block. The result document is UTF-8 JSON within the size limit, at most
64 levels deep, without NaN, infinities, duplicate keys or lone surrogates.
"""

from __future__ import annotations

import codecs
import io
import json
import math
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NoReturn

from skillyard.network import Contact
from skillyard.plain_json import MAXIMUM_DEPTH, is_too_deep
from skillyard.sandbox.job import Limit, SandboxResult, Status
from skillyard.sandbox.policy import Policy, redact

_BEGIN: Final = b"\x1e"
_LONGEST_NOTE: Final = 8192  # bytes of one note
_MOST: Final = 4 * 1024 * 1024  # bytes of all of them: what comes then is no note


class NoteReader:
    """Extracts the notes from the data of one pipe, and passes them on without `secrets`."""

    def __init__(self, listener: Callable[[str], object] | None, secrets: tuple[str, ...]) -> None:
        self._listener = listener
        self._secrets = secrets
        self._held = b""
        self._taken = 0
        self._over = False

    def split_notes(self, piece: bytes) -> bytes:
        """What of one more piece belongs to the result."""
        if self._over:
            return piece
        self._held += piece
        while self._held.startswith(_BEGIN) and self._taken <= _MOST:
            end = self._held.find(b"\n") + 1
            if not end and len(self._held) <= _LONGEST_NOTE:
                return b""  # the rest of it is on its way
            if not end or end > _LONGEST_NOTE:
                break
            self._pass_on(self._held[1 : end - 1])
            self._taken += end
            self._held = self._held[end:]
        rest, self._held = self._held, b""
        self._over = bool(rest)
        return rest

    def _pass_on(self, note: bytes) -> None:
        if self._listener is not None:
            self._listener(redact(note, self._secrets).decode("utf-8", "replace"))


OutputListener = Callable[[Literal["stdout", "stderr"], str], object]
"""Gets the name of a stream and some whole lines of it, on the event loop of the run; it must not block."""

NoteListener = Callable[[str], object]
"""Gets each note of the run, JSON as text, in the same way."""

_LISTENERS: Final[ContextVar[tuple[OutputListener, ...]]] = ContextVar("skillyard_listeners", default=())
_NOTED: Final[ContextVar[tuple[NoteListener, ...]]] = ContextVar("skillyard_noted", default=())
_LONGEST: Final = 8192  # bytes of a line that is not waited for to its end


@contextmanager
def listen_to_output(listener: OutputListener, *, noted: NoteListener | None = None) -> Iterator[None]:
    """Add `listener` to every run that begins inside the block, and `noted` to its notes; earlier ones stay."""
    token, other = _LISTENERS.set((*_LISTENERS.get(), listener)), _NOTED.set((*_NOTED.get(), *([noted] if noted else [])))
    try:
        yield
    finally:
        _NOTED.reset(other)
        _LISTENERS.reset(token)


class StreamListener:
    """Listens to one stream of one run."""

    def __init__(
        self, stream: Literal["stdout", "stderr"], listeners: tuple[OutputListener, ...], secrets: tuple[str, ...]
    ) -> None:
        self._stream: Final = stream
        self._listeners = listeners
        self._secrets = secrets
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = b""

    def feed(self, piece: bytes) -> None:
        """One more piece; lines that it ends are passed on."""
        self._held += piece
        end = self._held.rfind(b"\n") + 1
        if not end and len(self._held) > _LONGEST:
            end = len(self._held)
        if end:
            self._pass_on(self._held[:end])
            self._held = self._held[end:]

    def end(self) -> None:
        """Pass on what is left of a last line."""
        if self._held:
            self._pass_on(self._held)
            self._held = b""

    def _pass_on(self, data: bytes) -> None:
        if text := self._decoder.decode(redact(data, self._secrets)):
            for listener in self._listeners:
                listener(self._stream, text)


def stream_listeners(secrets: tuple[str, ...]) -> tuple[StreamListener | None, StreamListener | None]:
    """The listener for standard output and standard error of a run that begins now; None without one."""
    listeners = _LISTENERS.get()
    if not listeners:
        return None, None
    return StreamListener("stdout", listeners, secrets), StreamListener("stderr", listeners, secrets)


def note_reader(secrets: tuple[str, ...]) -> NoteReader:
    """The reader of the notes of a run that begins now; passes them to the listener, if any."""
    noted = _NOTED.get()

    def report(note: str) -> None:
        for listener in noted:
            listener(note)

    return NoteReader(report if noted else None, secrets)


class PipeBuffer:
    """What came through one pipe, in one growing buffer that becomes the whole: a flood is held once.

    A `listener` gets each piece as it comes; the `note_reader` takes notes out before. With a `sink` nothing is kept: it gets
    everything, as it came.
    """

    __slots__ = ("_kept", "listener", "note_reader", "sink", "size")

    def __init__(self) -> None:
        self._kept = io.BytesIO()
        self.listener: StreamListener | None = None
        self.note_reader: NoteReader | None = None
        self.sink: Callable[[bytes], object] | None = None
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Keep one more piece."""
        if self.sink is not None:
            self.sink(piece)
            return
        self._kept.write(piece)
        self.size += len(piece)
        if self.listener is not None:
            self.listener.feed(piece)

    def take(self) -> bytes:
        """All of it; it is not kept any longer."""
        if self.listener is not None:
            self.listener.end()
        kept, self._kept = self._kept, io.BytesIO()
        return kept.getvalue()  # the buffer itself, not a copy


@dataclass(slots=True)
class ProcessRecord:
    """What was seen of a run until its end; `reason` is set when the supervisor ended it.

    `begun` says whether the run has passed the gate, so that something of the skill may have run. `memory_peak` are the most
    bytes that its control group has counted at once, `None` where nothing counts or the kernel does not keep it. `unseen` says
    that another part of this program took the exit code.
    """

    returncode: int = 0
    unseen: bool = False
    reason: Status | None = None
    stdout: PipeBuffer = field(default_factory=PipeBuffer)
    stderr: PipeBuffer = field(default_factory=PipeBuffer)
    result: PipeBuffer = field(default_factory=PipeBuffer)
    duration_ms: int = 0
    out_of_memory: bool = False
    memory_peak: int | None = None
    out_of_processes: bool = False
    drained: bool = True
    begun: bool = False


_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89abAB-F]")


class MalformedResult(ValueError):
    """What a run wrote to its result pipe is not a document that can be used."""


def read_result(data: bytes, *, limit: int) -> object:
    """The value of one JSON document.

    Raises:
        MalformedResult: too long, not UTF-8, not exactly one strict JSON document, or too deep.
    """
    if len(data) > limit:
        raise MalformedResult(f"the result is over {limit} bytes")
    try:
        text = data.decode("utf-8")
        value: object = json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
        if _SURROGATE_ESCAPE.search(data):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError:
        raise MalformedResult("the result is not UTF-8") from None
    except UnicodeEncodeError:
        raise MalformedResult("the result has a lone surrogate") from None
    except MalformedResult:
        raise
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise MalformedResult(f"the result is not one JSON document: {error}") from None
    if text.count("[") + text.count("{") > MAXIMUM_DEPTH and is_too_deep(value):
        raise _too_deep()
    return value


def _too_deep() -> MalformedResult:
    return MalformedResult(f"the result is more than {MAXIMUM_DEPTH} levels deep")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise MalformedResult("the result has an object with the same key twice")
    if "__proto__" in value:
        raise MalformedResult("the result has a key named __proto__")
    return value


def _constant(name: str) -> NoReturn:
    raise MalformedResult(f"the result holds {name}, which is not JSON")


def _float(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise MalformedResult("the result has a number that is too large")
    return number


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
    "unavailable": "the run's limits could not be set, so it was not started",
    "killed": "the sandbox could not be understood any more and was ended",
    "result_invalid": "the run wrote more than {policy.result_bytes} bytes to its result pipe",
}


@dataclass(frozen=True, slots=True)
class _Verdict:
    status: Status
    detail: str = ""
    value: object = None


def build_result(
    record: ProcessRecord,
    policy: Policy,
    *,
    limits: tuple[Limit, ...],
    isolation: str,
    interpreter: str,
    warnings: tuple[str, ...],
    contacts: tuple[Contact, ...] = (),
) -> SandboxResult:
    """The result of a run that has ended."""
    secrets = policy.secret_values
    stdout, stderr, result = (redact(received.take(), secrets) for received in (record.stdout, record.stderr, record.result))
    number = _signal_number(record.returncode)
    verdict = _verdict(record, policy, number, stderr, result)
    return SandboxResult(
        status=verdict.status,
        exit_code=None if number or record.reason else record.returncode,
        result=result or None,
        value=verdict.value,
        stdout=stdout,
        stderr=stderr,
        duration_ms=record.duration_ms,
        limits=limits,
        isolation=isolation,
        interpreter=interpreter,
        detail=verdict.detail,
        signal=number,
        warnings=warnings,
        contacts=tuple(_without_secrets(item, secrets) for item in contacts),
        memory_bytes=record.memory_peak,
    )


def _without_secrets(contact: Contact, secrets: tuple[str, ...]) -> Contact:
    """A host or a path that a skill requests may contain a secret."""
    host, reason = (redact(text.encode(), secrets).decode() for text in (contact.host, contact.reason))
    return replace(contact, host=host, reason=reason)


def tail(data: bytes, *, limit: int = 2_000) -> str:
    """The end of a log as text, at most `limit` characters."""
    return data[-4 * limit :].decode("utf-8", "replace").strip()[-limit:]


def _signal_number(returncode: int) -> int | None:
    """The signal that ended the run: its own, or the one a sandbox program reports as 128 + number."""
    number = -returncode if returncode < 0 else returncode - _SIGNAL_BASE
    return number if returncode < 0 or number in _FATAL else None


def _verdict(record: ProcessRecord, policy: Policy, number: int | None, stderr: bytes, result: bytes) -> _Verdict:
    value, problem = _read(result, policy)
    if status := _limit_reached(record, policy, stderr):
        return _Verdict(status, _SENTENCES[status].format(policy=policy), value)
    if not record.begun:  # nothing of the skill has run, so these words are the sandbox's own
        words = tail(stderr, limit=300) or f"it ended with code {record.returncode}"
        return _Verdict("unavailable", f"the sandbox did not start: {words}")
    if number is not None:
        name = signal.Signals(number).name if number in signal.valid_signals() else str(number)
        return _Verdict("killed", f"the run was ended by {name}", value)
    if record.unseen and not result:
        return _Verdict("error", "how the script ended is unknown: another part of this program waits for every child process")
    if record.returncode != 0:
        return _Verdict("error", f"the script ended with exit code {record.returncode}", value)
    if problem:
        return _Verdict("result_invalid", problem)
    return _Verdict("ok", "", value)


def _limit_reached(record: ProcessRecord, policy: Policy, stderr: bytes) -> Status | None:
    if record.reason:
        return record.reason
    if record.returncode == 0:
        return None
    if record.out_of_memory or (_may_be_out_of_memory(record, policy) and _says_out_of_memory(stderr)):
        return "memory"
    return "pids" if record.out_of_processes else None


def _may_be_out_of_memory(record: ProcessRecord, policy: Policy) -> bool:
    """Whether a script that says so is believed: node gives up by itself close to the limit, and process limits kill nobody."""
    return record.memory_peak is None or record.memory_peak >= policy.memory_bytes // 2


def _says_out_of_memory(stderr: bytes) -> bool:
    return any(marker in stderr[-2_000:] for marker in _OUT_OF_MEMORY_WORDS) or any(
        marker in stderr[-16_000:] for marker in _HEAP_WORDS
    )


def _read(result: bytes, policy: Policy) -> tuple[object, str]:
    if not result:
        return None, ""
    try:
        return read_result(result, limit=policy.result_bytes), ""
    except MalformedResult as error:
        return None, str(error)
