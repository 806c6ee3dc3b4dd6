"""Safe fixes: they fix what they name, keep everything else, and never leave a file worse."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillyard.document import PROFILES, FixedDocument, Profile, check_document, fix_document, parse_document

BODY = "\n# Steps\r\ntext  \n\n---\n"


def fix(text: str, *, folder: str = "pdf", profile: Profile = "spec") -> FixedDocument:
    return fix_document(text.encode(), directory_name=folder, profile=profile)


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        (
            "---\nname: pdf\ndescription: Use when: it's x\n---\n",
            "---\nname: pdf\ndescription: 'Use when: it''s x'\n---\n",
            "yaml-unquoted-colon",
        ),
        ("---\nname: pdf\ndescription: @x y\n---\n", "---\nname: pdf\ndescription: '@x y'\n---\n", "yaml-unquoted-value"),
        ("---\nname: pdf\ndescription: > x: y\n---\n", "---\nname: pdf\ndescription: 'x: y'\n---\n", "yaml-unquoted-value"),
        ("\ufeff---\nname: pdf\ndescription: d\n---\n", "---\nname: pdf\ndescription: d\n---\n", "style-bom"),
        ("\n \n---\nname: pdf\ndescription: d\n---\n", "---\nname: pdf\ndescription: d\n---\n", "style-blank-start"),
        ("---\nname: pdf\ndescription: d\n...\n", "---\nname: pdf\ndescription: d\n---\n", "style-closing-dots"),
        (
            "---\nname: pdf\ndescription: d\nallowed-tools:\n  - Read\n  - Bash(git add:*)\nlicense: MIT\n---\n",
            "---\nname: pdf\ndescription: d\nallowed-tools: Read Bash(git add:*)\nlicense: MIT\n---\n",
            "allowed-tools-list",
        ),
        ("---\nname: PDF\ndescription: d # c\n---\n", "---\nname: pdf\ndescription: d # c\n---\n", "name-characters"),
        ("---\nname: -pdf-\ndescription: d\n---\n", "---\nname: pdf\ndescription: d\n---\n", "name-hyphens"),
        ("---\nname: other\ndescription: d\n---\n", "---\nname: pdf\ndescription: d\n---\n", "name-folder-mismatch"),
        ("---\ndescription: d\n---\n", "---\ndescription: d\nname: pdf\n---\n", "name-missing"),
        ("---\nname:\ndescription: d\n---\n", "---\nname: pdf\ndescription: d\n---\n", "name-blank"),
    ],
)
def test_each_safe_fix_fixes_its_finding_and_nothing_else(before: str, after: str, rule: str) -> None:
    fixed = fix(before + BODY)
    assert fixed.data.decode() == after + BODY
    assert rule in [found.rule for found in fixed.applied]
    assert [
        found for found in check_document(fixed.data, directory_name="pdf", profile="spec") if found.severity == "error"
    ] == []


def test_a_newline_is_put_behind_the_closing_fence() -> None:
    assert fix("---\nname: pdf\ndescription: d\n---").data == b"---\nname: pdf\ndescription: d\n---\n"
    assert fix("---\r\nname: pdf\r\ndescription: d\r\n---").data == b"---\nname: pdf\ndescription: d\n---\n"
    assert fix("---\rname: pdf\rdescription: d\r---\ra\r").data == b"---\nname: pdf\ndescription: d\n---\na\n"


@pytest.mark.parametrize(
    "text",
    [
        f"---\nname: pdf\ndescription: {'d' * 1100}\n---\n",
        "---\nname: pdf\n---\n",
        "---\nname: pdf\ndescription: d\ndescription: e\n---\n",
        "---\nname: &a pdf\ndescription: d\n---\n",
        "---\nname: pdf\ndescription: d\nmodel: x\n---\n",
        "---\nname: pdf\ndescription: d\nmetadata: {a: [b]}\n---\n",
        "---\nname: pdf\ndescription: d\nallowed-tools:\n  - Read # why\n---\n",
        "# only a heading\n",
        "---\nname: pdf\ndescription: [a]\n---\ntext\n",
        "---js\nname: pdf\n---\n",
    ],
)
def test_what_needs_a_person_is_left_alone(text: str) -> None:
    assert fix(text) == FixedDocument(text.encode(), ())


@pytest.mark.row("C-3")
@pytest.mark.parametrize("profile", ["standard", "spec"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# T\n\nReads: forms.\n", "---\nname: pdf\ndescription: 'Reads: forms.'\n---\n# T\n\nReads: forms.\n"),
        ("---\nname: pdf\n---\n\nReads forms.\n", "---\nname: pdf\ndescription: Reads forms.\n---\n\nReads forms.\n"),
        ("---\ndescription:\n---\nReads forms.\n", "---\ndescription: Reads forms.\nname: pdf\n---\nReads forms.\n"),
    ],
)
def test_what_a_catalog_infers_is_written_down(before: str, after: str, profile: Profile) -> None:
    fixed = fix(before, profile=profile)
    assert fixed.data.decode() == after
    assert check_document(fixed.data, directory_name="pdf", profile="spec") == ()


def test_a_file_that_is_not_text_is_left_alone() -> None:
    data = "---\nname: Caf\xe9\n---".encode("latin-1")
    assert fix_document(data, profile="spec") == FixedDocument(data, ())


def test_a_name_is_only_changed_when_the_profile_minds_it() -> None:
    text = "---\nname: PDF Miner\ndescription: d\n---\n"
    assert fix(text, profile="standard").data == text.encode()
    assert fix(text, folder="").data == b"---\nname: pdf-miner\ndescription: d\n---\n"
    assert fix(text, folder="My Folder").data == b"---\nname: pdf-miner\ndescription: d\n---\n"
    assert fix("---\nname: 天气 查询\ndescription: d\n---\n", folder="").applied == ()


# fmt: off
PIECES = st.sampled_from(
    [
        "\ufeff", "\n", "---\n", "---", "...\n", "name: PDF Miner\n", "name: pdf\n", "name:\n", "description: Use when: x\n",
        "description: it's: 'q'\n", "description: d\n", "allowed-tools: [Read, 'Bash(a b)']\n",
        "allowed-tools:\n  - Read\n  # c\n", "# comment\n", "x: @y\n", "x: [a] [b]\n", "  more\n",
        "metadata: {a: {b: c}}\n", "body\n", "é", "\r\n", "x: |\n  y: z\n", "description: |\n  a: b\n  # c\n",
        "\t", "'", "x: &a b\n", "license: [MIT]\n",
    ]
)
# fmt: on


@given(st.lists(PIECES, max_size=10), st.sampled_from(PROFILES), st.sampled_from(["pdf", "", "Not A Slug"]))
@example(["\r\n", "---\n", "\r\n"], "standard", "pdf")
def test_fixing_is_final_and_never_leaves_a_file_worse(pieces: list[str], profile: Profile, folder: str) -> None:
    data = ("---\nname: PDF\n" + "".join(pieces)).encode()
    fixed = fix_document(data, directory_name=folder, profile=profile)
    before = check_document(data, directory_name=folder, profile=profile)
    after = check_document(fixed.data, directory_name=folder, profile=profile)
    assert len(after) <= len(before) - len(fixed.applied)
    assert {one.rule for one in after if one.severity == "error"} <= {one.rule for one in before if one.severity == "error"}
    assert (fixed.data == data) == (fixed.applied == ())
    assert fix_document(fixed.data, directory_name=folder, profile=profile) == FixedDocument(fixed.data, ())
    old, new = parse_document(data, directory_name=folder), parse_document(fixed.data, directory_name=folder)
    assert new.metadata.description == old.metadata.description
    assert new.metadata.allowed_tools == old.metadata.allowed_tools
    applied = {one.rule for one in fixed.applied}
    body = old.body.replace("\r\n", "\n") if "style-line-endings" in applied else old.body
    assert new.body == body or "style-final-newline" in applied
