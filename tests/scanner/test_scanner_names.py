"""Names that imitate well-known skills or those of the user, and names that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from skillyard.packages import Origin
from skillyard.registry.candidate import read_candidate
from skillyard.registry.upgrade_checks import judged_by_publisher
from skillyard.scanner import scan_skill
from skillyard.scanner.names import IMITATES, WELL_KNOWN, imitation

_HEAD = "---\nname: {name}\ndescription: Tidies.\n---\n# Tidy\n"
_RELIEF = [
    ("рdf", "pdf", 0),  # the first letter is Cyrillic
    ("ｐｄｆ", "pdf", 0),  # full-width letters
    ("p\u200bdf", "pdf", 0),
    ("summarlze", "summarize", 0),
    ("sumrnarize", "summarize", 0),
    ("brainst0rming", "brainstorming", 0),
    ("brainstormming", "brainstorming", 1),
    ("brainstroming", "brainstorming", 1),
    ("skil-creator", "skill-creator", 1),
    ("creator-skill", "skill-creator", 1),
    ("pdf-official", "pdf", 1),
    ("Anthropic PDF", "pdf", 1),
    ("anthropic-mcp-builder", "mcp-builder", 1),
    ("auto-updater-2yq87", "auto-updater", 1),
    ("pdf-pro", "pdf", 2),
    ("mcp_builder", "mcp-builder", 2),
    ("writing-skill", "writing-skills", 2),
]


@pytest.mark.parametrize(("name", "of", "relief"), _RELIEF)
def test_a_name_that_imitates_a_well_known_one_is_found(name: str, of: str, relief: int) -> None:
    found = imitation(name)
    assert found is not None
    assert (found.of, found.relief) == (of, relief)


@pytest.mark.parametrize(
    "name",
    [
        "pdf",
        "PDF",
        "pdf-tools",
        "pdf2",
        "docs",
        "gif",
        "frontend-design-v2",
        "claude-api-es2024",
        "café",
        "天气",
        "plans",
        "god",
        "",
    ],
)
def test_other_names_imitate_nobody(name: str) -> None:
    assert imitation(name) is None


def test_well_known_names_are_told_apart_but_for_two_that_belong_together() -> None:
    found = {name: imitation(name, {other: "" for other in WELL_KNOWN if other != name}) for name in WELL_KNOWN}
    assert len(found) > 50
    assert {name for name, one in found.items() if one} == {"clawdhub", "clawhub"}


def test_a_scan_says_whose_name_is_imitated(tmp_path: Path) -> None:
    folder = tmp_path / "tidy"
    folder.mkdir()
    (folder / "SKILL.md").write_text(_HEAD.format(name="mcp-bui1der"))
    (finding,) = scan_skill(folder).findings
    assert (finding.rule, finding.severity, finding.file, finding.line) == (IMITATES, "high", "SKILL.md", 2)
    assert finding.message == "the name 'mcp-bui1der' looks like 'mcp-builder' of anthropics"


def test_names_of_the_users_own_are_not_to_be_imitated_either(tmp_path: Path) -> None:
    folder = tmp_path / "helper"
    folder.mkdir()
    (folder / "SKILL.md").write_text(_HEAD.format(name="invoice-raeder"))
    assert scan_skill(folder).findings == ()
    (finding,) = scan_skill(folder, known={"invoice-reader": "this catalog"}).findings
    assert (finding.severity, finding.message) == (
        "medium", "the name 'invoice-raeder' is one letter away from 'invoice-reader' of this catalog",
    )  # fmt: skip
    assert scan_skill(folder, known={"invoice-reader": "", "invoice-raeder": ""}).findings == ()


class _Records:
    """The serving versions of a registry."""

    def __init__(self, *versions: Any) -> None:
        self._versions = versions

    def serving(self) -> tuple[Any, ...]:
        return self._versions


class _Serving:
    skill_id = "invoice-reader"
    origin: ClassVar = {"kind": "git", "address": "https://github.com/acme/skills"}


@pytest.mark.parametrize(
    ("name", "address", "severities"),
    [
        ("invoice-readr", "https://github.com/acme/more", ["medium"]),
        ("invoice-readr", "https://github.com/acme/skills", []),
        ("invoice-readr", "https://github.com/mallory/skills", ["medium"]),
        ("mcp-bui1der", "https://github.com/mallory/skills", ["high"]),
        ("mcp-bui1der", "https://github.com/anthropics/skills", []),
        ("pdf", "https://github.com/mallory/skills", ["low"]),
        ("pdf", "https://github.com/Anthropics/skills", []),
        ("pdf", "https://example.org/skills.zip", []),
    ],
)
def test_a_publisher_may_name_skills_like_its_own(tmp_path: Path, name: str, address: str, severities: list[str]) -> None:
    (tmp_path / "SKILL.md").write_text(_HEAD.format(name=name))
    candidate = read_candidate(tmp_path, Origin("git", address), folder_name="x")
    found = tuple(one.to_dict() for one in scan_skill(tmp_path, known={"invoice-reader": "this catalog"}).findings)
    judged = judged_by_publisher(_Records(_Serving()), candidate, found)  # type: ignore[arg-type]
    assert [one["severity"] for one in judged if one["rule"] == IMITATES] == severities
