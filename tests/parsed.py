"""Python files of the project as syntax trees; a process parses each of them once, however many tests look at it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

__all__ = ["parsed", "source_trees"]


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file; nobody changes it."""
    return ast.parse(path.read_text("utf-8"))


@cache
def source_trees() -> dict[str, ast.Module]:
    """The tree of each module of Skillyard, by its path in the package."""
    import skillyard

    source = Path(skillyard.__file__).parent
    return {path.relative_to(source).as_posix(): parsed(path) for path in sorted(source.rglob("*.py"))}
