"""Every rule has an id that stays, a way to fix it, and a section in the documentation with an explanation."""

from __future__ import annotations

import re
from pathlib import Path

from skillyard.document import RULES, Severity, diagnose

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_each_rule_has_an_id_that_lasts_a_title_a_fix_and_a_section_with_the_reason() -> None:
    assert list(SECTIONS) == list(RULES)
    for rule in RULES.values():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.id)
        assert rule.title and rule.remedy
        assert re.search(r"\*\*Why:\*\* [\w`].+\.\n", SECTIONS[rule.id]), rule.id


def test_a_rule_that_makes_a_skill_unusable_is_an_error_there() -> None:
    for rule in RULES.values():
        assert rule.severity
        assert all(rule.severity[profile] == "error" for profile in rule.breaks), rule.id


def test_a_caller_that_sees_the_file_itself_can_report_it() -> None:
    found = diagnose("file-not-regular", file="pdf/SKILL.md", message="SKILL.md is a folder")
    severity: Severity = "error"
    assert (found.rule, found.severity, found.file, found.line) == ("file-not-regular", severity, "pdf/SKILL.md", 1)
    assert found.fix == RULES["file-not-regular"].remedy
    assert found.to_dict()["message"] == "SKILL.md is a folder"
