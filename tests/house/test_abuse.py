"""The catalogue of attacks is whole: every case has a test, in every sandbox that claims it, and the page says so."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.xdist_group("the whole source")  # one process parses it
ROOT = Path(__file__).resolve().parents[2]
COUNTS = {"A": 20, "B": 25, "C": 12, "D": 24, "E": 9, "F": 31, "G": 23, "H": 18, "I": 14}


def test_the_table_on_the_page_is_todays(abuse: ModuleType) -> None:
    page = abuse.PAGE.read_text("utf-8")
    assert abuse.written(page) == page, "run `make docs`"
    assert abuse.written(page.replace("| A1 |", "| A0 |")) == page


def test_every_case_has_a_test_or_nothing_to_attack(abuse: ModuleType) -> None:
    wanted = {f"{letter}{number}" for letter, count in COUNTS.items() for number in range(1, count + 1)}
    nothing = set(abuse.catalogue()["nothing_to_attack"])
    assert set(abuse.cases()) | nothing == wanted
    assert set(abuse.marked()) == wanted - nothing


def test_every_case_of_a_run_is_shown_in_each_sandbox_that_claims_it(abuse: ModuleType) -> None:
    only, outside = abuse.catalogue()["only"], set(abuse.catalogue()["outside"]["cases"])
    for case, tests in abuse.marked().items():
        if case[0] not in "FGH" and case not in outside:
            backends = {name for test in tests for name in test.backends}
            assert backends >= (set(only[case].split(", ")) if case in only else {"bwrap", "landlock", "container"}), case


def test_no_attack_is_left_out(abuse: ModuleType) -> None:
    assert sum(map(len, abuse.marked().values())) > 200
    for tests in abuse.marked().values():
        for test in tests:
            words = {ast.unparse(node) for node in ast.walk(test.function) if isinstance(node, ast.Attribute)}
            assert not {word for word in words if word.endswith((".skip", ".skipif", ".xfail", ".importorskip"))}, test.name


def test_an_attack_that_is_skipped_all_the_same_fails(tmp_path: Path) -> None:
    for shared in (ROOT / "tests").glob("[!t]*.py"):
        (tmp_path / shared.name).write_text(shared.read_text("utf-8"), "utf-8")
    (tmp_path / "test_x.py").write_text(
        "import pytest\n\n@pytest.mark.abuse('A1')\ndef test_x():\n    pytest.skip('no program')\n", "utf-8"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"]
    command += [f"--basetemp={tmp_path / 'temporary'}", str(tmp_path)]  # it would remove what earlier runs have left
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "an attack of the catalogue was skipped" in done.stdout
