"""Runs drawn for people: the result of one just made, and a recorded one with its steps as a waterfall."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Final

from skillyard.execution.run import verdict
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from skillyard.cli.screen import Screen
    from skillyard.engine import RunRecord
    from skillyard.execution import Run, StepTrace
    from skillyard.sandbox import Limit


_CELL: Final = 80  # characters of a value in a table
_LOG_LINES_RUN: Final = 20
_LINE: Final = 88  # characters of JSON on one line


def draw_run(screen: Screen, name: str, run: Run, *, limits: bool = False) -> None:
    """Draw the run in sections, only those that hold something; a limit that nobody enforced is shown without `limits` too."""
    screen.line(f"{name}: {run.verdict}", style="ok" if run.error is None else "error")
    if run.error is not None:
        screen.line(f"{run.error.code}: {run.error.message.partition(chr(10))[0]}", indent=2)
    if run.output is not None:
        screen.heading("Output")
        screen.text(run.output if isinstance(run.output, str) else pretty_json(run.output), indent=2)
    if run.steps:
        screen.heading("Steps")
        screen.table(
            (
                (step.step_id, step.step_name, f"{step.duration:,.1f} ms", _cell_run(step.error or step.output))
                for step in run.steps
            ),
            indent=2,
        )
    if run.memory_writes:
        screen.heading("Suggested memories")
        screen.table(
            (
                (
                    write.type,
                    f"{write.owner_type} {write.owner_id}",
                    f"importance {write.importance:g}",
                    _cell_run(write.content),
                )
                for write in run.memory_writes
            ),
            indent=2,
        )
    if run.files:
        screen.heading("Files")
        screen.text("\n".join(single_line(name) for name in run.files), indent=2)
    if run.contacts:
        screen.heading("Network")
        screen.table(_contacts(run), indent=2)
    _draw_log(screen, run)
    _draw_remarks(screen, run)
    if shown := [limit for limit in run.limits if limits or not limit.enforced]:
        screen.heading("Limits")
        screen.table(_limits(shown), indent=2)


def _draw_remarks(screen: Screen, run: Run) -> None:
    if run.message and run.error is None:
        screen.note(f"message: {single_line(run.message)}")
    if used := _used(run.token_usage, run.memory_usage, run.exit_code):
        screen.note(used)
    for warning in run.warnings:
        screen.note(f"warning: {warning}")


def _used(tokens: object, memory: int | None, exit_code: int | None) -> str:
    """What a run used, in one line; empty when nobody knows."""
    parts = [
        f"exit code {exit_code}" if exit_code else "",
        f"{memory / 1_048_576:,.1f} MiB of memory" if memory is not None else "",
        f"tokens {_cell_run(tokens)}" if tokens is not None else "",
    ]
    return ", ".join(filter(None, parts))


def _contacts(run: Run) -> Iterator[tuple[str, str, str, str]]:
    for contact in run.contacts:
        where = f"{single_line(contact.host)}:{contact.port}" if contact.host else "no host"
        traffic = f"{contact.sent_bytes:,} bytes out, {contact.received_bytes:,} in"
        yield _cell_run(where), f"{contact.verdict} ({contact.requests})", traffic, _cell_run(contact.reason)


def _limits(limits: Sequence[Limit]) -> Iterator[tuple[str, str, str]]:
    for limit in limits:
        yield limit.name, _cell_run(limit.value), f"enforced by {limit.by}" if limit.enforced else f"NOT enforced: {limit.by}"


def _draw_log(screen: Screen, run: Run) -> None:
    """What the script wrote to standard error, and when it failed also to standard output; the end of it."""
    logs = {
        "Standard error": run.stderr,
        "Standard output": run.stdout if run.error and run.stdout.strip() != run.output else "",
    }
    for title, text in logs.items():
        lines = text.strip().splitlines()
        if lines:
            screen.heading(
                title if len(lines) <= _LOG_LINES_RUN else f"{title} (the last {_LOG_LINES_RUN} of {len(lines)} lines)"
            )
            screen.text("\n".join(lines[-_LOG_LINES_RUN:]), indent=2)


def pretty_json(value: object, indent: int = 0) -> str:
    """JSON for reading: what fits on a line stays on it, the rest is spread, one member a line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= _LINE or not isinstance(value, dict | list):
        return flat
    if isinstance(value, dict):
        members = [f"{json.dumps(key, ensure_ascii=False)}: {pretty_json(inner, indent + 2)}" for key, inner in value.items()]
    else:
        members = [pretty_json(inner, indent + 2) for inner in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inside = ",\n".join(" " * (indent + 2) + member for member in members)
    return f"{opening}\n{inside}\n{' ' * indent}{closing}"


def _cell_run(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shorten(single_line(text), _CELL)


_BAR: Final = 32  # cells
_SLOW_MS: Final = 1_000  # a run longer than this is slow
_LOG_LINES_RECORD: Final = 40
_STEP_CELL: Final = 80


def draw_run_record(screen: Screen, record: RunRecord) -> None:
    """Draw the run in sections; only those that hold something."""
    screen.line(f"{record.skill_name}: {_verdict_record(record)}", style="ok" if record.state == "succeeded" else "error")
    screen.table(_facts(record), indent=2)
    if record.error_code:
        screen.heading("Error")
        screen.line(f"{record.error_code}: {record.error_message or ''}", indent=2)
    if record.steps:
        draw_steps(screen, record.steps)
    if record.output is not None:
        screen.heading("Output")
        screen.text(record.output if isinstance(record.output, str) else pretty_json(record.output), indent=2)
    if record.memory_writes:
        screen.heading("Memories")
        screen.table((_memory(write) for write in record.memory_writes), indent=2)
    if record.warnings:
        screen.heading("Warnings")
        screen.text("\n".join(single_line(warning) for warning in record.warnings), indent=2)
    for title, text in (("Standard error", record.stderr), ("Standard output", record.stdout if record.error_code else "")):
        lines = text.strip().splitlines()
        if lines:
            screen.heading(
                title if len(lines) <= _LOG_LINES_RECORD else f"{title} (the last {_LOG_LINES_RECORD} of {len(lines)} lines)"
            )
            screen.text("\n".join(lines[-_LOG_LINES_RECORD:]), indent=2)
    if record.limits:
        screen.heading("Limits")
        screen.table((_limit(limit) for limit in record.limits), indent=2)


def draw_steps(screen: Screen, steps: Sequence[StepTrace]) -> None:
    """One bar a step, each beginning where the one before ended; failed steps and, in a slow run, the slowest are marked."""
    total = sum(step.duration for step in steps)
    slowest = max(steps, key=lambda step: step.duration)
    is_slow = total > _SLOW_MS
    screen.heading(f"Steps, {total:,.0f} ms together" + (" (slow)" if is_slow else ""))
    rows, before = [], 0.0
    for step in steps:
        marks = ["FAILED"] if step.error else []
        marks += ["SLOWEST"] if is_slow and step is slowest else []
        failure = _cell_record(step.error) if step.error else ""
        rows.append(
            (step.step_name, f"{step.duration:,.1f} ms", _bar(before, step.duration, total), " ".join([*marks, failure]))
        )
        before += step.duration
    screen.table(rows, indent=2)


def _bar(before: float, duration: float, total: float) -> str:
    """`duration` as a bar of at least one cell in a line of 32, after the part that `before` takes."""
    if total <= 0:
        return "▏" + " " * (_BAR - 1)
    start = min(int(before / total * _BAR), _BAR - 1)
    length = max(1, min(round(duration / total * _BAR), _BAR - start))
    return "·" * start + "█" * length + "·" * (_BAR - start - length)


def _verdict_record(record: RunRecord) -> str:
    state = record.state if record.status in (None, "ok", "error") else f"{record.state} ({record.status})"
    if not record.finished_at:
        return state
    return verdict(
        state, isolation=record.isolation, kind=record.ran_as, duration_ms=record.duration_ms, cached=record.cache_hit
    )


def _facts(record: RunRecord) -> Iterator[tuple[str, str]]:
    yield "run", record.id
    yield "skill", record.skill_id
    for name, moment in (("asked", record.created_at), ("started", record.started_at), ("ended", record.finished_at)):
        if moment is not None:
            yield name, _moment(moment)
    for name, value in (
        ("asked for", _origin(record)),
        ("version", record.version),
        ("entry", record.entry),
        ("content", record.digest),
        ("interpreter", record.interpreter),
        ("result of", record.cached_from),
        ("kept until", _moment(record.expires_at) if record.expires_at else None),
        ("message", record.message),
        ("arguments", shlex.join(record.arguments)),
        ("packages", ", ".join(record.packages)),
        ("files made", ", ".join(map(single_line, record.files))),
        ("used", _used(None, record.memory_usage, record.exit_code)),
    ):
        if value:
            yield name, value
    for name, given in (("input", record.parameters), ("context", record.context), ("tokens", record.token_usage)):
        if given:
            yield name, _cell_record(given, 400)


def _origin(record: RunRecord) -> str:
    """Through which interface, by whom, by a model of which agent."""
    parts = (record.interface, record.caller and f"by {record.caller}", record.agent and f"agent {record.agent}")
    return ", ".join(single_line(part) for part in parts if part)


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03} UTC"


def _memory(write: object) -> tuple[str, str, str, str, str]:
    item = write if isinstance(write, dict) else {}
    saved = "suggested" if "saved" not in item else "saved" if item["saved"] else f"NOT saved: {item.get('reason', '')}"
    importance = item.get("importance")
    return (
        str(item.get("type", "")),
        f"{item.get('ownerType', '')} {item.get('ownerId', '')}",
        f"importance {importance}",
        saved,
        _cell_record(item.get("content", "")),
    )


def _limit(limit: object) -> tuple[str, str, str]:
    item = limit if isinstance(limit, dict) else {}
    by = f"enforced by {item.get('by')}" if item.get("enforced") else f"NOT enforced: {item.get('by')}"
    return str(item.get("name", "")), _cell_record(item.get("value")), by


def _cell_record(value: object, limit: int = _STEP_CELL) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shorten(single_line(text), limit)
