"""The tools that skills declare for the ABP protocol, as functions of their own: which there are, and under which names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skillyard.errors import SkillyardError
from skillyard.paths import refuse_reserved
from skillyard.text import shorten, single_line
from skillyard.tools.definitions import ToolDefinition, service_schema
from skillyard.tools.results import sanitize_value

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.execution import AbpTool


FUNCTION_NAME_LIMIT: Final = 64  # what every API takes
_DESCRIPTION: Final = 1024
_HEAD: Final = 256 * 1024
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]+")


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """One tool of one skill; `function` is its name for APIs that take letters, digits, `_` and `-` only."""

    function: str
    tool: AbpTool
    skill: Skill

    def definition(self) -> ToolDefinition:
        """The tool as it is advertised to a model, with nothing invisible in what the skill wrote."""
        description = shorten(single_line(self.tool.description), _DESCRIPTION)
        return ToolDefinition(
            self.function,
            shorten(single_line(self.tool.name), FUNCTION_NAME_LIMIT),
            description or self.skill.label,
            read_only=False,
            category="skill",
            input_schema=service_schema(sanitize_value(self.tool.schema())),
        )


@dataclass(frozen=True, slots=True)
class DeclaredTools:
    """Every declared tool, by its function and by its own name."""

    by_function: Mapping[str, DeclaredTool] = field(default_factory=dict)
    by_name: Mapping[str, tuple[DeclaredTool, ...]] = field(default_factory=dict)


def gather_declared(skills: Collection[Skill], *, reserved: Collection[str]) -> DeclaredTools:
    """The tools of those of `skills` that speak ABP; no function gets a name of `reserved` or of another one."""
    from skillyard.execution import abp_tool_definitions

    by_function: dict[str, DeclaredTool] = {}
    by_name: dict[str, tuple[DeclaredTool, ...]] = {}
    for skill in skills:
        for tool in abp_tool_definitions(skill) if _speaks_abp(skill) else ():
            function = _function_name(tool.name, skill, {*reserved, *by_function})
            declared = DeclaredTool(function, tool, skill)
            by_function[function] = declared
            by_name[tool.name] = (*by_name.get(tool.name, ()), declared)
    return DeclaredTools(by_function, by_name)


def _speaks_abp(skill: Skill) -> bool:
    """Whether the skill declares the protocol; most do not mention it, and those need not be parsed."""
    try:
        refuse_reserved(skill.path)
        with open(skill.path, "rb") as file:  # noqa: PTH123 # thousands of skills
            if b"abp" not in file.read(_HEAD).lower():
                return False
        return skill.document().metadata.protocol == "abp"
    except (SkillyardError, OSError):
        return False


def _function_name(name: str, skill: Skill, taken: Collection[str]) -> str:
    plain = _NOT_IN_NAMES.sub("_", name).strip("_")[:FUNCTION_NAME_LIMIT]
    if plain and plain == name and plain not in taken:
        return plain
    longer = f"{skill.slug[:30]}_{plain}".rstrip("_")[:FUNCTION_NAME_LIMIT]
    if plain and longer not in taken:
        return longer
    mark = hashlib.sha256(f"{skill.id}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{longer[: FUNCTION_NAME_LIMIT - 9]}_{mark}"
