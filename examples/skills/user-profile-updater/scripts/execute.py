"""Checks and applies profile changes; suggests one memory for each."""

from __future__ import annotations

import re
import time

RULES = {
    "name": (re.compile(r"\S.{0,99}"), "a name has 1 to 100 characters"),
    "email": (re.compile(r"[^@\s]+@[^@\s.]+(?:\.[^@\s.]+)+"), "this is not an e-mail address"),
    "language": (re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*"), "give a language tag such as en, fr or zh-CN"),
    "timezone": (re.compile(r"UTC|[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_\-]+){1,2}"), "give a zone such as Europe/Paris or UTC"),
    "city": (re.compile(r"\S.{0,99}"), "a city has 1 to 100 characters"),
}
IDENTITY = frozenset({"name", "email"})


def execute(parameters: dict, context: dict | None = None, config: dict | None = None) -> dict:
    user_id = (context or {}).get("userId") or "anonymous"
    updates, profile = parameters["updates"], parameters.get("profile") or {}
    steps: list[dict] = []

    started = time.perf_counter()
    valid, rejected = validate(updates)
    steps.append(step("validate", "验证更新", updates, {"valid": valid, "rejected": rejected}, started))

    started = time.perf_counter()
    changed = {field: value for field, value in valid.items() if profile.get(field) != value}
    updated = {"profile": profile | changed, "oldValues": {field: profile.get(field) for field in changed}}
    steps.append(step("apply", "应用更新", valid, updated, started))

    return {
        "output": updated | {"rejected": rejected},
        "format": "object",
        "status": "success",
        "memoryWrites": [memory(user_id, field, updated["oldValues"][field], value) for field, value in changed.items()],
        "intermediateSteps": steps,
    }


def validate(updates: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The changes that may be made, and for every other one the reason why not."""
    valid, rejected = {}, {}
    for field, value in updates.items():
        text = value.strip()
        if field not in RULES:
            rejected[field] = "unknown field; known are " + ", ".join(RULES)
        elif RULES[field][0].fullmatch(text):
            valid[field] = text
        else:
            rejected[field] = RULES[field][1]
    return valid, rejected


def step(step_id: str, name: str, given: object, result: object, started: float) -> dict:
    duration = round((time.perf_counter() - started) * 1000, 3)
    return {
        "stepId": step_id,
        "stepName": name,
        "input": given,
        "output": result,
        "duration": duration,
        "timestamp": int(time.time() * 1000),
    }


def memory(user_id: str, field: str, old: str | None, new: str) -> dict:
    return {
        "ownerType": "user",
        "ownerId": user_id,
        "type": "fact",
        "importance": 5 if field in IDENTITY else 3,
        "content": f"用户{field}更新为{new}",
        "metadata": {"field": field, "oldValue": old, "newValue": new},
    }
