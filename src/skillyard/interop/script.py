"""The package checks as a script for pipelines: `python -m skillyard.interop PACKAGE …` (row 002-17)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from skillyard.errors import SkillyardError
from skillyard.interop.structure import PackageCheck, check_package
from skillyard.text import sanitize

__all__ = ["closing_line", "main", "report_lines"]

_FRAME: Final = "=" * 60


def report_lines(check: PackageCheck) -> Iterator[str]:
    """The report on one package, for people."""
    structure, compatibility = check.structure, check.compatibility
    yield _FRAME
    yield f"{check.path}: {'valid' if check.ok else 'not valid'}"
    yield _FRAME
    yield from (f"error: {message}" for message in structure.errors)
    yield from (f"warning: {message}" for message in structure.warnings)
    yield from (f"note: {message}" for message in compatibility.issues)
    answers = {"anthropic": compatibility.anthropic, "codex": compatibility.codex, "semibot": compatibility.semibot}
    yield "protocols: " + ", ".join(f"{name} {'yes' if fits else 'no'}" for name, fits in answers.items())
    yield f"{structure.file_count:,} files, {structure.total_size_bytes:,} bytes, entry {structure.entry_file or 'none'}"


def closing_line(checks: Sequence[PackageCheck]) -> str:
    """How many of the packages can be used."""
    noun = "package is" if len(checks) == 1 else "packages are"
    return f"{sum(check.ok for check in checks)} of {len(checks)} {noun} valid"


def main(arguments: Sequence[str] | None = None) -> int:
    """Check each package named; 0 when all are valid, 1 when one is not, 2 when none is named or one cannot be found."""
    folders = list(sys.argv[1:] if arguments is None else arguments)
    if not folders or any(folder.startswith("-") for folder in folders):
        sys.stderr.write("usage: python -m skillyard.interop PACKAGE [PACKAGE ...]\n")
        return 2
    try:
        checks = [check_package(folder) for folder in folders]
    except SkillyardError as error:
        sys.stderr.write(f"error: {sanitize(error.message)}\nhint: {error.hint}\n")
        return 2
    for check in checks:
        sys.stdout.write("".join(sanitize(line) + "\n" for line in report_lines(check)))
    sys.stdout.write(closing_line(checks) + "\n")
    return 0 if all(check.ok for check in checks) else 1
