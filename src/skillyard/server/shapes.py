"""The shapes of answers: the envelope of document 003, and the definitions in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import PydanticCustomError

__all__ = ["Answer", "Definition", "FileInventory", "Listed", "Meta", "RequestBody", "listed"]

_Data = TypeVar("_Data")
_MOST_ERRORS: Final = 100


class RequestBody(BaseModel):
    """What a client sends as JSON, or an object in it; a field that is not described is an error.

    Over 100 errors are reported as one: FastAPI describes each of them on the event loop, 50,000 for half a second.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="wrap")
    @classmethod
    def _limit_errors(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(value)
        except ValidationError as error:
            if error.error_count() <= _MOST_ERRORS:
                raise
            raise PydanticCustomError("too_many_errors", "it has {count} errors", {"count": error.error_count()}) from None


class Meta(BaseModel):
    """Where in a list a page is; the first `page` is 1."""

    total: int
    page: int
    limit: int
    totalPages: int  # noqa: N815 # document 003 spells it so


class Answer(BaseModel, Generic[_Data]):
    """Everything that went well."""

    success: Literal[True] = True
    data: _Data


class Listed(Answer[list[_Data]], Generic[_Data]):
    """One page of a list."""

    meta: Meta


class FileInventory(BaseModel):
    """The files of a skill, counted and classed, as document 003 writes them."""

    hasSkillMd: bool  # noqa: N815
    hasScripts: bool  # noqa: N815
    hasReferences: bool  # noqa: N815
    scriptFiles: list[str]  # noqa: N815
    referenceFiles: list[str]  # noqa: N815
    templateFiles: list[str]  # noqa: N815
    totalFiles: int  # noqa: N815
    totalSizeBytes: int  # noqa: N815


class Definition(BaseModel):
    """An installed skill in the words of document 003; `id` is the `skillId`.

    The fields in `edited` say what a person said, and not what the SKILL.md says.
    """

    id: str
    skillId: str  # noqa: N815
    name: str
    description: str
    currentVersion: str | None  # noqa: N815
    isActive: bool  # noqa: N815
    fileInventory: FileInventory | None  # noqa: N815
    skillMdHash: str | None = None  # noqa: N815
    triggerKeywords: list[str] = []  # noqa: N815
    category: str | None = None
    tags: list[str] = []
    author: str | None = None
    license: str | None = None
    homepageUrl: str | None = None  # noqa: N815
    documentationUrl: str | None = None  # noqa: N815
    iconUrl: str | None = None  # noqa: N815
    edited: list[str] = []
    createdAt: str | None = None  # noqa: N815
    updatedAt: str | None = None  # noqa: N815


def listed(items: Sequence[_Data], page: int, limit: int) -> Listed[_Data]:
    """The page of `items`; one after the last is empty."""
    begin = (page - 1) * limit
    meta = Meta(total=len(items), page=page, limit=limit, totalPages=-(-len(items) // limit))
    return Listed(data=list(items[begin : begin + limit]), meta=meta)
