"""Where the time, the tokens and the money of one run or one turn went: spans in the order they began, from what was recorded.

A span is a request to the model, a call of a tool, a wait for an answer or a slot, a script, or a step that a script reported.
Steps say how long they took and not when they began: they are drawn one after the other. What was cut off ends where its turn
or run did, and what still goes on ends now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from skillyard.insights.totals import read_tokens
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from skillyard.insights.report import InsightSettings


SpanKind = Literal["model", "tool", "waiting", "script", "step"]
SpanState = Literal["ok", "failed", "refused", "stopped", "waiting", "running"]
MOST_SPANS: Final = 2_000
_REFUSED: Final = frozenset({"permission_denied", "approval_rejected", "turn_limit"})
_OPEN: Final = ("running", "waiting", "queued")
_RUN_STATES: Final[Mapping[str, SpanState]] = {
    "succeeded": "ok", "failed": "failed", "cancelled": "stopped", "interrupted": "stopped", "running": "running",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TimelineSpan(WireForm):
    """One stretch of time; `begin_ms` counts from the beginning of the whole, `depth` says inside how many others it lies.

    `refused` was not done because a rule, a person or a limit said so; `stopped` was cut off. `tokens` is what a tool's result
    adds to what the model reads, `step` the number of a script's step from 0. `cost` is None where no price is known.
    """

    kind: SpanKind
    name: str
    state: SpanState
    begin_ms: int
    duration_ms: int
    depth: int = 0
    code: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    tokens: int = 0
    cost: float | None = None
    call: str | None = None
    skill: str | None = None
    run: str | None = None
    step: int | None = None

    @property
    def end_ms(self) -> int:
        """Where it ends."""
        return self.begin_ms + self.duration_ms


@dataclass(frozen=True, slots=True)
class Timeline(WireForm):
    """The spans of one run or turn, and what they come to together; `over` says that nothing of it goes on."""

    began_at: datetime
    duration_ms: int
    over: bool
    waiting_ms: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    currency: str
    spans: tuple[TimelineSpan, ...] = field(default=())


Recorded = Any
"""A record of a component that this one does not know: a `RunRecord` of the engine, or a `Turn` of a conversation."""


def run_timeline(run: Recorded, settings: InsightSettings, *, now: datetime | None = None) -> Timeline:
    """What a run did when: it waits for a slot or an approval, each attempt at its script, and the steps of the last one."""
    began = _utc(run.created_at)
    spans = _run_spans(run, began, _utc(run.finished_at or now or datetime.now(UTC)), depth=0)
    tokens = read_tokens(run.token_usage)
    end = max([span.end_ms for span in spans], default=0)
    return Timeline(
        began, end, run.state not in _OPEN, _covered(spans), tokens.get("input_tokens", 0), tokens.get("output_tokens", 0),
        None, settings.currency, tuple(spans[:MOST_SPANS]),
    )  # fmt: skip


def turn_timeline(
    turn: Recorded, runs: Mapping[str, Recorded], settings: InsightSettings, *, now: datetime | None = None
) -> Timeline:
    """What a turn did when, with the `runs` that its calls began, by their ids."""
    began, over = _utc(turn.created_at), turn.state not in _OPEN
    reading = _TurnReading(turn, began, _utc(turn.finished_at or now or datetime.now(UTC)), runs)
    spans = sorted(reading.spans(), key=lambda span: span.begin_ms)  # stable: what is inside stays behind what it is inside of
    price = settings.prices.get(turn.model or "")
    if price is not None:
        spans = [
            replace(span, cost=round(price.cost(span.input_tokens, span.output_tokens), 6)) if span.kind == "model" else span
            for span in spans
        ]
    usage = turn.usage or {}
    read, written = int(usage.get("input_tokens") or 0), int(usage.get("output_tokens") or 0)
    cost = round(price.cost(read, written), 6) if price is not None else None
    return Timeline(
        began, reading.end, over, _covered(spans), read, written, cost, settings.currency, tuple(spans[:MOST_SPANS])
    )


def runs_of(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """The ids of the runs that the calls of a turn began."""
    return [event["run"] for event in events if event.get("event") == "result" and isinstance(event.get("run"), str)]


class _TurnReading:
    """The events of a turn, read from the first to the last; `end` is where the turn ends, in milliseconds."""

    def __init__(self, turn: Recorded, began: datetime, ended: datetime, runs: Mapping[str, Recorded]) -> None:
        self._turn, self._began, self._runs, self._ended = turn, began, runs, ended
        self._lost = turn.state == "interrupted"  # its end was noted when somebody looked, perhaps days later
        self.end = 0 if self._lost else max(0, _ms(ended - began))
        self._at = 0  # the end of what was read last
        self._calls: dict[str, tuple[int, str]] = {}
        self._waits: dict[str, int] = {}

    def spans(self) -> Iterable[TimelineSpan]:
        """Everything that was done, waited for or cut off."""
        fault = None
        for event in self._turn.events:
            match event["event"]:
                case "usage":
                    yield from self._asked(event)
                case "call":
                    self._calls[event["id"]] = (self._moment(event), event["tool"])
                case "ask":
                    self._waits[event["id"]] = self._moment(event)
                case "result":
                    yield from self._called(event)
                case "error":
                    fault = event["code"]
        yield from self._unfinished(fault)

    def _moment(self, event: Mapping[str, Any]) -> int:
        """When an event happened; records of older releases do not say: then where the one before it ended."""
        given = event.get("at")
        if isinstance(given, str):
            self._at = max(0, _ms(_utc(datetime.fromisoformat(given)) - self._began))
        self.end = max(self.end, self._at)
        return self._at

    def _asked(self, event: Mapping[str, Any]) -> Iterable[TimelineSpan]:
        request = event.get("request")
        if isinstance(request, Mapping):
            begin = self._moment({"at": request["began_at"]})
            tokens = request["input_tokens"], request["output_tokens"]
            yield self._until(TimelineSpan(
                "model", self._turn.model or "", "ok", begin, request["duration_ms"], 0, None, *tokens
            ))  # fmt: skip

    def _called(self, event: Mapping[str, Any]) -> Iterable[TimelineSpan]:
        call, took = event["id"], int(event.get("duration_ms") or 0)
        known, tool = self._calls.pop(call, (self._at, event["tool"]))
        begin = max(known, self._moment(event) - took) if event.get("at") else known
        run = self._runs.get(event.get("run") or "")
        inside = [] if run is None else _run_spans(run, self._began, self._ended, depth=1)
        if inside and inside[0].begin_ms < begin:  # a result may be recorded some time after it was there
            earlier = max(known, inside[0].begin_ms)
            begin, took = earlier, took + begin - earlier
        code = event.get("code")
        state: SpanState = "ok" if event["ok"] else "refused" if code in _REFUSED else "failed"
        if call in self._waits:
            asked = self._waits.pop(call)
            answer: SpanState = "refused" if code == "approval_rejected" else "ok"
            yield TimelineSpan("waiting", tool, answer, asked, max(0, begin - asked), call=call, skill=event.get("skill"))
        yield self._until(TimelineSpan(
            "tool", tool, state, begin, took, 0, code, tokens=int(event.get("tokens") or 0), call=call,
            skill=event.get("skill"), run=event.get("run"),
        ))  # fmt: skip
        yield from inside

    def _until(self, span: TimelineSpan) -> TimelineSpan:
        self._at = span.end_ms
        self.end = max(self.end, self._at)
        return span

    def _unfinished(self, fault: str | None) -> Iterable[TimelineSpan]:
        """What has begun and has no result: it goes on, waits, or was cut off where the turn ended."""
        state: SpanState = "running" if self._turn.state == "running" else "stopped"
        for call, (begin, tool) in self._calls.items():
            asked = self._waits.get(call)
            waits: SpanState = "waiting" if self._turn.state == "waiting" else state
            kind: SpanKind = "tool" if asked is None else "waiting"
            since = begin if asked is None else asked
            yield TimelineSpan(kind, tool, state if asked is None else waits, since, max(0, self.end - since), call=call)
        if self._calls or self._turn.state in ("done", "waiting") or (self.end <= self._at and not self._lost):
            return
        if fault is None or fault.startswith("model_"):  # the model was asked, and no response came
            yield TimelineSpan(
                "model", self._turn.model or "", "failed" if fault else state, self._at, max(0, self.end - self._at), code=fault
            )


def _run_spans(run: Recorded, began: datetime, now: datetime, *, depth: int) -> list[TimelineSpan]:
    """The spans of a run, by the time since `began`; what goes on ends `now`."""

    def since(moment: datetime) -> int:
        return max(0, _ms(_utc(moment) - began))

    about: dict[str, Any] = {"skill": run.skill_id, "run": run.id, "depth": depth}
    spans: list[TimelineSpan] = []
    free = since(run.created_at)
    tries = [(one.started_at, one.finished_at, "failed", one.error_code) for one in run.attempts]
    for started, finished, ended, code in (*tries, (run.started_at, run.finished_at, run.state, run.error_code)):
        end = since(finished or now)
        begin = end if started is None else min(since(started), end)
        refused = ended == "failed" and (code or "").lower() in _REFUSED
        if begin > free:
            unmet: SpanState = "waiting" if ended in _OPEN else "refused" if refused else "stopped"
            waits: SpanState = "ok" if started is not None else unmet
            spans.append(TimelineSpan("waiting", run.skill_name, waits, free, begin - free, **about))
        if started is not None or ended not in _OPEN:
            state = "refused" if refused else _RUN_STATES.get(ended, "running")
            spans.append(TimelineSpan("script", run.skill_name, state, begin, end - begin, code=code, **about))
        free = end
    tokens = read_tokens(run.token_usage)
    if spans:
        read, written = tokens.get("input_tokens", 0), tokens.get("output_tokens", 0)
        spans[-1] = replace(spans[-1], input_tokens=read, output_tokens=written)
    return [*spans, *_step_spans(run, spans[-1].begin_ms if spans else 0, depth + 1)]


def _step_spans(run: Recorded, begin: int, depth: int) -> Iterable[TimelineSpan]:
    at = float(begin)
    for number, step in enumerate(run.steps):
        took = max(0.0, step.duration)
        state: SpanState = "failed" if step.error else "ok"
        yield TimelineSpan(
            "step", step.step_name or step.step_id, state, round(at), round(took), depth, run=run.id, skill=run.skill_id,
            step=number,
        )  # fmt: skip
        at += took


def _covered(spans: Iterable[TimelineSpan]) -> int:
    """For how long something was waited for; what is waited for at the same time counts once."""
    parts = sorted((span.begin_ms, span.end_ms) for span in spans if span.kind == "waiting")
    return sum(end - begin for begin, end in _joined(parts))


def _joined(parts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for begin, end in parts:
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _ms(span: timedelta) -> int:
    return round(span.total_seconds() * 1000)


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
