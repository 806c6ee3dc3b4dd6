"""The profile `spec` gives the verdict of the specification's own validator, but for a few cases that each have a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from skills_ref.validator import validate

from skillyard.document import check_document

LONG = "x" * 1025

# Each case: folder name, front matter. The body is the same for all.
CASES = {
    "the least a skill needs": ("pdf", "name: pdf\ndescription: Reads PDFs."),
    "every field": (
        "pdf",
        "name: pdf\ndescription: Reads PDFs.\nlicense: MIT\ncompatibility: Needs poppler\n"
        "allowed-tools: Read Bash(git:*)\nmetadata:\n  author: me\n  version: '1.0'",
    ),
    "no name": ("pdf", "description: Reads PDFs."),
    "no description": ("pdf", "name: pdf"),
    "nothing at all": ("pdf", "# only a comment"),
    "empty name": ("pdf", "name: ''\ndescription: d"),
    "blank name": ("pdf", "name: '   '\ndescription: d"),
    "empty description": ("pdf", "name: pdf\ndescription: ''"),
    "blank description": ("pdf", "name: pdf\ndescription: '   '"),
    "name is a list": ("pdf", "name:\n  - pdf\ndescription: d"),
    "description is a list": ("pdf", "name: pdf\ndescription:\n  - d"),
    "description is a mapping": ("pdf", "name: pdf\ndescription:\n  d: e"),
    "upper case": ("Pdf", "name: Pdf\ndescription: d"),
    "spaces": ("pdf miner", "name: pdf miner\ndescription: d"),
    "underscore": ("pdf_miner", "name: pdf_miner\ndescription: d"),
    "dot": ("pdf.miner", "name: pdf.miner\ndescription: d"),
    "slash": ("pdf", "name: pdf/miner\ndescription: d"),
    "climbing": ("pdf", "name: ../../etc\ndescription: d"),
    "leading hyphen": ("-pdf", "name: -pdf\ndescription: d"),
    "trailing hyphen": ("pdf-", "name: pdf-\ndescription: d"),
    "two hyphens": ("pdf--miner", "name: pdf--miner\ndescription: d"),
    "64 characters": ("a" * 64, f"name: {'a' * 64}\ndescription: d"),
    "65 characters": ("a" * 65, f"name: {'a' * 65}\ndescription: d"),
    "other folder": ("other", "name: pdf\ndescription: d"),
    "folder in upper case": ("PDF", "name: pdf\ndescription: d"),
    "Chinese": ("技能", "name: 技能\ndescription: d"),
    "Chinese with hyphen": ("天气-查询", "name: 天气-查询\ndescription: d"),
    "Russian": ("мой-навык", "name: мой-навык\ndescription: d"),
    "Russian in upper case": ("НАВЫК", "name: НАВЫК\ndescription: d"),
    "accents composed and not": ("cafe\u0301", "name: caf\u00e9\ndescription: d"),
    "full-width letters": ("pdf", "name: \uff50\uff44\uff46\ndescription: d"),
    "emoji": ("pdf😀", "name: pdf😀\ndescription: d"),
    "digits": ("123", "name: 123\ndescription: d"),
    "a word YAML knows": ("no", "name: no\ndescription: yes"),
    "a date": ("2001-01-01", "name: 2001-01-01\ndescription: 12:30"),
    "a number as description": ("pdf", "name: pdf\ndescription: 1.10"),
    "description of 1,024": ("pdf", f"name: pdf\ndescription: {LONG[1:]}"),
    "description of 1,025": ("pdf", f"name: pdf\ndescription: {LONG}"),
    "folded description": ("pdf", "name: pdf\ndescription: >-\n  Reads\n  PDFs."),
    "literal description": ("pdf", "name: pdf\ndescription: |\n  Reads: PDFs.\n  More."),
    "quoted colon": ("pdf", "name: pdf\ndescription: 'Use when: asked'"),
    "unquoted colon": ("pdf", "name: pdf\ndescription: Use when: asked"),
    "unknown field": ("pdf", "name: pdf\ndescription: d\nmodel: fast"),
    "unknown spelling": ("pdf", "name: pdf\ndescription: d\nallowed_tools: Read"),
    "version outside metadata": ("pdf", "name: pdf\ndescription: d\nversion: 1.0.0"),
    "allowed-tools as text": ("pdf", "name: pdf\ndescription: d\nallowed-tools: Read, Write"),
    "allowed-tools as flow list": ("pdf", "name: pdf\ndescription: d\nallowed-tools: [Read, Write]"),
    "compatibility of 500": ("pdf", f"name: pdf\ndescription: d\ncompatibility: {'c' * 500}"),
    "compatibility of 501": ("pdf", f"name: pdf\ndescription: d\ncompatibility: {'c' * 501}"),
    "compatibility is a list": ("pdf", "name: pdf\ndescription: d\ncompatibility:\n  - c"),
    "empty metadata": ("pdf", "name: pdf\ndescription: d\nmetadata:"),
    "numbers in metadata": ("pdf", "name: pdf\ndescription: d\nmetadata:\n  version: 1.0\n  n: 3"),
    "duplicate key": ("pdf", "name: pdf\ndescription: d\ndescription: e"),
    "anchor": ("pdf", "name: &a pdf\ndescription: d"),
    "alias": ("pdf", "name: pdf\ndescription: d\nmetadata:\n  a: &x b\n  c: *x"),
    "tag": ("pdf", "name: pdf\ndescription: !!str d"),
    "not a mapping": ("pdf", "- name\n- description"),
    "an unclosed bracket": ("pdf", "name: pdf\ndescription: [d"),
    "an unclosed quote": ("pdf", "name: pdf\ndescription: 'd"),
}

FILES = {
    "no front matter": b"# Only text\n",
    "empty": b"",
    "unclosed": b"---\nname: pdf\ndescription: d\n",
    "carriage returns": b"---\r\nname: pdf\r\ndescription: d\r\n---\r\nbody\r\n",
    "no newline at the end": b"---\nname: pdf\ndescription: d\n---",
    "empty front matter": b"---\n---\nbody\n",
}

# Where the verdicts differ on purpose: what the reference says, and why ours is another.
EXCEPTIONS = {
    "allowed-tools as block list": (
        b"---\nname: pdf\ndescription: d\nallowed-tools:\n  - Read\n---\n",
        "valid",
        "the specification wants one text; the reference never looks at the field",
    ),
    "license as list": (
        b"---\nname: pdf\ndescription: d\nlicense:\n  - MIT\n---\n",
        "valid",
        "the specification wants text; the reference never looks at the field",
    ),
    "nested metadata": (
        b"---\nname: pdf\ndescription: d\nmetadata:\n  a:\n    b: c\n---\n",
        "valid",
        "the specification wants text for each value; the reference turns a mapping into Python notation",
    ),
    "metadata as list": (
        b"---\nname: pdf\ndescription: d\nmetadata:\n  - a\n---\n",
        "valid",
        "the specification wants a mapping; the reference never looks at the field",
    ),
    "flow mapping": (
        b'---\nname: pdf\ndescription: d\nmetadata: {"a": "b"}\n---\n',
        "not valid",
        "the specification wants YAML, and JSON is YAML; the reference's parser reads a subset",
    ),
    "null": (
        b"---\nname: pdf\ndescription: null\n---\n",
        "valid",
        "null is no text; the reference's parser knows only text",
    ),
    "byte order mark": (
        b"\xef\xbb\xbf---\nname: pdf\ndescription: d\n---\n",
        "not valid",
        "the mark is not part of the text; the reference leaves it there",
    ),
    "blank lines first": (
        b"\n---\nname: pdf\ndescription: d\n---\n",
        "not valid",
        "a matter of style, reported as a warning",
    ),
    "dots as closing fence": (
        b"---\nname: pdf\ndescription: d\n...\nbody\n",
        "not valid",
        "`...` ends a YAML document; reported as a warning",
    ),
    "dashes inside a value": (
        b"---\nname: pdf\ndescription: before --- after\nmodel: x\n---\n",
        "valid",
        "the reference takes the dashes for the closing fence and never sees the unknown field",
    ),
    "a longer line of dashes": (
        b"----\nname: pdf\ndescription: d\n----\n",
        "not valid",
        "",
    ),
    "a language": (
        b"---js\nname: pdf\ndescription: d\n---\n",
        "not valid",
        "",
    ),
    "latin-1": (
        "---\nname: pdf\ndescription: caf\xe9\n---\n".encode("latin-1"),
        "crash",
        "the reference does not catch the decoding error",
    ),
}


def reference(folder: Path, data: bytes) -> str:
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(data)
    try:
        return "not valid" if validate(folder) else "valid"
    except UnicodeDecodeError:
        return "crash"


def ours(folder: str, data: bytes) -> str:
    found = check_document(data, directory_name=folder, profile="spec")
    return "not valid" if any(one.severity == "error" for one in found) else "valid"


@pytest.mark.row("C-3", "003-2", "001-1")
@pytest.mark.parametrize("case", CASES)
def test_the_verdict_is_that_of_the_reference(case: str, tmp_path: Path) -> None:
    folder, header = CASES[case]
    data = f"---\n{header}\n---\n\n# Steps\n".encode()
    assert ours(folder, data) == reference(tmp_path / folder, data)


@pytest.mark.parametrize("case", FILES)
def test_the_verdict_on_odd_files_is_that_of_the_reference(case: str, tmp_path: Path) -> None:
    assert ours("pdf", FILES[case]) == reference(tmp_path / "pdf", FILES[case])


@pytest.mark.parametrize("case", EXCEPTIONS)
def test_each_difference_from_the_reference_has_a_reason(case: str, tmp_path: Path) -> None:
    data, verdict, reason = EXCEPTIONS[case]
    assert reference(tmp_path / "pdf", data) == verdict
    assert (ours("pdf", data) != verdict) == bool(reason)
