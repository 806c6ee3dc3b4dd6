"""The one encoder: a dataclass is its own wire form, made of the dictionaries, lists and scalars that JSON has.

`class Probe(WireForm)` has `to_dict()`. How a field goes over the wire is declared at the field: `wire(name="sessionId")`,
`wire(omit_empty=True)`, `wire(hidden=True)`; how all of them go, at the class: `class Inventory(WireForm, camel_case=True)`,
`class ApiKey(WireForm, also=("state",), times="seconds")`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

from skillyard.times import utc_text

_KEY = "wire"
Times = Literal["seconds", "milliseconds", "full"]
"""How moments are written: in UTC to the second or millisecond, or whole and with the offset they have."""


class _WireField(NamedTuple):
    attribute: str
    name: str
    omit_empty: bool


def wire(*, name: str = "", omit_empty: bool = False, hidden: bool = False) -> dict[str, Any]:
    """The `metadata` of a dataclass field: its name on the wire, whether it is absent when it is empty, or always.

    Empty is None, an empty text and an empty collection; 0 and False are values.
    """
    return {_KEY: (name, omit_empty, hidden)}


class WireForm:
    """A dataclass with `to_dict()`: its fields by their names on the wire, in their order, then the properties in `also`."""

    __slots__ = ()
    _camel_case: ClassVar[bool] = False
    _also: ClassVar[tuple[str, ...]] = ()
    _times: ClassVar[Times] = "milliseconds"

    def __init_subclass__(
        cls, *, camel_case: bool | None = None, also: tuple[str, ...] = (), times: Times | None = None, **more: Any
    ) -> None:
        super().__init_subclass__(**more)
        cls._also = cls._also + also
        if camel_case is not None:
            cls._camel_case = camel_case
        if times is not None:
            cls._times = times

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        form = {}
        for attribute, name, omit_empty in _wire_fields(type(self)):  # type: ignore[arg-type] # a class has a hash
            value = getattr(self, attribute)
            if not (omit_empty and _is_empty(value)):
                form[name] = _moment_text(value, self._times) if isinstance(value, datetime) else to_wire(value)
        return form


def _moment_text(moment: datetime, times: Times) -> str:
    return moment.isoformat() if times == "full" else utc_text(moment, to=times)


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str | tuple | list | Mapping | set | frozenset) and not value)


def to_wire(value: Any) -> Any:
    """A value as plain data for JSON: what has `to_dict()` by it, sets in order, anything unknown as its text."""
    if value is None or (isinstance(value, str | bool | int | float) and not isinstance(value, Enum)):
        return value
    if (own := getattr(value, "to_dict", None)) is not None:
        return own()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return utc_text(value)
    if isinstance(value, Mapping):
        return {str(key): to_wire(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_wire(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted(to_wire(inner) for inner in value)
    return str(value)


@cache
def _wire_fields(cls: Any) -> tuple[_WireField, ...]:
    wire_fields = []
    for field in dataclasses.fields(cls):
        name, omit_empty, hidden = field.metadata.get(_KEY, ("", False, False))
        if not hidden:
            wire_fields.append(_WireField(field.name, name or _spelled(field.name, camel_case=cls._camel_case), omit_empty))
    also = (_WireField(name, _spelled(name, camel_case=cls._camel_case), False) for name in cls._also)
    return (*wire_fields, *also)


def _spelled(name: str, *, camel_case: bool) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest) if camel_case else name
