"""Every page that users read is there in Chinese too, with the same commands, headings, tables, names and links.

A page whose twin has changed is named with what differs: translate it; `make docs` copies the blocks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("the whole source")  # one process parses it
ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s]*)\)")
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_ROW = re.compile(r"^ *\|", re.MULTILINE)
_ITEM = re.compile(r"^ *(?:-|\d+\.) ", re.MULTILINE)
_FIGURE = re.compile(r"\d+(?:[.,]\d+)+|\d{2,}")
_NAME = re.compile(r"[a-z0-9]+(?:[-, ]+[a-z0-9]+)*")


def read(page: Path) -> str:
    return page.read_text("utf-8")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def places(*parts: tuple[Path, Any]) -> str:
    """Where parts of pages are, and how each begins; one that is not there is left out."""
    found = [(page, part) for page, part in parts if part is not None]
    return ", ".join(f"{named(page)}:{part.line} ({part.kind} {part.text.splitlines()[0]})" for page, part in found)


def first_difference(ours: str, theirs: str) -> str:
    """The first line in which two blocks differ, as each has it."""
    pairs = zip_longest(ours.splitlines(), theirs.splitlines(), fillvalue="(nothing)")
    return next((f"{one!r} is {other!r} there" for one, other in pairs if one != other), "")


def sections(chinese_docs: ModuleType, page: Path) -> list[tuple[int, str, str]]:
    """The line, the heading and the prose of each section; the language line and the table of attacks are left out."""
    text = re.sub(r"^.*· (?:\[简体中文\]|简体中文).*$", "", chinese_docs.prose(read(page)), count=1, flags=re.MULTILINE)
    lines = text.splitlines()
    starts = [heading.line for heading in chinese_docs.headings(read(page))]
    ends = [*[start - 1 for start in starts[1:]], len(lines)]
    return [(start, lines[start - 1], "\n".join(lines[start:end])) for start, end in zip(starts, ends, strict=True)]


def facts(page: Path, text: str) -> dict[str, Counter[str]]:
    """What a section says in no language: its rows and items, its links, and the names and figures in it."""
    links = Counter(named_target(page, target) for target in _LINK.findall(text))
    spans = Counter(
        " ".join(span.split()) for paragraph in re.split(r"\n\s*\n|\n(?= *[|-])", text) for span in _SPAN.findall(paragraph)
    )
    figures = Counter(_FIGURE.findall(_LINK.sub("", _SPAN.sub("", text))))
    return {
        "rows of tables": Counter(rows=len(_ROW.findall(text))),
        "items of lists": Counter(items=len(_ITEM.findall(text))),
        "links": links,
        "names in backquotes": spans,
        "figures": figures,
    }


def named_target(page: Path, target: str) -> str:
    """A link as both pages of a pair have it: the English page or file it leads to, without its anchor."""
    path = target.partition("#")[0]
    leads_to = (page.parent / path).resolve() if path else page
    twin = {ROOT / "README.zh-CN.md": ROOT / "README.md"}.get(leads_to, leads_to)
    return str(twin.relative_to(ROOT)).replace("docs/zh/", "docs/")


def test_every_page_for_users_has_its_twin(chinese_docs: ModuleType) -> None:
    english = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert english >= chinese_docs.ENGLISH_ONLY
    assert {page.name for page in chinese_docs.CHINESE.glob("*.md")} - {"README.md"} == english - chinese_docs.ENGLISH_ONLY


def test_the_index_names_every_page_and_those_that_are_english_only(chinese_docs: ModuleType) -> None:
    targets = set(_LINK.findall(read(chinese_docs.INDEX)))
    wanted = {page.name for page in chinese_docs.CHINESE.glob("*.md")} - {"README.md"}
    assert {target for target in targets if "/" not in target} == wanted
    english = {target.removeprefix("../") for target in targets if re.fullmatch(r"\.\./[\w-]+\.md", target)}
    assert english == chinese_docs.ENGLISH_ONLY


def test_a_twin_has_the_same_blocks(chinese_docs: ModuleType) -> None:
    wrong = []
    for english, chinese in chinese_docs.twins().items():
        alike = chinese_docs.without_remarks if english.name == "README.md" else str
        pairs = zip_longest(chinese_docs.blocks(read(english)), chinese_docs.blocks(read(chinese)))
        for number, (one, other) in enumerate(pairs, start=1):
            if one is None or other is None:
                wrong.append(f"block {number} has no twin: {places((english, one), (chinese, other))}")
            elif one.kind != other.kind or alike(one.text) != alike(other.text):
                difference = first_difference(alike(other.text), alike(one.text))
                wrong.append(f"block {number} differs: {places((chinese, other), (english, one))}: {difference}")
    assert not wrong, "\n".join(["`make docs` copies blocks where both pages have as many of the same kinds", *wrong])


def test_a_twin_has_the_same_headings(chinese_docs: ModuleType) -> None:
    wrong = []
    for english, chinese in chinese_docs.twins().items():
        pairs = zip_longest(chinese_docs.headings(read(english)), chinese_docs.headings(read(chinese)))
        for one, other in pairs:
            is_name = one is not None and _NAME.fullmatch(one.text)
            if one is None or other is None or one.kind != other.kind or (is_name and one.text != other.text):
                wrong.append(places((english, one), (chinese, other)))
                break  # what follows is only out of step
    assert not wrong, "\n".join(wrong)


def test_a_section_and_its_twin_have_the_same_rows_items_links_names_and_figures(chinese_docs: ModuleType) -> None:
    wrong = []
    for english, chinese in chinese_docs.twins().items():
        for one, other in zip(sections(chinese_docs, english), sections(chinese_docs, chinese), strict=False):
            ours, theirs = facts(english, one[2]), facts(chinese, other[2])
            for kind, counted in ours.items():
                missing, more = counted - theirs[kind], theirs[kind] - counted
                if missing or more:
                    place = f"{named(chinese)}:{other[0]} ({one[1]}, {named(english)}:{one[0]})"
                    wrong.append(f"{place}: {kind}: not there {dict(missing)}, only there {dict(more)}")
    assert not wrong, "\n".join(wrong)


def test_links_with_an_anchor_lead_to_a_heading(chinese_docs: ModuleType) -> None:
    wrong = []
    for page in every_page(chinese_docs):
        for target in _LINK.findall(chinese_docs.prose(read(page))):
            path, sign, anchor = target.partition("#")
            leads_to = (page.parent / path).resolve() if path else page
            if sign and leads_to.suffix == ".md" and anchor not in chinese_docs.anchors(read(leads_to)):
                wrong.append(f"{named(page)}: {target}")
    assert not wrong, "\n".join(wrong)


def test_a_chinese_page_leads_to_chinese_pages_and_each_page_to_its_twin(chinese_docs: ModuleType) -> None:
    twins = chinese_docs.twins()
    for english, chinese in twins.items():
        for page, other in ((english, chinese), (chinese, english)):
            first = read(page).split("\n", 3)[2]
            assert (page.parent / _LINK.findall(first)[0]).resolve() == other, named(page)
        links = _LINK.findall(read(chinese).split("\n", 3)[3])
        led = {(chinese.parent / target.partition("#")[0]).resolve() for target in links if not target.startswith("#")}
        assert led.isdisjoint(twins), named(chinese)


def test_the_generated_tables_have_every_text_in_chinese(chinese_docs: ModuleType, abuse: ModuleType) -> None:
    from skillyard.scanner import RULES, SUBJECTS

    scanner = {*SUBJECTS, *(rule.title for rule in RULES.values()), *(rule.why for rule in RULES.values())}
    scanner |= {"Rule", "In a script", "In a text", "Finds", "Why"}
    attacks = {*abuse.titles().values(), *abuse.cases().values(), *abuse.catalogue()["nothing_to_attack"].values()}
    attacks |= {"Attack", "Shown in", "Sandboxes", "Nothing to attack"}
    agents = {"Agent", "Program", "Skills of the user", "Skills of a project", "MCP servers", "Tried"}
    for table, wanted in (("scanner", scanner), ("attacks", attacks), ("coding agents", agents)):
        has = chinese_docs.texts(table)
        missing, unused = wanted - set(has), set(has) - wanted
        assert (missing, unused) == (set(), set()), f"scripts/chinese.json, {table}"
        assert all(re.search(r"[\u4e00-\u9fff]", text) for text in has.values())
    page = read(abuse.CHINESE_PAGE)
    assert abuse.written(page, chinese_docs.texts("attacks")) == page, "run `make docs`"


def test_a_block_that_changed_is_copied_and_one_more_is_not(chinese_docs: ModuleType) -> None:
    chinese = "# 页\n\n文字。\n\n```sh\nskillyard list\n```\n\n```sh\nmake run  # 运行\n```\n"
    english = "# Page\n\nText.\n\n```sh\nskillyard list --json\n```\n\n```sh\nmake run  # runs\n```\n"
    assert chinese_docs.copied(english, chinese) == chinese.replace("list", "list --json")
    assert chinese_docs.copied(english + "\n```sh\nmore\n```\n", chinese) == chinese


def every_page(chinese_docs: ModuleType) -> Iterator[Path]:
    for english, chinese in chinese_docs.twins().items():
        yield from (english, chinese)
    yield chinese_docs.INDEX
