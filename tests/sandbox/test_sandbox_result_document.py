"""The one document on the result pipe is read strictly."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pattern_growth import growth_of

from skillyard.plain_json import MAXIMUM_DEPTH
from skillyard.sandbox.run_output import MalformedResult, read_result

LIMIT = 1024 * 1024
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text().filter(lambda key: key != "__proto__"), inner),
)


@given(plain)
def test_any_plain_value_comes_back_as_it_was(value: object) -> None:
    assert read_result(json.dumps(value).encode(), limit=LIMIT) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_and_nothing_else(data: bytes) -> None:
    try:
        read_result(data, limit=LIMIT)
    except MalformedResult as error:
        assert str(error)


@pytest.mark.parametrize(
    "data",
    [
        b"NaN", b"[Infinity]", b"-Infinity", b"1e999", b'{"a": 1, "a": 2}', b"1 2", b"{} {}", b"", b"{", b"\xff\xfe1\x00",
        b'"\xff"', b'"\\ud800"', b'{"__proto__": {}}', b"[" * 10_000, b"[" * 65 + b"]" * 65, b"9" * 10_000, b"\xef\xbb\xbf1",
        b'{"a":' * 100 + b"1" + b"}" * 100,
    ],
)  # fmt: skip
@pytest.mark.abuse("G18")
def test_documents_that_are_not_strict_json_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedResult):
        read_result(data, limit=LIMIT)


def test_depth_is_counted_outside_of_text() -> None:
    text = json.dumps(["[" * 500, "\\" + '"{' * 300])
    assert read_result(text.encode(), limit=LIMIT) == json.loads(text)
    deepest = b"[" * MAXIMUM_DEPTH + b"]" * MAXIMUM_DEPTH
    assert read_result(deepest, limit=LIMIT) is not None


def test_a_document_over_the_limit_is_refused() -> None:
    with pytest.raises(MalformedResult, match="over 10 bytes"):
        read_result(b'"0123456789"', limit=10)


@pytest.mark.abuse("G22")
@pytest.mark.parametrize(
    "data",
    [
        lambda size: b'["' + b'\\"' * size + b"[" * 70,
        lambda size: b"[" * 70 + b'"' * size,
        lambda size: b'"' + b"\\" * size + b"[" * 70,
        lambda size: b"[" * size,
        lambda size: b"[" + b"[]," * size + b"1]",
        lambda size: b"[" * 60 + b"0," * size + b"0" + b"]" * 60,
        lambda size: b"{" + b",".join(b'"%d":[' % n + b"]" for n in range(size)) + b"}",
    ],
)
def test_a_document_is_read_in_time_that_grows_with_it(data: Callable[[int], bytes]) -> None:
    assert growth_of(lambda text: read_result(text, limit=10 * LIMIT), data, 1_500) < 9
