"""The tools a skill declares for the ABP protocol: their defaults, their errors, and the parameters of a call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, get_args

from skillyard.execution.skill_call import with_defaults
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.document import Metadata


AbpKind = Literal["action", "query", "transform", "validate", "stream", "schedule"]
ParameterType = Literal["string", "number", "integer", "boolean", "array", "object", "any"]
_KINDS: Final[tuple[AbpKind, ...]] = get_args(AbpKind)
_TYPES: Final[tuple[ParameterType, ...]] = get_args(ParameterType)
_LONGEST_PATTERN: Final = 1000
_UNVERSIONED: Final = "1.0.0"
_HIDDEN: Final = wire(hidden=True)
# In this order; the first that is present decides.
_WORDS: Final[tuple[tuple[AbpKind, tuple[str, ...]], ...]] = (
    ("query", ("查询", "获取", "query", "fetch", "look up", "looks up", "lookup", "retrieve")),
    ("transform", ("转换", "格式化", "transform", "convert", "format", "reformat")),
    ("validate", ("验证", "检查", "validate", "verify", "check")),
    ("stream", ("流", "实时", "stream", "real-time", "realtime")),
    ("schedule", ("定时", "计划", "schedule", "cron")),
)
_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
}


@dataclass(frozen=True, slots=True)
class AbpParameter:
    """One parameter of a tool; `validation` has any of `min`, `max`, `pattern`, `enum`."""

    name: str
    type: ParameterType = "any"
    description: str = ""
    required: bool = True
    has_default: bool = False
    default: object = None
    validation: Mapping[str, object] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, object]:
        """The parameter in the words of the protocol, in which a `default` of null is another thing than none."""
        shape: dict[str, object] = {"type": self.type, "description": self.description, "required": self.required}
        if self.has_default:
            shape["default"] = self.default
        return shape | {"validation": dict(self.validation)} if self.validation else shape

    def schema(self) -> dict[str, object]:
        """The parameter as JSON Schema.

        `min` and `max` bound a number, the length of a text or of a list.
        """
        shape: dict[str, object] = {} if self.type == "any" else {"type": self.type}
        if self.description:
            shape["description"] = self.description
        if self.has_default:
            shape["default"] = self.default
        return shape | self._limits()

    def _limits(self) -> dict[str, object]:
        shape: dict[str, object] = {}
        for written, name in zip(("min", "max"), _LIMITS.get(self.type, ()), strict=False):
            value = self.validation.get(written)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                shape[name] = value if name in ("minimum", "maximum") else max(0, int(value))
        pattern, choices = self.validation.get("pattern"), self.validation.get("enum")
        if self.type in ("string", "any") and isinstance(pattern, str) and _is_pattern(pattern):
            shape["pattern"] = pattern
        if isinstance(choices, list) and choices:
            shape["enum"] = choices
        return shape


def _by_name(parameters: Iterable[AbpParameter]) -> dict[str, AbpParameter]:
    return {one.name: one.to_dict() for one in parameters}  # type: ignore[misc] # in its wire form


@dataclass(frozen=True, slots=True)
class AbpTool(WireForm):
    """One tool, complete; `returns` has `type` and `description`. Its plain data is in the words of the protocol.

    `synthetic` says that the skill declares no tools and this one stands for the whole skill.
    """

    name: str
    description: str
    kind: AbpKind
    parameters: tuple[AbpParameter, ...] = field(metadata=wire(write=_by_name))
    returns: Mapping[str, str] = field(hash=False)
    version: str
    author: str
    synthetic: bool = field(default=False, metadata=_HIDDEN)
    input_schema: Mapping[str, object] | None = field(default=None, hash=False, metadata=_HIDDEN)
    """What a tool that stands for the whole skill takes; None when the skill does not say."""

    def schema(self) -> dict[str, object]:
        """The JSON Schema of the parameters as a model may send them: what has a default may be left out."""
        if self.synthetic:
            return {"type": "object", "properties": {}} | dict(self.input_schema or {})
        return {
            "type": "object",
            "properties": {parameter.name: parameter.schema() for parameter in self.parameters},
            "required": [parameter.name for parameter in self.parameters if parameter.required and not parameter.has_default],
            "additionalProperties": False,
        }


def abp_tool_definitions(skill: Skill | Metadata) -> tuple[AbpTool, ...]:
    """The tools of a skill, with the defaults of the protocol.

    A skill that declares none has one, named after it, whose kind is inferred when the skill has no `abp` block at all.
    """
    metadata = _metadata(skill)
    kind = _kind(metadata.abp.kind) if metadata.abp else infer_abp_kind(metadata)
    declared = metadata.abp.tools if metadata.abp else ()
    if not declared:
        return (_synthetic(metadata, kind),)
    return tuple(_tool(tool, metadata, kind) for tool in declared)


def _metadata(skill: Skill | Metadata) -> Metadata:
    from skillyard.document import Metadata

    return skill if isinstance(skill, Metadata) else skill.document().metadata


def infer_abp_kind(metadata: Metadata) -> AbpKind:
    """The kind of a skill that does not say.

    By its type, or for types that run something by the words of its name, description and keywords.
    """
    by_type: dict[str, AbpKind] = {"static": "query", "preprocessor": "transform", "internal": "action"}
    if metadata.kind in by_type:
        return by_type[metadata.kind]
    text = " ".join((metadata.name, metadata.display_name or "", metadata.description, *metadata.keywords)).lower()
    text = text.replace("-", " ").replace("_", " ")
    return next((kind for kind, words in _WORDS if any(_contains(text, word) for word in words)), "action")


def _contains(text: str, word: str) -> bool:
    """Whether a text contains a word: Latin ones as a whole word, also in the plural."""
    if not word.isascii():
        return word in text
    return re.search(rf"\b{re.escape(word.replace('-', ' '))}(?:s|es)?\b", text) is not None


def _kind(written: str | None) -> AbpKind:
    return next((kind for kind in _KINDS if kind == written), "action")


def _tool(declared: Mapping[str, object], metadata: Metadata, kind: AbpKind) -> AbpTool:
    parameters = declared.get("parameters")
    named = parameters if isinstance(parameters, Mapping) else {}
    return AbpTool(
        name=str(declared.get("name", "")).strip(),
        description=_text(declared.get("description")) or metadata.description,
        kind=kind,
        parameters=tuple(_parameter(str(name), item) for name, item in named.items()),
        returns=_returns(declared.get("returns")),
        version=metadata.version or _UNVERSIONED,
        author=metadata.display_name or metadata.name,
    )


def _synthetic(metadata: Metadata, kind: AbpKind) -> AbpTool:
    schema = metadata.input_schema or {}
    properties, required = schema.get("properties"), schema.get("required")
    named = properties if isinstance(properties, Mapping) else {}
    needed = required if isinstance(required, Sequence) and not isinstance(required, str) else ()
    return AbpTool(
        name=metadata.name,
        description=metadata.description,
        kind=kind,
        parameters=tuple(_parameter(str(name), _property(item), required=name in needed) for name, item in named.items()),
        returns=_returns(None),
        version=metadata.version or _UNVERSIONED,
        author=metadata.display_name or metadata.name,
        synthetic=True,
        input_schema=metadata.input_schema,
    )


def _property(written: object) -> dict[str, object]:
    """What a parameter takes from a property of a schema: checks stay with the schema."""
    item = written if isinstance(written, Mapping) else {}
    return {key: value for key, value in item.items() if key != "validation"}


def _parameter(name: str, written: object, *, required: bool | None = None) -> AbpParameter:
    """A parameter as declared: a mapping, or its type alone; `required` where it is declared elsewhere."""
    item = written if isinstance(written, Mapping) else {"type": written}
    validation = item.get("validation")
    return AbpParameter(
        name=name,
        type=_type(item.get("type")),
        description=_text(item.get("description")),
        required=item.get("required") is not False if required is None else required,
        has_default="default" in item,
        default=item.get("default"),
        validation=dict(validation) if isinstance(validation, Mapping) else {},
    )


def _returns(written: object) -> dict[str, str]:
    item = written if isinstance(written, Mapping) else {}
    return {"type": _type(item.get("type")), "description": _text(item.get("description"))}


def _type(written: object) -> ParameterType:
    return next((kind for kind in _TYPES if kind == written), "any")


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else "" if value is None else str(value)


def _is_pattern(pattern: str) -> bool:
    """Whether it is a regular expression at all: one that is not would make an API refuse every tool."""
    if len(pattern) > _LONGEST_PATTERN:
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError, Warning):
        return False
    return True


@dataclass(frozen=True, slots=True)
class AbpValidation(WireForm, also=("valid",)):
    """The result of a check: `valid` when there are no `errors`."""

    errors: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether the block can be used."""
        return not self.errors


def validate_abp_format(metadata: Metadata | Mapping[str, object]) -> AbpValidation:
    """Every reason why the `abp` block cannot be used: missing, unknown kind, tools without name or description.

    `metadata` is the typed front matter, or the front matter as written. The typed one has already lost an unknown kind and
    tools without a name (reading reports them), so who wants them reported gives what was written.
    """
    block, description = _parts(metadata)
    if not isinstance(block, Mapping) or not block:
        return AbpValidation(("the abp block is missing",))
    errors = []
    kind = block.get("kind")
    if kind is not None and kind not in _KINDS:
        errors.append(f"abp.kind {str(kind)[:80]!r} is not one of {', '.join(_KINDS)}")
    tools = block.get("tools")
    if tools is not None and not isinstance(tools, (list, tuple)):
        errors.append("abp.tools is not a list")
        tools = ()
    for number, tool in enumerate(tools or ()):
        errors += _tool_errors(number, tool, description)
    if not tools and not description:
        errors.append("neither the skill nor a tool of it has a description")
    return AbpValidation(tuple(errors))


def _parts(metadata: Metadata | Mapping[str, object]) -> tuple[object, str]:
    """The `abp` block as a mapping, and the skill's description."""
    if isinstance(metadata, Mapping):
        return metadata.get("abp"), _stripped_text(metadata.get("description"))
    abp = metadata.abp
    return ({"kind": abp.kind, "tools": list(abp.tools)} if abp else None), metadata.description.strip()


def _tool_errors(number: int, tool: object, description: str) -> list[str]:
    if not isinstance(tool, Mapping) or not (name := _stripped_text(tool.get("name"))):
        return [f"abp.tools[{number}] has no name"]
    if not _stripped_text(tool.get("description")) and not description:
        return [f"the tool {name[:80]!r} has no description, and neither has the skill"]
    return []


def _stripped_text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


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
    names = {parameter.name for parameter in tool.parameters} | _properties(input_schema)
    preferred = {name: value for name, value in (preferences or {}).items() if name in names and name not in filled}
    return filled | preferred


def _properties(schema: Mapping[str, object] | None) -> set[str]:
    properties = (schema or {}).get("properties")
    return {str(name) for name in properties} if isinstance(properties, Mapping) else set()
