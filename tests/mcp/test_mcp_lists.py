"""The parts lists are made of: pages, media types, and addresses that never clash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.catalog import SkillCatalog, media_type
from skillyard.errors import InvalidInput
from skillyard.mcp.skill_uris import PublishedSkills, cut_page


@given(st.sets(st.text(min_size=1)), st.integers(1, 5))
def test_pages_together_hold_every_item_once_and_in_order(items: set[str], size: int) -> None:
    ordered = sorted(items)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        found, cursor = cut_page(ordered, cursor, size=size, key=lambda item: item)
        assert len(found) <= size
        seen += found
        if cursor is None:
            break
    assert seen == ordered


def test_a_page_does_not_shift_when_items_come_before_it() -> None:
    _, cursor = cut_page(["b", "c", "d"], None, size=2, key=str)
    assert cut_page(["a", "b", "c", "d"], cursor, size=2, key=str) == (["d"], None)


@given(st.text())
def test_a_cursor_of_anyone_else_is_refused_or_read(cursor: str) -> None:
    try:
        found, following = cut_page(["a"], cursor, size=1, key=str)
    except InvalidInput:
        return
    assert found in ([], ["a"])
    assert following is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SKILL.md", "text/markdown"),
        ("a/b.TS", "text/typescript"),
        ("a.py", "text/x-python"),
        ("a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("Makefile", "application/octet-stream"),
    ],
)
def test_media_types_go_by_the_name(name: str, kind: str) -> None:
    assert media_type(name) == kind


def test_a_name_that_does_not_tell_leaves_it_to_the_content() -> None:
    assert media_type("Makefile", "text/plain") == "text/plain"


def test_skills_of_one_name_get_their_source_in_front_and_never_one_address(tmp_path: Path, make_skill: Any) -> None:
    for root in ("one", "two"):
        make_skill(tmp_path / root, "pdf", body=root)
        make_skill(tmp_path / root, "weather-" + root)
    skills = [skill for root in ("one", "two") for skill in SkillCatalog.discover(roots=[tmp_path / root], cache=False)]
    published = PublishedSkills(tuple(skills))
    assert [each.uri for each in published] == [
        "skill://config/pdf-2/SKILL.md",
        "skill://config/pdf/SKILL.md",
        "skill://weather-one/SKILL.md",
        "skill://weather-two/SKILL.md",
    ]
    for each in published:
        assert published.locate(each.uri) == (each, "SKILL.md")


def test_long_names_are_cut_to_what_the_specification_allows(skills_root: Path, make_skill: Any) -> None:
    for ending in ("one", "two"):
        make_skill(skills_root, "x" * 64 + ending)
    skills = list(PublishedSkills(tuple(SkillCatalog.discover(roots=[skills_root], cache=False))))
    assert len({each.uri for each in skills}) == 2
    assert all(len(each.path[-1]) <= 64 for each in skills)
