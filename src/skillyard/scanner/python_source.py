"""Python as a tree: parsed within bounds, every call with the dotted name of what is called."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from skillyard.scanner.source import Source

__all__ = ["PythonFile", "constant_text", "parse_python", "root_of", "walk_some"]

_MOST_NODES: Final = 150_000
_DEEPEST_NAME: Final = 12
_MOST_LOOKED_AT: Final = 1_000


@dataclass(frozen=True)
class PythonFile:
    """A parsed source."""

    source: Source
    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    """Every node of the tree, those further up first."""
    names: dict[str, str] = field(default_factory=dict)
    """What a name in the file stands for: an imported module or function, or a builtin that was given another name."""

    def name_of(self, node: ast.expr) -> str:
        """The dotted name of what is called or read, such as `os.environ.get`; empty when it is no plain name."""
        parts: list[str] = []
        while len(parts) < _DEEPEST_NAME:
            if isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
            elif isinstance(node, ast.Name):
                parts.append(self.names.get(node.id, node.id))
                return ".".join(reversed(parts))
            elif isinstance(node, ast.Call) and (module := _imported_by(node)):
                parts.append(module)
                return ".".join(reversed(parts))
            else:
                return ""
        return ""

    def offset(self, node: ast.expr | ast.stmt) -> int:
        """Where a node begins; columns count bytes of UTF-8, which is near enough to show a line."""
        return self.source.offset_of(node.lineno, node.col_offset)


def parse_python(source: Source) -> PythonFile | None:
    """The source as a tree; None when it is no Python of this version, is nested too deeply or is too long."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes = tuple(islice(ast.walk(tree), _MOST_NODES + 1))
    return PythonFile(source, tree, nodes, _names(nodes)) if len(nodes) <= _MOST_NODES else None


def walk_some(node: ast.AST) -> Iterator[ast.AST]:
    """The first nodes of a tree, enough for anything that a person writes."""
    return islice(ast.walk(node), _MOST_LOOKED_AT)


def constant_text(node: ast.AST | None) -> str | None:
    """The text of a constant, of text or bytes; None for anything else."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return node.value
        if isinstance(node.value, bytes):
            return node.value.decode("latin-1")
    return None


def root_of(name: str) -> str:
    """The first part of a dotted name."""
    return name.partition(".")[0]


def _imported_by(call: ast.Call) -> str | None:
    """The module in `__import__("os")` and `importlib.import_module("os")`."""
    function = call.func
    known = (isinstance(function, ast.Name) and function.id in ("__import__", "import_module")) or (
        isinstance(function, ast.Attribute) and function.attr == "import_module"
    )
    return constant_text(call.args[0]) if known and call.args else None


def _names(nodes: tuple[ast.AST, ...]) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module or ''}.{alias.name}".lstrip(".") for alias in node.names}
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if isinstance(node.value, ast.Name) and node.value.id in ("eval", "exec", "compile", "__import__", "getattr"):
                names[node.targets[0].id] = node.value.id
            elif isinstance(node.value, ast.Call) and (module := _imported_by(node.value)):
                names[node.targets[0].id] = module
    return names
