"""Attacks on the reader of SKILL.md: size, encodings and values of the wrong kind."""

from __future__ import annotations

import tracemalloc

import pytest

from skillyard.document import parse_document, summarize
from skillyard.document.document_rules import HEADER_LIMIT

MEBIBYTE = 1024 * 1024
HEAD = b"---\nname: pdf\ndescription: d\n"


@pytest.mark.abuse("G1")
@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"x: |\n" + b"  y\n" * (10 * MEBIBYTE // 4) + b"---\n",
        HEAD + b"x: " + b"y" * 10 * MEBIBYTE,
        HEAD + b"k: v\n" * 2 * MEBIBYTE,
    ],
    ids=["many lines", "one line", "no end"],
)
def test_ten_megabytes_of_front_matter_are_refused_without_taking_them_apart(data: bytes) -> None:
    tracemalloc.start()
    try:
        document, summary = (
            parse_document(data, directory_name="pdf"),
            summarize(data[: HEADER_LIMIT + 10], directory_name="pdf"),
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not document.usable
    assert not summary.usable
    assert {found.rule for found in document.diagnostics} <= {
        "file-too-large",
        "front-matter-too-large",
        "front-matter-unclosed",
    }
    assert peak < 10 * MEBIBYTE


@pytest.mark.abuse("G2")
def test_aliases_that_double_ten_times_are_refused_at_the_first() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    document = parse_document(HEAD + "\n".join(lines).encode() + b"\n---\n", directory_name="pdf")
    assert not document.usable
    assert [found.rule for found in document.diagnostics] == ["yaml-anchor"]


@pytest.mark.abuse("G5")
@pytest.mark.parametrize(
    "twice", ["security: {network: none}\nsecurity: {network: allowlist}", "permissions: {}\npermissions: {}"]
)
def test_what_a_skill_may_do_cannot_be_written_twice(twice: str) -> None:
    document = parse_document(HEAD + twice.encode() + b"\n---\n", directory_name="pdf")
    assert [found.rule for found in document.diagnostics] == ["yaml-duplicate-key"]


@pytest.mark.abuse("G6")
@pytest.mark.parametrize(
    "written", [b"description2: \xed\xa0\x80", b'x: "\\ud800"', b"x: a\x00b", b"x: \xff", b"x: a\xe2\x80\xa8b", b"x: \xc0\xaf"]
)
def test_bytes_that_are_no_text_never_become_a_value(written: bytes) -> None:
    document = parse_document(HEAD + written + b"\n---\n", directory_name="pdf")
    assert not document.usable or not any("\ud800" <= letter <= "\udfff" for letter in str(document.front_matter))


@pytest.mark.abuse("G7")
@pytest.mark.parametrize("value", ["[a, b]", "{a: b}"])
def test_a_name_that_is_no_text_is_never_made_one(value: str) -> None:
    document = parse_document(f"---\nname: {value}\ndescription: d\n---\n".encode(), directory_name="pdf")
    assert document.metadata.name == "pdf"
    assert "name-not-text" in [found.rule for found in document.diagnostics]
