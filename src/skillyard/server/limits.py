"""How much may be asked: so many requests a minute for each key, or each address without one, by kind; told in every answer.

A bucket per caller fills evenly and holds a minute's worth. It is one number (the time at which it will be full again), kept
for the callers of late: in this process, or where several serve one address in memory that they share (`shared_limits.py`).
"""

from __future__ import annotations

import math
import os
import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from skillyard.errors import TooManyRequests
from skillyard.server.callers import LOCAL_USER, Caller
from skillyard.server.metrics import SHARED
from skillyard.server.problems import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Bucket", "Kind", "Rate", "RateLimits", "kind_of"]

Kind = Literal["read", "write", "download"]
_CALLERS: Final = 10_000
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_DOWNLOAD: Final = re.compile(r"(?:\.(?:zip|skill|tgz|tar|tar\.gz)|/(?:download|content|export))$")


class Rate(NamedTuple):
    """So many in so many seconds."""

    many: int
    seconds: float = 60


class Bucket:
    """The buckets of one rate, by caller; of the least recent callers it forgets what they took."""

    def __init__(self, rate: Rate, *, callers: int = _CALLERS) -> None:
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


class RateLimits:
    """Lets each caller ask so much of each kind; the local user as much as the machine can do."""

    def __init__(self, app: ASGIApp, rates: Mapping[Kind, Rate]) -> None:
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
        bucket = self._buckets[kind_of(scope["method"], scope["path"])]
        left, full_in = bucket.take(who)
        told = _told(bucket.rate.many, max(0, left), math.ceil(full_in))

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *told]
            await send(message)

        if left < 0:
            await problem(_too_many(bucket, who))(scope, receive, telling)
        else:
            await self._app(scope, receive, telling)


def _bucket(kind: Kind, rate: Rate) -> Bucket:
    """The buckets of a rate; shared where this process is one of several."""
    from skillyard.server.shared_limits import SharedBucket

    folder = os.environ.get(SHARED)
    return SharedBucket(rate, Path(folder, f"{kind}.limits")) if folder else Bucket(rate)


def kind_of(method: str, path: str) -> Kind:
    """What kind of request it is: a `read`, a `write`, or a `download` of a package."""
    if method not in _READS:
        return "write"
    return "download" if _DOWNLOAD.search(path) else "read"


def _told(limit: int, left: int, full_in: int) -> list[tuple[bytes, bytes]]:
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


def _too_many(bucket: Bucket, who: str) -> TooManyRequests:
    wait = max(1, bucket.wait(who))
    message = f"more than {bucket.rate.many} requests of this kind in a minute"
    return TooManyRequests(message, hint=f"wait {wait} s, then go on more slowly", retry_after=wait)
