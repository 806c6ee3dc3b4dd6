"""Where the time, the tokens and the money of a turn or run went, from what was recorded of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from skillyard.insights import InsightSettings, ModelPrice, Timeline, run_timeline, runs_of, turn_timeline

NOON = datetime(2026, 5, 20, 12, tzinfo=UTC)
PRICED = InsightSettings(prices={"openai:big": ModelPrice(1.0, 10.0)})
Shape = tuple[str, str, str, int, int, int]


def _at(ms: int) -> datetime:
    return NOON + timedelta(milliseconds=ms)


def _said(ms: int) -> str:
    return _at(ms).isoformat(timespec="milliseconds")


def _request(begin: int, took: int) -> dict[str, Any]:
    request = {"began_at": _said(begin), "duration_ms": took, "input_tokens": 1_000, "output_tokens": 100}
    return {"event": "usage", "input_tokens": 0, "output_tokens": 0, "requests": 0, "request": request}


def _call(name: str, at: int) -> dict[str, Any]:
    return {"event": "call", "id": name, "tool": name, "at": _said(at)}


def _result(name: str, at: int, took: int, code: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "event": "result", "id": name, "tool": name, "at": _said(at), "duration_ms": took, "ok": code is None, "code": code,
        "tokens": 7, **more,
    }  # fmt: skip


def _turn(state: str, ended: int | None, *events: dict[str, Any]) -> Any:
    finished = None if ended is None else _at(ended)
    usage = {"input_tokens": 2_000, "output_tokens": 200, "requests": 2}
    return SimpleNamespace(
        state=state, model="openai:big", usage=usage, events=list(events), created_at=NOON, finished_at=finished
    )


def _run(**values: Any) -> Any:
    step = SimpleNamespace(step_id="1", step_name="read", duration=30.0, error=None)
    usual: dict[str, Any] = {
        "id": "run_1", "skill_id": "user:pdf", "skill_name": "pdf", "state": "succeeded", "error_code": None,
        "created_at": _at(200), "started_at": _at(250), "finished_at": _at(350), "token_usage": {"input": 5}, "attempts": (),
        "steps": (step, SimpleNamespace(step_id="2", step_name="", duration=50.0, error="no")),
    }  # fmt: skip
    return SimpleNamespace(**(usual | values))


def _shapes(timeline: Timeline) -> list[Shape]:
    return [(one.kind, one.name, one.state, one.begin_ms, one.duration_ms, one.depth) for one in timeline.spans]


def test_a_turn_is_requests_calls_waits_and_scripts_with_tokens_and_money() -> None:
    turn = _turn(
        "done", 900,
        _request(10, 90), _call("run_skill", 100), {"event": "ask", "id": "run_skill", "at": _said(110)},
        _result("run_skill", 400, 220, run="run_1", skill="user:pdf"), _request(410, 490),
    )  # fmt: skip
    assert runs_of(turn.events) == ["run_1"]
    timeline = turn_timeline(turn, {"run_1": _run()}, PRICED)
    assert _shapes(timeline) == [
        ("model", "openai:big", "ok", 10, 90, 0),
        ("waiting", "run_skill", "ok", 110, 70, 0),
        ("tool", "run_skill", "ok", 180, 220, 0),
        ("waiting", "pdf", "ok", 200, 50, 1),
        ("script", "pdf", "ok", 250, 100, 1),
        ("step", "read", "ok", 250, 30, 2),
        ("step", "2", "failed", 280, 50, 2),
        ("model", "openai:big", "ok", 410, 490, 0),
    ]
    assert (timeline.duration_ms, timeline.waiting_ms, timeline.over) == (900, 120, True)
    assert (timeline.spans[0].cost, timeline.cost, timeline.currency) == (0.002, 0.004, "USD")
    assert (timeline.spans[2].tokens, timeline.spans[4].input_tokens, timeline.spans[6].step) == (7, 5, 1)
    assert turn_timeline(turn, {}, InsightSettings()).cost is None


def test_a_result_that_was_recorded_late_begins_its_call_no_later_than_its_run() -> None:
    turn = _turn("done", 900, _call("run_skill", 100), _result("run_skill", 700, 180, run="run_1", skill="user:pdf"))
    assert _shapes(turn_timeline(turn, {"run_1": _run()}, PRICED))[:2] == [
        ("tool", "run_skill", "ok", 200, 500, 0),
        ("waiting", "pdf", "ok", 200, 50, 1),
    ]


def test_refused_is_refused_failed_is_failed_and_what_was_cut_off_has_an_end() -> None:
    def ends(state: str, ended: int | None, *events: dict[str, Any]) -> Shape:
        return _shapes(turn_timeline(_turn(state, ended, *events), {}, PRICED, now=_at(500)))[-1]

    asked = _call("bash", 100), {"event": "ask", "id": "bash", "at": _said(100)}
    refused = turn_timeline(_turn("done", 500, *asked, _result("bash", 300, 0, "approval_rejected")), {}, PRICED)
    assert _shapes(refused) == [("waiting", "bash", "refused", 100, 200, 0), ("tool", "bash", "refused", 300, 0, 0)]
    denied = _call("bash", 100), _result("bash", 101, 1, "permission_denied")
    assert ends("done", 500, *denied) == ("tool", "bash", "refused", 100, 1, 0)
    assert ends("done", 500, _call("bash", 100), _result("bash", 200, 100, "execution_failed"))[2] == "failed"
    assert ends("waiting", None, *asked) == ("waiting", "bash", "waiting", 100, 400, 0)
    assert ends("stopped", 450, *asked) == ("waiting", "bash", "stopped", 100, 350, 0)
    assert ends("stopped", 450, _call("bash", 100)) == ("tool", "bash", "stopped", 100, 350, 0)
    assert ends("running", None, _request(10, 90)) == ("model", "openai:big", "running", 100, 400, 0)
    failed = _request(10, 90), _call("bash", 100), _result("bash", 200, 100), {"event": "error", "code": "model_failed"}
    assert ends("failed", 480, *failed) == ("model", "openai:big", "failed", 200, 280, 0)
    # The end of a turn whose process has ended was noted when somebody looked: what is known ends it.
    assert ends("interrupted", 90_000_000, *failed[:3]) == ("model", "openai:big", "stopped", 200, 0, 0)


def test_events_of_older_releases_have_no_times_and_stand_one_after_the_other() -> None:
    events = [_call("bash", 0), _result("bash", 0, 40), _call("file_read", 0), _result("file_read", 0, 2)]
    for event in events:
        del event["at"]
    turn = _turn("done", 100, {"event": "usage", "input_tokens": 1, "output_tokens": 1, "requests": 1}, *events)
    assert [span[3:5] for span in _shapes(turn_timeline(turn, {}, PRICED))] == [(0, 40), (40, 2)]


def test_a_run_waits_tries_again_is_refused_or_goes_on() -> None:
    tried = SimpleNamespace(started_at=_at(210), finished_at=_at(240), error_code="INTERRUPTED")
    again = run_timeline(_run(attempts=(tried,), steps=()), PRICED)
    assert _shapes(again) == [
        ("waiting", "pdf", "ok", 0, 10, 0), ("script", "pdf", "failed", 10, 30, 0), ("waiting", "pdf", "ok", 40, 10, 0),
        ("script", "pdf", "ok", 50, 100, 0),
    ]  # fmt: skip
    assert (again.waiting_ms, again.input_tokens, again.cost) == (20, 5, None)
    refused = _run(state="failed", error_code="APPROVAL_REJECTED", started_at=None, steps=())
    assert [one[:3] for one in _shapes(run_timeline(refused, PRICED))] == [
        ("waiting", "pdf", "refused"), ("script", "pdf", "refused"),
    ]  # fmt: skip
    waits = _run(state="queued", started_at=None, finished_at=None, steps=())
    assert _shapes(run_timeline(waits, PRICED, now=_at(700))) == [("waiting", "pdf", "waiting", 0, 500, 0)]
    works = run_timeline(_run(state="running", finished_at=None, steps=()), PRICED, now=_at(700))
    assert (_shapes(works)[-1], works.over) == (("script", "pdf", "running", 50, 450, 0), False)
