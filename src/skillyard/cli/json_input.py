"""JSON objects that are given as options: parameters of a run, and who asks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from skillyard.cli.failures import UsageProblem
from skillyard.plain_json import read_json

__all__ = ["json_object"]


def json_object(option: str, given: str) -> dict[str, Any]:
    """The JSON object in the text itself, in a file (`@path`) or on standard input (`-`)."""
    if given == "-":
        text = sys.stdin.read()
    elif given.startswith("@"):
        text = _file_text(option, given[1:])
    else:
        text = given
    try:
        value = read_json(text)
    except ValueError as error:
        raise UsageProblem(
            f"{option} is not JSON: {error}", hint=f"""for example {option} '{{"text": "hello"}}', or {option} @input.json"""
        ) from None
    if not isinstance(value, dict):
        raise UsageProblem(
            f"{option} must be a JSON object, not a {type(value).__name__}",
            hint=f"""for example {option} '{{"text": "hello"}}'""",
        )
    return value


def _file_text(option: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise UsageProblem(f"{option} @{path} cannot be read: {reason}", hint="name a file with a JSON object") from None
