"""Errors as answers: one problem+json shape (RFC 9457) for everything that can go wrong, with stable error codes.

Beside the members of the standard it carries `success: false` and `error: {code, message}` for clients of the older envelope.
An unexpected error is logged and answered as `internal_error`, without its text.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from skillyard.errors import DiskFull, InvalidInput, SkillyardError
from skillyard.text import sanitize

_MEDIA_TYPE: Final = "application/problem+json"
_CODES: Final[Mapping[int, str]] = {
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "request_too_large",
}
_HINTS: Final[Mapping[str, str]] = {
    "consent_required": "nothing was changed; if you agree, send the same again with ?consent= and the value of `consent`",
    "signer_changed": "nothing was changed; ask who publishes it whether that is right, then send the same again with"
    " accept_signer, and with accept_source when its source is another too, or with the value of `consent`",
    "source_changed": "nothing was changed; ask who publishes it whether that is right, then send the same again with"
    " accept_source, or with the value of `consent`",
    "local_edits": "send it again with ?force=true to replace what was changed by hand",
}
_TEMPORARY: Final[Mapping[str, int]] = {
    "database_unavailable": 5, "store_failed": 10, "server_stopping": 5, "disk_full": 60, "helper_failed": 5,
}  # fmt: skip
"""Temporary problems: the seconds after which to retry."""
_MOST_FAULTS: Final = 100
_LOG: Final = logging.getLogger(__name__)


class Fault(BaseModel):
    """The error in the older envelope's form."""

    code: str
    message: str


class Problem(BaseModel):
    """Why a request was not fulfilled; members of single codes, such as `candidates`, stand beside these."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
    success: bool
    error: Fault
    hint: str | None = None


def _documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    shape = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {_MEDIA_TYPE: shape}} for status in (*statuses, 500, 503)
    }


READ_PROBLEMS: Final = _documented(400, 401, 403, 404, 429)
WRITE_PROBLEMS: Final = _documented(400, 401, 403, 404, 409, 413, 415, 422, 429, 502)


def problem_response(error: SkillyardError) -> JSONResponse:
    """The answer to one of Skillyard's errors; control characters of skills do not come through."""
    details = {key: value for key, value in error.details.items() if key not in Problem.model_fields}
    hint = hint_over_http(error.code, error.hint)
    return _answer(error.status, error.code, sanitize(error.message), hint, details, _standard_headers(error))


def hint_over_http(code: str, hint: str | None) -> str | None:
    """The hint of an error in the terms of a request, where the usual one names options of the command line."""
    return _HINTS.get(code, hint)


def _standard_headers(error: SkillyardError) -> dict[str, str]:
    """The headers that the standards require with the statuses 401, 429 and 503."""
    if error.status == 401:
        return {"WWW-Authenticate": 'Bearer realm="skillyard"'}
    wait = error.details.get("retry_after", _TEMPORARY.get(error.code))
    return {} if wait is None else {"Retry-After": str(wait)}


def _answer(
    status: int,
    code: str,
    message: str,
    hint: str | None = None,
    details: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    shape: dict[str, object] = {
        "type": f"urn:skillyard:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": message,
        "code": code,
        "success": False,
        "error": {"code": code, "message": message},
    }
    if hint:
        shape["hint"] = sanitize(hint)
    content = jsonable_encoder({**(details or {}), **shape}, custom_encoder={bytes: repr})
    return JSONResponse(content, status, headers=dict(headers or {}), media_type=_MEDIA_TYPE)


def add_error_handlers(app: FastAPI) -> None:
    """Let every error of `app` be answered in the one shape."""
    app.add_exception_handler(SkillyardError, _skillyard_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(OSError, _os_error)
    app.add_exception_handler(Exception, _unexpected)


async def _skillyard_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, SkillyardError):
        raise error
    with_aliases = getattr(request.state, "with_aliases", None)  # an organisation sees no folder of the machine
    return problem_response(error.with_texts(with_aliases) if with_aliases else error)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """A request that does not fit the description of the route: the first fault as text, the first hundred in `problems`."""
    if not isinstance(error, RequestValidationError):
        raise error
    errors = error.errors()[:_MOST_FAULTS]
    faults = [{"at": ".".join(str(part) for part in fault["loc"]), "message": str(fault["msg"])} for fault in errors]
    message = f"{faults[0]['at']}: {faults[0]['message']}" if faults else "the request cannot be understood"
    return problem_response(InvalidInput(message, hint="/openapi.json describes every request", problems=faults))


async def _http(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    code = _CODES.get(error.status_code, "invalid_input")
    hint = "/openapi.json lists the routes" if code != "request_too_large" else "send less, or an archive where one is taken"
    return _answer(error.status_code, code, str(error.detail), hint, headers=error.headers)


async def _os_error(request: Request, error: Exception) -> JSONResponse:
    """The answer to a full disk; to any other OSError as to an unexpected error."""
    full = DiskFull.of(error)
    return await _unexpected(request, error) if full is None else problem_response(full)


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return internal_error()


def internal_error() -> JSONResponse:
    """The answer to an unexpected error; the details are in the log."""
    return _answer(500, "internal_error", "something went wrong in the server", "its log says what")
