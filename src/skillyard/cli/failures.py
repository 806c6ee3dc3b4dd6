"""What went wrong, as an exit code and two lines: the problem, and how to fix it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from skillyard.errors import InvalidInput, SkillyardError

OK: Final = 0
FAILURE: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130  # what a shell expects after Ctrl-C
BROKEN_PIPE: Final = 141  # and after the reader of a pipe went away

_HINT_LIMIT: Final = 5
_ROOTED: Final = re.compile(
    r"`skillyard (?:list|show|search|prompt|read|check|enable|disable|delete|run|test|scan)(?![\w-])[^`]*"
)


class UsageProblem(InvalidInput, code="usage"):
    """The command line itself cannot be understood."""


def require_existing(path: str, *, hint: str = "check the path") -> str:
    """A path of the command line that must be there.

    Raises:
        UsageProblem: nothing is.
    """
    if not os.path.lexists(path):
        raise UsageProblem(f"there is nothing at {path}", hint=hint)
    return path


def roots_of_command_line(argv: Sequence[str]) -> list[str]:
    """What follows each `--root` of a command line, also of one that cannot be understood."""
    after = [value for option, value in pairwise(argv) if option == "--root"]
    return after + [argument.removeprefix("--root=") for argument in argv if argument.startswith("--root=")]


def with_roots(hint: str, roots: Sequence[str]) -> str:
    """The hint with the roots that were given, in each command in it that looks for skills: it can be copied as it is."""
    if not roots:
        return hint
    import shlex  # not for a command without hints

    options = "".join(f" --root {shlex.quote(root)}" for root in roots)
    return _ROOTED.sub(lambda match: match[0] if "--help" in match[0] else match[0] + options, hint)


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
