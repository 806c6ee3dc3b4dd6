"""Errors in the format of the protocol that was spoken: a problem+json answer is written again for its client.

ClawHub's client and git show the text of an answer; those of Anthropic, OpenAI and OAuth look into `error`, those of ARD
at `errorCode`, and other agents (A2A) expect errors of JSON-RPC. Whatever refuses a request raises one of Skillyard's errors,
and only this module knows how other protocols write one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from fastapi.responses import JSONResponse, PlainTextResponse, Response

from skillyard.errors import SkillyardError
from skillyard.server.responses import problem_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


_PROBLEM: Final = b"application/problem+json"
_TYPES: Final[Mapping[int, str]] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}
_ARD_CODES: Final[Mapping[int, str]] = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RATE_LIMIT_EXCEEDED",
}
_NOT_DESCRIBED: Final = re.compile(r"[^ !#-\[\]-~]")
"""Characters that an `error_description` of OAuth has not got (RFC 6749, 5.2)."""
_GIT_KEY: Final = (
    "git takes a key as the password of any name: type it when asked, or keep it in ~/.netrc (machine HOST login key password"
    " sky_...) or in a credential helper; `skillyard keys create` makes one on the server"
)
_OAUTH: Final = frozenset({"/oauth/register", "/oauth/token", "/oauth/revoke"})
_MARKETPLACE: Final = tuple(
    f"{place}/{service}" for place in ("", "/marketplace.git") for service in ("info/refs", "git-upload-pack")
)
_CLAWHUB: Final = (
    "/api/v1/search", "/api/v1/skills", "/api/v1/resolve", "/api/v1/download", "/api/v1/whoami", "/api/v1/stars",
    "/api/v1/transfers", "/api/v1/publishers", "/api/v1/packages", "/api/v1/skills-sh", "/api/cli",
)  # fmt: skip


def _anthropic(status: int, problem: Mapping[str, Any]) -> Response:
    type_ = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    message = _sentence(problem, 'with extra_query={"consent": "…"} where … is')
    return JSONResponse({"type": "error", "error": {"type": type_, "message": message}, "request_id": None}, status)


def _openai(status: int, problem: Mapping[str, Any]) -> Response:
    type_ = "invalid_request_error" if status < 500 else "server_error"
    message = _sentence(problem, 'with extra_query={"consent": "…"} where … is')
    return JSONResponse({"error": {"message": message, "type": type_, "param": None, "code": problem["code"]}}, status)


def _clawhub(status: int, problem: Mapping[str, Any]) -> Response:
    kind = str(problem["code"]).replace("_", " ")  # the client looks for "skill not found"
    return PlainTextResponse(f"{kind}: {_sentence(problem, 'with --tags latest,consent:… where … is')}", status)


def _oauth(status: int, problem: Mapping[str, Any]) -> Response:
    code = problem.get("oauth_error", "invalid_request" if status < 500 else "server_error")
    body = {"error": code, "error_description": _NOT_DESCRIBED.sub("'", _sentence(problem, ""))}
    return JSONResponse(body, status, {"Cache-Control": "no-store"})


def _git(status: int, problem: Mapping[str, Any]) -> Response:
    """Git asks its user for name and password only when the answer wants them, and shows its text when they are wrong."""
    kind = str(problem["code"]).replace("_", " ")
    if status != 401:
        return PlainTextResponse(f"{kind}: {_sentence(problem, '')}", status)
    headers = {"WWW-Authenticate": 'Basic realm="Skillyard: any name, and a key (sky_...) as the password"'}
    return PlainTextResponse(f"{kind}: {problem['detail']} ({_GIT_KEY})", status, headers)


def _ard(status: int, problem: Mapping[str, Any]) -> Response:
    code = _ARD_CODES.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL_ERROR")
    return JSONResponse({"errorCode": code, "message": _sentence(problem, "")}, status)


def _a2a(status: int, problem: Mapping[str, Any]) -> Response:
    """An error of JSON-RPC to a request that was refused before its method was known."""
    unreadable = any("JSON" in str(fault.get("message")) for fault in problem.get("problems", ()))
    code = -32603 if status >= 500 else -32700 if unreadable else -32600
    detail = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": str(problem["code"]).upper()}
    error = {"code": code, "message": _sentence(problem, ""), "data": [detail | {"domain": "a2a-protocol.org"}]}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status)


def _sentence(problem: Mapping[str, Any], way: str) -> str:
    """The message with its way out; of more power, what it is and `way` to agree to exactly that."""
    if not problem.get("consent"):
        return f"{problem['detail']} ({problem['hint']})" if problem.get("hint") else str(problem["detail"])
    sentences = [str(sentence) for change in problem.get("changes", ()) for sentence in change.get("widened", ())]
    more = f": {'; '.join(sentences)}" if sentences else ""  # of another source or signer the message says it
    return f"{problem['detail']}{more} (nothing was changed; if you agree, publish it again, {way} {problem['consent']})"


_Writer = Callable[[int, Mapping[str, Any]], Response]


def _writer(path: str) -> _Writer | None:
    if path == "/anthropic" or path.startswith("/anthropic/"):
        return _anthropic
    if path == "/openai" or path.startswith("/openai/"):
        return _openai
    if path.startswith("/ard/") or path == "/.well-known/ai-catalog.json":
        return _ard
    if path == "/a2a" or (path.startswith("/a2a/") and "/.well-known/" not in path):
        return _a2a
    if path in _OAUTH:
        return _oauth
    if (path.startswith("/plugins/") and ".git/" in path) or path in _MARKETPLACE:
        return _git
    return _clawhub if any(path == prefix or path.startswith(f"{prefix}/") for prefix in _CLAWHUB) else None


class ErrorFormats:
    """Writes the problems that `app` answers on the paths of another protocol in that protocol's form."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and write again what is a problem."""
        write = _writer(scope["path"]) if scope["type"] == "http" else None
        if write is None:
            await self._app(scope, receive, send)
            return
        held = _HeldResponse(scope, receive, send, write)
        try:
            await self._app(scope, receive, held.send)
        except Exception:
            if not held.begun:
                await held.answer(
                    500, problem_response(SkillyardError("something went wrong in the server", hint="its log says what"))
                )
            raise


class _HeldResponse:
    """The answer to one request: a problem is held back until it is whole, all else passes."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, write: _Writer) -> None:
        self._scope, self._receive, self._send, self._write = scope, receive, send, write
        self._start: Message | None = None
        self._body = b""
        self.begun = False

    async def send(self, message: Message) -> None:
        """Take one message of the application."""
        if message["type"] == "http.response.start" and _is_problem(message):
            self._start = message
        elif self._start is None:
            self.begun = True
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body"):
                await self._translate(self._start)

    async def _translate(self, start: Message) -> None:
        answer = self._write(start["status"], json.loads(self._body))
        own = {name for name, _ in answer.raw_headers}
        answer.raw_headers += [header for header in _kept(start["headers"]) if header[0] not in own]
        if start["status"] < 500 and start["status"] not in (408, 429):
            answer.headers["x-should-retry"] = "false"  # what was refused once is refused again
        await self._pass(answer)

    async def answer(self, status: int, response: Response) -> None:
        """Send a problem of our own."""
        await self._pass(self._write(status, json.loads(bytes(response.body))))

    async def _pass(self, answer: Response) -> None:
        self.begun = True
        await answer(self._scope, self._receive, self._send)


def _is_problem(message: Message) -> bool:
    return (b"content-type", _PROBLEM) in message["headers"]


def _kept(headers: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """The headers that are not about the body: those of safety, of limits, of who may ask."""
    return ((name, value) for name, value in headers if name not in (b"content-type", b"content-length"))


def _documented(media_type: str, *statuses: int) -> dict[int | str, dict[str, Any]]:
    shape: dict[str, Any] = {} if media_type == "text/plain" else {"schema": {"type": "object"}}
    return {status: {"description": "refused", "content": {media_type: shape}} for status in statuses}


_ALL: Final = (400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 502, 503)
ANTHROPIC: Final = _documented("application/json", *_ALL)
OPENAI: Final = ANTHROPIC
ARD: Final = ANTHROPIC
A2A: Final = ANTHROPIC
OAUTH: Final = ANTHROPIC
CLAWHUB: Final = _documented("text/plain", *_ALL)
GIT: Final = CLAWHUB
