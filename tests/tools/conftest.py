"""Catalogs of real folders, and tools over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skillyard.catalog import SkillCatalog
from skillyard.tools import SkillTools


@pytest.fixture
def catalog(skills_root: Path) -> Callable[[], SkillCatalog]:
    """The catalog of the test's folder of skills, as it is now."""
    return lambda: SkillCatalog.discover(roots=[skills_root], cache=False)


@pytest.fixture
def tools(catalog: Callable[[], SkillCatalog]) -> Callable[..., SkillTools]:
    """Tools over the test's folder of skills; takes the options of `SkillTools`."""
    return lambda **options: SkillTools(catalog(), **options)
