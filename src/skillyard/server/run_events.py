"""A run as it goes on, told as server-sent events: its states, what it prints, its steps, and the end.

The id of an event says how far the run has been told: state, characters of both streams, steps. A client that comes back with
`Last-Event-ID` is told the rest, by whichever process of the database it reaches, wherever the run works.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import BaseModel
from sse_starlette import ServerSentEvent

from skillyard.database import heard
from skillyard.engine import FINAL, RunRecord
from skillyard.engine.live import STREAMS
from skillyard.engine.plain import LOG
from skillyard.server.run_shapes import RunAsked, RunEnded, RunPrinted, RunStateChanged, RunStep, RunStepTaken, detail

if TYPE_CHECKING:
    from skillyard.database import Happening
    from skillyard.engine.journal import Journal
    from skillyard.server.questions import Questions

__all__ = ["Position", "run_events"]

_LOOK_S: Final = 1.0  # how often the record is looked at, should nobody tell
_ID: Final = re.compile(r"(\d{1,9})\.(\d{1,12})\.(\d{1,12})\.(\d{1,9})", re.ASCII)
_ORDER: Final = {"queued": 1, "running": 2}
_ENDED: Final = 3  # every other state
_Told = tuple["Position", BaseModel]


@dataclass(frozen=True, slots=True)
class Position:
    """How much of a run has been told: the number of its state, characters of each stream, steps."""

    state: int = 0
    stdout: int = 0
    stderr: int = 0
    steps: int = 0

    @classmethod
    def read(cls, event_id: str | None) -> Self:
        """The position in the id of an event; the beginning when it is none."""
        found = _ID.fullmatch(event_id or "")
        return cls(*map(int, found.groups())) if found else cls()

    def __str__(self) -> str:
        return f"{self.state}.{self.stdout}.{self.stderr}.{self.steps}"


async def run_events(
    run_id: str, position: Position, journal: Journal, questions: Questions
) -> AsyncGenerator[ServerSentEvent, None]:
    """Tell a run from a position on, until it has ended."""
    asked: set[str] = set()
    steps = number = 0
    async with journal.database.bell.ring(run_id) as rung:
        while True:
            state, news = await asyncio.to_thread(journal.news, run_id, number)
            if state is None or state in FINAL:
                break
            if position.state < _ORDER[state]:
                position = replace(position, state=_ORDER[state])
                yield _event(RunStateChanged(run_id=run_id, state=state), position)
            if (question := await asyncio.to_thread(questions.of_run, run_id)) is not None and question.id not in asked:
                asked.add(question.id)
                told = RunAsked(question=question.id, title=question.request.title, expires_at=question.expires_at)
                yield _event(told, position)
            for reached, one in _going(news, position, steps):
                position = reached
                yield _event(one, position)
            number = news[-1].number if news else number
            steps += sum("step" in item.body for item in news)
            await heard(rung, _LOOK_S)
    record = await asyncio.to_thread(journal.get, run_id)
    for reached, last in _rest(record, position):
        yield _event(last, reached)


def _going(news: Iterable[Happening], position: Position, steps: int) -> Iterator[_Told]:
    """What of the happenings is behind the position; `steps` were before them."""
    for _, body in news:
        if "step" in body:
            steps += 1
            if steps > position.steps:
                position = replace(position, steps=steps)
                yield position, RunStepTaken(step=RunStep.model_validate(body["step"]))
        elif found := _printed(body["stream"], body["text"], body["end"], position):
            position = found[0]
            yield found


def _rest(record: RunRecord, position: Position) -> Iterator[_Told]:
    """What is left to be told of a run that has ended."""
    told: Any = record.printed or {}
    for stream in STREAMS:
        whole: str = getattr(record, stream)
        kept = whole[-LOG:]  # before it stands that something was left out
        if found := _printed(stream, kept, told.get(stream, len(kept)), position):
            position = found[0]
            yield found
    if position.state < _ENDED:
        position = replace(position, state=_ENDED)
        yield position, RunStateChanged(run_id=record.id, state=record.state)
    first = told.get("steps", [])
    for at in [*first, *(at for at in range(len(record.steps)) if at not in first)][position.steps :]:
        position = replace(position, steps=position.steps + 1)
        if at >= 0:  # else it was told of an attempt that failed
            yield position, RunStepTaken(step=RunStep.model_validate(record.steps[at].to_dict()))
    yield position, RunEnded(run=detail(record))


def _printed(stream: str, text: str, end: int, position: Position) -> tuple[Position, RunPrinted] | None:
    """What of a text, which ends at the character `end` of its stream, is behind the position."""
    known = getattr(position, stream)
    if end <= known or not text:
        return None
    new = text[max(0, len(text) - (end - known)) :]
    moved = replace(position, stdout=end) if stream == "stdout" else replace(position, stderr=end)
    return moved, RunPrinted(stream="stdout" if stream == "stdout" else "stderr", text=new)


def _event(told: BaseModel, position: Position) -> ServerSentEvent:
    name = str(told.model_dump(include={"event"})["event"])
    return ServerSentEvent(told.model_dump_json(), event=name, id=str(position))
