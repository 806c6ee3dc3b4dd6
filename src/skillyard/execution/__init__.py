"""Execution: from a skill and parameters to a run, with its output, steps, memory writes and the limits that held.

`run = await Executor().run(skill, {"text": "…"})`. Which sandbox holds the run is the sandbox room's concern.
What a run needs is imported at once; the rest when it is first used, so that a run is quick to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.execution.context import without_credentials
from skillyard.execution.distributed import pool_of
from skillyard.execution.entry import find_entry
from skillyard.execution.executor import Executor
from skillyard.execution.keeping import keep_seconds, result_key
from skillyard.execution.memory_writes import MemoryWrite
from skillyard.execution.outcome import Outcome, infer_format, read_outcome
from skillyard.execution.retrying import ONCE, Retry, retry_of
from skillyard.execution.run import Format, Run, RunError, RunShape, TokenUsage, new_run_id
from skillyard.execution.servers import McpServer
from skillyard.execution.steps import StepTrace

if TYPE_CHECKING:
    from skillyard.execution.abp.calls import AbpCall, AbpProblem, AbpText, parse_abp_calls
    from skillyard.execution.abp.declaration import AbpKind, AbpParameter, AbpTool, abp_tool_definitions, infer_abp_kind
    from skillyard.execution.abp.filling import fill_parameters
    from skillyard.execution.abp.results import abp_result, result_text, vcp_result
    from skillyard.execution.abp.validation import AbpValidation, validate_abp_format
    from skillyard.execution.environments import find_uv
    from skillyard.execution.picking import IntentRun, Preprocessed
    from skillyard.execution.response import ExecutionResponse, execution_response
    from skillyard.execution.trial import Trial, TrialReport, try_skill

__all__ = [
    "ONCE",
    "AbpCall",
    "AbpKind",
    "AbpParameter",
    "AbpProblem",
    "AbpText",
    "AbpTool",
    "AbpValidation",
    "ExecutionResponse",
    "Executor",
    "Format",
    "IntentRun",
    "McpServer",
    "MemoryWrite",
    "Outcome",
    "Preprocessed",
    "Retry",
    "Run",
    "RunError",
    "RunShape",
    "StepTrace",
    "TokenUsage",
    "Trial",
    "TrialReport",
    "abp_result",
    "abp_tool_definitions",
    "execution_response",
    "fill_parameters",
    "find_entry",
    "find_uv",
    "infer_abp_kind",
    "infer_format",
    "keep_seconds",
    "new_run_id",
    "parse_abp_calls",
    "pool_of",
    "read_outcome",
    "result_key",
    "result_text",
    "retry_of",
    "try_skill",
    "validate_abp_format",
    "vcp_result",
    "without_credentials",
]

_MODULES = {
    "abp.calls": ("AbpCall", "AbpProblem", "AbpText", "parse_abp_calls"),
    "abp.declaration": ("AbpKind", "AbpParameter", "AbpTool", "abp_tool_definitions", "infer_abp_kind"),
    "abp.filling": ("fill_parameters",),
    "abp.results": ("abp_result", "result_text", "vcp_result"),
    "abp.validation": ("AbpValidation", "validate_abp_format"),
    "environments": ("find_uv",),
    "picking": ("IntentRun", "Preprocessed"),
    "response": ("ExecutionResponse", "execution_response"),
    "trial": ("Trial", "TrialReport", "try_skill"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
