"""Names that imitate well-known skills or those of the user, and names that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from skillyard.packages import Origin
from skillyard.registry.candidate import read_candidate
from skillyard.registry.upgrade_checks import judged_by_publisher
from skillyard.scanner import Report, scan_skill
from skillyard.scanner.names import BUILT_IN, IMITATES, SAME_TEXT, WELL_KNOWN, imitation, misspelt_name, with_same_texts

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


@pytest.mark.parametrize(("name", "known", "said"), [
    ("Claude", {}, "reserved"), ("system", {}, "reserved"),
    ("write-a-skill", {"write-a-skill": BUILT_IN}, "comes with Skillyard"),
    ("write-a-skill", {"write-a-skill": "this catalog"}, ""), ("claude-notes", {}, ""),
])  # fmt: skip
def test_a_name_that_is_reserved_or_built_in_is_refused(tmp_path: Path, name: str, known: dict[str, str], said: str) -> None:
    (tmp_path / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Tidies.\n---\nTidy.\n")
    found = [one for one in scan_skill(tmp_path, known=known).findings if one.rule == IMITATES]
    assert [one.severity for one in found] == ["high"] * bool(said)
    assert all(said in one.message for one in found)


def test_names_of_the_users_own_are_not_to_be_imitated_either(tmp_path: Path) -> None:
    folder = tmp_path / "helper"
    folder.mkdir()
    (folder / "SKILL.md").write_text(_HEAD.format(name="invoice-reeder"))
    assert scan_skill(folder).findings == ()
    (finding,) = scan_skill(folder, known={"invoice-reader": "this catalog"}).findings
    assert (finding.severity, finding.message) == (
        "medium", "the name 'invoice-reeder' is one letter away from 'invoice-reader' of this catalog",
    )  # fmt: skip
    assert scan_skill(folder, known={"invoice-reader": "", "invoice-reeder": ""}).findings == ()


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("csv-parsre", "parser"),
        ("webbapp-guide", "webapp"),
        ("my-formater", "formatter"),
        ("log-analyser", None),
        ("unit-tests", None),
        ("load-testers", None),
        ("scrape-pages", None),
        ("transcribe", None),
    ],
)
def test_a_common_word_that_is_misspelt_in_a_name_is_found(name: str, word: str | None) -> None:
    assert misspelt_name(name) == word


def _collection(folder: Path, names: list[str]) -> list[Report]:
    text = " ".join(f"Step {number}: sort the files of folder {number} by date." for number in range(40))
    reports = []
    for name in names:
        (folder / name).mkdir()
        (folder / name / "SKILL.md").write_text(f"{_HEAD.format(name=name)}\n{text}\nThis is {name}.\n")
        reports.append(scan_skill(folder / name))
    return reports


@pytest.mark.parametrize(
    ("names", "severity"),
    [
        (["sort-files", "date-sorter"], None),
        (["sort-files", "date-sorter", "tidy-up"], "low"),
        (["tidy-2yq87", "tidy-3rk1s", "tidy-43c6i"], "medium"),
    ],
)
def test_one_text_under_many_names_is_found(tmp_path: Path, names: list[str], severity: str | None) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "SKILL.md").write_text(_HEAD.format(name="other") + "\n".join(f"Line {number} differs." for number in range(60)))
    judged = with_same_texts([*_collection(tmp_path, names), scan_skill(other)])
    found = [[one.severity for one in report.findings if one.rule == SAME_TEXT] for report in judged]
    assert found == [*([[severity] if severity else []] * len(names)), []]


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
