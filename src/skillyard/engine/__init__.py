"""The engine: carries runs to whatever runs them, and records each one before it starts and when it has ended.

`run = await LocalEngine(Executor(), Records(folder)).run(skill, {"text": "…"})`. What a run does is the execution room's
concern; every interface goes through an engine, so that every run leaves a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.engine.carrying import Begun
from skillyard.engine.local import LocalEngine
from skillyard.engine.owner import SILENT_S, Owner, is_gone
from skillyard.engine.pools import PoolEngine
from skillyard.engine.protocol import Engine, Runner
from skillyard.engine.record import FINAL, Attempt, RunRecord, RunState
from skillyard.engine.records import Records
from skillyard.engine.settings import DEFAULT_POOL, EngineKind, EngineSettings
from skillyard.engine.tracing import flush_spans, hear_runs
from skillyard.engine.turns import Slots

if TYPE_CHECKING:
    from skillyard.engine.crew import Crew
    from skillyard.engine.makers import Makers
    from skillyard.engine.roster import PoolInfo, Roster, WorkerInfo
    from skillyard.engine.scheduler import Scheduler, begin_scheduled
    from skillyard.engine.schedules import Missed, Schedule, Schedules, next_times
    from skillyard.engine.worker import Worker

__all__ = [
    "DEFAULT_POOL",
    "FINAL",
    "SILENT_S",
    "Attempt",
    "Begun",
    "Crew",
    "Engine",
    "EngineKind",
    "EngineSettings",
    "LocalEngine",
    "Makers",
    "Missed",
    "Owner",
    "PoolEngine",
    "PoolInfo",
    "Records",
    "Roster",
    "RunRecord",
    "RunState",
    "Runner",
    "Schedule",
    "Scheduler",
    "Schedules",
    "Slots",
    "Worker",
    "WorkerInfo",
    "begin_scheduled",
    "flush_spans",
    "hear_runs",
    "is_gone",
    "next_times",
]

_LATER = {  # they need the database
    "Crew": "crew",
    "Makers": "makers",
    "Missed": "schedules",
    "PoolInfo": "roster",
    "Roster": "roster",
    "Schedule": "schedules",
    "Scheduler": "scheduler",
    "Schedules": "schedules",
    "Worker": "worker",
    "WorkerInfo": "roster",
    "begin_scheduled": "scheduler",
    "next_times": "schedules",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value
