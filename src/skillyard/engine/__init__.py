"""The engine: carries runs to whatever runs them, and records each one before it starts and when it has ended.

`run = await LocalEngine(Executor(), Records(folder)).run(skill, {"text": "…"})`. What a run does is the execution room's
concern; every door goes through an engine, so that every run leaves a record.
"""

from __future__ import annotations

from skillyard.engine.local import LocalEngine
from skillyard.engine.owner import Owner
from skillyard.engine.protocol import Engine, Runner
from skillyard.engine.record import FINAL, RunRecord, RunState
from skillyard.engine.records import Records
from skillyard.engine.tracing import flush_spans

__all__ = ["FINAL", "Engine", "LocalEngine", "Owner", "Records", "RunRecord", "RunState", "Runner", "flush_spans"]
