"""The requirement rows and the tests speak of the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.xdist_group("the whole source")  # one process parses it
ROOT = Path(__file__).resolve().parents[2]


def test_every_row_a_test_names_is_a_requirement(rows: ModuleType) -> None:
    assert set(rows.marked_rows()) <= set(rows.required_rows())


def test_the_rows_of_finding_telling_and_loading_all_have_a_test(rows: ModuleType) -> None:
    marked = set(rows.marked_rows())
    owed = {f"001-{n}" for n in range(1, 29)} | {f"004-{n}" for n in range(1, 15)} | {f"000-{n}" for n in range(7, 25)}
    owed |= {"002-3", "003-5", "003-8", "003-9", "003-10", "C-3", "C-8", "C-9", "C-10", "C-11", "C-12", "C-13", "C-14"}
    owed |= {f"D-{n}" for n in (2, 5, 6, 10, 11, 15, 21, *range(23, 31))}
    assert sorted(owed - marked) == []


def test_the_state_of_a_row_says_where_tests_show_it(rows: ModuleType) -> None:
    assert rows.state([]) == "open"
    assert rows.state(["tests/catalog/test_a.py::test_b"]) == "part"
    tests = ["tests/mcp/test_a.py::test_b", "tests/cli/test_a.py::test_b", "tests/engine/test_a.py::test_b"]
    assert (rows.state(tests), rows.interfaces(tests)) == ("ok", ["CLI", "MCP", "parts"])


def _lock(name: str) -> list[str]:
    return (ROOT / name).read_text("utf-8").splitlines()


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_names_versions_and_no_addresses(name: str) -> None:
    lines = _lock(name)
    assert len(lines) > 50
    assert all("==" in line for line in lines)
    assert not [line for line in lines if "://" in line or " @ " in line or line.startswith("-")]


def test_what_a_server_needs_is_a_part_of_what_development_needs_in_the_same_versions() -> None:
    runtime, development = set(_lock("requirements.lock")), set(_lock("requirements-dev.lock"))
    assert sorted(runtime - development) == []
    assert len(runtime) < len(development) / 2
    assert not [line for line in runtime if line.startswith(("pytest", "ruff", "mypy", "hypothesis"))]


def test_the_lock_of_the_page_names_no_addresses_and_installs_what_checks_it_apart() -> None:
    lock = json.loads((ROOT / "web/package-lock.json").read_text("utf-8"))["packages"]
    assert not [name for name, entry in lock.items() if "resolved" in entry]
    checks = {name for name, entry in lock.items() if entry.get("dev")}
    assert {"node_modules/vitest", "node_modules/eslint", "node_modules/typescript", "node_modules/jsdom"} <= checks
    assert not {"node_modules/vite", "node_modules/react"} & checks
    assert len(checks) > len(lock) / 2
