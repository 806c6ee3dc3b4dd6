"""`python -m skillyard.interop`: check packages in a pipeline."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from skillyard.errors import SkillyardError
from skillyard.interop.package_checks import check_package, closing_line, report_lines
from skillyard.text import sanitize


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


if __name__ == "__main__":
    sys.exit(main())
