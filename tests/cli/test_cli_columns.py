"""Columns are counted in what a terminal draws, not in characters."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.cli.screen import _SINGLE, align_rows, cell_width, cut_to_width

_TEXT = st.text(st.sampled_from("abc 天気…é\u0301한"), max_size=30)


@pytest.mark.parametrize(("text", "width"), [("", 0), ("abc", 3), ("天气", 4), ("e\u0301", 1), ("…", 1)])
def test_wide_characters_take_two_cells_and_marks_none(text: str, width: int) -> None:
    assert cell_width(text) == width


def test_letters_that_are_not_looked_up_take_one_cell_each() -> None:
    alone = [character for character in map(chr, range(32, sys.maxunicode + 1)) if _SINGLE.fullmatch(character)]
    assert len(alone) > 900
    strange = [one for one in alone if unicodedata.combining(one) or unicodedata.east_asian_width(one) in "WF"]
    assert strange == []


@given(_TEXT, st.integers(1, 40))
def test_a_cut_text_fits_and_only_what_is_too_long_is_cut(text: str, limit: int) -> None:
    short = cut_to_width(text, limit)
    assert cell_width(short) <= limit
    assert (short == text) == (cell_width(text) <= limit) or short.endswith("…")


@given(st.lists(st.tuples(_TEXT, _TEXT, _TEXT), min_size=1))
def test_every_column_begins_at_the_same_cell(rows: list[tuple[str, str, str]]) -> None:
    starts = {(cell_width(first), cell_width(second)) for first, second, _ in align_rows(rows, (8, 12, 20))}
    assert starts == {(10, 14)}
