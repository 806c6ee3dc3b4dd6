"""The one encoder: a dataclass is its own wire form, made of the dictionaries, lists and scalars that JSON has.

`class Probe(WireForm)` has `to_dict()`. How a field goes over the wire is declared at the field: `wire(name="sessionId")`,
`wire(omit_empty=True)`, `wire(hidden=True)`; `class Inventory(WireForm, camel_case=True)` spells every name that way, and
`class Check(WireForm, computed=("ok",))` adds the value of a property.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, ClassVar, NamedTuple

from skillyard.times import utc_text

_KEY = "wire"


class _WireField(NamedTuple):
    attribute: str
    name: str
    omit_empty: bool
    write: Callable[[Any], Any]


def wire(
    *, name: str = "", omit_empty: bool = False, hidden: bool = False, write: Callable[[Any], Any] | None = None
) -> dict[str, Any]:
    """The `metadata` of a dataclass field: its name on the wire, whether it is absent when it is empty, or always.

    Empty is None, an empty text and an empty collection; 0 and False are values. `write` makes plain data of a value that is
    not None, in place of `to_wire`.
    """
    return {_KEY: (name, omit_empty, hidden, write)}


class WireForm:
    """A dataclass with `to_dict()`: its fields by their names on the wire, in their order, then its `computed` properties."""

    __slots__ = ()
    _camel_case: ClassVar[bool] = False
    _computed: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, *, camel_case: bool | None = None, computed: tuple[str, ...] | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if camel_case is not None:
            cls._camel_case = camel_case
        if computed is not None:
            cls._computed = computed

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; moments are text in UTC, to the millisecond."""
        form = {}
        for attribute, name, omit_empty, write in _wire_fields(type(self)):  # type: ignore[arg-type] # a class has a hash
            value = getattr(self, attribute)
            if not (omit_empty and _is_empty(value)):
                form[name] = None if value is None else write(value)
        return form


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
        name, omit_empty, hidden, write = field.metadata.get(_KEY, ("", False, False, None))
        if not hidden:
            spelled = name or _spelled(field.name, camel_case=cls._camel_case)
            wire_fields.append(_WireField(field.name, spelled, omit_empty, write or to_wire))
    computed = (_WireField(name, _spelled(name, camel_case=cls._camel_case), False, to_wire) for name in cls._computed)
    return (*wire_fields, *computed)


def _spelled(name: str, *, camel_case: bool) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest) if camel_case else name
