"""The log of an operation while it goes on: each step told when it begins, timed, and written down."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from skillyard.errors import DatabaseUnavailable
from skillyard.registry.model import Operation, Progress, ProgressEvent

__all__ = ["OpenLog"]


class Writing(Protocol):
    """Writes something into a log that is open."""

    def __call__(self, log_id: str, **values: object) -> None:
        """Change these columns of the log."""


@dataclass(slots=True)
class OpenLog:
    """The log of an operation on one skill while it goes on; its time is that of its own steps, not of its turn to come."""

    write: Writing
    id: str
    operation_id: str
    operation: Operation
    source: str | None
    progress: Progress | None = None
    skill_id: str | None = None
    steps: list[dict[str, object]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str, percent: int) -> Iterator[None]:
        """One step of the operation: told when it begins, timed, written down when the next one begins."""
        self.write(self.id, status="in_progress", step=name, progress=percent, steps=self.steps)
        if self.progress is not None:
            self.progress(ProgressEvent(name, percent, self.skill_id))
        started = time.monotonic()
        entry: dict[str, object] = {"name": name, "progress": percent}
        self.steps.append(entry)
        try:
            yield
        except BaseException:
            entry["duration_ms"] = _since(started)
            with suppress(DatabaseUnavailable):  # why it failed is more than how long it took
                self.write(self.id, steps=self.steps)
            raise
        entry["duration_ms"] = _since(started)

    def ending(self) -> dict[str, object]:
        """The columns that every ended log has."""
        spent = sum(taken for step in self.steps if isinstance(taken := step.get("duration_ms"), int))
        return {"steps": self.steps, "completed_at": datetime.now(UTC), "duration_ms": spent}


def _since(began: float) -> int:
    """Milliseconds since a moment of the monotonic clock."""
    return round((time.monotonic() - began) * 1000)
