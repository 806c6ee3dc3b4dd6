"""The log of a server: one line an event on standard error, as text for people or as JSON for programs.

Everything that writes through `logging` comes out in the same form. Texts may come from skills and from callers: invisible and
control characters are taken out of all of them, and a line begins with a time of ours or is marked as part of a traceback.
Tokens, headers and query strings are never written.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final, Literal, TextIO

import structlog

from skillyard.text import sanitize, single_line

__all__ = ["LogFormat", "configure_logs", "event"]

LogFormat = Literal["text", "json"]
_PLAIN: Final = re.compile(r'[^ "=]+')
_ORDER: Final = ("method", "route", "status", "ms", "caller", "request_id")
_QUIET: Final = ("mcp", "httpx2", "httpcore2", "urllib3", "alembic", "watchfiles", "sse_starlette", "uvicorn.access", "asyncio")
_SERVER: Final = "skillyard.server"
_own: tuple[TextIO, Callable[..., Any]] | None = None  # where events of the server itself are written, and by what


def configure_logs(form: LogFormat, stream: TextIO | None = None) -> None:
    """Let everything that is logged in this process go to `stream` (standard error), one event a line."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *_FIRST],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_LAST, _WRITERS[form]],
        )
    )
    global _own  # there is one log in a process
    _own = handler.stream, _WRITERS[form]
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def event(name: str, **values: object) -> None:
    """Write an event of the server with its values, past `logging`: it is done for each request.

    Where no log is configured, nothing is written; a log that cannot be written to ends no request.
    """
    if _own is not None:
        stream, form = _own
        told = _STAMPED(None, "info", {"event": name, "level": "info", "logger": _SERVER, **values})
        line = form(None, "info", _clean(None, "info", told))
        with contextlib.suppress(OSError, ValueError):
            stream.write(f"{line}\n")


def _clean(_logger: object, _method: str, values: MutableMapping[str, Any]) -> Mapping[str, Any]:
    return {key: _cleaned(value) if key != "exception" else _indented(str(value)) for key, value in values.items()}


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return single_line(value)
    return value if value is None or isinstance(value, bool | int | float) else single_line(repr(value))


def _indented(text: str) -> str:
    """A traceback, each line of it recognisable as part of one."""
    return "\n".join(f"  | {sanitize(line)}" for line in text.splitlines())


def _as_text(_logger: object, _method: str, values: MutableMapping[str, Any]) -> str:
    """`time level event key=value …`; what the server itself says of a request is in one order."""
    head = " ".join(str(values.pop(key, "")) for key in ("timestamp", "level", "event"))
    exception = values.pop("exception", None)
    logger = values.pop("logger", None)
    keys = [*(key for key in _ORDER if key in values), *sorted(set(values) - set(_ORDER))]
    told = " ".join(f"{key}={_quoted(values[key])}" for key in keys)
    where = f"[{logger}]" if logger and logger != _SERVER else ""
    line = " ".join(part for part in (head, told, where) if part)
    return f"{line}\n{exception}" if exception else line


def _quoted(value: object) -> str:
    text = "-" if value is None else str(value)
    return text if _PLAIN.fullmatch(text) else f'"{text}"'.replace('""', '"') if text else '""'


_STAMPED: Final = structlog.processors.TimeStamper(fmt="iso", utc=True)
_FIRST: Final = (
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.PositionalArgumentsFormatter(),
    _STAMPED,
)
_LAST: Final = (structlog.processors.format_exc_info, _clean)
_WRITERS: Final[Mapping[LogFormat, Any]] = {"text": _as_text, "json": structlog.processors.JSONRenderer(ensure_ascii=True)}
