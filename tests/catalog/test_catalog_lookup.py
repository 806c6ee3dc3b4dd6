"""Which skill a word means, and which of several with one name is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillyard.catalog import SkillCatalog
from skillyard.errors import AmbiguousSkill, SkillNotFound


@pytest.fixture
def catalog(tmp_path: Path, make_skill: Any) -> SkillCatalog:
    """Two roots with namesakes, display names and a broken skill."""
    one, two = tmp_path / "one", tmp_path / "two"
    make_skill(one, "pdf", front_matter="name: pdf\ndisplayName: PDF Tools\ndescription: First.")
    make_skill(one, "folder-a", front_matter="name: PDF Miner\ndescription: Mines.")
    make_skill(one, "report-writer")
    make_skill(one, "wreck", front_matter="name: wreck")
    make_skill(two, "pdf", description="Second.")
    make_skill(two, "report-reader")
    return SkillCatalog.discover(roots=[one, two])


@pytest.mark.row("C-8", "004-1", "D-36")
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("config:pdf", "config:pdf"),
        ("config:pdf#2", "config:pdf#2"),
        ("folder-a", "config:pdf-miner"),
        ("PDF Miner", "config:pdf-miner"),
        ("PDF Tools", "config:pdf"),
        ("pdf-miner", "config:pdf-miner"),
        ("pdf miner", "config:pdf-miner"),
        ("pdf", "config:pdf"),
        ("  pdf ", "config:pdf"),
        ("WRITER", "config:report-writer"),
        ("wreck", "config:wreck"),
    ],
)
def test_a_word_finds_the_skill_in_the_stated_order(catalog: SkillCatalog, wanted: str, found: str) -> None:
    assert catalog.get(wanted).id == found


@pytest.mark.row("C-8", "D-30")
def test_a_word_that_fits_two_usable_skills_lists_both(catalog: SkillCatalog) -> None:
    with pytest.raises(AmbiguousSkill) as caught:
        catalog.get("report")
    assert caught.value.details["candidates"] == ["config:report-writer", "config:report-reader"]
    assert caught.value.hint


@pytest.mark.row("C-8")
def test_a_miss_names_what_may_have_been_meant(catalog: SkillCatalog) -> None:
    with pytest.raises(SkillNotFound) as caught:
        catalog.get("reprot-writer")
    assert caught.value.details["candidates"] == ["config:report-writer", "config:report-reader"]
    with pytest.raises(SkillNotFound) as caught:
        catalog.get("zzzz")
    assert caught.value.details["candidates"] == []
    with pytest.raises(SkillNotFound):
        catalog.get("")


def test_a_denied_skill_is_never_suggested(catalog: SkillCatalog) -> None:
    view = catalog.with_statuses({"config:report-writer": ("denied", "a rule")})
    with pytest.raises(SkillNotFound) as caught:
        view.get("reprot-writer")
    assert "config:report-writer" not in caught.value.details["candidates"]


@pytest.mark.row("D-30", "C-11", "001-8", "004-9")
@pytest.mark.abuse("G14")
def test_the_first_root_wins_a_name_and_the_other_stays_visible_with_the_reason(catalog: SkillCatalog, tmp_path: Path) -> None:
    assert [skill.id for skill in catalog] == [
        "config:pdf-miner", "config:pdf", "config:report-writer", "config:report-reader",
    ]  # fmt: skip
    second = catalog.get("config:pdf#2")
    assert (second.status, second.description) == ("shadowed", "Second.")
    assert second.reason == f"config:pdf in {tmp_path}/one/pdf has the same name and comes first"
    assert len({skill.id for skill in catalog.all()}) == len(catalog.all()) == 6
    assert len(catalog) == 4


@pytest.mark.abuse("G14")
def test_names_that_differ_only_in_spelling_are_one_name(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "a", front_matter="name: My Skill\ndescription: d")
    make_skill(skills_root, "b", front_matter="name: my-skill\ndescription: d")
    assert [skill.status for skill in SkillCatalog.discover(roots=[skills_root]).all()] == ["ok", "shadowed"]


def test_a_broken_skill_takes_no_name_and_no_id(tmp_path: Path, make_skill: Any) -> None:
    make_skill(tmp_path / "one", "pdf", front_matter="name: pdf")
    make_skill(tmp_path / "two", "pdf")
    catalog = SkillCatalog.discover(roots=[tmp_path / "one", tmp_path / "two"])
    assert [(skill.id, skill.status) for skill in catalog.all()] == [("config:pdf#2", "broken"), ("config:pdf", "ok")]
    assert catalog.get("pdf").status == "ok"


def test_statuses_laid_over_hide_a_skill_and_survive_a_refresh(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "open")
    make_skill(skills_root, "secret-plan")
    catalog = SkillCatalog.discover(roots=[skills_root])
    view = catalog.with_statuses(lambda skill: ("denied", "rule secret-*") if skill.name.startswith("secret-") else None)
    assert [skill.name for skill in view] == ["open"]
    assert (view.get("secret-plan").status, view.get("secret-plan").reason) == ("denied", "rule secret-*")
    assert '"status": "denied"' in view.to_json()
    assert len(catalog) == 2
    make_skill(skills_root, "secret-other")
    assert view.refresh().added == ("config:secret-other",)
    assert [skill.name for skill in view] == ["open"]


@pytest.mark.abuse("G21")
def test_a_skill_with_a_very_long_name_goes_by_a_short_reference_that_is_found(tmp_path: Path, make_skill: Any) -> None:
    for number, ending in enumerate(("one", "two")):
        make_skill(tmp_path, f"s{number}", front_matter=f"name: {'obey ' * 60}{ending}\ndescription: Says much.")
    catalog = SkillCatalog.discover(roots=[tmp_path], cache=False)
    references = {skill.label for skill in catalog}
    assert len(references) == 2
    for reference in references:
        assert len(reference) == 100
        assert catalog.get(reference).reference == reference
