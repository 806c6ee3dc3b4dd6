"""Execution: from a skill and parameters to a run, with its output, steps, memory writes and the limits that held.

`run = await Executor().run(skill, {"text": "…"})`. Which sandbox holds the run is the sandbox room's concern.
"""

from __future__ import annotations

from skillyard.execution.environments import find_uv
from skillyard.execution.executor import Executor
from skillyard.execution.memory_writes import MemoryWrite
from skillyard.execution.outcome import Outcome, infer_format, read_outcome
from skillyard.execution.run import Format, Run, RunError, RunShape
from skillyard.execution.skill import RunnableSkill
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
    "RunnableSkill",
    "StepTrace",
    "Trial",
    "TrialReport",
    "find_uv",
    "infer_format",
    "read_outcome",
    "try_skill",
]
