"""Checks parameters and output against the JSON Schemas a skill declares: small ones at once, others in a helper process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from skillyard.document import UnusableSchema, schema_weight, value_weight
from skillyard.text import shorten

MOST_PROBLEMS: Final = 10
_LONGEST_PROBLEM: Final = 1_000
_AT_ONCE: Final = 1_500
"""How many pairs of a part of the schema and one of the value are checked in this process: 40 ms at worst, mostly far less."""
_SECONDS: Final = 5.0
_MEMORY_MB: Final = 512


async def schema_problems(schema: Mapping[str, object] | None, value: object) -> tuple[str, ...]:
    """One sentence for each way in which `value` does not fit, at most ten; nothing is fetched for a reference.

    A check takes at most 5 seconds and 512 MiB.

    Raises:
        UnusableSchema: the schema cannot be used.
        WorkProblem: the check took too much time or memory, or nobody was free to make it.
    """
    if not schema:
        return ()
    weight = schema_weight(schema)
    if weight is not None and weight * value_weight(value, _AT_ONCE) <= _AT_ONCE:
        return find_problems(dict(schema), value)
    from skillyard.offload import WorkLimits, run_in_helper_async

    limits = WorkLimits(seconds=_SECONDS, memory_mb=_MEMORY_MB)
    return await run_in_helper_async(find_problems, dict(schema), value, subject="a check against a schema", limits=limits)


def find_problems(schema: dict[str, object], value: object) -> tuple[str, ...]:
    """The check itself, which may take very long.

    Raises:
        UnusableSchema: the schema cannot be used.
    """
    import jsonschema_rs  # a native module that only a run with a schema needs

    try:
        # Patterns are matched in linear time: a schema is a stranger's, and so is the value.
        validator = jsonschema_rs.validator_for(schema, retriever=_no_fetching, pattern_options=jsonschema_rs.RegexOptions())
        problems = []
        for error in validator.iter_errors(value):
            place = "/".join(str(part) for part in error.instance_path)
            problems.append(shorten(f"{place}: {error.message}" if place else error.message, _LONGEST_PROBLEM))
            if len(problems) == MOST_PROBLEMS:
                break
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        raise UnusableSchema(shorten(str(error), _LONGEST_PROBLEM)) from None
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
