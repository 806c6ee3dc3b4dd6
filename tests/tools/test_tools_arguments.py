"""What a model sends is checked as a whole, and the answer says what was expected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.errors import InvalidInput
from skillyard.tools.tool_arguments import Arguments, Parameter, check_arguments, decode_arguments

PARAMETERS = (
    Parameter("query", "string", "words", required=True, aliases=("q",)),
    Parameter("limit", "integer", "how many", minimum=1, maximum=50),
    Parameter("force", "boolean", "again"),
    Parameter("input", "object", "anything"),
)


def test_good_arguments_are_read_by_type() -> None:
    given_ = check_arguments(PARAMETERS, {"query": "pdf", "limit": 3, "force": True, "input": {"a": 1}})
    assert (given_.text("query"), given_.number("limit", 10), given_.flag("force", False)) == ("pdf", 3, True)
    assert given_.mapping("input") == {"a": 1}


def test_what_is_left_out_or_null_takes_its_default() -> None:
    given_ = check_arguments(PARAMETERS, {"query": "pdf", "limit": None})
    assert (given_.number("limit", 10), given_.flag("force", True), given_.mapping("input")) == (10, True, {})
    assert given_.optional_text("nothing") is None


def test_another_name_of_a_parameter_is_understood() -> None:
    assert check_arguments(PARAMETERS, {"q": "pdf"}).text("query") == "pdf"


def test_a_whole_number_may_come_as_a_float() -> None:
    assert check_arguments(PARAMETERS, {"query": "x", "limit": 3.0}).number("limit", 10) == 3


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "Missing query"),
        ({"query": "  "}, "Missing query"),
        ({"query": None}, "Missing query"),
        ({"query": 1}, "'query' must be a text, not a number"),
        ({"query": ["a"]}, "'query' must be a text, not a list"),
        ({"query": "a", "limit": "3"}, "'limit' must be a whole number, not a text"),
        ({"query": "a", "limit": True}, "'limit' must be a whole number, not true or false"),
        ({"query": "a", "limit": 2.5}, "'limit' must be a whole number"),
        ({"query": "a", "limit": 0}, "'limit' must be at least 1"),
        ({"query": "a", "limit": 51}, "'limit' must be at most 50"),
        ({"query": "a", "force": "yes"}, "'force' must be true or false, not a text"),
        ({"query": "a", "input": "{}"}, "'input' must be an object, not a text"),
        ({"query": "a", "colour": "red"}, "Unknown argument 'colour'"),
        ({"query": "a", "q": "b"}, "given twice"),
    ],
)
def test_what_does_not_fit_is_named(arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint) as caught:
        check_arguments(PARAMETERS, arguments)
    assert caught.value.hint == (
        "Expected: query (a text, required), limit (a whole number), force (true or false), input (an object)"
    )


def test_everything_wrong_is_reported_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_arguments(PARAMETERS, {"limit": "x", "colour": 1})
    assert caught.value.message == "Unknown argument 'colour'; Missing query; 'limit' must be a whole number, not a text"


def test_arguments_may_come_as_json_text_or_not_at_all() -> None:
    assert decode_arguments('{"a": 1}') == {"a": 1}
    assert decode_arguments("") == decode_arguments(None) == {}


@pytest.mark.parametrize("text", ["{", "[1]", "1", '"x"', "null", "[" * 100_000])
def test_text_that_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        decode_arguments(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.sampled_from(["query", "q", "limit", "force", "input", "other"]), json_values))
def test_anything_is_either_read_or_refused(arguments: dict[str, object]) -> None:
    try:
        checked = check_arguments(PARAMETERS, arguments)
    except InvalidInput as error:
        assert error.message
    else:
        assert isinstance(checked, Arguments)
        assert checked.text("query").strip()
        assert 1 <= checked.number("limit", 10) <= 50
