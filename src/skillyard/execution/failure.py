"""The stable code and the sentence for a run that did not succeed (row 000-40)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skillyard.execution.run import RunError
from skillyard.sandbox import Result, Status

__all__ = ["failure_of"]

_CODES: Final[Mapping[Status, str]] = {
    "timeout": "RESOURCE_LIMIT_ERROR",
    "memory": "RESOURCE_LIMIT_ERROR",
    "pids": "RESOURCE_LIMIT_ERROR",
    "output_limit": "RESOURCE_LIMIT_ERROR",
}
_BY_ERROR: Final = (
    (("SyntaxError", "IndentationError", "TabError"), "COMPILATION_ERROR"),
    (
        ("ModuleNotFoundError", "ImportError", "Error [ERR_MODULE_NOT_FOUND]", "Error [MODULE_NOT_FOUND]"),
        "DEPENDENCY_RESOLUTION_ERROR",
    ),
)
_TAIL: Final = 2_000


def failure_of(result: Result) -> RunError | None:
    """Why the sandboxed process failed, `None` when it did not.

    The message ends with the last lines the skill wrote to standard error.
    """
    if result.status == "ok":
        return None
    log = result.stderr[-4 * _TAIL :].decode("utf-8", "replace").strip()[-_TAIL:]
    if result.status != "error":
        return RunError(_CODES.get(result.status, "SANDBOX_EXECUTION_ERROR"), result.detail)
    last = log.rpartition("\n")[2]
    message = f"{result.detail}: {last}\n{log}" if "\n" in log else f"{result.detail}: {last}" if last else result.detail
    return RunError(_code(last), message)


def _code(last_line: str) -> str:
    """What Python's own last line, or that of our runner for node, says about the kind of error."""
    return next((code for names, code in _BY_ERROR if last_line.startswith(names)), "SANDBOX_EXECUTION_ERROR")
