"""The benchmarks fit the code: each is imported, those that take options say which, and what is written about them is there.

`mypy` holds their calls (`files` in `pyproject.toml`); nothing is measured here.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FOLDER.rglob("*.py") if path.stem != "sitecustomize"
)
PROGRAMS = {name.removesuffix(".__main__") for name in MODULES}


def test_every_benchmark_is_imported_and_says_its_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    helped = []
    for name in MODULES:
        module = importlib.import_module(name)
        if not hasattr(module, "main") or not hasattr(module, "argparse"):
            continue
        monkeypatch.setattr(sys, "argv", [name, "--help"])
        with pytest.raises(SystemExit, match=r"^0$"):
            module.main()
        assert capsys.readouterr().out.startswith("usage: "), name
        helped.append(name)
    assert len(MODULES) > 50
    assert len(helped) > 10


def test_the_commands_that_are_written_down_are_modules() -> None:
    places = [ROOT / "Makefile", *FOLDER.rglob("*.md"), *FOLDER.rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    named = {name for place in places for name in re.findall(r"-m (benchmarks\.[a-z_.]*[a-z])", place.read_text("utf-8"))}
    assert len(named) > 15
    assert named - PROGRAMS == set()
