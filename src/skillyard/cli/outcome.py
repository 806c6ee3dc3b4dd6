"""A run drawn for people: what came out, the steps on the way, what was suggested, which limits held."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillyard.cli.screen import Screen
    from skillyard.execution import Run

__all__ = ["draw_run", "pretty"]

_CELL: Final = 80  # characters of a value in a table
_LOG_LINES: Final = 20
_LINE: Final = 88  # characters of JSON on one line


def draw_run(screen: Screen, name: str, run: Run) -> None:
    """Draw the run in sections; only those that hold something."""
    screen.line(f"{name}: {_verdict(run)}", style="ok" if run.error is None else "error")
    if run.error is not None:
        screen.line(f"{run.error.code}: {run.error.message.partition(chr(10))[0]}", indent=2)
    if run.output is not None:
        screen.heading("Output")
        screen.text(run.output if isinstance(run.output, str) else pretty(run.output), indent=2)
    if run.steps:
        screen.heading("Steps")
        screen.table(
            (
                (step.step_id, step.step_name, f"{step.duration:,.1f} ms", _cell(step.error or step.output))
                for step in run.steps
            ),
            indent=2,
        )
    if run.memory_writes:
        screen.heading("Suggested memories")
        screen.table(
            (
                (write.type, f"{write.owner_type} {write.owner_id}", f"importance {write.importance:g}", _cell(write.content))
                for write in run.memory_writes
            ),
            indent=2,
        )
    if run.contacts:
        screen.heading("Network")
        screen.table(_contacts(run), indent=2)
    _draw_log(screen, run)
    for warning in run.warnings:
        screen.note(f"warning: {warning}")
    if run.limits:
        screen.heading("Limits")
        screen.table(_limits(run), indent=2)


def _verdict(run: Run) -> str:
    if run.cache_hit:
        return f"{run.status}, a kept result"
    if run.isolation == "none":
        return f"{run.status}, nothing was started"
    return f"{run.status} after {run.duration_ms:,} ms in {run.isolation}"


def _contacts(run: Run) -> Iterator[tuple[str, str, str, str]]:
    for contact in run.contacts:
        where = f"{single_line(contact.host)}:{contact.port}" if contact.host else "no host"
        traffic = f"{contact.sent_bytes:,} bytes out, {contact.received_bytes:,} in"
        yield _cell(where), f"{contact.verdict} ({contact.requests})", traffic, _cell(contact.reason)


def _limits(run: Run) -> Iterator[tuple[str, str, str]]:
    for limit in run.limits:
        yield limit.name, _cell(limit.value), f"enforced by {limit.by}" if limit.enforced else f"NOT enforced: {limit.by}"


def _draw_log(screen: Screen, run: Run) -> None:
    """What the script wrote to standard error, and when it failed also to standard output; the end of it."""
    logs = {
        "Standard error": run.stderr,
        "Standard output": run.stdout if run.error and run.stdout.strip() != run.output else "",
    }
    for title, text in logs.items():
        lines = text.strip().splitlines()
        if lines:
            screen.heading(title if len(lines) <= _LOG_LINES else f"{title} (the last {_LOG_LINES} of {len(lines)} lines)")
            screen.text("\n".join(lines[-_LOG_LINES:]), indent=2)


def pretty(value: object, indent: int = 0) -> str:
    """JSON for reading: what fits on a line stays on it, the rest is spread, one member a line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= _LINE or not isinstance(value, dict | list):
        return flat
    if isinstance(value, dict):
        members = [f"{json.dumps(key, ensure_ascii=False)}: {pretty(inner, indent + 2)}" for key, inner in value.items()]
    else:
        members = [pretty(inner, indent + 2) for inner in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inside = ",\n".join(" " * (indent + 2) + member for member in members)
    return f"{opening}\n{inside}\n{' ' * indent}{closing}"


def _cell(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shorten(single_line(text), _CELL)
