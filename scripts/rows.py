"""Print the state of each requirement row and the interfaces at which a test shows it: `make rows`.

Exits 1 when a test names a row that does not exist.
"""

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


INTERFACES = {
    "cli": "CLI",
    "server": "HTTP",
    "web": "page",
    "mcp": "MCP",
    "conversations": "chat",
    "tools": "tools",
    "library": "library",
}
"""The interface that the tests of a folder use; those of every other folder use the parts of the library themselves."""


def interfaces(tests: list[str]) -> list[str]:
    """The interfaces that these tests (`tests/folder/file::test`) use, in their order; `parts` when it is none."""
    used = {INTERFACES.get(Path(test).parts[1], "parts") for test in tests}
    return [name for name in (*INTERFACES.values(), "parts") if name in used]


def state(tests: list[str]) -> str:
    """`ok` where a test uses an interface, `part` where tests show only the parts below, `open` without a test."""
    if not tests:
        return "open"
    return "part" if interfaces(tests) == ["parts"] else "ok"


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
        sys.stdout.write(
            f"{state(tests):4} {row:7} {len(tests):3}  {sentence}  [{', '.join(interfaces(tests)) or 'no test'}]\n"
        )
    states = [state(marked.get(row, [])) for row in required]
    sys.stdout.write(
        f"\n{len(required) - states.count('open')} of {len(required)} rows have a test, {states.count('ok')} at an interface\n"
    )
    unknown = sorted(set(marked) - set(required))
    for row in unknown:
        sys.stdout.write(f"unknown row {row}: {', '.join(marked[row])}\n")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
