"""The requirement rows and the tests speak of the same rows."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def _rows() -> ModuleType:
    specification = importlib.util.spec_from_file_location("rows", ROOT / "scripts/rows.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_every_row_a_test_names_is_a_requirement() -> None:
    rows = _rows()
    assert set(rows.marked_rows()) <= set(rows.required_rows())


def test_the_rows_of_finding_telling_and_loading_all_have_a_test() -> None:
    marked = set(_rows().marked_rows())
    owed = {f"001-{n}" for n in range(1, 29)} | {f"004-{n}" for n in range(1, 15)} | {f"000-{n}" for n in range(7, 25)}
    owed |= {"002-3", "003-5", "003-8", "003-9", "003-10", "C-3", "C-8", "C-9", "C-10", "C-11", "C-12", "C-13", "C-14"}
    owed |= {f"D-{n}" for n in (2, 5, 6, 10, 11, 15, 21, *range(23, 31))}
    assert sorted(owed - marked) == []


def test_the_lock_names_versions_and_no_addresses() -> None:
    lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    assert len(lines) > 50
    assert all("==" in line for line in lines)
    assert not [line for line in lines if "://" in line or " @ " in line or line.startswith("-")]
