"""One file of a skill as an answer: with its digest as ETag, only when it changed, and in part when a part is asked for."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from fastapi import Request, Response

from skillyard.catalog import FileContent

__all__ = ["bytes_answer", "file_answer"]

_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def file_answer(request: Request, content: FileContent) -> Response:
    """The bytes of a file; nothing in it is shown as a page: text is plain, the rest only what its bytes are."""
    media = "text/plain; charset=utf-8" if content.text is not None else content.media_type
    return bytes_answer(request, content.data, media)


def bytes_answer(request: Request, data: bytes, media: str) -> Response:
    """Some bytes of a media type, named by their digest."""
    etag = f'"sha256:{hashlib.sha256(data).hexdigest()}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache", "Accept-Ranges": "bytes"}
    if _matches(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    span = _span(request, etag, len(data))
    if span is None:
        return Response(data, headers=headers, media_type=media)
    begin, end = span
    if begin >= end:
        return Response(status_code=416, headers=headers | {"Content-Range": f"bytes */{len(data)}"})
    headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(data)}"
    return Response(data[begin:end], 206, headers, media)


def _matches(wanted: str | None, etag: str) -> bool:
    return wanted is not None and any(one.strip().removeprefix("W/") in (etag, "*") for one in wanted.split(","))


def _span(request: Request, etag: str, size: int) -> tuple[int, int] | None:
    """First byte and the one after the last; None for the whole, also where the range cannot be understood (RFC 9110)."""
    found = _RANGE.fullmatch(request.headers.get("range", ""))
    if found is None or request.headers.get("if-range", etag) != etag or not (found[1] or found[2]):
        return None
    if not found[1]:
        return max(0, size - int(found[2])), size if int(found[2]) else 0
    end = int(found[2]) + 1 if found[2] else size
    return None if end <= int(found[1]) and found[2] else (int(found[1]), min(end, size))
