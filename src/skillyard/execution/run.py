"""One execution of a skill, as it is reported to whoever asked for it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NotRequired, TypedDict

from skillyard.execution.memory_writes import MemoryWrite
from skillyard.execution.steps import StepTrace
from skillyard.sandbox import Contact, Limit, Status

__all__ = ["Format", "Run", "RunError", "RunShape", "TokenUsage", "new_run_id"]

Format = Literal["object", "text", "binary", "void", "primitive"]
TokenUsage = float | Mapping[str, object]
"""What a skill says it spent on models: one number of tokens (row 000-37), or numbers by kind."""


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a run did not succeed: a stable code (row 000-40) and a sentence."""

    code: str
    message: str

    def to_dict(self) -> dict[str, str]:
        """The error as plain data."""
        return {"code": self.code, "message": self.message}


class RunShape(TypedDict):
    """A run as plain data, the same at every interface."""

    run_id: str
    status: Status
    output: object
    error: dict[str, str] | None
    steps: list[dict[str, object]]
    memory_writes: list[dict[str, object]]
    limits: list[dict[str, object]]
    isolation: str
    contacts: list[dict[str, object]]
    files: NotRequired[list[str]]
    cache_hit: NotRequired[bool]


@dataclass(frozen=True, slots=True)
class Run:
    """What became of one execution.

    `output` is plain JSON data; strings in it and in the logs come from the skill and are not yet made safe to show.
    `isolation` names the sandbox backend, `none` when nothing was started. `contacts` tells which hosts it asked for, `files`
    what it wrote into the folder it was given to work in. With
    `cache_hit` it is a result that was kept, with the steps, limits and sandbox it came of.
    """

    run_id: str
    skill_id: str
    status: Status
    output: object = None
    error: RunError | None = None
    steps: tuple[StepTrace, ...] = ()
    memory_writes: tuple[MemoryWrite, ...] = ()
    limits: tuple[Limit, ...] = ()
    isolation: str = "none"
    stdout: str = ""
    stderr: str = ""
    warnings: tuple[str, ...] = ()
    duration_ms: int = 0
    format: Format = "void"
    message: str | None = None
    token_usage: TokenUsage | None = field(default=None, hash=False)
    interpreter: str | None = None
    contacts: tuple[Contact, ...] = ()
    cache_hit: bool = False
    files: tuple[str, ...] = ()
    kind: str | None = None
    """How it was run in the end: the skill's own kind, or the one that stood in for it; None when nothing was."""

    @property
    def ok(self) -> bool:
        """Whether the skill succeeded."""
        return self.status == "ok"

    def to_dict(self) -> RunShape:
        """The run as plain data; `cache_hit` and `files` are only there when they say something."""
        shape: RunShape = {
            "run_id": self.run_id,
            "status": self.status,
            "output": self.output,
            "error": self.error.to_dict() if self.error else None,
            "steps": [step.to_dict() for step in self.steps],
            "memory_writes": [write.to_dict() for write in self.memory_writes],
            "limits": [dict(limit.to_dict()) for limit in self.limits],
            "isolation": self.isolation,
            "contacts": [dict(contact.to_dict()) for contact in self.contacts],
        }
        if self.files:
            shape["files"] = list(self.files)
        if self.cache_hit:
            shape["cache_hit"] = True
        return shape


_lock = threading.Lock()
_last = 0


def new_run_id() -> str:
    """A unique id that sorts by time: `run_`, 16 hex digits of the clock, 10 random ones."""
    global _last  # the clock may stand still or step back; ids must not
    with _lock:
        _last = max(time.time_ns(), _last + 1)
        return f"run_{_last:016x}{os.urandom(5).hex()}"
