"""The input and output examples a skill declares, and whether a run came out as one says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from skillyard.errors import FileMissing, SkillyardError
from skillyard.execution.run import Run
from skillyard.paths import read_inside

__all__ = ["EXAMPLES_FILE", "Example", "NotAnExample", "differences", "read_example", "read_examples_file", "verdict"]

EXAMPLES_FILE: Final = "tests/examples.json"

_LIMIT: Final = 1024 * 1024
_KEYS: Final = {"name", "input", "context", "entry", "output", "error"}
_SHOWN: Final = 200  # characters of a value in a sentence
_MAXIMUM: Final = 5  # differences that are named


class NotAnExample(ValueError):
    """What stands where an example should be cannot be run."""


@dataclass(frozen=True, slots=True)
class Example:
    """One call and what must come of it.

    `output` is compared when `has_output`; `error` is the code of the error that is expected, or `True` for any.
    """

    name: str
    input: Mapping[str, object]
    context: Mapping[str, object] = field(default_factory=dict, hash=False)
    entry: str | None = None
    output: object = None
    has_output: bool = False
    error: str | bool = False


def read_examples_file(directory: str) -> list[object]:
    """The entries of `tests/examples.json`, none when there is no such file.

    Raises:
        NotAnExample: the file cannot be read as a list, or an object with a list `examples`.
    """
    try:
        value = json.loads(read_inside(directory, EXAMPLES_FILE, limit=_LIMIT))
    except FileMissing:
        return []
    except (SkillyardError, ValueError, RecursionError) as error:
        raise NotAnExample(f"{EXAMPLES_FILE} cannot be read: {error}") from None
    if isinstance(value, dict):
        value = value.get("examples")
    if not isinstance(value, list):
        raise NotAnExample(f"{EXAMPLES_FILE} must hold a list of examples")
    return value


def read_example(entry: object, name: str) -> Example:
    """The example in one entry: `input` (an object), and `output` or `error`; also `context`, `entry` and `name`.

    Raises:
        NotAnExample: with the reason.
    """
    if not isinstance(entry, Mapping) or not isinstance(entry.get("input"), Mapping):
        raise NotAnExample("it has no `input` object")
    context, script, error = entry.get("context", {}), entry.get("entry"), entry.get("error", False)
    if not isinstance(context, Mapping) or not isinstance(script, str | None) or not isinstance(error, str | bool):
        raise NotAnExample("`context` must be an object, `entry` a path, `error` a code or true")
    if unknown := sorted(str(key) for key in entry.keys() - _KEYS):
        raise NotAnExample(f"it has an unknown field: {', '.join(unknown)}")
    if ("output" in entry) == bool(error):
        raise NotAnExample("it must say either what `output` or which `error` is expected")
    return Example(
        name=str(entry.get("name") or name),
        input=entry["input"],
        context=context,
        entry=script,
        output=entry.get("output"),
        has_output="output" in entry,
        error=error,
    )


def verdict(example: Example, run: Run) -> str:
    """Why the run is not what the example says, empty when it is."""
    if example.error:
        if run.error is None:
            return f"an error was expected, but the skill answered {_shown(run.output)}"
        if example.error is not True and run.error.code != example.error:
            return f"the error {example.error} was expected, not {run.error.code}: {run.error.message}"
        return ""
    if run.error is not None:
        return f"{run.error.code}: {run.error.message}"
    found = differences(example.output, run.output)
    return "; ".join(found[:_MAXIMUM] + ([f"and {len(found) - _MAXIMUM} more"] if len(found) > _MAXIMUM else []))


def differences(expected: object, actual: object, place: str = "output") -> list[str]:
    """One sentence for each way in which `actual` is not `expected`.

    Objects may have more fields than are expected; lists and values must be the same. `true` is not `1`, but `1.0` is.
    """
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return [
            sentence
            for key, value in expected.items()
            for sentence in (
                differences(value, actual[key], f"{place}.{key}") if key in actual else [f"{place}.{key} is missing"]
            )
        ]
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        return [sentence for index, (one, other) in pairs for sentence in differences(one, other, f"{place}[{index}]")]
    if expected == actual and isinstance(expected, bool) == isinstance(actual, bool):
        return []
    return [f"{place} is {_shown(actual)}, expected {_shown(expected)}"]


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
