"""The shape of the modules: how many, how long, for whom, and no class name twice."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import Final

import grimp
import pytest
from parsed import source_trees

import skillyard

pytestmark = pytest.mark.xdist_group("the whole source")  # one process parses it
SOURCE = Path(skillyard.__file__).parent
MODULES = {
    ".".join(("skillyard", *path.relative_to(SOURCE).with_suffix("").parts)): path.read_text("utf-8")
    for path in sorted(SOURCE.rglob("*.py"))
}
SHORT: Final = 120  # lines; a shorter module that one other imports is a part of that one
SEAMS: Final = {  # short modules that exactly one other imports, and why they stand alone
    "skillyard.offload.helper": "the program of a helper process",
}


def test_there_are_few_modules_and_none_is_long() -> None:
    assert 300 < len(MODULES) <= 400, "merge modules that belong together"
    assert sum(len(text.splitlines()) for text in MODULES.values()) / len(MODULES) > 210, "merge modules that belong together"
    assert {name: count for name, text in MODULES.items() if (count := len(text.splitlines())) > 600} == {}


def test_no_two_modules_have_the_same_name() -> None:
    where = defaultdict(list)
    for module in MODULES:
        package = module.removesuffix(".__init__")
        name = package.rpartition(".")[2]
        if name != "__main__" and not module.endswith(f".{name}.{name}"):  # `workspace.workspace` has the class of its package
            where[name].append(module)
    assert len(where) > 300
    assert {name: modules for name, modules in where.items() if len(modules) > 1} == {}


def test_no_two_classes_have_the_same_name() -> None:
    modules = defaultdict(list)
    for path, tree in source_trees().items():
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef):
                modules[statement.name].append(path)
    assert len(modules) > 500
    assert {name: where for name, where in modules.items() if len(where) > 1} == {}


def test_a_short_module_is_imported_by_more_than_one_other() -> None:
    graph = grimp.build_graph("skillyard", cache_dir=None)
    lonely = {}
    for module, text in MODULES.items():
        if module not in graph.modules or len(text.splitlines()) > SHORT:  # a package, or a program that is read as a file
            continue
        importers = graph.find_modules_that_directly_import(module) - {module.rpartition(".")[0]}
        if len(importers) == 1:
            lonely[module] = importers
    assert {module: importers for module, importers in lonely.items() if module not in SEAMS} == {}
    assert {module for module in SEAMS if module not in lonely} == set()  # a seam that is none any more
