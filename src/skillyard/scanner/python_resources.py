"""What Python does that eats a machine: loops without end, very large amounts of memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from skillyard.scanner.python_source import PythonFile, constant_text, walk_some
from skillyard.scanner.source import Hit

__all__ = ["endless_loops", "huge_allocations"]

_LARGE: Final = 10**7


def endless_loops(file: PythonFile) -> Iterator[Hit]:
    """`while True` that nothing leaves and that never waits; inside `try` an error may be what leaves it."""
    tried = {id(inner) for node in file.nodes if isinstance(node, ast.Try) for part in node.body for inner in walk_some(part)}
    for node in file.nodes:
        if (
            isinstance(node, ast.While)
            and isinstance(node.test, ast.Constant)
            and node.test.value
            and not _leaves(node)
            and id(node) not in tried
        ):
            yield Hit("endless-loop", file.offset(node))


def _leaves(loop: ast.While) -> bool:
    todo: list[tuple[ast.AST, bool]] = [(child, False) for child in loop.body]
    while todo:
        node, inner = todo.pop()
        if isinstance(node, ast.Return | ast.Raise | ast.Yield | ast.YieldFrom | ast.Await) or (
            isinstance(node, ast.Break) and not inner
        ):
            return True
        if isinstance(node, ast.Call) and _waits(node):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = inner or isinstance(node, ast.For | ast.While | ast.AsyncFor)
            todo += [(child, inside) for child in ast.iter_child_nodes(node)]
    return False


_WAITING: Final = frozenset((
    "sleep", "wait", "get", "recv", "accept", "read", "readline", "select", "poll", "input", "exit", "_exit", "join", "acquire", "listen", "handle_request",
    "next", "run", "check_output", "call", "recvfrom", "quit", "tick", "send", "post",
))  # fmt: skip


def _waits(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""
    return name in _WAITING


def huge_allocations(file: PythonFile) -> Iterator[Hit]:
    """`[0] * 10**9`, `range` of it made a list, `bytearray` of it."""
    for node in file.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            pair = (node.left, node.right)
            repeated = any(isinstance(side, ast.List) or isinstance(constant_text(side), str) for side in pair)
            if repeated and any(_size(side) >= _LARGE for side in pair):
                yield Hit("huge-allocation", file.offset(node))
        elif isinstance(node, ast.Call) and file.name_of(node.func) in ("bytearray", "bytes", "os.urandom"):
            if node.args and _size(node.args[0]) >= 10 * _LARGE:
                yield Hit("huge-allocation", file.offset(node))
        elif isinstance(node, ast.ListComp):
            source = node.generators[0].iter
            counted = isinstance(source, ast.Call) and file.name_of(source.func) == "range" and source.args
            if counted and isinstance(source, ast.Call) and _size(source.args[-1]) >= _LARGE:
                yield Hit("huge-allocation", file.offset(node))


def _size(node: ast.AST, depth: int = 0) -> int:
    """A number written as one, as a product or as a power; 0 for anything else."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return min(node.value, 10**18)
    if depth < 6 and isinstance(node, ast.BinOp):
        left, right = _size(node.left, depth + 1), _size(node.right, depth + 1)
        if isinstance(node.op, ast.Mult):
            return min(left * right, 10**18)
        if isinstance(node.op, ast.Pow):
            return 10**18 if right > 64 and left > 1 else min(left ** max(min(right, 64), 0), 10**18)
    return 0
