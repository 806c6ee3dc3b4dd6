"""The steps a skill says it went through (row 000-45)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["StepTrace", "read_steps"]

MOST_STEPS: Final = 500
LONGEST_MS: Final = 10**12
_SLOW_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One step: what went in, what came out, how long it took (`duration`, milliseconds) and why it failed."""

    step_id: str
    step_name: str
    input: object = None
    output: object = None
    duration: float = 0.0
    error: object = None
    timestamp: object = None

    def to_dict(self) -> dict[str, object]:
        """The step as plain data, with the field names of the document; `error` and `timestamp` only when there."""
        shape: dict[str, object] = {
            "stepId": self.step_id,
            "stepName": self.step_name,
            "input": self.input,
            "output": self.output,
            "duration": self.duration,
        }
        optional = {"error": self.error, "timestamp": self.timestamp}
        return shape | {name: value for name, value in optional.items() if value is not None}


def read_steps(value: object) -> tuple[tuple[StepTrace, ...], tuple[str, ...]]:
    """The steps in `intermediateSteps` and a warning for each entry that is none, for failed steps and for slow runs."""
    if value is None:
        return (), ()
    if not isinstance(value, list):
        return (), ("intermediateSteps is not a list and was dropped",)
    steps: list[StepTrace] = []
    warnings: list[str] = []
    for index, item in enumerate(value[:MOST_STEPS]):
        if isinstance(item, Mapping):
            steps.append(_step(item, index))
        else:
            warnings.append(f"intermediateSteps[{index}] is not an object and was dropped")
    if len(value) > MOST_STEPS:
        warnings.append(f"only the first {MOST_STEPS} of {len(value)} steps were kept")
    return tuple(steps), (*warnings, *_remarks(steps))


def _step(item: Mapping[str, object], index: int) -> StepTrace:
    step_id = item.get("stepId", item.get("step_id", item.get("id"))) or f"step-{index + 1}"
    name = item.get("stepName", item.get("step_name", item.get("name"))) or step_id
    duration = item.get("duration", item.get("duration_ms", 0))
    return StepTrace(
        step_id=str(step_id),
        step_name=str(name),
        input=item.get("input"),
        output=item.get("output"),
        duration=_duration(duration),
        error=item.get("error"),
        timestamp=item.get("timestamp"),
    )


def _duration(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return value if 0 <= value <= LONGEST_MS else 0.0


def _remarks(steps: list[StepTrace]) -> list[str]:
    failed = [step.step_name for step in steps if step.error]
    total = sum(step.duration for step in steps)
    remarks = [f"steps with an error: {', '.join(failed)}"] if failed else []
    return [*remarks, f"the steps took {total:.0f} ms together"] if total > _SLOW_MS else remarks
