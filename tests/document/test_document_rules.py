"""Every rule has an id that stays, a way to fix it, and a section in the documentation with an explanation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skillyard.document import PROFILES, RULES, Severity, diagnose

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_each_rule_is_described_where_it_is_defined_and_in_the_documentation(rule) -> None:  # type: ignore[no-untyped-def]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.id)
    assert rule.title and rule.remedy
    section = SECTIONS[rule.id]
    assert rule.title[1:] in section
    assert re.search(r"\*\*Why:\*\* [\w`].+\.\n", section)
    assert f"**Fix:** {rule.remedy}." in section
    assert ("Fixable." in section) == rule.fixable
    weights = [
        f"{profile} {rule.severity[profile]}" + (" (unusable)" if profile in rule.breaks else "")
        for profile in PROFILES
        if profile in rule.severity
    ]
    assert f"**Severity:** {', '.join(weights)}." in section


def test_the_documentation_describes_exactly_the_rules_that_exist() -> None:
    assert list(SECTIONS) == list(RULES)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_that_makes_a_skill_unusable_is_an_error_there(rule) -> None:  # type: ignore[no-untyped-def]
    assert rule.severity
    assert all(rule.severity[profile] == "error" for profile in rule.breaks)


def test_a_caller_that_sees_the_file_itself_can_report_it() -> None:
    found = diagnose("file-not-regular", file="pdf/SKILL.md", message="SKILL.md is a folder")
    severity: Severity = "error"
    assert (found.rule, found.severity, found.file, found.line) == ("file-not-regular", severity, "pdf/SKILL.md", 1)
    assert found.fix == RULES["file-not-regular"].remedy
    assert found.to_dict()["message"] == "SKILL.md is a folder"
