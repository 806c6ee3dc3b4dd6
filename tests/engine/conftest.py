"""Real skills, the real sandbox, and records in every database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog, Executor, Skill
from skillyard.engine import LocalEngine, PoolEngine, Records

Write = Callable[..., Skill]


@pytest.fixture
def write(skills_root: Path, make_skill: Any) -> Write:
    """Give a function that writes a skill with that script and returns it as the catalog sees it."""

    def skill(script: str, name: str = "example", header: str = "") -> Skill:
        front_matter = f"name: {name}\ndescription: Does one thing. Use when a test runs.\n{header}"
        make_skill(skills_root, name, front_matter=front_matter, files={"scripts/execute.py": script})
        return Catalog.discover(roots=[skills_root], cache=False).get(name)

    return skill


@pytest.fixture
def records(database_address: str, tmp_path: Path) -> Iterator[Records]:
    """Empty records, once in each database."""
    opened = Records(str(tmp_path), database_address)
    yield opened
    opened.close()


@pytest.fixture(params=["local", "pools"])
def engine(request: pytest.FixtureRequest, records: Records) -> LocalEngine | PoolEngine:
    """Each engine over them: every run that does not go to a pool is the same in both."""
    local = LocalEngine(Executor(), records)
    return local if request.param == "local" else PoolEngine(local, records)
