"""The precise reader: text and lines of every value, and every refusal with its line."""

from __future__ import annotations

import contextlib
import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.document.yaml_reader import Mapping, YamlProblem, as_data, as_text, read_with_recovery, read_yaml


def test_every_value_keeps_its_text_and_every_key_its_line() -> None:
    tree = read_yaml("a: 1.10\nb:\n  - yes\n  - {c: 0x1F}\nd: |\n  x\n", first_line=2)
    assert as_text(tree) == {"a": "1.10", "b": ["yes", {"c": "0x1F"}], "d": "x\n"}
    assert tree.key_lines == {"a": 2, "b": 3, "d": 6}
    nested = tree.entries["b"].items[1]  # type: ignore[union-attr]
    assert isinstance(nested, Mapping)
    assert nested.key_lines == {"c": 5}


def test_settings_and_schemas_get_the_types_of_json() -> None:
    tree = read_yaml(
        'a: 1.5\nb: true\nc: "true"\nd: null\ne: 0x1F\nf: no\ng: 12:30\nh: 1e999\ni: -7\nj: 2001-01-01\nk:\nl: 0o17'
    )
    assert as_data(tree) == {
        "a": 1.5,
        "b": True,
        "c": "true",
        "d": None,
        "e": 31,
        "f": "no",
        "g": "12:30",
        "h": "1e999",
        "i": -7,
        "j": "2001-01-01",
        "k": None,
        "l": 15,
    }


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        ("a: b\nc: &x d", "yaml-anchor", 3),
        ("a: *x", "yaml-alias", 2),
        ("a:\n  <<: b", "yaml-merge-key", 3),
        ("a: !!int 3", "yaml-tag", 2),
        ("a: 1\nb:\n  c: 1\n  c: 2", "yaml-duplicate-key", 5),
        ("a: 1\n'a': 2", "yaml-duplicate-key", 3),
        ("? [a]\n: b", "yaml-key-not-text", 2),
        ("- a", "yaml-not-a-mapping", 2),
        ("just text", "yaml-not-a-mapping", 2),
        ("a: b\n--- \nc: d", "yaml-syntax", 3),
        ("a: b\nc: d\x00", "yaml-control-character", 3),
        ("a: b\x85c: d", "yaml-control-character", 2),
        ("a: " + "[" * 100_000, "yaml-too-deep", 2),
        ("a: " + "{b: " * 20_000, "yaml-too-deep", 2),
        ("a:\n" + "\n".join(" " * depth + "b:" for depth in range(1, 20)), "yaml-too-deep", 10),
        ("{" + ", ".join(f"k{number}: v" for number in range(400)) + "}", "yaml-too-many-keys", 2),
    ],
)
@pytest.mark.abuse("G4", "G5")
def test_each_refusal_names_its_rule_and_line(text: str, rule: str, line: int) -> None:
    with pytest.raises(YamlProblem) as problem:
        read_yaml(text, first_line=2)
    assert (problem.value.rule, problem.value.line) == (rule, line)


@pytest.mark.parametrize("text", ["", "# only a comment", "\n\n"])
def test_an_empty_text_is_an_empty_mapping(text: str) -> None:
    assert read_yaml(text).entries == {}


def test_an_emoji_written_as_json_does_is_one_character() -> None:
    assert as_text(read_yaml('m: {"emoji": "\\ud83c\\udfaf"}')) == {"m": {"emoji": "🎯"}}


@given(st.text(max_size=200))
def test_no_text_makes_the_reader_fail_in_another_way(text: str) -> None:
    try:
        tree = read_yaml(text)
    except YamlProblem as problem:
        assert problem.line >= 1
    else:
        assert all(isinstance(key, str) for key in tree)


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        ("a: Use when: x", "Use when: x", "yaml-unquoted-colon"),
        ("a: it's: fine", "it's: fine", "yaml-unquoted-colon"),
        ("a: x: y # not a comment", "x: y # not a comment", "yaml-unquoted-colon"),
        ("a: one\n  TRIGGER when: two\n  three", "one TRIGGER when: two three", "yaml-unquoted-colon"),
        ("a: @scope/name", "@scope/name", "yaml-unquoted-value"),
        ("a: `code` first", "`code` first", "yaml-unquoted-value"),
        ("a: [one] [two]", "[one] [two]", "yaml-unquoted-value"),
        ('a: "say "hi" now"', 'say "hi" now', "yaml-unquoted-value"),
        ("a: [never closed\nb: c", "[never closed", "yaml-unquoted-value"),
        ("a: , comma first", ", comma first", "yaml-unquoted-value"),
        ("a: x: y\r\nb: c\r\n", "x: y", "yaml-unquoted-colon"),
        ("a: > x: y", "x: y", "yaml-unquoted-value"),
        ("a: >-x\nb: c", "x", "yaml-unquoted-value"),
        ("a: |2 x\n  two\n\n  three", "x two\nthree", "yaml-unquoted-value"),
    ],
)
def test_forgotten_quotes_are_put_in(text: str, value: str, rule: str) -> None:
    read = read_with_recovery(text)
    assert as_text(read.mapping.entries["a"]) == value
    assert [(repair.rule, repair.line) for repair in read.repairs] == [(rule, 1)]
    assert as_text(read_yaml(read.text).entries["a"]) == value
    assert read.text.count("\n") == text.count("\n")


def test_several_values_are_fixed_and_each_is_reported() -> None:
    read = read_with_recovery("a: x: y\nb: fine\nc:\n  d: @z\n", first_line=2)
    assert as_text(read.mapping) == {"a": "x: y", "b": "fine", "c": {"d": "@z"}}
    assert [repair.line for repair in read.repairs] == [2, 5]


@pytest.mark.parametrize("text", ["a: *x: y", "a: b\na: c: d", "a: !t b: c", "}{", "a: b\n  c\nd"])
def test_what_is_refused_for_safety_or_cannot_be_fixed_stays_refused(text: str) -> None:
    with pytest.raises(YamlProblem):
        read_with_recovery(text)


@pytest.mark.parametrize(
    "text",
    [
        "x: y: z\na" + " " * 60_000,
        "a: x: y\n" * 8_000,
        "a: [" + "x, " * 20_000,
        "a: " + '"' * 60_000,
        "a: " + "b: " * 20_000,
        "a:\n" + "  - b: c: d\n" * 5_000,
    ],
)
def test_a_text_made_to_be_slow_is_refused_or_read_at_once(text: str) -> None:
    try:
        assert read_with_recovery(text).repairs
    except YamlProblem as problem:
        assert problem.line >= 1


def test_a_header_that_cannot_be_read_leaves_no_parser_behind() -> None:
    gc.collect()
    gc.disable()
    try:
        for header in ("name: [", "name: a: b: c\n  - d", "name: x\ndescription: a: b"):
            with contextlib.suppress(YamlProblem):
                read_with_recovery(header)
        left = [one for one in gc.get_objects() if isinstance(one, YamlProblem)]
    finally:
        gc.enable()
    assert left == []
