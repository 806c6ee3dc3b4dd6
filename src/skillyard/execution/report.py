"""What came back, made into a run: the process's failure first, then the skill's own word about itself."""

from __future__ import annotations

from dataclasses import replace

from skillyard.errors import WorkProblem
from skillyard.execution.call import Call
from skillyard.execution.failure import failure_of
from skillyard.execution.kinds import Answer
from skillyard.execution.memory_writes import read_memory_writes
from skillyard.execution.outcome import Outcome
from skillyard.execution.run import Run, RunError
from skillyard.execution.schema import UnusableSchema, schema_problems
from skillyard.execution.steps import read_steps
from skillyard.plain_json import read_json
from skillyard.sandbox import Result, Status

__all__ = ["answer_of", "answered", "finished"]


async def answered(call: Call, answer: Answer) -> Run:
    """The run of a skill whose work was done elsewhere."""
    call = replace(call, warnings=(*call.warnings, *answer.warnings))
    if answer.error is None:
        return await finished(call, answer.outcome, None)
    return replace(
        call.refused(answer.error.code, answer.error.message, status=answer.status),
        output=answer.outcome.output,
        format=answer.outcome.format,
    )


def answer_of(result: Result) -> object:
    """The document from the result pipe; without one the standard output, as JSON when it is, else as text."""
    if result.result is not None:
        return result.value
    text = result.stdout.decode("utf-8", "replace").strip()
    if not text:
        return None
    try:
        return read_json(text)
    except ValueError:
        return text


async def finished(call: Call, outcome: Outcome, result: Result | None) -> Run:
    """The run: the process's failure first, then the skill's own word about itself."""
    error = failure_of(result) if result else None
    status: Status = result.status if result else "ok"
    if error is None and outcome.failed:
        status, error = "error", RunError("SANDBOX_EXECUTION_ERROR", outcome.message or "the skill reports an error")
    steps, step_warnings = read_steps(outcome.steps)
    # What a failed run suggests to remember is not to be trusted.
    suggested = outcome.memory_writes if error is None else None
    writes, write_warnings = read_memory_writes(suggested, protocol=call.metadata.protocol, context=call.context)
    schema_warnings = await _output_warnings(call, outcome) if error is None else ()
    run = Run(
        run_id=call.run_id,
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


def _with_process(run: Run, result: Result) -> Run:
    """The run with what is known of the process that was started for it."""
    return replace(
        run,
        limits=result.limits,
        isolation=result.isolation,
        stdout=result.stdout.decode("utf-8", "replace"),
        stderr=result.stderr.decode("utf-8", "replace"),
        duration_ms=result.duration_ms,
        interpreter=result.interpreter,
        contacts=result.contacts,
        files=result.files,
    )


async def _output_warnings(call: Call, outcome: Outcome) -> tuple[str, ...]:
    try:
        problems = await schema_problems(call.metadata.output_schema, outcome.output)
    except UnusableSchema as error:
        return (f"output_schema is not a usable JSON Schema and was not checked: {error}",)
    except WorkProblem as error:
        return (f"the output could not be checked against output_schema: {error.sentence}",)
    return tuple(f"the output does not fit output_schema: {problem}" for problem in problems)
