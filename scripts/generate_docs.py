"""Write the generated parts of `docs/` again (`make docs`): each `--help`, tables of attacks and agents, the scanner's rules.

A generated part is the fenced block after a line `<!-- skillyard COMMAND --help -->`, or what lies between the two comments
about a table. Everything else is written by people. The Chinese pages get the same parts in Chinese, and the blocks of their
English twins.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/cli.md"
CODING_AGENTS = ROOT / "docs/coding-agents.md"
SCANNING = ROOT / "docs/scanning.md"
CHINESE_PAGE = ROOT / "docs/zh/cli.md"
CHINESE_SCANNING = ROOT / "docs/zh/scanning.md"
CHINESE_CODING_AGENTS = ROOT / "docs/zh/coding-agents.md"
_PART = re.compile(r"(?P<mark><!-- skillyard (?P<words>[^>\n]*?)--help -->)\n+```text\n.*?^```$", re.MULTILINE | re.DOTALL)
_RULES = re.compile(r"(?<=<!-- rules of the scanner -->\n).*?(?=<!-- end of the rules -->)", re.DOTALL)
_AGENTS = re.compile(r"(?<=<!-- table of the coding agents -->\n).*?(?=<!-- end of the coding agents -->)", re.DOTALL)


def help_of(words: str, language: str = "en") -> str:
    """What `skillyard WORDS --help` prints in a language into a pipe of 100 columns."""
    from skillyard.cli import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main(["--lang", language, *words.split(), "--help"])
    return printed.getvalue()


def generated(page: str, language: str = "en") -> str:
    """The page with every help on it written anew."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        return _PART.sub(lambda part: f"{part['mark']}\n\n```text\n{help_of(part['words'], language).rstrip()}\n```", page)
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def with_scanner_rules(page: str, chinese: Mapping[str, str] | None = None) -> str:
    """The page with the table of the scanner's rules written anew, in the words of `chinese` where it has them."""
    from skillyard.scanner import RULES, SUBJECTS

    said = chinese or {}
    columns = " | ".join(said.get(column, column) for column in ("Rule", "In a script", "In a text", "Finds", "Why"))
    lines = []
    for subject in SUBJECTS:
        named = said.get(subject, subject)
        lines += [f"\n**{named[0].upper()}{named[1:]}**\n", f"| {columns} |", "|---|---|---|---|---|"]
        for rule in RULES.values():
            if rule.subject == subject:
                title, why = said.get(rule.title, rule.title), said.get(rule.why, rule.why)
                lines.append(f"| `{rule.id}` | {rule.severity} | {rule.in_text or rule.severity} | {title} | {why} |")
    table = "\n".join(lines).strip()
    return _RULES.sub(lambda _: f"\n{table}\n\n", page)


def with_coding_agents(page: str, chinese: Mapping[str, str] | None = None) -> str:
    """The page with the table of the coding agents written anew, its columns in the words of `chinese`."""
    from skillyard.coding_agents import coding_agents

    said = chinese or {}
    columns = ("Agent", "Program", "Skills of the user", "Skills of a project", "MCP servers", "Tried")
    lines = [f"| {' | '.join(said.get(column, column) for column in columns)} |", f"|{'---|' * len(columns)}"]
    for agent in coding_agents({"HOME": "~", "PATH": ""}).values():
        files = ", ".join(f"`{_from_home(path)}`" for path in agent.mcp.files.values()) if agent.mcp else ""
        folders = f"`{_from_home(agent.user_skills)}` | `{agent.project_skills}`"
        lines.append(f"| `{agent.name}` | {agent.title} | {folders} | {files} | {agent.tried} |")
    table = "\n".join(lines)
    return _AGENTS.sub(lambda _: f"\n{table}\n\n", page)


def _from_home(path: str) -> str:
    """A path of the table, which begins with the folder that this program is in and `~`."""
    return path.removeprefix(f"{Path.cwd()}/")


if __name__ == "__main__":
    import abuse
    import chinese_docs

    abuse.PAGE.write_text(abuse.written(abuse.PAGE.read_text("utf-8")), "utf-8")
    SCANNING.write_text(with_scanner_rules(SCANNING.read_text("utf-8")), "utf-8")
    CODING_AGENTS.write_text(with_coding_agents(CODING_AGENTS.read_text("utf-8")), "utf-8")
    PAGE.write_text(generated(PAGE.read_text("utf-8")), "utf-8")
    for english, chinese in chinese_docs.twins().items():
        chinese.write_text(chinese_docs.copied(english.read_text("utf-8"), chinese.read_text("utf-8")), "utf-8")
    abuse.CHINESE_PAGE.write_text(abuse.written(abuse.CHINESE_PAGE.read_text("utf-8"), chinese_docs.texts("attacks")), "utf-8")
    CHINESE_SCANNING.write_text(with_scanner_rules(CHINESE_SCANNING.read_text("utf-8"), chinese_docs.texts("scanner")), "utf-8")
    CHINESE_CODING_AGENTS.write_text(
        with_coding_agents(CHINESE_CODING_AGENTS.read_text("utf-8"), chinese_docs.texts("coding agents")), "utf-8"
    )
    CHINESE_PAGE.write_text(generated(CHINESE_PAGE.read_text("utf-8"), "zh"), "utf-8")
