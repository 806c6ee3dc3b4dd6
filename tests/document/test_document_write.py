"""Writing front matter: what is written reads back, and an edit leaves everything else as it was."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillyard.document import new_document, parse_document, set_front_matter
from skillyard.document.yaml_reader import as_data, read_yaml
from skillyard.errors import InvalidSkill

TEXT = """---
# who
name: pdf
description: |
  Reads
  # not a comment

  PDFs.

# tools below
allowed-tools:   [Read]   # keep
license: MIT
---
body
---
"""

# YAML has no way to write half a surrogate pair.
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


@pytest.mark.row("D-23")
@pytest.mark.parametrize(
    "description",
    [
        "a: b",
        "x\nname: evil\ninjected: true",
        "--- \n---\n",
        "'quoted' and \"quoted\"",
        "# comment",
        "- item",
        "{a: b}",
        "no",
        "1.10",
        "2001-01-01",
        " space around ",
        "tab\there",
        "bell\x07 escape\x1b[2J nul\x00",
        "line\u2028separator \x85 next",
        "天气查询: 查询 😀",
        "back\\slash",
        "",
        "ends with:",
        "one\n\n  two\n",
    ],
)
def test_any_description_reads_back_as_the_same_text(description: str) -> None:
    text = new_document("pdf", description, "# Body\n")
    document = parse_document(text.encode(), directory_name="pdf")
    assert document.front_matter == {"name": "pdf", "description": description}
    assert document.body == "\n# Body\n"


@given(WORDS, WORDS)
def test_any_text_reads_back_here_and_in_another_parser(name: str, description: str) -> None:
    text = new_document(name, description)
    header = text.removeprefix("---\n").removesuffix("---\n")
    assert parse_document(text.encode()).front_matter == {"name": name, "description": description}
    assert yaml.safe_load(header) == {"name": name, "description": description}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(-1000, 1000, allow_subnormal=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS.filter(lambda key: key != "<<"), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_nested_values_read_back_with_their_types(value: object) -> None:
    text = new_document("pdf", "d", extra={"x": value})
    header = text.removeprefix("---\n").removesuffix("---\n")
    assert as_data(read_yaml(header)) == {"name": "pdf", "description": "d", "x": value}


def test_an_edit_keeps_order_comments_and_every_other_line() -> None:
    edited = set_front_matter(TEXT, {"license": "Apache-2.0", "version": "1.10", "name": "pdf-forms"})
    assert edited == TEXT.replace("name: pdf", "name: pdf-forms").replace(
        "license: MIT\n", "license: Apache-2.0\nversion: '1.10'\n"
    )


def test_a_field_of_several_lines_is_replaced_as_a_whole() -> None:
    edited = set_front_matter(TEXT, {"description": "Use when: asked", "allowed-tools": None})
    assert edited == "---\n# who\nname: pdf\ndescription: 'Use when: asked'\n\n# tools below\nlicense: MIT\n---\nbody\n---\n"


def test_a_field_in_another_spelling_is_the_same_field() -> None:
    text = "---\nname: a\nallowedTools: x\nallowed_tools: z\ndescription: d\n---\n"
    assert set_front_matter(text, {"allowed-tools": "Read"}) == "---\nname: a\nallowed-tools: Read\ndescription: d\n---\n"


def test_line_endings_and_the_byte_order_mark_stay() -> None:
    text = "\ufeff---\r\nname: a\r\ndescription: d\r\n---\r\nbody\n"
    assert set_front_matter(text, {"name": "b", "tags": ["x"]}) == (
        "\ufeff---\r\nname: b\r\ndescription: d\r\ntags:\r\n  - x\r\n---\r\nbody\n"
    )


def test_a_text_without_front_matter_gets_one() -> None:
    assert set_front_matter("# Body\n", {"name": "a", "gone": None}) == "---\nname: a\n---\n# Body\n"
    assert set_front_matter("---\n---\nbody", {"name": "a"}) == "---\nname: a\n---\nbody"


@pytest.mark.parametrize(
    "text",
    [
        "---\nname: a\nname: b\n---\n",
        "---\nname: a\n",
        "---js\n---\n",
        "---\n{name: a, description: b}\n---\n",
        "---\nx: &a b\n---\n",
    ],
)
def test_what_cannot_be_edited_safely_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(InvalidSkill) as refused:
        set_front_matter(text, {"name": "c"})
    assert refused.value.hint


@given(
    st.dictionaries(st.sampled_from(["name", "description", "license", "x"]), WORDS, max_size=4),
    st.dictionaries(st.sampled_from(["name", "description", "version", "y"]), st.none() | WORDS, max_size=4),
)
def test_after_an_edit_the_fields_are_what_was_asked_for(before: dict[str, str], changes: dict[str, str | None]) -> None:
    text = new_document("pdf", "d", "body", extra=before)
    document = parse_document(set_front_matter(text, changes).encode())
    expected = {"name": "pdf", "description": "d"} | before | changes
    assert document.front_matter == {key: value for key, value in expected.items() if value is not None}
    assert document.body == "\nbody\n"
