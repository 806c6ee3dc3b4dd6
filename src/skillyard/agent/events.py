"""What is shown of a turn while it goes on: a small vocabulary, the same in the terminal and over HTTP.

======== =================================================================================================
`begin`  `turn`, `conversation`, `model`
`text`   `delta`: the model writes
`call`   `id`, `tool`, `arguments`: the model calls a tool
`ask`    `id`, `question`: the call waits until somebody has answered (docs/agents.md)
`log`    `id`, `stream`, `text`: what the script of a call prints meanwhile; not kept, the record of the run has it
`step`   `id`, `step`: a step of the script of a call has ended (as in its run); not kept either
`result` `id`, `tool`, `ok`, `title`, `code`, `text`, `skill`, `run`, `tokens`, `duration_ms`: what the tool gave
`file`   `name`, `size`, `media_type`, `origin`: a file was given with the message, is new or has changed
`notice` `text`, `detail`: something worth knowing: a skill changed, the history was compacted (and to what)
`usage`  `input_tokens`, `output_tokens`, `requests`, so far in this turn
`error`  `code`, `message`, `hint`, `said`: the turn failed; the last is what the service of the model said, if it did
`end`    `state`, `answer`: nothing comes after it
======== =================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

__all__ = ["KINDS", "Event", "EventKind"]

EventKind = Literal["begin", "text", "call", "ask", "log", "step", "result", "file", "notice", "usage", "error", "end"]
KINDS: Final[tuple[EventKind, ...]] = (
    "begin",
    "text",
    "call",
    "ask",
    "log",
    "step",
    "result",
    "file",
    "notice",
    "usage",
    "error",
    "end",
)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, with its values as plain data."""

    kind: EventKind
    data: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """The event as plain data."""
        return {"event": self.kind, **self.data}
