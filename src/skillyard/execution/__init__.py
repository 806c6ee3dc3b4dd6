"""Execution: from a skill and parameters to a run, with its output, steps, memory writes and the limits that held.

`run = await Executor().run(RunRequest(skill, {"text": "…"}))`. Which sandbox holds the run is the concern of `sandbox`.
What a run needs is imported at once; the rest when it is first used, so that a run is quick to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.execution.executor import Executor
from skillyard.execution.kinds import find_entry
from skillyard.execution.remote_services import McpServer, worker_pool
from skillyard.execution.run import (
    Format,
    MemoryWrite,
    Run,
    RunError,
    StepTrace,
    abp_result,
    infer_format,
    new_run_id,
    read_outcome,
    result_text,
    vcp_result,
    verdict,
)
from skillyard.execution.run_inputs import WorkFile, check_travelling, read_work_file, text_files
from skillyard.execution.skill_call import (
    ONCE,
    RetryPolicy,
    RunOrigin,
    RunRequest,
    cache_seconds,
    result_cache_key,
    retry_policy,
    without_credentials,
)
from skillyard.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from skillyard.execution.abp_calls import AbpCall, AbpProblem, AbpText, parse_abp_calls
    from skillyard.execution.abp_declaration import (
        AbpTool,
        abp_tool_definitions,
        fill_parameters,
        infer_abp_kind,
        validate_abp_format,
    )
    from skillyard.execution.intent_runs import IntentRun, Preprocessed
    from skillyard.execution.run_report import execution_response
    from skillyard.execution.trial import Trial, TrialReport, try_skill

__all__ = [
    "ONCE",
    "AbpCall",
    "AbpProblem",
    "AbpText",
    "AbpTool",
    "Executor",
    "Format",
    "IntentRun",
    "McpServer",
    "MemoryWrite",
    "Preprocessed",
    "RetryPolicy",
    "Run",
    "RunError",
    "RunOrigin",
    "RunRequest",
    "StepTrace",
    "Trial",
    "TrialReport",
    "WorkFile",
    "abp_result",
    "abp_tool_definitions",
    "cache_seconds",
    "check_travelling",
    "execution_response",
    "fill_parameters",
    "find_entry",
    "infer_abp_kind",
    "infer_format",
    "new_run_id",
    "parse_abp_calls",
    "read_outcome",
    "read_work_file",
    "result_cache_key",
    "result_text",
    "retry_policy",
    "text_files",
    "try_skill",
    "validate_abp_format",
    "vcp_result",
    "verdict",
    "without_credentials",
    "worker_pool",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "abp_calls": ("AbpCall", "AbpProblem", "AbpText", "parse_abp_calls"),
        "abp_declaration": (
            "AbpTool",
            "abp_tool_definitions",
            "fill_parameters",
            "infer_abp_kind",
            "validate_abp_format",
        ),
        "intent_runs": ("IntentRun", "Preprocessed"),
        "run_report": ("execution_response",),
        "trial": ("Trial", "TrialReport", "try_skill"),
    },
)
