"""The pydantic models of requests and answers; here their envelope: strict bodies, one answer, one page of a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Generic, Literal, Protocol, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from skillyard.errors import InvalidInput

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


class _Record(Protocol):
    def to_dict(self) -> Mapping[str, object]: ...


class ResponseShape(BaseModel):
    """A part of an answer, of which all fields are always sent; often a record of another component."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    @classmethod
    def of(cls, record: _Record) -> Self:
        """The record in this shape."""
        return cls.model_validate(record.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as part of a dataclass that is an answer."""
        return self.model_dump()


class Meta(BaseModel):
    """Where in a list a page is; the first `page` is 1."""

    total: int
    page: int
    limit: int
    totalPages: int  # noqa: N815 # the API's own spelling

    @classmethod
    def of(cls, total: int, page: int, limit: int) -> Self:
        """Of a list of `total` items."""
        return cls(total=total, page=page, limit=limit, totalPages=-(-total // limit))


class Answer(ResponseShape, Generic[_Data]):
    """Everything that went well."""

    success: Literal[True] = True
    data: _Data


class Listed(Answer[list[_Data]], Generic[_Data]):
    """One page of a list."""

    meta: Meta


def listed(items: Sequence[_Data], page: int, limit: int) -> Listed[_Data]:
    """The page of `items`; one after the last is empty."""
    begin = (page - 1) * limit
    return Listed(data=list(items[begin : begin + limit]), meta=Meta.of(len(items), page, limit))


def to_utc(moment: datetime) -> datetime:
    """A moment of a request in UTC; without zone it is one already.

    Raises:
        InvalidInput: it is outside of what can be computed with.
    """
    try:
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except OverflowError:
        raise InvalidInput("the time is out of range", hint="write it as 2026-01-31T08:00:00Z") from None
