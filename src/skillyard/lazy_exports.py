"""Names of a package that are imported when they are first used (PEP 562), so that a command pays only for what it needs.

`lazy_loader` on PyPI does the same, but imports `ast` and `inspect` first: more than all of `skillyard --help`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence


def lazy_exports(package: str, modules: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose `modules` have these names; type checkers read its imports instead.

    ::

        __getattr__, __dir__ = lazy_exports(__name__, {"engine": ("Engine", "Runner")})
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value: object = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next use finds it without coming here
        return value

    return get, lambda: sorted(sys.modules[package].__all__)
