"""What a run prints and does is written down while it goes on, in bounds, and the record goes on where that ends."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard import Executor, Skill
from skillyard.engine import LocalEngine, Records
from skillyard.engine.live_output import LiveOutputWriter, collect_output, recorded_output
from skillyard.execution import RunRequest, StepTrace
from skillyard.sandbox.run_output import note_reader, stream_listeners

Write = Callable[..., Skill]
WAITS = """
import sys, time
import skillyard_sdk as sdk
def execute(parameters):
    print("x" * 70_000, flush=True)
    print("to the other", file=sys.stderr, flush=True)
    with sdk.step("outer", input={"apiKey": "hidden"}):
        with sdk.step("inner"):
            pass
    for _ in range(1200):
        time.sleep(0.05)
"""


async def _until(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + 60
    while not (found := await asyncio.to_thread(look)):
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0.05)
    return found


async def test_a_run_is_seen_from_elsewhere_while_it_goes_on_and_keeps_that_when_it_is_cut_off(
    records: Records, write: Write
) -> None:
    begun = await LocalEngine(Executor(), records).begin(RunRequest(write(WAITS), {}))
    journal = records.journal

    def all_reported() -> Any:
        reported = collect_output((item.body for item in journal.events_since(begun.run_id)[1]), 1)
        return reported if len(reported.steps) == 2 and reported.texts["stderr"] else None

    reported = await _until(all_reported)
    assert reported.ends["stdout"] == 70_001
    assert 65_536 <= len(reported.texts["stdout"]) <= 70_001  # of what comes at once only the end is reported
    assert [step["stepName"] for step in reported.steps] == ["inner", "outer"]
    assert "hidden" not in json.dumps(reported.steps)
    begun.ended.cancel()
    await asyncio.wait([begun.ended])
    record = journal.get(begun.run_id)
    assert (record.state, record.stderr, len(record.stdout)) == ("cancelled", "to the other\n", 65_537)
    assert record.stdout[0] == "…"
    assert [step.step_name for step in record.steps] == ["inner", "outer"]
    assert record.printed is not None
    assert record.printed["stdout"] == 70_001
    assert journal.events_since(begun.run_id)[1] == ()
    assert "printed" not in record.to_dict()


async def test_a_flood_leaves_its_end_and_no_more_rows_than_that_needs(records: Records, write: Write) -> None:
    script = (
        "import time\nfor n in range(300):\n    print('%09d' % n * 100, flush=True)\n    time.sleep(0.004)\ntime.sleep(60)\n"
    )
    begun = await LocalEngine(Executor(), records).begin(RunRequest(write(script), {}))

    def over() -> Any:
        news = journal.events_since(begun.run_id)[1]
        return news if news and news[-1].body["end"] == 300 * 901 else None

    journal = records.journal
    news = await _until(over)
    assert sum(len(item.body["text"]) for item in news) < 3 * 65_536
    begun.ended.cancel()
    await asyncio.wait([begun.ended])


async def test_a_run_that_has_ended_does_not_wait_for_what_it_printed_to_be_written(
    records: Records, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records.database, "timing", records.database.timing._replace(gather_s=3_600))
    run = await asyncio.wait_for(LocalEngine(Executor(), records).run(RunRequest(write("print('{}')"), {})), 60)
    assert run.ok


async def test_another_attempt_goes_on_where_the_one_before_ended(records: Records, write: Write) -> None:
    """The process of the first one was killed: what it reported is there, and its end is not."""
    begun = await LocalEngine(Executor(), records).begin(RunRequest(write("import time; time.sleep(60)"), {}))
    journal = records.journal
    await _until(lambda: journal.state(begun.run_id) == "running")
    for attempt, text in ((1, "first\n"), (2, "again\n")):
        log = LiveOutputWriter(records.database, begun.run_id, attempt)
        with log.capture():
            ear, _ = stream_listeners(())
            assert ear is not None
            ear.feed(text.encode())
            note_reader(()).split_notes(
                b'\x1e{"stepId": "1", "stepName": "one", "timestamp": %d}\n\x1e[]\n\x1enothing\n' % attempt
            )
        await log.close(write=True)
    reported = collect_output((item.body for item in journal.events_since(begun.run_id)[1]), 2)
    assert (reported.texts["stdout"], reported.ends["stdout"], reported.before["stdout"]) == ("first\nagain\n", 12, 6)
    kept = recorded_output(reported, (StepTrace("1", "one", timestamp=2),), ("again\nand more\n", ""))
    assert kept == {"printed": {"stdout": 21, "stderr": 0, "steps": [-1, 0]}}
    begun.ended.cancel()
    await asyncio.wait([begun.ended])


async def test_what_is_printed_while_what_came_before_is_written_is_not_lost(
    records: Records, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = await LocalEngine(Executor(), records).begin(RunRequest(write("import time; time.sleep(60)"), {}))
    await _until(lambda: records.journal.state(begun.run_id) == "running")
    log = LiveOutputWriter(records.database, begun.run_id)
    begins, may_write, written = threading.Event(), threading.Event(), threading.Event()

    class Interrupted(list[dict[str, Any]]):
        """What is pending; before its last entry is given out, the writer in another thread does its work."""

        def __getitem__(self, at: Any) -> Any:
            entry = super().__getitem__(at)
            may_write.set()
            assert written.wait(60)
            return entry

    real = LiveOutputWriter._write

    def held_up(*arguments: Any) -> None:
        begins.set()
        assert may_write.wait(60)
        real(*arguments)
        written.set()

    monkeypatch.setattr(LiveOutputWriter, "_write", held_up)
    monkeypatch.setattr(records.database, "timing", records.database.timing._replace(gather_s=0))
    log._pending = Interrupted()
    log._add_text("stdout", "one ")
    assert await asyncio.to_thread(begins.wait, 60)
    log._add_text("stdout", "two")
    may_write.set()
    await log.close(write=True)
    reported = collect_output((item.body for item in records.journal.events_since(begun.run_id)[1]), 1)
    assert reported.texts["stdout"] == "one two"
    begun.ended.cancel()
    await asyncio.wait([begun.ended])


@pytest.mark.parametrize("sizes", [(70_001,), (30_000, 40_001)])
def test_what_was_cut_off_says_so_however_it_was_gathered(sizes: tuple[int, ...]) -> None:
    ends = list(itertools.accumulate(sizes))
    pieces = [("x" * size)[-65_536:] for size in sizes]
    bodies = [{"stream": "stdout", "attempt": 1, "end": end, "text": piece} for end, piece in zip(ends, pieces, strict=True)]
    kept = recorded_output(collect_output(bodies, 1), (), None)
    assert (kept["stdout"], kept["stderr"]) == ("…" + "x" * 65_536, "")


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_run_that_told_nothing_needs_no_more_than_its_record(stdout: str, stderr: str) -> None:
    assert recorded_output(collect_output((), 1), (), (stdout, stderr)) == {}
