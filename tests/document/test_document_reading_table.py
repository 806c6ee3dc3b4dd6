"""Every kind of SKILL.md that is found in the wild: whether it loads, and what a strict check says."""

from __future__ import annotations

import pytest

from skillyard.document import Document, NeedMore, check_document, parse_document, summarize

BODY = "\n# Steps\n\n1. Do it.\n"


def skill(header: str, body: str = BODY) -> bytes:
    return f"---\n{header}\n---\n{body}".encode()


def load(data: bytes, **options: str) -> Document:
    """Read a file both ways and make sure that a list and a load agree."""
    folder = options.get("directory_name", "pdf")
    profile = options.get("profile", "standard")
    document = parse_document(data, directory_name=folder, profile=profile)  # type: ignore[arg-type]
    summary = summarize(data, directory_name=folder, profile=profile)  # type: ignore[arg-type]
    assert (summary.usable, summary.name, summary.description) == (
        document.usable,
        document.metadata.name,
        document.metadata.description,
    )
    assert summary.diagnostics == tuple(found for found in document.diagnostics if found.severity != "info")
    return document


def strict_errors(data: bytes, **options: str) -> list[str]:
    found = check_document(
        data, directory_name=options.get("directory_name", "pdf"), profile="spec", file=options.get("file", "SKILL.md")
    )
    assert all(one.line >= 1 and one.fix for one in found)
    return [one.rule for one in found if one.severity == "error"]


def rules(document: Document) -> list[str]:
    return [found.rule for found in document.diagnostics if found.severity != "info"]


@pytest.mark.row("004-5", "C-12")
@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Read Bash(git:*)", ("Read", "Bash(git:*)")),
        ("Read, Write, Bash(git add:*)", ("Read", "Write", "Bash(git add:*)")),
        ("[Read, 'Bash(git:*)']", ("Read", "Bash(git:*)")),
        ("\n  - Read\n  - Bash(npm run test:*)", ("Read", "Bash(npm run test:*)")),
        ("*", ("*",)),
    ],
)
def test_allowed_tools_become_one_list_whatever_their_notation(written: str, tools: tuple[str, ...]) -> None:
    data = skill(f"name: pdf\ndescription: Reads PDFs.\nallowed-tools: {written}")
    assert load(data).metadata.allowed_tools == tools
    assert summarize(data).allowed_tools == tools


def test_a_list_of_allowed_tools_loads_but_is_no_text_as_the_specification_wants() -> None:
    data = skill("name: pdf\ndescription: Reads PDFs.\nallowed-tools:\n  - Read\n  - Write")
    assert load(data).usable
    assert strict_errors(data) == ["allowed-tools-list"]


def test_an_unquoted_colon_is_read_as_the_text_that_was_meant() -> None:
    data = skill("name: pdf\ndescription: Use when: a PDF is given, don't guess")
    document = load(data)
    assert document.usable
    assert document.metadata.description == "Use when: a PDF is given, don't guess"
    (found,) = document.diagnostics
    assert (found.rule, found.line) == ("yaml-unquoted-colon", 3)
    assert found.fix == "put the value in quotes: description: 'Use when: a PDF is given, don''t guess'"
    assert strict_errors(data) == ["yaml-unquoted-colon"]


@pytest.mark.row("D-5", "004-4", "001-2")
@pytest.mark.parametrize(
    ("data", "style"),
    [
        (b"\xef\xbb\xbf---\nname: pdf\ndescription: d\n---\nbody\n", "style-bom"),
        (b"---\r\nname: pdf\r\ndescription: d\r\n---\r\nbody\n", "style-line-endings"),
        (b"---\rname: pdf\rdescription: d\r---\rbody\r", "style-line-endings"),
        (b"---\nname: pdf\ndescription: d\n---", "style-final-newline"),
        (b"\n  \n---\nname: pdf\ndescription: d\n---\nbody\n", "style-blank-start"),
        (b"---\nname: pdf\ndescription: d\n...\nbody\n", "style-closing-dots"),
    ],
)
@pytest.mark.abuse("G6")
def test_files_of_another_style_load_and_are_valid(data: bytes, style: str) -> None:
    document = load(data)
    assert document.usable
    assert document.metadata.description == "d"
    assert [found.rule for found in document.diagnostics] == [style]
    assert strict_errors(data) == []
    assert style in [found.rule for found in check_document(data, directory_name="pdf", profile="spec")]


def test_lines_that_end_in_cr_are_lines() -> None:
    document = load(b"---\rname: pdf\rdescription: Use when: asked\r---\rone\r\r## Two\rthree\r")
    assert [(found.rule, found.line) for found in document.diagnostics] == [
        ("style-line-endings", 1),
        ("yaml-unquoted-colon", 3),
    ]
    assert (document.body, document.body_line) == ("one\n\n## Two\nthree\n", 5)
    assert [(one.title, one.line) for one in document.sections] == [("Two", 7)]


@pytest.mark.row("D-5")
def test_empty_front_matter_is_recognised() -> None:
    document = load(b"---\n---\nbody\n")
    assert document.body == "body\n"
    assert rules(document) == ["name-missing", "description-missing"]


@pytest.mark.parametrize("fence", [b"---  \n", b"---\t\n"])
def test_white_space_behind_a_fence_is_no_matter(fence: bytes) -> None:
    assert load(fence + b"name: pdf\ndescription: d\n" + fence + b"body\n").body == "body\n"


@pytest.mark.row("D-5")
def test_dashes_inside_a_value_or_a_longer_line_of_dashes_are_no_fence() -> None:
    data = skill("name: pdf\ndescription: before --- after\nnote: |\n  ---\n  x", "----\n\ntext\n\n---\nmore\n")
    document = load(data)
    assert document.metadata.description == "before --- after"
    assert document.front_matter["note"] == "---\nx\n"
    assert document.body == "----\n\ntext\n\n---\nmore\n"
    assert load(b"---\nname: pdf\n----: x\ndescription: d\n---\n").front_matter["----"] == "x"
    assert strict_errors(skill("name: pdf\ndescription: before --- after")) == []


@pytest.mark.row("000-24")
def test_unknown_fields_are_kept_as_written() -> None:
    data = skill("name: pdf\ndescription: d\nx-team: 1.10\nnested: {a: [yes, 2001-01-01]}")
    document = load(data)
    assert document.metadata.extra == {"x-team": "1.10", "nested": {"a": ["yes", "2001-01-01"]}}
    assert rules(document) == []
    assert strict_errors(data) == ["field-unknown", "field-unknown"]


@pytest.mark.row("C-15", "000-7")
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("PDF", "name-characters"),
        ("PDF Miner", "name-characters"),
        ("pdf_miner", "name-characters"),
        ("-pdf", "name-hyphens"),
        ("pdf--miner", "name-hyphens"),
        ("p" * 65, "name-too-long"),
        ("../../etc", "name-unsafe"),
        ("a/b", "name-unsafe"),
        ("other", "name-folder-mismatch"),
    ],
)
@pytest.mark.abuse("G8")
def test_a_name_that_breaks_the_rule_loads_and_is_an_error_when_strict(name: str, error: str) -> None:
    data = skill(f"name: {name}\ndescription: d")
    document = load(data)
    assert document.usable
    assert document.metadata.name == name
    assert error in strict_errors(data)
    (found, *_) = [one for one in check_document(data, directory_name="pdf", profile="spec") if one.rule == error]
    assert found.fix


@pytest.mark.parametrize("name", ["技能", "навык", "café", "123"])
def test_names_of_other_scripts_and_digits_load_and_the_specification_takes_them(name: str) -> None:
    data = skill(f"name: {name}\ndescription: d")
    assert load(data, directory_name=name).metadata.name == name
    assert strict_errors(data, directory_name=name) == []


@pytest.mark.row("003-2", "001-1")
@pytest.mark.parametrize(
    ("header", "rule"),
    [
        ("name: pdf", "description-missing"),
        ("name: pdf\ndescription:", "description-blank"),
        ("name: pdf\ndescription: '   '", "description-blank"),
        ("name: pdf\ndescription: null", "description-blank"),
        ("name: pdf\ndescription: [a, b]", "description-not-text"),
        ("name: pdf\ndescription: {a: b}", "description-not-text"),
    ],
)
@pytest.mark.abuse("G7")
def test_the_first_paragraph_stands_in_for_a_description_and_without_one_the_skill_is_broken(header: str, rule: str) -> None:
    document = load(skill(header, "# PDF\n\nReads **forms**,\nand fills them.\n\nMore.\n"))
    assert document.usable
    assert rules(document) == [rule]
    assert (document.metadata.description, document.inferred) == ("Reads forms, and fills them.", ("description",))
    broken = load(skill(header))
    assert not broken.usable
    assert sorted(rules(broken)) == sorted([rule, "description-not-found"])
    assert load(skill(header), profile="minimal").usable
    assert rule in strict_errors(skill(header))
    assert not load(skill(header, "Reads forms.\n"), profile="full").usable


@pytest.mark.row("C-3", "001-2", "004-3")
def test_without_front_matter_the_folder_and_the_first_paragraph_stand_in() -> None:
    data = b"# PDF forms\n\nReads forms, and fills them.\n\n## Steps\n"
    document = load(data)
    assert document.usable
    assert rules(document) == ["front-matter-missing"]
    assert (document.metadata.name, document.metadata.description) == ("pdf", "Reads forms, and fills them.")
    assert document.inferred == ("name", "description")
    assert strict_errors(data) == ["front-matter-missing"]
    assert not load(data, profile="spec").usable


@pytest.mark.parametrize(
    ("body", "paragraph"),
    [
        ("Title\n=====\ntext below\n", "text below"),
        ("- a\n  goes on\n\nreal text\n", "real text"),
        ("<!-- a\nb -->\nText here\n", "Text here"),
        ("<div>\ninside\n</div>\n\noutside\n", "outside"),
        ("```\ncode\n```\nAfter code\n", "After code"),
        ("~~~~\n~~~\n~~~~\nAfter code\n", "After code"),
        ("    indented code\n\nplain words\n", "plain words"),
        ("| a | b |\n|---|---|\n\nPara\n", "Para"),
        ("![logo](a.png)\n\n---\n\n***\n\nhi all\n", "hi all"),
        ("> quoted\n> words\n\n- x\n", "quoted words"),
        ("> quoted\n\nwords\n", "words"),
        ("标题文字\n", "标题文字"),
        ("1. Do it.\n", ""),
        ("----\nname: pdf\n----\n", ""),
        ("", ""),
    ],
)
def test_the_first_paragraph_is_prose(body: str, paragraph: str) -> None:
    assert load(skill("name: pdf", body), profile="minimal").metadata.description == paragraph


def test_a_list_reads_as_far_as_the_paragraph_that_it_needs() -> None:
    """The first bytes of a file end inside its first paragraph: as much is read as a load would take."""
    text = "word " * 2000
    data = skill("name: pdf", f"\n{text}\n")
    with pytest.raises(NeedMore):
        summarize(data[:4096], directory_name="pdf", complete=False)
    summary = summarize(data, directory_name="pdf")
    assert summary.description == load(data).metadata.description
    assert len(summary.description) <= 1024
    assert summary.description.endswith("word…")


@pytest.mark.row("C-16", "000-9")
def test_a_long_description_loads_and_is_reported() -> None:
    data = skill(f"name: pdf\ndescription: {'d' * 1025}")
    document = load(data)
    assert document.usable
    assert len(document.metadata.description) == 1025
    assert rules(document) == ["description-too-long"]
    assert strict_errors(data) == ["description-too-long"]
    assert load(skill(f"name: pdf\ndescription: {'d' * 1024}")).diagnostics == ()


@pytest.mark.abuse("G5")
def test_a_key_that_is_there_twice_breaks_the_file_and_both_lines_are_named() -> None:
    data = skill("name: pdf\ndescription: good\nlicense: MIT\ndescription: evil")
    document = load(data)
    assert not document.usable
    (found,) = document.diagnostics
    assert (found.rule, found.line) == ("yaml-duplicate-key", 5)
    assert found.message == "the key `description` is on line 3 and again on line 5"
    assert strict_errors(data) == ["yaml-duplicate-key"]


@pytest.mark.parametrize("profile", ["minimal", "standard", "spec"])
@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (skill("name: &n pdf\ndescription: d"), "yaml-anchor"),
        (skill("name: pdf\ndescription: *n"), "yaml-alias"),
        (skill("name: pdf\ndescription: d\nx: &a [*a]"), "yaml-anchor"),
        (skill("<<: {name: pdf}\ndescription: d"), "yaml-merge-key"),
        (skill("name: pdf\ndescription: d\nx: {<<: {a: b}}"), "yaml-merge-key"),
        (skill("name: !!str pdf\ndescription: d"), "yaml-tag"),
        (skill("name: pdf\ndescription: d\nx: !!python/object/apply:os.system [id]"), "yaml-tag"),
        (skill("name: pdf\ndescription: d\nx: ! y"), "yaml-tag"),
        (skill("name: pdf\ndescription: d\nx: " + "[" * 8 + "]" * 8), "yaml-too-deep"),
        (skill("name: pdf\ndescription: d\n" + "\n".join(f"k{n}: v" for n in range(255))), "yaml-too-many-keys"),
        (b"---js\nmodule.exports = {}\n---\n", "front-matter-language"),
        (b"--- json\n{}\n---\n", "front-matter-language"),
        (b"---\nname: pdf\ndescription: d\nx: |\n" + b"  x\n" * 20_000 + b"---\n", "front-matter-too-large"),
        (skill("name: pdf\ndescription: d\x07"), "yaml-control-character"),
        (skill("name: pdf\ndescription: a\u2028name: evil"), "yaml-control-character"),
    ],
)
@pytest.mark.abuse("G1", "G2", "G3", "G4", "G6")
def test_what_has_harmed_readers_is_refused_in_every_profile(data: bytes, rule: str, profile: str) -> None:
    document = load(data, profile=profile)
    assert not document.usable
    (found,) = [found for found in document.diagnostics if found.severity == "error"]
    assert found.rule == rule
    assert found.line >= 1
    assert found.fix


@pytest.mark.parametrize(
    ("data", "rule", "line"),
    [
        ("---\nname: pdf\ndescription: caf\xe9\n---\n".encode("latin-1"), "file-not-utf8", 3),
        ("---\nname: pdf\ndescription: d\n---\n\ncaf\xe9\n".encode("latin-1"), "file-not-utf8", 6),
        ("---\nname: pdf\ndescription: d\n---\n".encode("utf-16"), "file-not-utf8", 1),
        (b"---\nname: pdf\ndescription: d\n---\nx\0y", "file-nul", 5),
        (b"---\nname: pdf\ndescription: d\n---\n" + b"x" * 1_100_000, "file-too-large", 1),
    ],
)
@pytest.mark.abuse("G6")
def test_a_file_that_is_not_text_is_listed_as_broken(data: bytes, rule: str, line: int) -> None:
    document = load(data)
    assert not document.usable
    assert [(found.rule, found.line) for found in document.diagnostics] == [(rule, line)]
    assert document.metadata.name == "pdf"


@pytest.mark.row("001-2", "004-3", "C-3")
@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"---\nname: pdf\ndescription: d\n", "front-matter-unclosed"),
        (b"---\n- a\n- b\n---\nbody\n", "yaml-not-a-mapping"),
        (b"---\nname: pdf\n}\n---\nbody\n", "yaml-syntax"),
    ],
)
def test_without_readable_front_matter_a_skill_is_broken_but_the_minimal_profile_loads_it(data: bytes, rule: str) -> None:
    document = load(data)
    assert not document.usable
    assert [found.rule for found in document.diagnostics] == [rule]
    assert strict_errors(data) == [rule]
    lenient = load(data, profile="minimal")
    assert lenient.usable
    assert (lenient.metadata.name, lenient.metadata.description) == ("pdf", "")


def test_without_front_matter_the_whole_text_is_the_body() -> None:
    assert load(b"# Just text\n").body == "# Just text\n"


@pytest.mark.parametrize("word", ["123", "no", "2001-01-01", "12:30", "1.10", "0x1F", "true", "1_000", "1e3", ".5", "+1"])
@pytest.mark.abuse("G7")
def test_a_scalar_stays_the_text_that_was_written(word: str) -> None:
    document = load(skill(f"name: {word}\ndescription: {word}\nversion: {word}"))
    assert document.metadata.name == word
    assert document.metadata.description == word
    assert document.metadata.version == word
    assert document.usable


def test_the_file_in_lower_case_loads_with_a_warning() -> None:
    data = skill("name: pdf\ndescription: d")
    summary = summarize(data, file="pdf/skill.md", directory_name="pdf")
    assert summary.usable
    assert [(found.rule, found.severity, found.file) for found in summary.diagnostics] == [
        ("file-name-case", "warning", "pdf/skill.md")
    ]
    assert strict_errors(data, file="skill.md") == ["file-name-case"]


def test_nested_metadata_is_kept_and_is_no_text_as_the_specification_wants() -> None:
    data = skill("name: pdf\ndescription: d\nmetadata:\n  version: 1.10\n  openclaw:\n    os: [linux, no]")
    document = load(data)
    assert document.metadata.metadata == {"version": "1.10", "openclaw": {"os": ["linux", "no"]}}
    assert strict_errors(data) == ["metadata-value-not-text"]


@pytest.mark.row("003-2")
def test_a_missing_name_is_reported_and_the_folder_stands_in() -> None:
    document = load(skill("description: d"))
    assert document.usable
    assert document.metadata.name == "pdf"
    assert rules(document) == ["name-missing"]
    assert not parse_document(skill("description: d")).usable


@pytest.mark.row("D-6")
def test_block_scalars_quotes_and_nested_maps_are_read_as_yaml() -> None:
    data = skill(
        'name: "pdf"\ndescription: |-\n  First: line\n  second\nmetadata:\n  a:\n    b: "x: y"\nfolded: >\n  one\n  two\n'
    )
    document = load(data)
    assert document.metadata.description == "First: line\nsecond"
    assert document.metadata.metadata == {"a": {"b": "x: y"}}
    assert document.front_matter["folded"] == "one two\n"


@pytest.mark.abuse("G11")
def test_hidden_characters_in_what_a_model_would_read_are_reported() -> None:
    document = load(skill("name: pdf\ndescription: Reads\u202e PDFs\U000e0041"))
    assert document.usable
    assert rules(document) == ["text-hidden-characters"]
    assert rules(load(skill('name: pdf\ndescription: "Reads\\u200b PDFs"'))) == ["text-hidden-characters"]


@pytest.mark.abuse("G21")
def test_an_entry_of_allowed_tools_that_names_no_tool_is_reported_with_its_line() -> None:
    data = b"---\nname: a\ndescription: d\nallowed-tools: Read Bash(git 1x, Write\n---\n"
    (found,) = [one for one in parse_document(data).diagnostics if one.rule == "allowed-tools-grammar"]
    assert (found.line, found.severity) == (4, "warning")
    assert found.message == "`Bash(git 1x, Write` does not name a tool"
    assert found.fix == "write a tool's name, or Tool(argument), such as `Bash(git:*)`"
    assert "allowed-tools-grammar" not in [
        one.rule for one in parse_document(data.replace(b"(git 1x,", b"(git:*)")).diagnostics
    ]
