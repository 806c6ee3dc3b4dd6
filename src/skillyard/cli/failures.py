"""What went wrong, as an exit code and two lines: what, and how to mend it."""

from __future__ import annotations

import os
from typing import Final

from skillyard.errors import InvalidInput, SkillyardError

__all__ = ["BROKEN_PIPE", "FAILURE", "INTERRUPTED", "OK", "USAGE", "UsageProblem", "describe_failure", "exit_code"]

OK: Final = 0
FAILURE: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130  # what a shell expects after Ctrl-C
BROKEN_PIPE: Final = 141  # and after the reader of a pipe went away

_HINT_LIMIT: Final = 5


class UsageProblem(InvalidInput):
    """The command line itself cannot be understood."""

    code = "usage"


def exit_code(error: BaseException) -> int:
    """2 for a command line that cannot be understood, else 1."""
    return USAGE if isinstance(error, UsageProblem) else FAILURE


def describe_failure(error: Exception) -> dict[str, str]:
    """The error as `{"code", "message", "hint"}`; every text is there, none is empty."""
    if isinstance(error, SkillyardError):
        return {"code": error.code, "message": error.message, "hint": _hint(error)}
    if isinstance(error, OSError):
        where = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
        reason = error.strerror or str(error) or type(error).__name__
        return {
            "code": "system_error",
            "message": f"{where}{reason}",
            "hint": "check the path, its permissions and the free space",
        }
    return {
        "code": "internal_error",
        "message": f"{type(error).__name__}: {error}",
        "hint": "this is a defect of skillyard; run again with SKILLYARD_DEBUG=1 and report what it prints",
    }


def _hint(error: SkillyardError) -> str:
    candidates = error.details.get("candidates")
    if error.hint:
        return error.hint
    if isinstance(candidates, list | tuple) and candidates:
        return "did you mean " + ", ".join(str(name) for name in candidates[:_HINT_LIMIT]) + "?"
    return "`skillyard list` shows what is there"
