#!/usr/bin/env python3
"""Summarises a CSV table: a JSON document on standard input, or the path of a file as the only argument."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

NUMBER = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:[eE][+-]?\d+)?%?")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
BOOLEANS = frozenset({"true", "false", "yes", "no"})


def main(arguments: list[str]) -> int:
    parameters = {"csv": Path(arguments[0]).read_text("utf-8-sig")} if arguments else read_request()
    if not isinstance(parameters.get("csv"), str):
        print("the input needs `csv`, the text of the table", file=sys.stderr)
        return 1
    text = parameters["csv"].removeprefix("\ufeff")
    answer(summarize(text, parameters.get("delimiter"), header=parameters.get("header", True), top=parameters.get("top", 3)))
    return 0


def read_request() -> dict:
    request = json.load(sys.stdin)
    return request.get("input", request)


def answer(result: dict) -> None:
    """Give the result to whoever runs the skill, or print it when that is a person."""
    text = json.dumps(result, ensure_ascii=False)
    channel = os.environ.get("SKILL_RESULT_FD")
    if channel is None:
        print(text)
        return
    with os.fdopen(int(channel), "w", encoding="utf-8") as pipe:
        pipe.write(text)


def summarize(text: str, delimiter: str | None, *, header: bool, top: int) -> dict:
    delimiter = delimiter or guess_delimiter(text)
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    if not rows:
        return {"rows": 0, "delimiter": delimiter, "ragged_rows": [], "columns": []}
    names = rows.pop(0) if header else [f"column {number}" for number in range(1, len(rows[0]) + 1)]
    ragged = [number for number, row in enumerate(rows, 1) if len(row) != len(names)]
    columns = [describe(name.strip(), [cell(row, index) for row in rows], top) for index, name in enumerate(names)]
    return {"rows": len(rows), "delimiter": delimiter, "ragged_rows": ragged[:10], "columns": columns}


def guess_delimiter(text: str) -> str:
    """The delimiter that cuts the first lines into the same, largest number of cells."""
    lines = text.splitlines()[:20]

    def evenness(delimiter: str) -> tuple[float, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        common, times = Counter(counts).most_common(1)[0] if counts else (1, 0)
        return (times / len(counts) if common > 1 else 0.0, common)

    return max((",", ";", "\t", "|"), key=evenness)


def cell(row: list[str], index: int) -> str:
    return row[index].strip() if index < len(row) else ""


def describe(name: str, cells: list[str], top: int) -> dict:
    filled = [value for value in cells if value]
    shape: dict = {"name": name, "kind": kind_of(filled), "filled": len(filled), "blank": len(cells) - len(filled)}
    if shape["kind"] == "number":
        numbers = [as_number(value) for value in filled]
        total = round(sum(numbers), 6)
        mean = round(total / len(numbers), 6)
        return shape | {"minimum": min(numbers), "maximum": max(numbers), "mean": tidy(mean), "sum": tidy(total)}
    if shape["kind"] == "date":
        return shape | {"minimum": min(filled), "maximum": max(filled)}
    counts = Counter(filled)
    return shape | {"distinct": len(counts), "top": [list(pair) for pair in counts.most_common(top)]}


def kind_of(values: list[str]) -> str:
    if not values:
        return "empty"
    if all(NUMBER.fullmatch(value) for value in values):
        return "number"
    if all(DATE.fullmatch(value) for value in values):
        return "date"
    return "boolean" if all(value.lower() in BOOLEANS for value in values) else "text"


def as_number(value: str) -> float | int:
    number = float(value.rstrip("%").replace(",", ""))
    return tidy(number / 100 if value.endswith("%") else number)


def tidy(number: float) -> float | int:
    return int(number) if float(number).is_integer() else number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
