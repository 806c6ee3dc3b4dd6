"""Write the generated parts of `docs/` again (`make docs`): each `--help`, the table of attacks, the rules of the scanner.

A generated part is the fenced block after a line `<!-- skillyard COMMAND --help -->`, or what lies between the two comments
about a table. Everything else is written by people.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/cli.md"
SCANNING = ROOT / "docs/scanning.md"
_PART = re.compile(r"(?P<mark><!-- skillyard (?P<words>.*?)--help -->)\n+```text\n.*?^```$", re.MULTILINE | re.DOTALL)
_RULES = re.compile(r"(?<=<!-- rules of the scanner -->\n).*?(?=<!-- end of the rules -->)", re.DOTALL)


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


def with_scanner_rules(page: str) -> str:
    """The page with the table of the scanner's rules written anew."""
    from skillyard.scanner import RULES, SUBJECTS

    lines = []
    for subject in SUBJECTS:
        lines += [
            f"\n**{subject[0].upper()}{subject[1:]}**\n",
            "| Rule | In a script | In a text | Finds | Why |",
            "|---|---|---|---|---|",
        ]
        for rule in RULES.values():
            if rule.subject == subject:
                lines.append(f"| `{rule.id}` | {rule.severity} | {rule.in_text or rule.severity} | {rule.title} | {rule.why} |")
    table = "\n".join(lines).strip()
    return _RULES.sub(lambda _: f"\n{table}\n\n", page)


if __name__ == "__main__":
    import abuse

    abuse.PAGE.write_text(abuse.written(abuse.PAGE.read_text("utf-8")), "utf-8")
    SCANNING.write_text(with_scanner_rules(SCANNING.read_text("utf-8")), "utf-8")
    PAGE.write_text(generated(PAGE.read_text("utf-8")), "utf-8")
