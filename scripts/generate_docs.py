"""Write the generated parts of `docs/` again: each `--help` in `docs/cli.md`, the table of `docs/security.md` (`make docs`).

A generated part is the fenced block after a line `<!-- skillyard COMMAND --help -->`, or what lies between the two comments
about the table of attacks. Everything else is written by people.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/cli.md"
_PART = re.compile(r"(?P<mark><!-- skillyard (?P<words>.*?)--help -->)\n+```text\n.*?^```$", re.MULTILINE | re.DOTALL)


def help_of(words: str) -> str:
    """What `skillyard WORDS --help` prints into a pipe of 100 columns."""
    from skillyard.cli import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main([*words.split(), "--help"])
    return printed.getvalue()


def generated(page: str) -> str:
    """The page with every generated part written anew."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        return _PART.sub(lambda part: f"{part['mark']}\n\n```text\n{help_of(part['words']).rstrip()}\n```", page)
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


if __name__ == "__main__":
    import abuse

    abuse.PAGE.write_text(abuse.written(abuse.PAGE.read_text("utf-8")), "utf-8")
    PAGE.write_text(generated(PAGE.read_text("utf-8")), "utf-8")
