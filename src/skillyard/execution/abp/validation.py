"""Whether a skill's ABP block can be used, with every reason why not (row 000-32)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

from skillyard.execution.abp.declaration import AbpKind

if TYPE_CHECKING:
    from skillyard.document import Metadata

__all__ = ["AbpValidation", "validate_abp_format"]

_KINDS: Final = get_args(AbpKind)


@dataclass(frozen=True, slots=True)
class AbpValidation:
    """What the check found: `valid` when there are no `errors`."""

    errors: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether the block can be used."""
        return not self.errors

    def to_dict(self) -> dict[str, object]:
        """The same as plain data: `{"valid", "errors"}`."""
        return {"valid": self.valid, "errors": list(self.errors)}


def validate_abp_format(metadata: Metadata | Mapping[str, object]) -> AbpValidation:
    """Every reason why the `abp` block cannot be used: missing, unknown kind, tools without name or description.

    `metadata` is the typed front matter, or the front matter as written. The typed one has already lost an unknown kind and
    tools without a name (row 000-19; reading reports them), so who wants to hear of those gives what was written.
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
        return metadata.get("abp"), _text(metadata.get("description"))
    abp = metadata.abp
    return ({"kind": abp.kind, "tools": list(abp.tools)} if abp else None), metadata.description.strip()


def _tool_errors(number: int, tool: object, description: str) -> list[str]:
    if not isinstance(tool, Mapping) or not (name := _text(tool.get("name"))):
        return [f"abp.tools[{number}] has no name"]
    if not _text(tool.get("description")) and not description:
        return [f"the tool {name[:80]!r} has no description, and neither has the skill"]
    return []


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
