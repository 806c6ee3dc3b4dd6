"""The scripts that tests of the house look at."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@cache
def _script(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def abuse() -> ModuleType:
    """The script that knows the catalogue of attacks."""
    return _script("abuse")


@pytest.fixture(scope="session")
def chinese_docs() -> ModuleType:
    """The script that knows which Chinese page says what which English one says."""
    return _script("chinese_docs")


@pytest.fixture(scope="session")
def rows() -> ModuleType:
    """The script that knows which requirement rows have a test."""
    return _script("rows")
