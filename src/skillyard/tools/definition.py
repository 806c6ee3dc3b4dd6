"""A tool as it is advertised to a model, in the dialect of each API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from skillyard.tools.arguments import Parameter

__all__ = ["Dialect", "ToolDefinition"]

Dialect = Literal["openai", "anthropic", "mcp"]


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """One tool: its name, what it is for, what it takes.

    `read_only` tools change nothing and run no code, so a host may execute them without asking (`auto_execute`). `closed` adds
    `additionalProperties: false` to the schema.
    """

    name: str
    title: str
    description: str
    parameters: tuple[Parameter, ...] = ()
    read_only: bool = True
    closed: bool = True
    category: str = "builtin"
    input_schema: Mapping[str, object] | None = field(default=None, hash=False)
    """The schema when it is not made of `parameters`: that of a tool a skill declares."""

    @property
    def auto_execute(self) -> bool:
        """Whether a host may run this tool without asking a person (row 001-14)."""
        return self.read_only

    def schema(self) -> dict[str, object]:
        """The JSON Schema of the arguments."""
        if self.input_schema is not None:
            return dict(self.input_schema)
        shape: dict[str, object] = {
            "type": "object",
            "properties": {parameter.name: parameter.schema() for parameter in self.parameters},
            "required": [parameter.name for parameter in self.parameters if parameter.required],
        }
        if self.closed:
            shape["additionalProperties"] = False
        return shape

    def to_dict(self, dialect: Dialect) -> dict[str, object]:
        """The definition as the API of `dialect` wants it in its list of tools."""
        match dialect:
            case "openai":
                function = {"name": self.name, "description": self.description, "parameters": self.schema()}
                return {"type": "function", "function": function}
            case "anthropic":
                return {"name": self.name, "description": self.description, "input_schema": self.schema()}
            case "mcp":
                shape: dict[str, object] = {"name": self.name, "title": self.title, "description": self.description}
                return shape | {"inputSchema": self.schema(), "annotations": self._annotations()}

    def _annotations(self) -> dict[str, object]:
        return {
            "title": self.title,
            "readOnlyHint": self.read_only,
            "destructiveHint": False,
            "idempotentHint": self.read_only,
            "openWorldHint": False,
        }
