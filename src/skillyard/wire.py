"""The one encoder: a dataclass is its own wire form, made of the dictionaries, lists and scalars that JSON has.

`class Probe(WireForm)` has `to_dict()`. How a field goes over the wire is declared at the field: `wire(name="sessionId")`,
`wire(omit_empty=True)`, `wire(hidden=True)`; how all of them go, at the class: `class Inventory(WireForm, camel_case=True)`,
`class ApiKey(WireForm, also=("state",), times="seconds")`; a view that is no dataclass has its whole form in `also`. What adds
something to a record has it in a field that is `wire(inline=True)`: `class MemoryMatch(WireForm)` has the fields of its memory,
and `score`. Only a form that is another program's, or an error's, is written in a `to_dict` of its own, which says why.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import ContextVar
from datetime import date, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from skillyard.times import utc_text

_KEY = "wire"
_described: ContextVar[tuple[type, ...]] = ContextVar("skillyard_described_classes", default=())
_Also = str | tuple[str, str]
Times = Literal["seconds", "milliseconds", "full"]
"""How moments are written: in UTC to the second or millisecond, or whole and with the offset they have."""


class _WireField(NamedTuple):
    attribute: str
    name: str
    omit_empty: bool
    omit_none: bool
    inline: bool
    write: Callable[[Any], Any] | None


def wire(
    *,
    name: str = "",
    omit_empty: bool = False,
    omit_none: bool = False,
    hidden: bool = False,
    inline: bool = False,
    write: Callable[[Any], Any] | None = None,
) -> dict[str, Any]:
    """The `metadata` of a dataclass field: its name on the wire, and when it is absent: empty, None, or always.

    Empty is None, an empty text and an empty collection; 0 and False are values. The fields of a record that is `inline` are
    written in its place, those of None not at all. `write` makes plain data of a value that is not None, in place of `to_wire`.
    """
    return {_KEY: (name, omit_empty, omit_none, hidden, inline, write)}


class WireForm:
    """A dataclass with `to_dict()`: its fields by their names on the wire, in their order, then the properties in `also`.

    A property in `also` that has another name on the wire is a pair of both: `("directory", "location")`.
    """

    __slots__ = ()
    _camel_case: ClassVar[bool] = False
    _also: ClassVar[tuple[_Also, ...]] = ()
    _times: ClassVar[Times] = "milliseconds"

    def __init_subclass__(
        cls, *, camel_case: bool | None = None, also: tuple[_Also, ...] = (), times: Times | None = None, **more: Any
    ) -> None:
        super().__init_subclass__(**more)
        cls._also = cls._also + also
        if camel_case is not None:
            cls._camel_case = camel_case
        if times is not None:
            cls._times = times

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        form: dict[str, Any] = {}
        for attribute, name, omit_empty, omit_none, inline, write in _wire_fields(type(self)):  # type: ignore[arg-type] # a class has a hash
            value = getattr(self, attribute)
            if (omit_empty and _is_empty(value)) or (omit_none and value is None):
                continue
            if inline:
                form |= value.to_dict() if value is not None else {}
            elif write is not None and value is not None:
                form[name] = write(value)
            else:
                form[name] = _moment_text(value, self._times) if isinstance(value, datetime) else to_wire(value)
        return form

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """The same form in answers over HTTP: a model of pydantic with this dataclass as a field writes it by `to_dict()`."""
        from pydantic_core import core_schema

        def write(value: Any) -> Any:
            return _encodable(to_wire(value))

        ref = f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"
        around = _described.get()
        if cls in around:  # it contains itself
            return core_schema.definition_reference_schema(ref)
        token = _described.set((*around, cls))
        try:
            fields = {
                name: core_schema.typed_dict_field(handler.generate_schema(kind), required=required)
                for name, kind, required in _described_fields(cls)
            }
        finally:
            _described.reset(token)
        about = {"pydantic_js_updates": {"title": cls.__name__, "description": inspect.getdoc(cls)}}
        form = core_schema.typed_dict_schema(fields, metadata=about)
        return core_schema.union_schema(
            [(core_schema.is_instance_schema(cls), "the dataclass"), (form, "its wire form")],
            mode="left_to_right",
            serialization=core_schema.plain_serializer_function_ser_schema(write, return_schema=form),
            ref=ref,
        )


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


def _encodable(value: Any) -> Any:
    """Plain data with every text as UTF-8 can have it: the name of a file or folder need not be UTF-8."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(inner) for key, inner in value.items()}
    return [_encodable(inner) for inner in value] if isinstance(value, list) else value


@cache
def _wire_fields(cls: Any) -> tuple[_WireField, ...]:
    wire_fields = []
    for field in dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ():
        name, omit_empty, omit_none, hidden, inline, write = field.metadata.get(_KEY, ("", False, False, False, False, None))
        if not hidden:
            spelled = name or _spelled(field.name, camel_case=cls._camel_case)
            wire_fields.append(_WireField(field.name, spelled, omit_empty, omit_none, inline, write))
    for named in cls._also:
        spelled, attribute = (_spelled(named, camel_case=cls._camel_case), named) if isinstance(named, str) else named
        wire_fields.append(_WireField(attribute, spelled, False, False, False, None))
    return tuple(wire_fields)


def _spelled(name: str, *, camel_case: bool) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest) if camel_case else name


def _described_fields(cls: Any) -> Iterator[tuple[str, Any, bool]]:
    """Of each field on the wire its name, the type of what is written, and whether it is always there."""
    hints = get_type_hints(cls, include_extras=True)
    for attribute, name, omit_empty, omit_none, inline, write in _wire_fields(cls):
        kind = hints[attribute] if attribute in hints else get_type_hints(getattr(cls, attribute).fget)["return"]
        if inline:
            record = next(one for one in get_args(kind) or (kind,) if one is not NoneType)
            for inner, written, required in _described_fields(record):
                yield inner, written, required and record is kind
            continue
        yield name, _written_type(_type_of_write(write, kind)), not (omit_empty or omit_none)


def _type_of_write(write: Callable[[Any], Any] | None, kind: Any) -> Any:
    """The type of what `write` makes of a value that is not None, where it says so; every other keeps the type."""
    if write is None or not inspect.isfunction(write):
        return kind
    made = get_type_hints(write).get("return", object)
    if made in (object, Any):
        return kind
    return made | None if NoneType in get_args(kind) else made


def _written_type(kind: Any) -> Any:
    """The type of what `to_wire` makes of a value of a type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _written_type(inner[0])
    if origin in (Union, UnionType):
        return Union[tuple(_written_type(one) for one in inner)]  # noqa: UP007 # of any number
    if inspect.isclass(kind) and issubclass(kind, date):
        from pydantic import WithJsonSchema

        return Annotated[str, WithJsonSchema({"type": "string", "format": "date-time" if kind is datetime else "date"})]
    if inspect.isclass(kind) and issubclass(kind, Enum):
        return Literal[tuple(one.value for one in kind)]
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return dict[str, _written_type(inner[1])]  # type: ignore[misc] # made of a value
    if inspect.isclass(origin) and issubclass(origin, Collection):
        return list[_written_type(inner[0])]  # type: ignore[misc] # made of a value
    return Any if kind is object else kind
