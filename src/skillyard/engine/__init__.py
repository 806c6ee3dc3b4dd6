"""The engine: executes runs here or on workers, and records each one before it starts and when it has ended.

`run = await LocalEngine(Executor(), Records(folder)).run(RunRequest(skill, {"text": "…"}))`. What a run does is the execution
component's concern; every interface goes through an engine, so that every run leaves a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.engine.live_output import observe_runs
from skillyard.engine.liveness import HeartbeatMonitor, ProcessIdentity, is_gone
from skillyard.engine.local_engine import LocalEngine, Records, StartedRun
from skillyard.engine.pool_engine import PoolEngine
from skillyard.engine.run_call import Engine
from skillyard.engine.run_record import FAILED_STATES, FINAL_STATES, RunFilter, RunRecord, RunState
from skillyard.engine.slots import EngineKind, EngineSettings, Slots
from skillyard.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from skillyard.engine.events import (
        EVENT_ID,
        EVENT_TYPE,
        MAX_EVENT_NAME,
        Event,
        EventRun,
        EventRunState,
        FiredEvent,
        begin_event,
        ended_event,
        record_event,
        waiting_skills,
    )
    from skillyard.engine.run_files import RunFile, RunFiles, workspace_subject
    from skillyard.engine.scheduler import ScheduleOwners, Scheduler, begin_scheduled
    from skillyard.engine.schedules import EVENT_PREFIX, MissedRunPolicy, Schedule, Schedules, next_times
    from skillyard.engine.worker import Worker, WorkerGroup
    from skillyard.engine.worker_roster import PoolInfo, WorkerInfo, WorkerRoster

__all__ = [
    "EVENT_ID",
    "EVENT_PREFIX",
    "EVENT_TYPE",
    "FAILED_STATES",
    "FINAL_STATES",
    "MAX_EVENT_NAME",
    "Engine",
    "EngineKind",
    "EngineSettings",
    "Event",
    "EventRun",
    "EventRunState",
    "FiredEvent",
    "HeartbeatMonitor",
    "LocalEngine",
    "MissedRunPolicy",
    "PoolEngine",
    "PoolInfo",
    "ProcessIdentity",
    "Records",
    "RunFile",
    "RunFiles",
    "RunFilter",
    "RunRecord",
    "RunState",
    "Schedule",
    "ScheduleOwners",
    "Scheduler",
    "Schedules",
    "Slots",
    "StartedRun",
    "Worker",
    "WorkerGroup",
    "WorkerInfo",
    "WorkerRoster",
    "begin_event",
    "begin_scheduled",
    "ended_event",
    "is_gone",
    "next_times",
    "observe_runs",
    "record_event",
    "waiting_skills",
    "workspace_subject",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "events": (
            "EVENT_ID",
            "EVENT_TYPE",
            "MAX_EVENT_NAME",
            "Event",
            "EventRun",
            "EventRunState",
            "FiredEvent",
            "begin_event",
            "ended_event",
            "record_event",
            "waiting_skills",
        ),
        "run_files": ("RunFile", "RunFiles", "workspace_subject"),
        "scheduler": ("ScheduleOwners", "Scheduler", "begin_scheduled"),
        "schedules": ("EVENT_PREFIX", "MissedRunPolicy", "Schedule", "Schedules", "next_times"),
        "worker": ("Worker", "WorkerGroup"),
        "worker_roster": ("PoolInfo", "WorkerInfo", "WorkerRoster"),
    },
)
