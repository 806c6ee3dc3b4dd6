"""JSON of strangers is read as JSON says, and only as deep as others can write it again."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillyard.plain_json import MAXIMUM_DEPTH, encodable_json, read_json, to_plain_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(_VALUES)
def test_what_was_written_is_read(value: object) -> None:
    assert read_json(json.dumps(value)) == value


@given(st.text(st.sampled_from('\\\\ud8ff"n\ud83d\ude00\udcff\ud800😀')))
@example("\\\\ud800")
def test_half_of_a_pair_of_surrogates_is_a_question_mark(text: str) -> None:
    written = encodable_json(json.dumps([text]))
    assert written.isascii()
    whole = json.loads(json.dumps(text))  # two halves that stand together are a pair to every reader
    assert json.loads(written) == [to_plain_json(whole)]


@pytest.mark.parametrize("text", ["", "x", "NaN", "[Infinity]", "[1", '{"a": 1,}', "1" * 5000, "1e999", "[-1e999]"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_json(text)


@pytest.mark.parametrize(("begin", "inner", "end"), [("[", "1", "]"), ("[", "", "]"), ('{"a":', "1", "}")])
def test_as_deep_as_allowed_is_read_and_one_more_is_not(begin: str, inner: str, end: str) -> None:
    assert read_json(begin * MAXIMUM_DEPTH + inner + end * MAXIMUM_DEPTH)
    for depth in (MAXIMUM_DEPTH + 1, 900, 100_000):
        with pytest.raises(ValueError, match="levels deep"):
            read_json(begin * depth + inner + end * depth)
