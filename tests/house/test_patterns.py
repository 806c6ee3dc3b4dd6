"""No pattern of the code takes time that grows faster than the text: strangers choose the text."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pattern_growth import Subject, super_linear

import skillyard

_SOURCE = Path(skillyard.__file__).parent
_CALLS = {"compile", "search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn"}


def _modules() -> Iterator[str]:
    for found in pkgutil.walk_packages([str(_SOURCE)], "skillyard."):
        if not found.name.endswith("__main__"):
            yield found.name


def _patterns_in(value: object, depth: int = 4) -> Iterator[re.Pattern[str] | re.Pattern[bytes]]:
    """The compiled patterns in a value and in what it holds."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth and dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _patterns_in(getattr(value, field.name, None), depth - 1)
    elif depth and isinstance(value, dict):
        for inner in value.values():
            yield from _patterns_in(inner, depth - 1)
    elif depth and isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from _patterns_in(inner, depth - 1)


def _uses(tree: ast.Module) -> dict[str, set[str]]:
    """How a module uses each name: the methods called on it; `search` where it is handed on."""
    uses: dict[str, set[str]] = {}
    called: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called.add(id(node.value))
            uses.setdefault(node.value.id, set()).add(node.attr)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in called:
            uses.setdefault(node.id, set()).add("search")
    return uses


def _use(methods: set[str]) -> str:
    methods = methods - {"pattern", "flags"}
    if methods and methods <= {"fullmatch"}:
        return "fullmatch"
    return "match" if methods and methods <= {"fullmatch", "match"} else "search"
