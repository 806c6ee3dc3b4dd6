"""Installs that go on after their request was answered, and every operation told as it goes on."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Header
from sse_starlette import ServerSentEvent
from starlette.concurrency import run_in_threadpool

from skillyard.errors import RecordNotFound
from skillyard.registry import InstalledSkill, InstallLog
from skillyard.server.callers import needs
from skillyard.server.definitions import definition
from skillyard.server.install_shapes import (
    InstallEnded,
    InstallError,
    InstallEvent,
    InstallMoved,
    OperationDetail,
    log_detail,
)
from skillyard.server.installs import Failure
from skillyard.server.problems import READING
from skillyard.server.service import Served, Service
from skillyard.server.shapes import Answer
from skillyard.server.streams import EventStream, streaming

__all__ = ["routes"]

routes: Final = APIRouter(
    prefix="/api/v1/skill-definitions/operations", tags=["installing"], dependencies=[needs("skills:read")]
)

_LOOK_S: Final = 0.2


@routes.get("/{operation_id}", responses=READING)
def get_operation(service: Served, operation_id: str) -> Answer[OperationDetail]:
    """An operation as it is now: the log of each skill, and when it is over what came of it."""
    return Answer(data=_told(service, operation_id))


@routes.get(
    "/{operation_id}/events",
    response_class=EventStream,
    responses=READING | streaming(InstallEvent, "InstallEvent", "progress, end"),
)
async def follow_operation(
    service: Served, operation_id: str, last_event_id: Annotated[str | None, Header(max_length=100)] = None
) -> EventStream:
    """An operation as it goes on, as server-sent events; each tells the whole operation, so that none is missed.

    The id of an event stands for what it told: a client that comes back with `Last-Event-ID`, to whichever process, is told it
    again only when something is different.
    """
    first = await run_in_threadpool(_told, service, operation_id)
    return EventStream(_events(service, operation_id, first, last_event_id))


async def _events(
    service: Service, operation_id: str, told: OperationDetail, shown: str | None
) -> AsyncGenerator[ServerSentEvent, None]:
    while told.state == "running":
        event = _event(InstallMoved(operation=told))
        if event.id != shown:
            yield event
            shown = event.id
        await asyncio.sleep(_LOOK_S)
        told = await run_in_threadpool(_told, service, operation_id)
    yield _event(InstallEnded(operation=told))


def _event(told: InstallMoved | InstallEnded) -> ServerSentEvent:
    text = told.model_dump_json()
    return ServerSentEvent(text, event=told.event, id=hashlib.sha256(text.encode()).hexdigest()[:20])


def _told(service: Service, operation_id: str) -> OperationDetail:
    """The operation, from its logs and from what the process that works on it has told."""
    going, error = service.installs.known(operation_id)
    logs = service.registry.operation(operation_id)
    if not logs and not going and error is None:
        raise RecordNotFound(f"there is no operation {operation_id!r}", hint="an install that was asked for has one")
    failed = next((log for log in logs if log.status == "failed"), None)
    state: Literal["running", "success", "failed"] = "success"
    if going or any(log.status in ("pending", "in_progress") for log in logs):
        state = "running"
    elif failed is not None or error is not None:
        state = "failed"
    return OperationDetail(
        operation_id=operation_id,
        state=state,
        logs=[log_detail(log) for log in reversed(logs)],
        definitions=[definition(skill) for skill in _skills(service, logs)] if state == "success" else [],
        error=_error(failed, error) if state == "failed" else None,
    )


def _skills(service: Service, logs: Sequence[InstallLog]) -> Iterator[InstalledSkill]:
    """The skills that were installed, as they are now."""
    for skill_id in sorted({log.skill_id for log in logs if log.skill_id}):
        yield service.registry.skill(skill_id, installed=False)


def _error(failed: InstallLog | None, error: Failure | None) -> InstallError:
    if failed is not None:
        details = dict(failed.details or {})
        return InstallError(code=failed.error_code or "", message=failed.error_message or "", details=details)
    return InstallError(code=error.code if error else "", message=error.message if error else "")
