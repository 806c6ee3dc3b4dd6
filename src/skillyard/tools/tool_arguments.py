"""What a tool may be given, and the check of what a model really gave."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from skillyard.errors import InvalidInput

ParameterType = Literal["string", "integer", "number", "boolean", "object", "strings"]
_EXPECTED: Final[Mapping[ParameterType, str]] = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "strings": "a list of texts",
}


class InvalidArguments(InvalidInput):
    """What a model passed does not fit the tool; its message holds words of this program and of the model, no others."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool; `aliases` are other names that are understood but not advertised.

    `missing` is what it is called where it is missing, when that is not its name.
    """

    name: str
    type: ParameterType
    description: str
    required: bool = False
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    missing: str = ""

    def schema(self, *, choices: bool = True) -> dict[str, object]:
        """The JSON Schema of this parameter, with or without its choices."""
        shape: dict[str, object] = {"type": self.type, "description": self.description}
        if self.type == "strings":
            shape = {"type": "array", "items": {"type": "string"}, "description": self.description}
        if self.type == "object":
            shape["additionalProperties"] = True  # explicit: some adapters read an absent key as false
        if self.choices and choices:
            shape["enum"] = list(self.choices)
        if self.minimum is not None:
            shape["minimum"] = self.minimum
        if self.maximum is not None:
            shape["maximum"] = self.maximum
        return shape


SKILL_ARGUMENTS: Final = ("skill", "name", "skill_name", "id")
"""The name under which every tool takes a skill, and what some of them called it before, which all of them understand."""


def skill_parameter(description: str, *, choices: tuple[str, ...] = (), missing: str = "") -> Parameter:
    """The parameter that says which skill, the same in every tool."""
    name, *before = SKILL_ARGUMENTS
    return Parameter(name, "string", description, required=True, choices=choices, aliases=tuple(before), missing=missing)


def named_skill(arguments: Mapping[str, object]) -> object:
    """What a call says of the skill it is about, under any of these names; None when it says nothing."""
    return next((arguments[name] for name in SKILL_ARGUMENTS if arguments.get(name) is not None), None)


class Arguments:
    """Checked arguments, read by type; what was not given reads as absent."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = dict(values)

    def given(self) -> dict[str, object]:
        """All that was given, by name."""
        return dict(self._values)

    def text(self, name: str) -> str:
        """The text given for a required parameter."""
        return str(self._values[name])

    def optional_text(self, name: str) -> str | None:
        """The text given, or None."""
        value = self._values.get(name)
        return value if isinstance(value, str) and value.strip() else None

    def flag(self, name: str, default: bool) -> bool:
        """The boolean given, or `default`."""
        value = self._values.get(name)
        return value if isinstance(value, bool) else default

    def number(self, name: str, default: int) -> int:
        """The whole number given, or `default`."""
        value = self._values.get(name)
        return value if isinstance(value, int) else default

    def share(self, name: str, default: float) -> float:
        """The number given, with or without a fraction, or `default`."""
        value = self._values.get(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default

    def mapping(self, name: str) -> dict[str, object]:
        """The object given, or an empty one."""
        value = self._values.get(name)
        return {str(key): item for key, item in value.items()} if isinstance(value, Mapping) else {}

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts given, none when absent."""
        value = self._values.get(name)
        return tuple(str(item) for item in value) if isinstance(value, (list, tuple)) else ()


def decode_arguments(arguments: Mapping[str, object] | str | None) -> Mapping[str, object]:
    """The arguments as a mapping; model APIs also hand them over as JSON text, or leave them out.

    Raises:
        InvalidArguments: the text is not a JSON object.
    """
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        return _from_json(arguments)
    if not isinstance(arguments, Mapping):
        raise InvalidArguments(f"the arguments are {type(arguments).__name__}, not an object", hint="send a JSON object")
    return arguments


def _from_json(text: str) -> Mapping[str, object]:
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(f"the arguments are not JSON: {error}", hint="send a JSON object") from None
    if not isinstance(value, dict):
        raise InvalidArguments("the arguments are not a JSON object", hint="send a JSON object")
    return value


def check_arguments(parameters: Sequence[Parameter], arguments: Mapping[str, object]) -> Arguments:
    """The arguments by their advertised names, once every one of them fits.

    Raises:
        InvalidArguments: something is missing, unknown or of the wrong type; the message lists everything that is wrong.
    """
    values, problems = _by_name(parameters, arguments)
    for parameter in parameters:
        if problem := _problem(parameter, values.get(parameter.name)):
            problems.append(problem)
    if problems:
        raise InvalidArguments("; ".join(problems), hint=_expectation(parameters))
    return Arguments({name: _integral(value) for name, value in values.items() if value is not None})


def _by_name(parameters: Sequence[Parameter], arguments: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    names = {name: parameter.name for parameter in parameters for name in (parameter.name, *parameter.aliases)}
    values: dict[str, object] = {}
    problems: list[str] = []
    for given, value in arguments.items():
        name = names.get(str(given))
        if name is None:
            problems.append(f"Unknown argument {str(given)[:80]!r}")
        elif values.get(name) not in (None, value):
            problems.append(f"{name!r} is given twice, with different values")
        else:
            values[name] = value
    return values, problems


def _problem(parameter: Parameter, value: object) -> str | None:
    if value is None:
        return f"Missing {parameter.missing or parameter.name}" if parameter.required else None
    if not _fits(parameter.type, value):
        return f"{parameter.name!r} must be {_EXPECTED[parameter.type]}, not {_kind_of(value)}"
    if parameter.required and isinstance(value, str) and not value.strip():
        return f"Missing {parameter.missing or parameter.name}"
    return _range_problem(parameter, value)


def _range_problem(parameter: Parameter, value: object) -> str | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    if parameter.minimum is not None and value < parameter.minimum:
        return f"{parameter.name!r} must be at least {parameter.minimum}"
    if parameter.maximum is not None and value > parameter.maximum:
        return f"{parameter.name!r} must be at most {parameter.maximum}"
    return None


def _fits(expected: ParameterType, value: object) -> bool:
    match expected:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "object":
            return isinstance(value, Mapping)
        case "strings":
            return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
        case "integer":
            return isinstance(_integral(value), int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _integral(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _kind_of(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return type(value).__name__


def _expectation(parameters: Sequence[Parameter]) -> str:
    parts = [f"{p.name} ({_EXPECTED[p.type]}{', required' if p.required else ''})" for p in parameters]
    return "Expected: " + (", ".join(parts) if parts else "no arguments")
