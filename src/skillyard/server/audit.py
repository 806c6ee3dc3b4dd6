"""The trail over HTTP: who changed what in the caller's organisation, and who was refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel

from skillyard.access import Outcome, Trail
from skillyard.errors import InvalidInput
from skillyard.server.callers import needs
from skillyard.server.problems import READING
from skillyard.server.service import Served
from skillyard.server.shapes import Listed, Meta

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/audit", tags=["audit"], dependencies=[needs("admin")])


class AuditEvent(BaseModel):
    """One record: who did what, about what, how it ended, and for a request where it came from."""

    id: str
    at: datetime
    actor: str
    organisation: str
    action: str
    subject: str
    outcome: Outcome
    details: dict[str, Any] | None
    request_id: str | None
    address: str | None


_Text = Annotated[str | None, Query(max_length=500)]


@routes.get("", responses=READING)
def list_events(
    service: Served,
    actor: _Text = None,
    action: _Text = None,
    subject: _Text = None,
    outcome: Outcome | None = None,
    since: datetime | None = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Listed[AuditEvent]:
    """What was done, the newest first; a `subject` that is a skill stands for all its versions. A time without zone is UTC."""
    since = None if since is None else _in_utc(since)
    trail = Trail(lambda: service.catalog.records().database)
    total = trail.count(actor=actor, action=action, subject=subject, outcome=outcome, since=since)
    events = trail.events(
        actor=actor, action=action, subject=subject, outcome=outcome, since=since, limit=limit, offset=(page - 1) * limit
    )
    meta = Meta(total=total, page=page, limit=limit, totalPages=-(-total // limit))
    return Listed(data=[AuditEvent.model_validate(event.to_dict()) for event in events], meta=meta)


def _in_utc(at: datetime) -> datetime:
    try:
        return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
    except OverflowError:
        raise InvalidInput("no clock ever showed that time", hint="write it as 2026-01-31T08:00:00Z") from None
