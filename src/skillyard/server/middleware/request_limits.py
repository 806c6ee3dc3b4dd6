"""Limits of requests: the size, duration and JSON complexity of a body, and how many requests a minute each caller may send.

FastAPI keeps the whole body of a request before a route sees it, and parses JSON on the event loop, so both are bounded here.
A rate limit is a token bucket per caller; where several processes serve one address, the buckets lie in shared memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import mmap
import os
import re
import struct
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from skillyard.errors import InvalidInput, TooManyRequests
from skillyard.paths import CLOEXEC, NOFOLLOW
from skillyard.server.authorization import LOCAL_USER, READ_METHODS, Caller
from skillyard.server.middleware.observability import METRICS_FOLDER_VARIABLE
from skillyard.server.responses import RefusedBody, problem_response
from skillyard.server.server_settings import ConnectionLimits, RateLimit, RequestKind

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


_LARGEST: Final = 4 * 1024 * 1024
_MOST_VALUES: Final = 25_000
"""Of a JSON document: lists, objects, texts, numbers and constants at every level. They are parsed and checked within 25 ms."""
_MOST_QUERY_FIELDS: Final = 1_000
_MOST_DIGITS: Final = 300
"""Of a number in JSON; a thousand numbers of 4,000 digits are parsed in 64 ms."""
_LONG_NUMBER: Final = re.compile(rb"(?<![0-9])[0-9]{%d}" % (_MOST_DIGITS + 1))
_NAMED_NUMBER: Final = re.compile(rb"-?(?:NaN|Infinity)")
_WITH_EXPONENT: Final = re.compile(rb"(?<![0-9.])[0-9.]{1,700}[eE]\+?[0-9]{1,9}")
_WORD: Final = b"0123456789.+-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LONGEST_WORD: Final = 800  # bytes of a word that a piece ends in
_NO_JSON_NUMBER: Final = "leave the value out, or send null or a text"
_CLOSE: Final = {"Connection": "close"}  # what of the body still comes is no request


class BodyLimits:
    """Passes on at most 4 MiB of a body, at most 25,000 values of one that is JSON, and at most 1,000 fields of a query.

    A route that describes its body itself (archives, files) reads and counts it.
    A body has to come within `limits.body_s` seconds, and longer the more of it has come.
    """

    def __init__(self, app: ASGIApp, limits: ConnectionLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, counted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["query_string"].count(b"&") >= _MOST_QUERY_FIELDS:
            many = InvalidInput(f"the query of the request has over {_MOST_QUERY_FIELDS:,} fields", hint="send fewer fields")
            await problem_response(many)(scope, receive, send)
            return
        headers = Headers(scope=scope)
        announced, taken, whole = headers.get("content-length", ""), 0, False
        meter = _JsonMeter() if "json" in headers.get("content-type", "json").lower() else None
        began: float | None = None

        async def counted() -> Message:
            nonlocal taken, whole, began
            if whole:  # all that comes now is that the client leaves, whenever that is
                return await receive()
            began = time.monotonic() if began is None else began
            allowed = began + self._limits.body_s + taken / self._limits.bytes_a_second
            try:
                async with asyncio.timeout(allowed - time.monotonic()):
                    message = await receive()
            except TimeoutError:
                seconds = f"{self._limits.body_s:g} s"
                raise HTTPException(408, f"the request body was not received within {seconds}", headers=_CLOSE) from None
            taken += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if max(taken, int(announced) if announced.isdecimal() else 0) > _LARGEST and not _reads_body_itself(scope):
                raise HTTPException(413, f"the request is over {_LARGEST >> 20} MiB")  # all else FastAPI takes for bad JSON
            if meter is not None and not _reads_body_itself(scope) and (excess := meter.excess(message.get("body", b""))):
                raise HTTPException(413, f"the JSON of the request has {excess}")
            if meter is not None and meter.not_finite and not _reads_body_itself(scope):
                raise RefusedBody(400, f"the JSON of the request has {meter.not_finite}", hint=_NO_JSON_NUMBER)
            return message

        await self._app(scope, counted, send)


class _JsonMeter:
    """Measures a JSON document while it comes in, without parsing it; what is inside its texts does not count.

    Each value stands behind a comma or is the first of its list or object: an empty one counts as if it had one.
    `not_finite` is what stands there for a number that JSON does not have, which Python reads; empty when nothing does.
    """

    def __init__(self) -> None:
        self._values = 1
        self._in_text = False
        self._rest = b""
        self._word = b""
        self.not_finite = ""

    def excess(self, piece: bytes) -> str:
        """What there is too much of with the next piece of the document; nothing when all is within bounds."""
        text = (self._rest + piece).replace(rb"\\", b"")  # a run of backslashes is one of them, or none
        self._rest = text[-1:] if text.endswith(b"\\") else b""
        parts = text.removesuffix(b"\\").replace(rb"\"", b"").split(b'"')
        added = b"".join(parts[1 if self._in_text else 0 :: 2])
        self._in_text ^= len(parts) % 2 == 0
        self._values += sum(map(added.count, (b",", b"[", b"{")))
        outside = self._word + added
        self.not_finite = self.not_finite or _not_finite(outside)
        if _LONG_NUMBER.search(outside):
            return f"a number of over {_MOST_DIGITS} digits"
        self._word = outside[len(outside.rstrip(_WORD)) :][-_LONGEST_WORD:]  # a piece may end in the middle of it
        return f"over {_MOST_VALUES:,} values" if self._values > _MOST_VALUES else ""


def _not_finite(text: bytes) -> str:
    if named := _NAMED_NUMBER.search(text):
        return f"{named[0].decode()}, which is no number of JSON"
    if any(
        math.isinf(float(number)) for number in _WITH_EXPONENT.findall(text) if number.count(b".") < 2 and number[:1] != b"."
    ):
        return "a number that is too large"
    return ""


def _reads_body_itself(scope: Scope) -> bool:
    """Whether the route, which has been found when it begins to read, describes a body that it reads by itself."""
    return "requestBody" in (getattr(scope.get("route"), "openapi_extra", None) or {})


_CALLERS: Final = 10_000
_DOWNLOAD: Final = re.compile(r"(?:\.(?:zip|skill|tgz|tar|tar\.gz)|/(?:download|content|export))$")


class TokenBucket:
    """The buckets of one rate, by caller; of the least recent callers it forgets what they took."""

    def __init__(self, rate: RateLimit, *, callers: int = _CALLERS) -> None:
        self.rate = rate
        self._each = rate.seconds / rate.many
        self._callers = callers
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def take(self, caller: str, now: float | None = None) -> tuple[int, float]:
        """Take one: how many are left, and the seconds until the bucket is full; -1 left when there was none to take."""
        now = time.monotonic() if now is None else now
        left, full_at = self._taken(self._full_at.get(caller, now), now)
        if left < 0:
            return left, full_at - now
        self._full_at[caller] = full_at
        self._full_at.move_to_end(caller)
        if len(self._full_at) > self._callers:
            self._full_at.popitem(last=False)
        return left, full_at - now

    def wait(self, caller: str, now: float | None = None) -> int:
        """Whole seconds until there is one to take; 0 when there is one now."""
        now = time.monotonic() if now is None else now
        return self._until(self._full_at.get(caller, now), now)

    def _taken(self, full_at: float, now: float) -> tuple[int, float]:
        """How many are left of a bucket when one more is taken, or -1, and when it is full then."""
        full_at = max(full_at, now) + self._each
        left = math.floor((self.rate.seconds - (full_at - now)) / self._each + 1e-6)
        return (left, full_at) if left >= 0 else (-1, full_at - self._each)

    def _until(self, full_at: float, now: float) -> int:
        return max(0, math.ceil(max(full_at, now) + self._each - now - self.rate.seconds - 1e-6))

    def __len__(self) -> int:
        return len(self._full_at)


class RateLimiter:
    """Limits the rate of each caller by kind of request; the local user has no limit."""

    def __init__(self, app: ASGIApp, rates: Mapping[RequestKind, RateLimit]) -> None:
        self._app = app
        self._buckets = {kind: _bucket(kind, rate) for kind, rate in rates.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count, and pass on or refuse."""
        caller: Caller | None = scope["state"].get("caller") if scope["type"] == "http" else None
        if caller is None or caller == LOCAL_USER:
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        who = caller.key or (client[0] if client else "unknown")
        bucket = self._buckets[request_kind(scope["method"], scope["path"])]
        left, full_in = bucket.take(who)
        limit_headers = _limit_headers(bucket.rate.many, max(0, left), math.ceil(full_in))

        async def with_limits(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *limit_headers]
            await send(message)

        if left < 0:
            await problem_response(_too_many(bucket, who))(scope, receive, with_limits)
        else:
            await self._app(scope, receive, with_limits)


def _bucket(kind: RequestKind, rate: RateLimit) -> TokenBucket:
    """The buckets of a rate; shared where this process is one of several."""
    folder = os.environ.get(METRICS_FOLDER_VARIABLE)
    return SharedTokenBucket(rate, Path(folder, f"{kind}.limits")) if folder else TokenBucket(rate)


def request_kind(method: str, path: str) -> RequestKind:
    """The kind of request: a `read`, a `write`, or a `download` of a package."""
    if method not in READ_METHODS:
        return "write"
    return "download" if _DOWNLOAD.search(path) else "read"


def _limit_headers(limit: int, left: int, full_in: int) -> list[tuple[bytes, bytes]]:
    """The limit, what is left of it, and when all of it is there again: in seconds, and as a time for older clients."""
    most, rest = b"%d" % limit, b"%d" % left
    return [
        (b"ratelimit-limit", most),
        (b"ratelimit-remaining", rest),
        (b"ratelimit-reset", b"%d" % full_in),
        (b"x-ratelimit-limit", most),
        (b"x-ratelimit-remaining", rest),
        (b"x-ratelimit-reset", b"%d" % (math.ceil(time.time()) + full_in)),
    ]


def _too_many(bucket: TokenBucket, who: str) -> TooManyRequests:
    wait = max(1, bucket.wait(who))
    message = f"more than {bucket.rate.many} requests of this kind in a minute"
    return TooManyRequests(message, hint=f"wait {wait} s, then send requests more slowly", retry_after=wait)


_SLOT: Final = struct.Struct("=Qd")  # the caller, and when the bucket is full
_SLOTS: Final = 16_384
_TRIES: Final = 8


class SharedTokenBucket(TokenBucket):
    """The buckets of one rate in the file at `path`, which is made when it is not there."""

    def __init__(self, rate: RateLimit, path: Path) -> None:
        super().__init__(rate)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | CLOEXEC | NOFOLLOW, 0o600)
        os.ftruncate(self._file, _SLOTS * _SLOT.size)
        self._slots = mmap.mmap(self._file, _SLOTS * _SLOT.size)

    def take(self, caller: str, now: float | None = None) -> tuple[int, float]:
        """As `TokenBucket.take`, over all processes."""
        now = time.monotonic() if now is None else now
        with self._slot(caller) as (name, offset, full_at):
            left, full_at = self._taken(full_at, now)
            if left >= 0:
                _SLOT.pack_into(self._slots, offset, name, full_at)
        return left, full_at - now

    def wait(self, caller: str, now: float | None = None) -> int:
        """As `TokenBucket.wait`, over all processes."""
        now = time.monotonic() if now is None else now
        with self._slot(caller) as (_, _, full_at):
            return self._until(full_at, now)

    def close(self) -> None:
        """Close the file."""
        self._slots.close()
        os.close(self._file)

    @contextmanager
    def _slot(self, caller: str) -> Iterator[tuple[int, int, float]]:
        """The caller as a number, the offset of its slot, held against the other processes, and when its bucket is full."""
        import fcntl  # not on every platform

        name = int.from_bytes(hashlib.blake2b(caller.encode("utf-8", "replace"), digest_size=8).digest()) or 1
        first = name % (_SLOTS - _TRIES) * _SLOT.size
        fcntl.lockf(self._file, fcntl.LOCK_EX, _TRIES * _SLOT.size, first)
        try:
            tried = [(at, *_SLOT.unpack_from(self._slots, at)) for at in range(first, first + _TRIES * _SLOT.size, _SLOT.size)]
            offset, _, full_at = next((slot for slot in tried if slot[1] == name), None) or (
                min(tried, key=lambda slot: slot[2])[0], name, 0.0,
            )  # fmt: skip
            yield name, offset, full_at
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, _TRIES * _SLOT.size, first)
