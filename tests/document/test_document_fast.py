"""The fast reader and the precise reader give the same summary, or the fast one gives none."""

from __future__ import annotations

import marshal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.document import HEADER_LIMIT, NeedMore, Summary, new_document, summarize
from skillyard.document.document import precise_summary
from skillyard.document.summarizer import fast_summary

HEADER = "name: pdf\ndescription: Reads PDFs."


def precise(data: bytes, *, complete: bool = True) -> Summary:
    return precise_summary(data, file="SKILL.md", directory_name="", profile="standard", complete=complete)


def agree(data: bytes) -> bool:
    """Whether the fast reader answered; when it did, it must have said what the precise one says."""
    quick = fast_summary(data, complete=True)
    assert quick is None or quick == precise(data)
    return quick is not None


def skill(header: str) -> bytes:
    return f"---\n{header}\n---\nbody\n".encode()


@pytest.mark.parametrize(
    "header",
    [
        HEADER,
        HEADER + "\nlicense: MIT\nauthor: me",
        HEADER + "\nmetadata:\n  a: {b: [c, d]}\n  e: 1",
        HEADER + "\nallowed-tools: Read, Bash(git:*)\nversion: 1.2.3\ntags: [a, b]\nkeywords: x, y",
        HEADER + "\ntype: internal\nuser-invocable: false",
        HEADER + "\ntype: skill\ndisable-model-invocation: true",
        "name: pdf\ndescription: >-\n  Reads PDFs & writes them!\n  Use when: **asked** — always",
        "name: pdf\ndescription: 读取 PDF 文件。",
        'name: "pdf"\ndescription: "Reads \\"PDFs\\""',
    ],
)
def test_ordinary_files_take_the_fast_way(header: str) -> None:
    assert agree(skill(header))


@pytest.mark.parametrize(
    "header",
    [
        "name: 123\ndescription: d",
        HEADER + "\nversion: 1.10",
        HEADER + "\nx: &a b",
        HEADER + "\nx: !t b",
        HEADER + "\nx:\n  - ! b",
        HEADER + "\nx: {a: {b: {c: {d: {e: {f: {g: {h: i}}}}}}}}",
        HEADER + "\n" + "\n".join(f"k{number}: v" for number in range(300)),
        HEADER + "\n1: x",
        HEADER + "\nx: {<<: y}",
        HEADER + "\nx: [?a]",
        HEADER + "\nallowed_tools: a\nallowed-tools: b",
        HEADER + "\nlicense: [MIT]",
        HEADER + "\ntags: [1, 2]",
        HEADER + "\n\tx: y",
        HEADER + "\n--- x",
        "name: a/b\ndescription: d",
        "name: pdf\ndescription: d\u200b",
        "name: pdf\ndescription: '" + "d" * 1100 + "'",
        HEADER + "\nx: [[a, b]: c]",
    ],
)
def test_whatever_may_need_a_word_is_left_to_the_precise_reader(header: str) -> None:
    assert not agree(skill(header))


KEYS = st.sampled_from(
    [
        "name",
        "description",
        "version",
        "type",
        "license",
        "tags",
        "keywords",
        "triggers",
        "allowed-tools",
        "allowedTools",
        "metadata",
        "security",
        "ttl",
        "displayName",
        "user-invocable",
        "argument-hint",
        "x-unknown",
        "config",
        "cacheable",
        "resources",
        "entry",
    ]
)
WORDS = st.one_of(
    st.text(st.sampled_from(list("ab zé— \"':#-[]{},&*!|>%@`?\\/.0123\u200b😀")), max_size=12),
    st.sampled_from(
        ["true", "no", "null", "~", "1.10", "2001-01-01", "|", ">-", "[a, b]", "{a: b}", "'q'", '"q"', "Use when: x"]
    ),
)
LINES = st.one_of(
    st.builds("{}: {}".format, KEYS, WORDS),
    st.builds("  {}: {}".format, KEYS, WORDS),
    st.builds("  - {}".format, WORDS),
    st.builds("  {}".format, WORDS),
    st.just(""),
    st.just("# comment"),
)


@given(st.lists(LINES, max_size=8))
def test_both_readers_agree_on_generated_front_matter(lines: list[str]) -> None:
    agree(skill("\n".join([HEADER, *lines])))


@given(st.text(max_size=60), st.text(min_size=1, max_size=200))
def test_both_readers_agree_on_written_documents(name: str, description: str) -> None:
    agree(new_document(name, description, "body").encode())


@given(st.binary(max_size=300))
def test_no_bytes_make_a_summary_fail(data: bytes) -> None:
    assert isinstance(summarize(b"---\n" + data), Summary)
    assert isinstance(summarize(data), Summary)


@pytest.mark.parametrize("nest", ["- ", "? ", ": ", "-   ", "- ? ", "[", "{a: "])
@pytest.mark.abuse("G4")
def test_nesting_without_end_is_refused_at_once(nest: str) -> None:
    summary = summarize(skill("x: y\nz:\n  " + nest * (60_000 // len(nest))))
    assert not summary.usable
    assert summary.diagnostics


@given(st.integers(0, 80), st.sampled_from([HEADER, "name: é\ndescription: 你好", "name: x\ndescription: |\n  a\n  b\n"]))
def test_the_first_bytes_give_the_same_summary_or_ask_for_more(cut: int, header: str) -> None:
    data = skill(header) + "é".encode() * 20
    part = data[:cut]
    try:
        summary = summarize(part, complete=False)
    except NeedMore:
        assert summarize(data, complete=False) == summarize(data)
    else:
        assert summary == summarize(data)


@pytest.mark.abuse("G1")
def test_a_header_without_end_is_refused_when_the_limit_is_reached() -> None:
    with pytest.raises(NeedMore):
        summarize(b"---\n" + b"x" * 5000, complete=False)
    summary = summarize(b"---\n" + b"x" * HEADER_LIMIT, complete=False)
    assert [found.rule for found in summary.diagnostics] == ["front-matter-too-large"]
    assert [found.rule for found in summarize(b"---\n" + b"x" * 5000).diagnostics] == ["front-matter-unclosed"]


def test_a_summary_is_plain_data_that_can_be_cached() -> None:
    summary = summarize(skill(HEADER + "\ntags: [a]\ntriggers: {intents: [read_pdf], phrases: ['read this']}"))
    assert marshal.loads(marshal.dumps(tuple(summary))) == tuple(summary)
    assert summary.keywords == ("a",)
    assert summary.phrases == ("read_pdf", "read this")


def test_threads_that_come_and_go_may_be_the_first_to_read() -> None:
    read = """
import threading

def read():
    from skillyard.document import summarize
    assert summarize(b"---\\nname: one\\ndescription: Counts. Use when asked.\\n---\\nDo it.\\n").name == "one"

for _ in range(20):
    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
"""
    subprocess.run([sys.executable, "-c", read], check=True)
