"""Validates, cleans and analyses records; each step is traced."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from steps import analyze, clean, validate


class Trace:
    """Runs steps one after the other and remembers what each did and how long it took."""

    def __init__(self) -> None:
        self.steps: list[dict] = []

    def run(self, step_id: str, name: str, given: Any, work: Callable[[], Any], summary: Callable[[Any], Any]) -> Any:
        started = time.perf_counter()
        result = work()
        self.steps.append(
            {
                "stepId": step_id,
                "stepName": name,
                "input": given,
                "output": summary(result),
                "duration": round((time.perf_counter() - started) * 1000, 3),
                "timestamp": int(time.time() * 1000),
            }
        )
        return result


def execute(parameters: dict, context: dict | None = None, config: dict | None = None) -> dict:
    data = parameters["data"]
    trace = Trace()
    valid = trace.run(
        "validate",
        "数据验证",
        {"count": len(data)},
        lambda: validate(data),
        lambda records: {"count": len(records), "removed": len(data) - len(records)},
    )
    cleaned = trace.run(
        "clean",
        "数据清洗",
        {"count": len(valid)},
        lambda: clean(valid),
        lambda records: {"count": len(records), "removed": len(valid) - len(records)},
    )
    analysis = trace.run(
        "analyze",
        "数据分析",
        {"count": len(cleaned)},
        lambda: analyze(cleaned, parameters.get("group_by")),
        lambda result: result,
    )
    lost = len(data) - len(cleaned)
    return {
        "output": analysis,
        "format": "object",
        "status": "success",
        "warnings": [f"{lost} of {len(data)} records were removed"] if lost * 10 > len(data) else [],
        "intermediateSteps": trace.steps,
    }


if __name__ == "__main__":  # in an agent that only has a command line: python scripts/execute.py < input.json
    json.dump(execute(json.load(sys.stdin))["output"], sys.stdout, ensure_ascii=False, indent=2)
    print()
