"""The result pipe: one strict JSON document on a descriptor of its own.

A run writes its result to the descriptor named by `SKILL_RESULT_FD`; standard output and standard error are logs. The document
is UTF-8, within the size limit, at most 64 levels deep, without NaN, infinities, duplicate keys or lone surrogates.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final, NoReturn

from skillyard.plain_json import MAXIMUM_DEPTH, is_too_deep

__all__ = ["MalformedResult", "read_result"]

_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89abAB-F]")


class MalformedResult(ValueError):
    """What a run wrote to its result pipe is not a document that can be used."""


def read_result(data: bytes, *, limit: int) -> object:
    """The value of one JSON document.

    Raises:
        MalformedResult: too long, not UTF-8, not exactly one strict JSON document, or too deep.
    """
    if len(data) > limit:
        raise MalformedResult(f"the result is over {limit} bytes")
    try:
        text = data.decode("utf-8")
        value: object = json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
        if _SURROGATE_ESCAPE.search(data):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError:
        raise MalformedResult("the result is not UTF-8") from None
    except UnicodeEncodeError:
        raise MalformedResult("the result holds a lone surrogate") from None
    except MalformedResult:
        raise
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise MalformedResult(f"the result is not one JSON document: {error}") from None
    if text.count("[") + text.count("{") > MAXIMUM_DEPTH and is_too_deep(value):
        raise _too_deep()
    return value


def _too_deep() -> MalformedResult:
    return MalformedResult(f"the result is more than {MAXIMUM_DEPTH} levels deep")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise MalformedResult("the result has an object with the same key twice")
    if "__proto__" in value:
        raise MalformedResult("the result has a key named __proto__")
    return value


def _constant(name: str) -> NoReturn:
    raise MalformedResult(f"the result holds {name}, which is not JSON")


def _float(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise MalformedResult("the result holds a number that is too large")
    return number
