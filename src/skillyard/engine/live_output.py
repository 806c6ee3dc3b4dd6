"""What is reported of a run: its output and steps while it runs, the run itself to observers and as spans when it has ended.

Output is recorded, so that every process of the database can follow it.

Pieces are gathered for a tenth of a second; a run that is quicker writes nothing here, its record has everything. Of each
stream the last 65,536 characters are kept, as in the record. A live event of a run is `{"stream", "attempt", "end",
"text"}` (`end` counts the characters of the stream up to there, over all attempts) or `{"step"}`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from skillyard.errors import DatabaseUnavailable, ValueRefused
from skillyard.execution import StepTrace
from skillyard.execution.run import MOST_STEPS, read_steps
from skillyard.plain_json import to_redacted_json
from skillyard.sandbox import listen_to_output
from skillyard.text import shorten, single_line
from skillyard.tracing import LABEL, SCOPE, bounded_id, loaded_trace

if TYPE_CHECKING:
    from skillyard.database import Database
    from skillyard.execution import Run


MAX_LOG_CHARACTERS: Final = 64 * 1024
"""How many characters of each stream are kept."""


def log_tail(log: str, *, whole: bool = True) -> str:
    """The end of a log, at most 65,536 characters; with an ellipsis if it is cut here or, not `whole`, was cut already."""
    return log if whole and len(log) <= MAX_LOG_CHARACTERS else "…" + log[-MAX_LOG_CHARACTERS:]


STREAMS: Final = ("stdout", "stderr")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class LiveOutput:
    """What was reported of a run: the text of each stream that is kept, how far it goes, and steps in the order they ended.

    `before` is how far the streams went in earlier attempts than the requested one.
    """

    texts: dict[str, str] = field(default_factory=lambda: dict.fromkeys(STREAMS, ""))
    ends: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STREAMS, 0))
    before: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STREAMS, 0))
    steps: list[Mapping[str, Any]] = field(default_factory=list)


def collect_output(bodies: Iterable[Any], attempt: int) -> LiveOutput:
    """The live events of a run, joined."""
    output = LiveOutput()
    for body in bodies:
        if "step" in body:
            output.steps.append(body["step"])
            continue
        stream: str = body["stream"]
        output.texts[stream] += body["text"]
        output.ends[stream] = body["end"]
        if body["attempt"] < attempt:
            output.before[stream] = body["end"]
    return output


def recorded_output(output: LiveOutput, traced: tuple[StepTrace, ...], printed: tuple[str, str] | None) -> dict[str, Any]:
    """The columns that let followers of a run get the rest after its end and nothing twice.

    `printed` are the two logs of the last attempt; None when it left none, and what was reported of them is kept.
    """
    if printed is None:
        logs, ends = output.texts, output.ends
    else:
        logs = dict(zip(STREAMS, printed, strict=True))
        ends = {stream: output.before[stream] + len(logs[stream]) for stream in STREAMS}
    kept = {} if printed else {stream: log_tail(logs[stream], whole=ends[stream] == len(logs[stream])) for stream in STREAMS}
    order = _order(output.steps, traced)
    if order == list(range(len(order))) and all(
        ends[stream] == min(len(logs[stream]), MAX_LOG_CHARACTERS) for stream in STREAMS
    ):
        return kept
    return {**kept, "printed": {**ends, "steps": order}}


def _order(reported: Iterable[Mapping[str, Any]], kept: tuple[StepTrace, ...]) -> list[int]:
    """Which steps of the record were reported, in that order: that in which they ended; -1 for one that is not in it."""
    left = {at: _key(step.to_dict()) for at, step in enumerate(kept)}
    order = []
    for step in reported:
        index = next((at for at, key in left.items() if key == _key(step)), -1)
        order.append(index)
        left.pop(index, None)
    return order


class LiveOutputWriter:
    """Records what one run prints on its event loop; without a `database` nothing."""

    def __init__(self, database: Database | None, run_id: str, attempt: int = 1) -> None:
        self._database = database
        self._run_id = run_id
        self._attempt = attempt
        self._pending: list[dict[str, Any]] = []
        self._steps = 0
        self._writing: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._rows: list[tuple[int, str, int]] = []  # number, stream and end of what is written down
        self._ends: dict[str, int] | None = None

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Record the output of every sandbox that starts inside the block."""
        if self._database is None:
            yield
            return
        with listen_to_output(self._add_text, noted=self._add_note):
            yield

    async def close(self, *, write: bool) -> None:
        """Record nothing more; with `write` what was printed last is written down too."""
        self._closing.set()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        if write and self._pending:
            await self._write_pending()

    def _add_text(self, stream: str, text: str) -> None:
        last = self._pending[-1] if self._pending else {}
        if last.get("stream") == stream:
            last["text"] += text
        else:
            self._add({"stream": stream, "text": text})

    def _add_note(self, note: str) -> None:
        """Add a step that has ended; any other note is ignored."""
        step = parse_step_note(note)
        if step is not None and self._steps < MOST_STEPS:
            self._steps += 1
            self._add({"step": step})

    def _add(self, body: dict[str, Any]) -> None:
        self._pending.append(body)
        if self._writing is None and not self._closing.is_set():
            self._writing = asyncio.get_running_loop().create_task(self._write_soon())

    async def _write_soon(self) -> None:
        """Write after a moment, and again as long as there is more."""
        while self._database is not None and self._pending and not self._closing.is_set():
            with suppress(TimeoutError):  # a run that ends meanwhile need not wait
                async with asyncio.timeout(self._database.timing.gather_s):
                    await self._closing.wait()
            if not self._closing.is_set():
                await self._write_pending()
        self._writing = None

    async def _write_pending(self) -> None:
        """Write in a thread what is pending, which is taken away here: nothing is added to what the thread has."""
        pending, self._pending = self._pending, []
        await asyncio.to_thread(self._write, pending)

    def _write(self, pending: list[dict[str, Any]]) -> None:
        from sqlalchemy import select

        from skillyard.database import live_events_of, publish_live_events, runs

        database = self._database
        if database is None:
            return
        try:
            with database.write() as connection:
                if connection.execute(select(runs.c.state).where(runs.c.id == self._run_id)).scalar() != "running":
                    return  # somebody has ended it
                if (ends := self._ends) is None:
                    events = live_events_of(connection, self._run_id)
                    ends = self._ends = collect_output((item.body for item in events), self._attempt).ends
                bodies = [self._with_position(body, ends) for body in pending]
                old = [row for row in self._rows if row[2] <= ends[row[1]] - MAX_LOG_CHARACTERS]
                last = publish_live_events(connection, self._run_id, bodies, without=[row[0] for row in old])
            self._rows = [row for row in self._rows if row not in old]
            first = last - len(bodies) + 1
            self._rows += [(first + at, it["stream"], it["end"]) for at, it in enumerate(bodies) if "end" in it]
        except (DatabaseUnavailable, ValueRefused) as error:
            _log.warning("what run %s printed is not recorded at the moment: %s", self._run_id, error.message)

    def _with_position(self, body: dict[str, Any], ends: dict[str, int]) -> dict[str, Any]:
        """A live event with its position; of a flood only the end."""
        if "step" in body:
            return body
        ends[body["stream"]] += len(body["text"])
        return {**body, "attempt": self._attempt, "end": ends[body["stream"]], "text": body["text"][-MAX_LOG_CHARACTERS:]}


def parse_step_note(note: str) -> dict[str, Any] | None:
    """The step in a note of a run, as it is recorded; None when it has none."""
    try:
        steps, _ = read_steps([json.loads(note)])
    except (ValueError, RecursionError):
        return None
    step = to_redacted_json(steps[0].to_dict()) if steps else None
    return step if isinstance(step, dict) else None


def _key(step: Mapping[str, Any]) -> tuple[object, ...]:
    return step.get("stepId"), step.get("stepName"), step.get("timestamp")


_STEPS: Final = 100
_MS: Final = 1_000_000  # nanoseconds
_observers: Final[dict[object, Callable[[Run], object]]] = {}


def observe_runs(observer: Callable[[Run], object]) -> Callable[[], None]:
    """Call `observer` with every run that ends in this process; the result unregisters it."""
    token = object()
    _observers[token] = observer

    def stop() -> None:
        _observers.pop(token, None)

    return stop


def trace_run(run: Run, skill: Mapping[str, str], *, requested_ns: int, turn_ns: int, ended_ns: int) -> None:
    """Report a run that has ended: one span, below it the start of the sandbox, the process and its steps.

    `skill` are attributes of the span that say which skill it was. Times are nanoseconds since the epoch: when it was
    requested, when it got its slot, when it ended.
    """
    for observer in tuple(_observers.values()):
        observer(run)
    trace = loaded_trace()
    if trace is None:
        return
    tracer = trace.get_tracer(SCOPE)
    span = tracer.start_span("skillyard.run", start_time=requested_ns, attributes=_attributes(run) | dict(skill))
    if not span.is_recording():
        return
    if run.error is not None:
        span.set_status(trace.StatusCode.ERROR, run.error.code)
    if run.isolation != "none" and not run.cache_hit:
        below = trace.set_span_in_context(span)
        begun_ns = max(turn_ns, ended_ns - run.duration_ms * _MS)
        tracer.start_span("skillyard.sandbox.start", below, start_time=turn_ns).end(begun_ns)
        process = tracer.start_span("skillyard.sandbox.process", below, start_time=begun_ns)
        _trace_steps(trace, tracer, trace.set_span_in_context(process), run, begun_ns)
        process.end(ended_ns)
    span.end(ended_ns)


def _attributes(run: Run) -> dict[str, object]:
    attributes: dict[str, object] = {
        "skillyard.run.id": run.run_id,
        "skillyard.skill.id": bounded_id(run.skill_id),
        "skillyard.run.status": run.status,
        "skillyard.isolation": run.isolation,
        "skillyard.cache_hit": run.cache_hit,
        "skillyard.steps": len(run.steps),
    }
    return attributes | ({"error.type": run.error.code} if run.error else {})


def _trace_steps(trace: Any, tracer: Any, below: Any, run: Run, begun_ns: int) -> None:
    """The first 100 steps, each beginning where the one before ended."""
    at = begun_ns
    for step in run.steps[:_STEPS]:
        name = shorten(single_line(step.step_name), LABEL)
        span = tracer.start_span("skillyard.step", below, start_time=at, attributes={"skillyard.step.name": name})
        if step.error:
            span.set_status(trace.StatusCode.ERROR)
        at += int(step.duration * _MS)
        span.end(at)
