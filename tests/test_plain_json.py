"""JSON of strangers is read as JSON says, and only as deep as others can write it again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.plain_json import MAXIMUM_DEPTH, read_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(_VALUES)
def test_what_was_written_is_read(value: object) -> None:
    assert read_json(json.dumps(value)) == value


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
