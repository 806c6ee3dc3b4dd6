"""What a new skill holds before its author fills it in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["SCRIPT_FIELDS", "body", "script"]

_BODY: Final = """\
# {title}

{description}

## Steps

1. Say what to do first, as an order to a capable colleague who has never seen the task.
2. Name what must be checked before going on, and what to do when it fails.
3. Say what the answer looks like.
{run}
## Example

Show one request and the answer to it.
"""

_RUN: Final = """
## Run it

`scripts/execute.py` takes `{"text": "..."}` and answers `{"words": 2}`. Run it for every request; never guess its result.
"""

_SCRIPT: Final = '''\
"""The script of {name}; try it with: skillyard run {name} --input '{{"text": "hello world"}}'."""

from __future__ import annotations


def execute(parameters: dict, context: dict | None = None) -> dict:
    words = parameters["text"].split()
    return {{"output": {{"words": len(words)}}, "status": "success"}}
'''

SCRIPT_FIELDS: Final[Mapping[str, object]] = {
    "version": "1.0.0",
    "type": "direct",
    "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "security": {"timeout_ms": 10000, "memory_mb": 128, "network": "none", "filesystem": "read-only"},
    "resources": {"entry": "./scripts/execute.py"},
}
"""The front matter that makes a skill with a script runnable."""


def body(name: str, description: str, *, with_script: bool) -> str:
    """The instructions of a new skill."""
    title = name.replace("-", " ").capitalize()
    return _BODY.format(title=title, description=description, run=_RUN if with_script else "")


def script(name: str) -> str:
    """The script of a new skill: it runs as it is."""
    return _SCRIPT.format(name=name)
