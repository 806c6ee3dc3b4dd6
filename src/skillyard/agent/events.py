"""What is shown of a turn while it goes on: a small vocabulary, the same in the terminal and over HTTP.

======== =================================================================================================
`begin`  `turn`, `conversation`, `model`
`text`   `delta`: the model writes
`call`   `id`, `tool`, `arguments`: the model calls a tool
`ask`    `id`, `question`: the call waits until somebody has answered (docs/agents.md)
`result` `id`, `tool`, `ok`, `title`, `code`, `text`, `skill`, `run`: what the tool gave
`file`   `name`, `size`, `media_type`, `origin`: a file is new or has changed
`notice` `text`: something worth knowing: a skill changed, the history was compacted, a limit was met
`usage`  `input_tokens`, `output_tokens`, `requests`, so far in this turn
`error`  `code`, `message`, `hint`: the turn failed
`end`    `state`, `answer`: nothing comes after it
======== =================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

__all__ = ["KINDS", "Event", "EventKind"]

EventKind = Literal["begin", "text", "call", "ask", "result", "file", "notice", "usage", "error", "end"]
KINDS: Final[tuple[EventKind, ...]] = ("begin", "text", "call", "ask", "result", "file", "notice", "usage", "error", "end")


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, with its values as plain data."""

    kind: EventKind
    data: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """The event as plain data."""
        return {"event": self.kind, **self.data}
