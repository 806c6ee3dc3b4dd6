"""The run record made from what came back: the process's failure first, then what the skill says; its response envelope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from skillyard.document.schema_bounds import UnusableSchema
from skillyard.errors import WorkProblem
from skillyard.execution.kinds import RemoteAnswer
from skillyard.execution.run import Run, RunError, SkillOutcome, read_memory_writes, read_steps
from skillyard.execution.skill_call import SkillCall, schema_problems
from skillyard.plain_json import read_json
from skillyard.sandbox import SandboxResult, Status
from skillyard.sandbox.run_output import tail
from skillyard.text import single_line

_CODES: Final[Mapping[Status, str]] = {
    "timeout": "RESOURCE_LIMIT_ERROR",
    "memory": "RESOURCE_LIMIT_ERROR",
    "pids": "RESOURCE_LIMIT_ERROR",
    "output_limit": "RESOURCE_LIMIT_ERROR",
}
_OF_PROCESS: Final = ("limits", "isolation", "duration_ms", "interpreter", "contacts", "files", "exit_code")
_BY_ERROR: Final = (
    (("SyntaxError", "IndentationError", "TabError"), "COMPILATION_ERROR"),
    (
        ("ModuleNotFoundError", "ImportError", "Error [ERR_MODULE_NOT_FOUND]", "Error [MODULE_NOT_FOUND]"),
        "DEPENDENCY_RESOLUTION_ERROR",
    ),
)


def error_of_result(result: SandboxResult) -> RunError | None:
    """Why the sandboxed process failed, `None` when it did not.

    The message ends with the last lines the skill wrote to standard error.
    """
    if result.status == "ok":
        return None
    log = tail(result.stderr)
    if result.status != "error":
        return RunError(_CODES.get(result.status, "SANDBOX_EXECUTION_ERROR"), result.detail)
    last = log.rpartition("\n")[2]
    message = f"{result.detail}: {last}\n{log}" if "\n" in log else f"{result.detail}: {last}" if last else result.detail
    # what Python's own last line, or that of our runner for node, says about the kind of error
    code = next((code for names, code in _BY_ERROR if last.startswith(names)), "SANDBOX_EXECUTION_ERROR")
    return RunError(code, message)


def _with_hint(call: SkillCall, error: RunError | None, result: SandboxResult) -> RunError | None:
    """The error, and behind its first line which grant would give the run what it was missing."""
    if error is None or result.status != "error":
        return error
    from skillyard.environments import missing_hint  # only for runs that failed

    hint = missing_hint(
        result.stderr.decode("utf-8", "replace"),
        single_line(str(getattr(call.skill, "name", call.skill.id))),
        call.skill.directory,
    )
    first, newline, rest = error.message.partition("\n")
    return RunError(error.code, f"{first}; {hint}{newline}{rest}") if hint else error


def execution_response(run: Run) -> dict[str, object]:
    """The run as `{"success", "result"?, "error"?, "metadata", "warnings"?}`: `result` when it succeeded, else `error`.

    `metadata` has `executionTime` (milliseconds), `memoryUsage` (bytes, null where nothing counts them), `tokenUsage`,
    `cacheHit`, `executionType` and `timestamp` (milliseconds, when it began). A text is the `message` of the result and not its
    `data`, unless the skill has a message of its own.
    """
    shape: dict[str, object] = {"success": run.ok}
    if run.error is None:
        shape["result"] = _result(run)
    else:
        shape["error"] = run.error.to_dict()
    shape["metadata"] = {
        "executionTime": run.duration_ms,
        "memoryUsage": run.memory_usage,
        "tokenUsage": dict(run.token_usage) if isinstance(run.token_usage, Mapping) else run.token_usage,
        "cacheHit": run.cache_hit,
        "executionType": run.kind or "direct",
        "timestamp": int(run.run_id[4:20], 16) // 1_000_000,
    }
    if run.warnings:
        shape["warnings"] = list(run.warnings)
    return shape


def _result(run: Run) -> dict[str, object]:
    shape: dict[str, object] = {"status": "success", "format": run.format}
    if run.format == "text" and isinstance(run.output, str) and run.message is None:
        return shape | {"message": run.output}
    if run.format != "void":
        shape["data"] = run.output
    return shape | {"message": run.message} if run.message is not None else shape


_CALLED: Final = (".py", ".js", ".mjs", ".cjs", ".ts", ".mts")


def missing_execute(run: Run, result: SandboxResult, entry: str) -> Run:
    """The run of a skill's own entry, as an error when it should have had an `execute` to call and has none.

    That is one that answered nothing: one that prints its answer, or writes files, is a program.
    """
    path = PurePosixPath(entry)
    if run.status != "ok" or result.result is not None or path.suffix.lower() not in _CALLED:
        return run
    if result.stdout.strip() or result.files:
        return run
    hint = "define `execute(parameters)`" if path.suffix.lower() == ".py" else "export `execute(parameters, context, config)`"
    message = f"{entry} defines no `execute`, so nothing was called: {hint}, or run it as a program (`--entry {entry}`)"
    return replace(run, status="error", error=RunError("EXECUTE_MISSING", message), memory_writes=())


async def run_from_answer(call: SkillCall, answer: RemoteAnswer) -> Run:
    """The run of a skill whose work was done elsewhere."""
    call = replace(call, warnings=(*call.warnings, *answer.warnings))
    if answer.error is None:
        return await run_from_outcome(call, answer.outcome, None)
    return replace(
        call.refused(answer.error.code, answer.error.message, status=answer.status),
        output=answer.outcome.output,
        format=answer.outcome.format,
    )


def output_value(result: SandboxResult) -> object:
    """The document from the result pipe; without one the standard output, as JSON when it is, else as text."""
    if result.result is not None:
        return result.value
    return printed_value(result.stdout.decode("utf-8", "replace"))


def printed_value(stdout: str) -> object:
    """What a program that only prints has answered: JSON where its output is, else the text."""
    text = stdout.strip()
    if not text:
        return None
    try:
        return read_json(text)
    except ValueError:
        return text


async def run_from_outcome(call: SkillCall, outcome: SkillOutcome, result: SandboxResult | None) -> Run:
    """The run: the process's failure first, then what the skill says about itself."""
    error = _with_hint(call, error_of_result(result), result) if result else None
    status: Status = result.status if result else "ok"
    if error is None and outcome.failed:
        status, error = "error", RunError("SANDBOX_EXECUTION_ERROR", outcome.message or "the skill reports an error")
    steps, step_warnings = read_steps(outcome.steps)
    # What a failed run suggests to remember is not to be trusted.
    suggested = outcome.memory_writes if error is None else None
    writes, write_warnings = read_memory_writes(suggested, protocol=call.metadata.protocol, context=call.request.context)
    schema_warnings = await _output_warnings(call, outcome) if error is None else ()
    run = Run(
        run_id=call.request.run_id,
        skill_id=call.skill.id,
        status=status,
        output=outcome.output,
        error=error,
        steps=steps,
        memory_writes=writes,
        format=outcome.format,
        message=outcome.message,
        token_usage=outcome.token_usage,
        warnings=(*call.warnings, *outcome.warnings, *step_warnings, *write_warnings, *schema_warnings),
    )
    return _with_process(run, result) if result else run


def _with_process(run: Run, result: SandboxResult) -> Run:
    """The run with the facts about the process that was started for it."""
    return replace(
        run,
        **{name: getattr(result, name) for name in _OF_PROCESS},
        stdout=result.stdout.decode("utf-8", "replace"),
        stderr=result.stderr.decode("utf-8", "replace"),
        memory_usage=result.memory_bytes,
    )


async def _output_warnings(call: SkillCall, outcome: SkillOutcome) -> tuple[str, ...]:
    try:
        problems = await schema_problems(call.metadata.output_schema, outcome.output)
    except UnusableSchema as error:
        return (f"output_schema is not a usable JSON Schema and was not checked: {error}",)
    except WorkProblem as error:
        return (f"the output could not be checked against output_schema: {error.sentence}",)
    return tuple(f"the output does not fit output_schema: {problem}" for problem in problems)
