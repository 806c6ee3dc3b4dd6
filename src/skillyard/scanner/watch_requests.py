"""Plays `requests` and `httpx` inside the sandbox of a watched skill, where they are not installed: enough to send what is given.

It stands alone, is copied there under both names, and uses the standard library only, whose connections are led to the recorder.
"""

from __future__ import annotations

import json as _json
import sys
import urllib.error
import urllib.parse
import urllib.request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


class RequestException(OSError):
    """What every other error of these packages is."""


class HTTPError(RequestException):
    """A status from 400 on."""


class ConnectionError(RequestException):  # noqa: A001 # the name in the package that is imitated
    """No connection."""


class Timeout(RequestException):
    """No answer in time."""


TimeoutException = ConnectTimeout = ReadTimeout = Timeout
RequestError = HTTPStatusError = HTTPError
exceptions = sys.modules[__name__]


class Response:
    """An answer, as far as scripts look at it."""

    def __init__(self, status: int, headers: Any, content: bytes, url: str) -> None:
        self.status_code, self.headers, self.content, self.url = status, headers, content, url
        self.text, self.ok, self.reason, self.encoding = content.decode("utf-8", "replace"), status < 400, "", "utf-8"

    def json(self, **_: Any) -> Any:
        """The content, read as JSON."""
        return _json.loads(self.content)

    def raise_for_status(self) -> Self:
        """Raise for a status from 400 on."""
        if not self.ok:
            raise HTTPError(str(self.status_code))
        return self

    def iter_content(self, *_: Any, **__: Any) -> Any:
        """The content in one piece."""
        return iter([self.content])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def _body(given: dict[str, Any], headers: dict[str, str]) -> bytes | None:
    data: Any = given.get("data", given.get("content"))
    if given.get("json") is not None:
        data, headers["Content-Type"] = _json.dumps(given["json"], default=str), "application/json"
    if hasattr(data, "read"):
        data = data.read()
    if isinstance(data, dict | list | tuple):
        data = urllib.parse.urlencode(data, doseq=True)
    body = data.encode() if isinstance(data, str) else data
    for name, value in dict(given.get("files") or {}).items():
        part = value[1] if isinstance(value, tuple) and len(value) > 1 else value
        piece = part.read() if hasattr(part, "read") else part
        body = (body or b"") + f"{name}=".encode() + (piece if isinstance(piece, bytes) else str(piece).encode())
    return body


def request(method: str, url: str, **given: Any) -> Response:
    """Send one request, and give its answer."""
    headers = {str(name): str(value) for name, value in dict(given.get("headers") or {}).items()}
    if given.get("params"):
        url += ("&" if "?" in url else "?") + urllib.parse.urlencode(given["params"], doseq=True)
    body = _body(given, headers)
    if isinstance(given.get("auth"), tuple):
        headers["Authorization"] = "Basic " + ":".join(map(str, given["auth"]))
    asked = urllib.request.Request(url, body, headers, method=method.upper())  # noqa: S310
    try:
        with urllib.request.urlopen(asked, timeout=3) as answer:  # noqa: S310
            return Response(answer.status, answer.headers, answer.read(), url)
    except urllib.error.HTTPError as error:
        return Response(error.code, error.headers, error.read(), url)
    except OSError as error:
        raise ConnectionError(str(error)) from None


class ImitatedSession:
    """A session, or a client: it keeps headers and a base address."""

    def __init__(self, **given: Any) -> None:
        self.headers: dict[str, str] = dict(given.get("headers") or {})
        self._base = str(given.get("base_url") or "")

    def request(self, method: str, url: str, **given: Any) -> Response:
        """Send one request with what the session has."""
        given["headers"] = {**self.headers, **(given.get("headers") or {})}
        return request(method, url if "://" in url else self._base + url, **given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _sender(self.request, name) if name in _METHODS else lambda *_, **__: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


Client = Session = session = ImitatedSession
_METHODS = ("get", "post", "put", "delete", "patch", "head", "options")


def _sender(send: Any, method: str) -> Any:
    def call(url: str, *values: Any, **given: Any) -> Any:
        return send(method, str(url), **dict(zip(("data", "json"), values, strict=False)), **given)

    return call


get, post, put, delete, patch, head, options = (_sender(request, name) for name in _METHODS)
