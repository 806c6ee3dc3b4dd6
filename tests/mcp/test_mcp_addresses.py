"""Addresses of skill files go both ways and never lead out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.errors import FileProblem
from skillyard.mcp.skill_uris import skill_uri, uri_segments

part = st.text(st.characters(exclude_characters="/\\", exclude_categories=("Cc", "Cs")), min_size=1).filter(
    lambda text: text.strip() and text not in (".", "..") and not text.startswith("~")
)


@given(st.lists(part, min_size=1, max_size=4))
def test_an_address_reads_back_as_the_path_it_was_made_of(parts: list[str]) -> None:
    assert uri_segments(skill_uri(parts[:1], "/".join(parts[1:]))) == tuple(parts)


def test_an_address_names_the_skill_first() -> None:
    assert skill_uri(["pdf"], "scripts/fill form.py") == "skill://pdf/scripts/fill%20form.py"
    assert skill_uri(["user", "pdf"], "SKILL.md") == "skill://user/pdf/SKILL.md"
    assert skill_uri(["pdf"]) == "skill://pdf"


@pytest.mark.row("D-2")
@pytest.mark.parametrize(
    "uri",
    [
        "skill://pdf/../pdf-evil/x",
        "skill://pdf/%2e%2e/x",
        "skill://pdf/a%2fb",
        "skill://pdf/..%2f..%2fetc/passwd",
        "skill:///etc/passwd%00",
        "skill://pdf/%5c..%5cx",
        "skill://pdf/%ff%fe",
        "skill://",
        "file:///etc/passwd",
        "",
    ],
)
def test_an_address_that_climbs_or_hides_something_is_refused(uri: str) -> None:
    with pytest.raises(FileProblem):
        uri_segments(uri)


@given(st.text())
def test_no_text_makes_it_stumble(uri: str) -> None:
    try:
        parts = uri_segments(uri)
    except FileProblem:
        return
    assert parts
    assert not any(piece in ("", ".", "..") or "/" in piece for piece in parts)
