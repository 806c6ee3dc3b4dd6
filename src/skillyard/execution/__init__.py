"""Execution: from a skill and parameters to a run, with its output, steps, memory writes and the limits that held.

`run = await Executor().run(skill, {"text": "…"})`. Which sandbox holds the run is the sandbox room's concern.
"""

from __future__ import annotations

from skillyard.execution.entry import find_entry
from skillyard.execution.environments import find_uv
from skillyard.execution.executor import Executor
from skillyard.execution.keeping import keep_seconds, result_key
from skillyard.execution.memory_writes import MemoryWrite
from skillyard.execution.outcome import Outcome, infer_format, read_outcome
from skillyard.execution.run import Format, Run, RunError, RunShape, TokenUsage, new_run_id
from skillyard.execution.steps import StepTrace
from skillyard.execution.trial import Trial, TrialReport, try_skill

__all__ = [
    "Executor",
    "Format",
    "MemoryWrite",
    "Outcome",
    "Run",
    "RunError",
    "RunShape",
    "StepTrace",
    "TokenUsage",
    "Trial",
    "TrialReport",
    "find_entry",
    "find_uv",
    "infer_format",
    "keep_seconds",
    "new_run_id",
    "read_outcome",
    "result_key",
    "try_skill",
]
