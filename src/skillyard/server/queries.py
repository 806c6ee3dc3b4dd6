"""What a query says as one shape, for a route that reads it by itself: where the answer is at hand, it is not read at all."""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

__all__ = ["query_of", "read_query"]

_Shape = TypeVar("_Shape", bound=BaseModel)


def query_of(shape: type[BaseModel]) -> dict[str, Any]:
    """The `openapi_extra` of a route whose query has the fields of `shape`, which all have a default."""
    fields = shape.model_json_schema()["properties"]
    return {"parameters": [{"name": name, "in": "query", "required": False, "schema": told} for name, told in fields.items()]}


def read_query(shape: type[_Shape], request: Request) -> _Shape:
    """The query of a request.

    Raises:
        RequestValidationError: it does not fit the shape, told as FastAPI tells it.
    """
    try:
        return shape.model_validate(dict(request.query_params))
    except ValidationError as error:
        faults = [fault | {"loc": ("query", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from None
