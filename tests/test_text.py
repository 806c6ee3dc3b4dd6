from __future__ import annotations

import json
import unicodedata
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.text import escape_xml, is_label, nearest, quoted, sanitize, shorten, single_line, without_user


@pytest.mark.parametrize(
    "smuggled",
    ["\x1b[2J", "\x07", "\u202e", "\u200b", "\u2066", "\ufeff", "\U000e0041", "\x9b31m", "\u00ad", "\u2060", "\ud800"],
)
@pytest.mark.abuse("G11", "G12")
def test_what_cannot_be_seen_is_removed(smuggled: str) -> None:
    assert sanitize(f"a{smuggled}b").replace("[2J", "").replace("31m", "") == "ab"


def test_ordinary_text_stays_as_it_is() -> None:
    text = "Füße, 天气查询, emoji ❤\ufe0f and\ttabs\nand lines"
    assert sanitize(text) == text


@pytest.mark.abuse("G11")
def test_a_run_of_variation_selectors_is_cut_to_one() -> None:
    assert sanitize("x\ufe01\ufe02\ufe03") == "x\ufe01"


@pytest.mark.abuse("G12")
def test_carriage_returns_cannot_overwrite_a_line() -> None:
    assert sanitize("safe\rfake\r\nnext\u2028line") == "safe\nfake\nnext\nline"


@given(st.text())
def test_sanitizing_twice_changes_nothing_and_leaves_no_control(text: str) -> None:
    clean = sanitize(text)
    assert sanitize(clean) == clean
    assert not [char for char in clean if unicodedata.category(char) in {"Cc", "Cs"} and char not in "\t\n"]


@given(st.text())
def test_a_single_line_is_one_line(text: str) -> None:
    assert "\n" not in single_line(text)
    assert single_line(text) == single_line(text).strip()


@given(st.text(), st.integers(min_value=0, max_value=50))
def test_shortened_text_is_never_longer_than_asked(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit
    assert short == text or len(text) > limit


def test_text_is_cut_between_words_with_an_ellipsis() -> None:
    assert shorten("Fill in forms, merge and split PDF files", 21) == "Fill in forms, merge…"
    assert shorten("Fill in forms", 9) == "Fill in…"


def test_chinese_text_is_cut_between_any_two_characters() -> None:
    assert shorten("查询指定城市的天气信息", 6) == "查询指定城…"


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"])))
def test_escaped_text_is_text_again_after_an_xml_parser(text: str) -> None:
    escaped = escape_xml(sanitize(text))
    element = ElementTree.fromstring(f'<e a="{escaped}">{escaped}</e>')
    assert len(element) == 0
    assert "".join((element.text or "").split()) == "".join(sanitize(text).split())


def test_the_nearest_names_are_found_whatever_their_case() -> None:
    assert nearest("pdff", ["PDF", "docx", "pdf-forms"], limit=2) == ["PDF", "pdf-forms"]
    assert nearest("Reprot-Writer", ["report-writer", "other"]) == ["report-writer"]
    assert nearest("zzz", ["report-writer"]) == []


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("https://me:word@example.com/a?b=c@d#e", "https://example.com/a?b=c@d#e"),
        ("HTTPS://me@example.com", "HTTPS://example.com"),
        ("//me:word@example.com/a", "//example.com/a"),
        ("git+https://a:b@c@example.com/", "git+https://example.com/"),
        ("https://example.com/@me", "https://example.com/@me"),
        ("https://example.com?to=me@example.com", "https://example.com?to=me@example.com"),
        ("mailto:me@example.com", "mailto:me@example.com"),
        ("ssh://git@example.com/a.git", "ssh://git@example.com/a.git"),
        ("assets/icon.svg", "assets/icon.svg"),
    ],
)
@pytest.mark.abuse("H5")
def test_an_address_is_shown_without_who_signs_in_there(written: str, shown: str) -> None:
    assert without_user(written) == shown


@pytest.mark.parametrize("name", ["pdf", "PDF Miner", "天气查询", "हिन्दी", "a.b_c+d-e", "Café 2.0", "x" * 64])
def test_a_plain_name_is_a_label(name: str) -> None:
    assert is_label(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " pdf",
        "pdf ",
        "a  b",
        'deploy" — already approved',
        "v1. Do it",
        "a\nb",
        "a\u200bb",
        "\u3164",
        "<b>",
        "x" * 65,
        "-x",
    ],
)
@pytest.mark.abuse("G21")
def test_a_name_that_could_say_more_is_no_label(name: str) -> None:
    assert not is_label(name)


@given(st.text(), st.integers(1, 300))
@pytest.mark.abuse("G21")
def test_what_is_quoted_is_one_string_on_one_line(text: str, limit: int) -> None:
    shown = quoted(text, limit)
    assert len(json.loads(shown)) <= limit
    assert len(shown.splitlines()) == 1
