"""Organisations over HTTP, for those who manage the server: which there are, and new ones."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from skillyard.access import Organisation
from skillyard.server.callers import SERVER_ADMIN, needs
from skillyard.server.homes import Homes
from skillyard.server.problems import READING, WRITING
from skillyard.server.shapes import Answer, RequestBody

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/organisations", tags=["organisations"], dependencies=[needs("admin"), SERVER_ADMIN])


class OrganisationDetail(BaseModel):
    """An organisation; `default` was never made."""

    name: str
    created_at: datetime | None


class NewOrganisation(RequestBody):
    """What it is called: lower-case letters, digits and single dashes."""

    name: str = Field(min_length=1, max_length=60)


@routes.get("", responses=READING)
def list_organisations(request: Request) -> Answer[list[OrganisationDetail]]:
    """Every organisation; `default` is the server's own."""
    homes: Homes = request.app.state.homes
    return Answer(data=[_detail(organisation) for organisation in homes.organisations.all()])


@routes.post("", status_code=201, responses=WRITING)
def create(request: Request, body: NewOrganisation) -> Answer[OrganisationDetail]:
    """Make an organisation, without skills, runs and keys."""
    homes: Homes = request.app.state.homes
    return Answer(data=_detail(homes.organisations.create(body.name)))


def _detail(organisation: Organisation) -> OrganisationDetail:
    return OrganisationDetail.model_validate(organisation.to_dict())
