"""A run as it goes on, told as server-sent events: its states, what it prints, its steps, and the end.

The id of an event says how far the run has been told: state, characters of both streams, steps. A client that comes back with
`Last-Event-ID` is told the rest, by whichever process it reaches.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, Self

from pydantic import BaseModel
from sse_starlette import ServerSentEvent

from skillyard.engine import FINAL, RunRecord
from skillyard.server.run_shapes import RunAsked, RunEnded, RunPrinted, RunStateChanged, RunStep, RunStepTaken, detail

if TYPE_CHECKING:
    from skillyard.engine.journal import Journal
    from skillyard.server.desk import LiveRun, RunDesk
    from skillyard.server.questions import Questions

__all__ = ["Position", "run_events"]

_LOOK_S: Final = 0.4  # how often the record is looked at for another state
_ID: Final = re.compile(r"(\d{1,9})\.(\d{1,12})\.(\d{1,12})\.(\d{1,9})", re.ASCII)
_ORDER: Final = {"queued": 1, "running": 2}
_ENDED: Final = 3  # every other state


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
    run_id: str, position: Position, journal: Journal, desk: RunDesk, questions: Questions
) -> AsyncGenerator[ServerSentEvent, None]:
    """Tell a run from a position on, until it has ended."""
    asked: set[str] = set()
    while True:
        live = desk.live(run_id)
        record = await asyncio.to_thread(journal.get, run_id)
        if position.state < _ORDER.get(record.state, 0):
            position = replace(position, state=_ORDER[record.state])
            yield _event(RunStateChanged(run_id=run_id, state=record.state), position)
        if (question := questions.of_run(run_id)) is not None and question.id not in asked:
            asked.add(question.id)
            told = RunAsked(question=question.id, title=question.request.title, expires_at=question.expires_at)
            yield _event(told, position)
        if live is not None:
            for reached, printed in _heard(live, position):
                position = reached
                yield _event(printed, position)
        if record.state in FINAL:
            for reached, last in _rest(record, position):
                yield _event(last, reached)
            return
        await (live.news(_LOOK_S) if live else asyncio.sleep(_LOOK_S))


def _heard(live: LiveRun, position: Position) -> Iterator[tuple[Position, RunPrinted]]:
    """What the run has printed since the position."""
    for stream in _streams():
        text = live.after(stream, getattr(position, stream))
        if text:
            position = _moved(position, stream, live.printed(stream))
            yield position, RunPrinted(stream=stream, text=text)


def _rest(record: RunRecord, position: Position) -> Iterator[tuple[Position, BaseModel]]:
    """What is left to be told of a run that has ended."""
    for stream in _streams():
        whole: str = getattr(record, stream)
        text = whole[getattr(position, stream) :]
        if text:
            position = _moved(position, stream, len(whole))
            yield position, RunPrinted(stream=stream, text=text)
    if position.state < _ENDED:
        position = replace(position, state=_ENDED)
        yield position, RunStateChanged(run_id=record.id, state=record.state)
    for step in record.steps[position.steps :]:
        position = replace(position, steps=position.steps + 1)
        yield position, RunStepTaken(step=RunStep.model_validate(step.to_dict()))
    yield position, RunEnded(run=detail(record))


def _moved(position: Position, stream: Literal["stdout", "stderr"], to: int) -> Position:
    return replace(position, stdout=to) if stream == "stdout" else replace(position, stderr=to)


def _streams() -> tuple[Literal["stdout"], Literal["stderr"]]:
    return "stdout", "stderr"


def _event(told: BaseModel, position: Position) -> ServerSentEvent:
    name = str(told.model_dump(include={"event"})["event"])
    return ServerSentEvent(told.model_dump_json(), event=name, id=str(position))
