"""The command that prints the tables about search: all of them from a folder of collections, and a stopped run goes on."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks.search import __main__ as command
from benchmarks.search import report
from benchmarks.search.kept import Kept
from benchmarks.search.methods import METHODS

ROOT = Path(__file__).parents[2]
TEXTS = {
    "pdf-forms": "Fill in the fields of a PDF form",
    "bread": "Bake bread with sourdough and rye",
    "sql-plans": "Explain why a database query is slow",
}


@pytest.fixture
def collections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = tmp_path / "collections"
    for name, description in TEXTS.items():
        folder = top / "some+skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\n\nHow to do it.\n", "utf-8")
    lines = [
        {"query": "my sourdough bread does not rise", "skill": "some+skills/bread/SKILL.md", "kind": "evals"},
        {"query": "this database query takes minutes", "skill": "some+skills/sql-plans/SKILL.md", "kind": "evals"},
    ]
    (top / "natural.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    for module in (command, report):
        monkeypatch.setattr(module, "installed", lambda needs: not needs)
    return top


def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object) -> str:
    monkeypatch.setattr(sys, "argv", ["benchmarks.search", *map(str, arguments)])
    assert command.main() == 0
    return capsys.readouterr().out


def test_one_command_prints_every_method_and_a_second_run_takes_what_is_kept(
    collections: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (collections, "--also", collections, "--skills", 2, "--keep", tmp_path / "kept")
    first = printed(capsys, monkeypatch, *arguments)
    assert "not measured: BM25 with fields: pip install bm25s PyStemmer" in first
    assert "2 of 3 skills; requests: 2 natural" in first
    heads = [line for line in first.splitlines() if line.startswith(("| **skillyard**", "| SQLite FTS5"))]
    assert len(heads) == 6  # by kind, among all, and among those of the other folder
    assert all("| 100.0/100.0/100.0 [100–100] |" in line for line in heads)
    assert first.count("| ahead of the best other, points | +0.0/+0.0/+0.0 |") == 3

    def fails(_: object) -> None:
        raise AssertionError("asked again")

    methods = dict(METHODS)
    for name in methods:
        monkeypatch.setitem(METHODS, name, (fails, methods[name][1]))
    assert printed(capsys, monkeypatch, *arguments) == first
    (collections / "some+skills" / "bread" / "rye.md").touch()
    with pytest.raises(AssertionError, match="asked again"):
        printed(capsys, monkeypatch, *arguments)


def test_a_result_is_kept_for_what_it_was_made_from(tmp_path: Path) -> None:
    code = tmp_path / "step.py"
    code.write_text("1", "utf-8")
    kept = Kept(tmp_path / "kept", "options").after(code)
    assert [kept.get("one/two", lambda value=value: value) for value in (1, 2)] == [1, 1]
    assert Kept(tmp_path / "kept", "other options").after(code).get("one/two", lambda: 3) == 3
    code.write_text("2", "utf-8")
    assert Kept(tmp_path / "kept", "options").after(code).get("one/two", lambda: 4) == 4
    assert [Kept(None).get("one", lambda value=value: value) for value in (1, 2)] == [1, 2]


@pytest.mark.parametrize("page", ["search.md", "search-measurements.md"])
def test_both_languages_have_the_same_figures(page: str) -> None:
    def rows(text: str) -> list[list[str]]:
        figures = [re.findall(r"\d+(?:\.\d+)?", line.partition("|")[2].partition("|")[2]) for line in text.splitlines()]
        return [
            sorted(row) for line, row in zip(text.splitlines(), figures, strict=True) if line.startswith("|") and len(row) > 2
        ]

    english, chinese = (rows((ROOT / "docs" / place / page).read_text("utf-8")) for place in ("", "zh"))
    assert english
    assert english == chinese
