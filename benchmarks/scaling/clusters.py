"""A PostgreSQL server that does not wait for the disk: figures of it are those of processors and indexes."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["postgresql"]

ROOT = Path(__file__).parents[2]


@contextmanager
def postgresql() -> Iterator[str]:
    """The URL of an empty database on a server of its own."""
    specification = importlib.util.spec_from_file_location("scaling_postgresql", ROOT / "tests/postgresql.py")
    assert specification is not None
    assert specification.loader is not None
    module: Any = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    with module.server() as server, module.database_of(server) as url:
        yield url
