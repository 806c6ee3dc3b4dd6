"""Checks parameters and output against the JSON Schemas a skill declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

__all__ = ["UnusableSchema", "schema_problems", "with_defaults"]

MOST_PROBLEMS: Final = 10


class UnusableSchema(ValueError):
    """What a skill declares as a schema is none."""


def schema_problems(schema: Mapping[str, object] | None, value: object) -> tuple[str, ...]:
    """One sentence for each way in which `value` does not fit, at most ten; nothing is fetched for a reference.

    Raises:
        UnusableSchema: the schema cannot be used.
    """
    if not schema:
        return ()
    import jsonschema_rs  # a native module that only a run with a schema needs

    try:
        # Patterns are matched in linear time: a schema is a stranger's, and so is the value.
        validator = jsonschema_rs.validator_for(
            dict(schema), retriever=_no_fetching, pattern_options=jsonschema_rs.RegexOptions()
        )
        problems = []
        for error in validator.iter_errors(value):
            place = "/".join(str(part) for part in error.instance_path)
            problems.append(f"{place}: {error.message}" if place else error.message)
            if len(problems) == MOST_PROBLEMS:
                break
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        raise UnusableSchema(str(error)) from None
    return tuple(problems)


def with_defaults(schema: Mapping[str, object] | None, parameters: Mapping[str, object]) -> dict[str, object]:
    """The parameters with the schema's defaults for those that are absent."""
    properties = (schema or {}).get("properties")
    if not isinstance(properties, Mapping):
        return dict(parameters)
    missing = {name: item["default"] for name, item in properties.items() if isinstance(item, Mapping) and "default" in item}
    return missing | dict(parameters)


def _no_fetching(address: str) -> NoReturn:
    raise ValueError(f"a schema may not refer to {address}")
