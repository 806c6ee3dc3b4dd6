"""Modules that take long to import: every process collects all tests, and runs some of them."""

from __future__ import annotations

import importlib
from typing import Any


class Lazily:
    """A module that is imported when something of it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest looks for marks of its own
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)
