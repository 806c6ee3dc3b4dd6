"""Print which requirement rows have a test: `make rows`. Exits 1 when a test names a row that does not exist."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_ROW = re.compile(r"^\| ((?:\d{3}|[CD])-\d+) \| (.+) \|$", re.MULTILINE)


def required_rows() -> dict[str, str]:
    """The rows of `docs/requirements.md`: id to sentence."""
    return dict(_ROW.findall((ROOT / "docs/requirements.md").read_text("utf-8")))


@cache
def marked_rows() -> dict[str, list[str]]:
    """The rows that tests name: id to `file::test`."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for row in _rows_of(node.decorator_list):
                    found[row].append(f"{file.relative_to(ROOT)}::{node.name}")
    return found


def _rows_of(decorators: list[ast.expr]) -> list[str]:
    return [
        str(argument.value)
        for call in decorators
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("mark.row")
        for argument in call.args
        if isinstance(argument, ast.Constant)
    ]


def main() -> int:
    """Print the table and the totals."""
    required, marked = required_rows(), marked_rows()
    for row, sentence in required.items():
        tests = marked.get(row, [])
        sys.stdout.write(f"{'ok  ' if tests else 'open'} {row:7} {len(tests):3}  {sentence}\n")
    covered = sum(row in marked for row in required)
    sys.stdout.write(f"\n{covered} of {len(required)} rows have a test\n")
    unknown = sorted(set(marked) - set(required))
    for row in unknown:
        sys.stdout.write(f"unknown row {row}: {', '.join(marked[row])}\n")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
