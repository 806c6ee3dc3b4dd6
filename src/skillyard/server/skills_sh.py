"""The search of skills.sh, for `SKILLS_API_URL=http://… npx skills find`; counts of installs are not kept, so none are told."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request

from skillyard.server.callers import needs
from skillyard.server.offered import matching
from skillyard.server.problems import READING
from skillyard.server.service import Served

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api", tags=["clients: skills.sh"], dependencies=[needs("skills:read")])


@routes.get("/search", responses=READING)
def search(
    service: Served,
    request: Request,
    q: Annotated[str, Query(max_length=2000)] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 10,
) -> dict[str, Any]:
    """The skills that fit a request, the best first; what `find` shows of each can be given to `add`."""
    found = [skill for skill, _ in islice(matching(service, q), limit)]
    source = str(request.base_url)
    skills = [{"id": f"@{skill.skill_id}", "name": skill.skill_id, "source": source} for skill in found]
    return {"query": q, "skills": skills, "count": len(skills)}
