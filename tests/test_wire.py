"""The one encoder of plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from skillyard.wire import WireForm, to_wire, wire


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Part(WireForm):
    part_name: str
    note: str | None = field(default=None, metadata=wire(omit_empty=True))
    count: int = field(default=0, metadata=wire(omit_empty=True))
    secret: str = field(default="x", metadata=wire(hidden=True))


@dataclass(frozen=True)
class Whole(WireForm, camel_case=True):
    whole_name: str
    session: str = field(metadata=wire(name="sessionID"))
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Counted(WireForm, camel_case=True, also=("is_large",)):
    count: int
    at: datetime | None = field(default=None, metadata=wire(write=datetime.isoformat))

    @property
    def is_large(self) -> bool:
        return self.count > 9


def test_properties_follow_the_fields_and_a_field_may_be_written_in_its_own_way() -> None:
    at = datetime.fromisoformat("2026-01-31T09:00:00+01:00")
    assert list(Counted(10, at).to_dict().items()) == [("count", 10), ("at", "2026-01-31T09:00:00+01:00"), ("isLarge", True)]
    assert Counted(9).to_dict() == {"count": 9, "at": None, "isLarge": False}


class View(WireForm, also=("name", ("directory", "location"))):
    __slots__ = ("name_of_it",)

    def __init__(self, name: str) -> None:
        self.name_of_it = name

    @property
    def name(self) -> str:
        return self.name_of_it

    @property
    def location(self) -> str:
        return f"/{self.name_of_it}"


@dataclass(frozen=True, slots=True)
class Seen(WireForm):
    view: View = field(metadata=wire(inline=True))
    count: int


class SeenAnswer(BaseModel):
    data: Seen


def test_the_form_of_a_view_is_its_properties_and_what_adds_to_it_has_it_inline() -> None:
    assert View("a").to_dict() == {"name": "a", "directory": "/a"}
    assert SeenAnswer(data=Seen(View("a"), 2)).model_dump() == {"data": {"name": "a", "directory": "/a", "count": 2}}
    assert set(SeenAnswer.model_json_schema(mode="serialization")["$defs"]["Seen"]["properties"]) == {
        "name",
        "directory",
        "count",
    }


def test_fields_go_by_their_names_on_the_wire_in_their_order() -> None:
    form = Whole("a", "s", (Part("b"), Part("c", "n", 2))).to_dict()
    assert form == {
        "wholeName": "a",
        "sessionID": "s",
        "parts": [{"part_name": "b", "count": 0}, {"part_name": "c", "note": "n", "count": 2}],
    }
    assert list(form) == ["wholeName", "sessionID", "parts"]


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (None, None), (True, True), (1.5, 1.5), ("x", "x"), (Colour.RED, "red"), (Path("/a/b"), "/a/b"),
        ({"b", "a"}, ["a", "b"]), ({1: (2,)}, {"1": [2]}),
        (datetime.fromisoformat("2026-01-31T09:00:00+01:00"), "2026-01-31T08:00:00.000Z"),
    ],
)  # fmt: skip
def test_every_value_becomes_plain_data(value: Any, form: Any) -> None:
    assert to_wire(value) == form


@dataclass(frozen=True, slots=True)
class Branch(WireForm, camel_case=True, also=("twigs",), times="seconds"):
    grown_at: datetime
    colours: frozenset[Colour] = frozenset()
    more: tuple[Branch, ...] = ()
    leaf: Part | None = None
    sap: int = field(default=0, metadata=wire(hidden=True))

    @property
    def twigs(self) -> int:
        return len(self.more)


def _initials(names: tuple[Part, ...]) -> list[str]:
    return [part.part_name[0] for part in names]


@dataclass(frozen=True, slots=True)
class Grown(WireForm):
    part: Part = field(metadata=wire(inline=True))
    height: int = field(metadata=wire(write=lambda height: height + 1))
    parts: tuple[Part, ...] = field(metadata=wire(write=_initials))
    other: Branch | None = field(default=None, metadata=wire(inline=True))


def test_what_adds_to_a_record_has_its_fields_in_its_place() -> None:
    class Answer(BaseModel):
        data: Grown

    grown = Grown(Part("a"), 1, (Part("b"), Part("c")))
    assert Answer(data=grown).model_dump(mode="json")["data"] == grown.to_dict()
    assert list(grown.to_dict().items()) == [("part_name", "a"), ("count", 0), ("height", 2), ("parts", ["b", "c"])]
    assert Grown(Part("a"), 1, (), Branch(datetime(2026, 1, 31, tzinfo=UTC))).to_dict()["twigs"] == 0
    described = Answer.model_json_schema(mode="serialization")["$defs"]["Grown"]
    assert described["required"] == ["part_name", "height", "parts"]
    assert described["properties"]["height"]["type"] == "integer"
    assert described["properties"]["parts"]["items"] == {"type": "string"}
    assert "grownAt" in described["properties"]


def test_a_model_of_pydantic_writes_and_describes_a_dataclass_by_its_wire_form() -> None:
    class Answer(BaseModel):
        data: Branch

    moment = datetime(2026, 1, 31, tzinfo=UTC)
    branch = Branch(moment, frozenset({Colour.RED}), (Branch(moment),), Part("a"), 7)
    sent = Answer(data=branch).model_dump(mode="json")["data"]
    assert sent == branch.to_dict()
    assert Answer.model_validate({"data": sent}).model_dump(mode="json")["data"] == sent
    described = Answer.model_json_schema(mode="serialization")["$defs"]["Branch"]
    assert described["required"] == ["grownAt", "colours", "more", "leaf", "twigs"]
    shapes = {name: shape | {"title": ""} for name, shape in described["properties"].items()}
    assert shapes == {
        "grownAt": {"title": "", "type": "string", "format": "date-time"},
        "colours": {"title": "", "type": "array", "items": {"type": "string", "const": "red"}},
        "more": {"title": "", "type": "array", "items": {"$ref": "#/$defs/Branch"}},
        "leaf": {"title": "", "anyOf": [{"$ref": "#/$defs/Part"}, {"type": "null"}]},
        "twigs": {"title": "", "type": "integer"},
    }
    with pytest.raises(ValidationError):
        Answer.model_validate({"data": {"grownAt": "2026-01-31T00:00:00Z"}})
