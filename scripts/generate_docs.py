"""Write the generated parts of `docs/` again (`make docs`): every `--help`, tables of attacks and agents, rules of both checks.

A generated part is the fenced block after a line `<!-- skillyard COMMAND --help -->` (the common options are shown once, with
the help of the program), the part between the two comments about a table, or the title, the fix and the severities of a rule
of `check`. Everything else is written by people. The Chinese pages get the same parts in Chinese, and the blocks of their
English twins.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/cli.md"
CODING_AGENTS = ROOT / "docs/coding-agents.md"
RULES_PAGE = ROOT / "docs/rules.md"
SCANNING = ROOT / "docs/scanning.md"
CHINESE_PAGE = ROOT / "docs/zh/cli.md"
CHINESE_RULES_PAGE = ROOT / "docs/zh/rules.md"
CHINESE_RULES = ROOT / "web/src/chinese/rules.json"
CHINESE_SCANNING = ROOT / "docs/zh/scanning.md"
CHINESE_CODING_AGENTS = ROOT / "docs/zh/coding-agents.md"
_PART = re.compile(r"(?P<mark><!-- skillyard (?P<words>[^>\n]*?)--help -->)\n+```text\n.*?^```$", re.MULTILINE | re.DOTALL)
_COMMON_USAGE = re.compile(
    r"\s+".join(rf"\[{option}\]" for option in ("--root PATH", "--project DIR", "--json", "--no-cache", "--no-color", "-q"))
    + r"\s+\[--lang \{en,zh\}\]\s+\[--version\]\s+\[-h\]"
)
_COMMON = {"en": "common options", "zh": "通用选项"}
_RULE = re.compile(r"^### (?P<id>\S+)\n\n[^\n]+\n\n(?P<why>- \*\*[^\n]+)\n- \*\*[^\n]+\n- \*\*[^\n]+$", re.MULTILINE)
_RULES = re.compile(r"(?<=<!-- rules of the scanner -->\n).*?(?=<!-- end of the rules -->)", re.DOTALL)
_AGENTS = re.compile(r"(?<=<!-- table of the coding agents -->\n).*?(?=<!-- end of the coding agents -->)", re.DOTALL)


def help_of(words: str, language: str = "en") -> str:
    """What `skillyard WORDS --help` prints in a language into a pipe of 100 columns, without the common options of commands."""
    from skillyard.cli import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main(["--lang", language, *words.split(), "--help"])
    common = _COMMON[language]
    text = printed.getvalue() if not words else printed.getvalue().partition(f"\n{common}:\n")[0]
    return _COMMON_USAGE.sub(f"[{common}]", text)


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


def with_document_rules(page: str, chinese: Mapping[str, tuple[str, str]] | None = None) -> str:
    """The page with the title, the fix and the severities of each rule of `check` written anew; the reason stays as it is.

    `chinese` has the title and the fix of each rule.
    """
    from skillyard.document import RULES

    def section(found: re.Match[str]) -> str:
        rule = RULES[found["id"]]
        if chinese is None:
            title, fix = f"{rule.title[0].upper()}{rule.title[1:]}.", f"{rule.remedy}.{' Fixable.' if rule.fixable else ''}"
            lines = [f"- **Fix:** {fix}", f"- **Severity:** {severities(rule.id)}."]
        else:
            title, fix = (f"{text.removesuffix('。')}。" for text in chinese[rule.id])
            fix += "可自动修正。" if rule.fixable else ""
            lines = [f"- **修正：** {fix}", f"- **严重程度：** {severities(rule.id, 'zh')}。"]
        return "\n".join([f"### {rule.id}", "", title, "", found["why"], *lines])

    return _RULE.sub(section, page)


def severities(rule: str, language: str = "en") -> str:
    """The severity of a rule in each profile, profiles with the same one together: `error (unusable) in all profiles`."""
    from skillyard.document import PROFILES, RULES

    every, unusable, comma, end, form = {
        "en": ("all profiles", " (unusable)", ", ", "; ", "{weight} in {profiles}"),
        "zh": ("所有规则集", "（不可用）", "、", "；", "{profiles} 为 {weight}"),
    }[language]
    definition, grouped = RULES[rule], dict[str, list[str]]()
    for profile in PROFILES:
        if severity := definition.severity.get(profile):
            grouped.setdefault(severity + (unusable if profile in definition.breaks else ""), []).append(profile)
    named = {weight: every if len(profiles) == len(PROFILES) else comma.join(profiles) for weight, profiles in grouped.items()}
    return end.join(form.format(weight=weight, profiles=profiles) for weight, profiles in named.items())


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
    RULES_PAGE.write_text(with_document_rules(RULES_PAGE.read_text("utf-8")), "utf-8")
    SCANNING.write_text(with_scanner_rules(SCANNING.read_text("utf-8")), "utf-8")
    CODING_AGENTS.write_text(with_coding_agents(CODING_AGENTS.read_text("utf-8")), "utf-8")
    PAGE.write_text(generated(PAGE.read_text("utf-8")), "utf-8")
    for english, chinese in chinese_docs.twins().items():
        chinese.write_text(chinese_docs.copied(english.read_text("utf-8"), chinese.read_text("utf-8")), "utf-8")
    abuse.CHINESE_PAGE.write_text(abuse.written(abuse.CHINESE_PAGE.read_text("utf-8"), chinese_docs.texts("attacks")), "utf-8")
    chinese_rules = json.loads(CHINESE_RULES.read_text("utf-8"))
    CHINESE_RULES_PAGE.write_text(with_document_rules(CHINESE_RULES_PAGE.read_text("utf-8"), chinese_rules), "utf-8")
    CHINESE_SCANNING.write_text(with_scanner_rules(CHINESE_SCANNING.read_text("utf-8"), chinese_docs.texts("scanner")), "utf-8")
    CHINESE_CODING_AGENTS.write_text(
        with_coding_agents(CHINESE_CODING_AGENTS.read_text("utf-8"), chinese_docs.texts("coding agents")), "utf-8"
    )
    CHINESE_PAGE.write_text(generated(CHINESE_PAGE.read_text("utf-8"), "zh"), "utf-8")
