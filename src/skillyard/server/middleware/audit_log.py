"""One audit record for each change, and for each refused one: no route has to think of it.

What was recorded below, inside the transaction of the change, is not recorded twice. Every other change is recorded before
the caller sees the answer: who reads the audit log afterwards finds it there.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, QueryParams

from skillyard.access import Actor, AuditOutcome
from skillyard.errors import SkillyardError
from skillyard.server.authorization import READ_METHODS, Caller
from skillyard.server.responses import internal_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from skillyard.server.organisation_services import OrganisationPool


_NOT_TRIED: Final = frozenset({400, 401, 404, 405, 406, 413, 415, 416, 422, 429})
"""What was asked for could not be understood, or is not there: nothing was changed, and nobody was refused."""

_LOG: Final = logging.getLogger(__name__)


class AuditRecorder:
    """Writes an audit record of each change that goes through it.

    A route that is not in our description speaks a protocol in which a `POST` may only look: it records for itself.
    """

    def __init__(self, app: ASGIApp, pool: OrganisationPool) -> None:
        self._app = app
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, and record how it ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        streamed = 0  # the status of an answer whose end says how it went
        answered = False

        async def recording(message: Message) -> None:
            nonlocal streamed, answered
            if message["type"] == "http.response.start":
                answered, status = True, message["status"]
                worth_it = _is_recorded(scope["method"], status, scope["state"])
                streamed = status if worth_it and _is_stream(message) else 0
                if worth_it and not streamed:
                    await self._record(scope, status)
            await send(message)

        try:
            await self._app(scope, receive, recording)
        except Exception:
            if not answered:  # here, so that this answer too has an id and the headers of safety
                await internal_error()(scope, receive, recording)
            elif streamed:
                await self._record(scope, 500)
            raise
        if streamed:
            await self._record(scope, streamed)

    async def _record(self, scope: Scope, status: int) -> None:
        state = scope["state"]
        actor: Actor = state["actor"]
        route = scope.get("route")
        if route is None or not route.include_in_schema or actor.written:
            return
        caller: Caller = state["caller"]
        try:
            async with self._pool.of(caller.organisation) as service:
                await run_in_threadpool(
                    service.audit_log.record, _action(scope), _subject(scope, actor), _outcome(status), _details(state)
                )
        except SkillyardError:
            _LOG.exception("%s %s could not be recorded", scope["method"], scope["path"])


def _is_recorded(method: str, status: int, state: Mapping[str, object]) -> bool:
    """A change that was made, broke or was refused; and a look at what only those who manage the server may see, refused."""
    if method in READ_METHODS:
        return status == 403 and state.get("refused") == "admin"
    return status not in _NOT_TRIED and ("refused" in state or not state.get("unrecorded"))


def _is_stream(message: Message) -> bool:
    return Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")


def _action(scope: Scope) -> str:
    """The topic of the route and what it does: `catalog.toggle`."""
    route = scope["route"]
    topic = str(route.tags[0]).replace(" ", "-") if route.tags else "server"
    return f"{topic}.{route.name}"


def _subject(scope: Scope, actor: Actor) -> str:
    """The subject: the one that the route set, else the names in its path."""
    if actor.subject is not None:
        return actor.subject
    named = [str(value) for value in scope.get("path_params", {}).values()]
    return "/".join(named) or QueryParams(scope["query_string"]).get("skill") or scope["path"]


def _outcome(status: int) -> AuditOutcome:
    if status < 400:
        return "success"
    return "refused" if status == 403 else "failed"


def _details(state: Mapping[str, object]) -> dict[str, object] | None:
    return {"needs": state["refused"]} if "refused" in state else None
