"""The parameters of a call, complete: what was given, else the default, else what the user prefers (document 000, 2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from skillyard.execution.schema import with_defaults

if TYPE_CHECKING:
    from skillyard.execution.abp.declaration import AbpTool

__all__ = ["fill_parameters"]


def fill_parameters(
    tool: AbpTool,
    given: Mapping[str, object],
    *,
    input_schema: Mapping[str, object] | None = None,
    preferences: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """`given`, with what is absent from the tool's defaults, then the schema's, then the user's preferences.

    A preference is only used for a parameter that the tool or the schema names: nothing else of the user's goes to a skill.
    """
    defaults = {parameter.name: parameter.default for parameter in tool.parameters if parameter.has_default}
    filled = with_defaults(input_schema, {**defaults, **given})
    known = {parameter.name for parameter in tool.parameters} | _properties(input_schema)
    preferred = {name: value for name, value in (preferences or {}).items() if name in known and name not in filled}
    return filled | preferred


def _properties(schema: Mapping[str, object] | None) -> set[str]:
    properties = (schema or {}).get("properties")
    return {str(name) for name in properties} if isinstance(properties, Mapping) else set()
