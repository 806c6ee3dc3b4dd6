"""From the bytes of a SKILL.md to its text, front matter, sections and code blocks; a problem is a finding, not an exception.

A fence is `---` alone on its line (white space may follow). The closing one may be `...`. A line of `----`, or `---` inside a
value, is never a fence. A byte order mark and blank lines may come before the opening fence. Lines end in LF or CRLF; where the
opening fence ends in a lone CR, so do other lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping as MappingLike
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, cast

from skillyard.document.document_rules import DOCUMENT_LIMIT, HEADER_LIMIT, Findings, NeedMore
from skillyard.document.yaml_reader import Mapping, Repair, YamlProblem, as_data, as_text, read_with_recovery
from skillyard.text import single_line

_BOM: Final = b"\xef\xbb\xbf"

_CR_FENCE: Final = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*---[ \t]*\r(?!\n)")
_LONE_CR: Final = re.compile(rb"\r(?!\n)")

FenceProblem = Literal["front-matter-missing", "front-matter-unclosed", "front-matter-language", "front-matter-too-large"]


class Fences(NamedTuple):
    """Where the front matter is, in bytes: the header is `data[start:end]`, the closing fence's line ends at `body`."""

    start: int
    end: int
    body: int
    problem: FenceProblem | None = None


def find_fences(data: bytes, *, complete: bool = True) -> Fences:
    """Find the front matter in the bytes of a file, or in its first bytes when `complete` is false.

    Costs one search through at most `HEADER_LIMIT` bytes, whatever is in them.

    Raises:
        NeedMore: the data is incomplete, shorter than `HEADER_LIMIT`, and ends before the closing fence does.
    """
    more = not complete and len(data) < HEADER_LIMIT
    start = _after_opening(data, more=more)
    if start < 0:
        return Fences(0, 0, 0, "front-matter-missing" if start == -1 else "front-matter-language")
    return _closing(data, start, more=more)


def with_line_feeds(data: bytes) -> bytes:
    """A file whose opening fence ends in a lone CR, with LF for each lone CR; every other file as it is. Offsets stay."""
    return _LONE_CR.sub(b"\n", data) if _CR_FENCE.match(data) else data


def _after_opening(data: bytes, *, more: bool) -> int:
    """The offset behind the opening fence's line; -1 when there is none, -2 when it names a language."""
    if data.startswith(b"---\n"):
        return 4
    begin = 3 if data.startswith(_BOM) else 0
    while (line_end := data.find(b"\n", begin)) >= 0 and not data[begin:line_end].strip():
        begin = line_end + 1
    if more and line_end < 0:
        raise NeedMore
    line = data[begin:] if line_end < 0 else data[begin:line_end]
    if not line.startswith(b"---") or line.startswith(b"----"):
        return -1
    if line[3:].strip():
        return -2
    return len(data) if line_end < 0 else line_end + 1


def _closing(data: bytes, start: int, *, more: bool) -> Fences:
    fence = _fence_line(data, b"---", start, HEADER_LIMIT, more=more)
    # `...` is rare: look for it only in front of the first fence.
    limit = fence[0] if fence else HEADER_LIMIT
    fence = _fence_line(data, b"...", start, limit, more=more) or fence
    if fence:
        return Fences(start, *fence)
    if more:
        raise NeedMore
    problem: FenceProblem = "front-matter-unclosed" if len(data) < HEADER_LIMIT else "front-matter-too-large"
    return Fences(start, start, start, problem)


def _fence_line(data: bytes, fence: bytes, start: int, limit: int, *, more: bool) -> tuple[int, int] | None:
    """Where the first line that is only `fence` begins and where the next line begins."""
    at = start - 1
    needle = b"\n" + fence
    while (at := data.find(needle, at, limit)) >= 0:
        line_end = data.find(b"\n", at + 4)
        if line_end == at + 4:
            return at + 1, line_end + 1
        if line_end < 0:
            if more:
                raise NeedMore
            line_end = len(data)
        if not data[at + 4 : line_end].strip():
            return at + 1, min(line_end + 1, len(data))
        at += 4
    return None


@dataclass(frozen=True, slots=True)
class OpenedDocument:
    """An opened file: its text without byte order mark, the front matter's tree, and where the body begins."""

    text: str
    header: str
    """The text between the fences, as it was written."""
    mapping: Mapping
    body: str
    body_line: int
    repairs: tuple[Repair, ...] = ()
    readable: bool = True
    """Whether there was a front matter that could be read; what is missing in one that was not is not worth saying."""
    opening: str | None = None
    """The beginning of the instructions, in which a missing description is looked for; None where nothing is inferred, because
    the file is broken."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The fields of a front matter, without any judgement of them."""

    texts: MappingLike[str, object]
    """Every scalar as the text that was written."""
    values: MappingLike[str, object]
    """Unquoted scalars as the core schema of YAML 1.2 types them: numbers, true, false and null."""
    exact: bool
    """Whether every reader of YAML 1.2 sees these fields; false when they had to be recovered or cannot be read."""


def read_front_matter(data: bytes) -> FrontMatter:
    """The fields of a SKILL.md, for those who pass them on; empty when there are none that can be read."""
    opened = open_document(data, Findings("SKILL.md", "standard"))
    texts, values = cast("tuple[dict[str, object], ...]", (as_text(opened.mapping), as_data(opened.mapping)))
    return FrontMatter(texts, values, opened.readable and not opened.repairs)


def open_document(data: bytes, findings: Findings, *, complete: bool = True) -> OpenedDocument:
    """Read the bytes of a SKILL.md, or its first bytes when `complete` is false.

    Raises:
        NeedMore: as `find_fences`.
    """
    _check_name(findings)
    if len(data) > DOCUMENT_LIMIT:
        findings.add("file-too-large", message=f"the file is over {DOCUMENT_LIMIT >> 20} MiB: {len(data):,} bytes")
        return _nothing("")
    if problem := _encoding_problem(data, complete=complete):
        findings.add(problem[0], line=problem[1])
        return _nothing("")
    written, data = data, with_line_feeds(data)
    if data is not written:
        findings.add("style-line-endings")
    fences = find_fences(data, complete=complete)
    text = data[3 if data.startswith(_BOM) else 0 :].decode(errors="strict" if complete else "ignore")
    if fences.problem:
        findings.add(fences.problem)
        headless = fences.problem == "front-matter-missing"
        return replace(_nothing(text), opening=_opening(data, 0)) if headless else _nothing(text)
    return _read(data, text, fences, findings)


def _opening(data: bytes, body: int) -> str:
    """What both a list, which reads so far, and a load see of the instructions."""
    return data[body:HEADER_LIMIT].decode(errors="ignore").removeprefix("\ufeff")


def _nothing(text: str) -> OpenedDocument:
    return OpenedDocument(text, "", Mapping({}, 1), text, 1, readable=False)


def _check_name(findings: Findings) -> None:
    name = findings.file.rpartition("/")[2]
    if name != "SKILL.md" and name.lower() == "skill.md":
        findings.add("file-name-case", message=f"the file is named {name}, not SKILL.md")


def _encoding_problem(data: bytes, *, complete: bool) -> tuple[str, int] | None:
    """The rule and the line of the first byte that is not text."""
    if (at := data.find(b"\0")) >= 0:
        rule = "file-not-utf8" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "file-nul"
        return rule, data.count(b"\n", 0, at) + 1
    if data.isascii():
        return None
    try:
        data.decode()
    except UnicodeDecodeError as error:
        cut_off = not complete and error.end == len(data) and error.reason == "unexpected end of data"
        return None if cut_off else ("file-not-utf8", data.count(b"\n", 0, error.start) + 1)
    return None


def _read(data: bytes, text: str, fences: Fences, findings: Findings) -> OpenedDocument:
    header = data[fences.start : fences.end].decode()
    header_line = data.count(b"\n", 0, fences.start) + 1
    body_line = data.count(b"\n", 0, fences.body) + 1
    _report_style(data, fences, findings, header_line)
    body = data[fences.body :].decode(errors="ignore")
    try:
        read = read_with_recovery(header, first_line=header_line)
    except YamlProblem as problem:
        findings.add(problem.rule, line=problem.line, message=problem.message)
        return OpenedDocument(text, header, Mapping({}, header_line), body, body_line, readable=False)
    for repair in read.repairs:
        findings.add(repair.rule, line=repair.line, message=repair.message, fix=repair.fix)
    return OpenedDocument(text, header, read.mapping, body, body_line, read.repairs, opening=_opening(data, fences.body))


def _report_style(data: bytes, fences: Fences, findings: Findings, header_line: int) -> None:
    if data.startswith(_BOM):
        findings.add("style-bom")
    if header_line > 2:
        findings.add("style-blank-start")
    if b"\r\n" in data[: fences.body]:
        findings.add("style-line-endings")
    closing = data[fences.end : fences.body]
    closing_line = data.count(b"\n", 0, fences.end) + 1
    if closing.startswith(b"..."):
        findings.add("style-closing-dots", line=closing_line)
    if not closing.endswith(b"\n"):
        findings.add("style-final-newline", line=closing_line)


CODE_LANGUAGES: Final = frozenset({"ts", "typescript", "js", "javascript", "py", "python", "sh", "bash", "shell"})
"""The languages of a code block that somebody may have meant to be run."""

# Neither pattern continues to the end of the line: what follows is cut with string methods, which cannot be made slow.
_HEADING: Final = re.compile(r" {0,3}(#{2,3})[ \t]")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the body under a `##` or `###` heading, up to the next one."""

    title: str
    level: int
    text: str
    line: int
    """The line of the heading in the file, counted from 1."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced block of code: its language in lower case (empty when not named), its text, and the line of its fence."""

    language: str
    text: str
    line: int


def read_body(body: str, *, first_line: int = 1) -> tuple[tuple[Section, ...], tuple[CodeBlock, ...]]:
    """The sections and code blocks of a Markdown body whose first line is line `first_line` of the file.

    A heading inside a code block is code. A code block that is never closed ends with the body.
    """
    lines = body.splitlines(keepends=True)
    headings: list[tuple[int, int, str]] = []
    blocks: list[CodeBlock] = []
    number = 0
    while number < len(lines):
        line = lines[number].rstrip("\r\n")
        if (fence := _FENCE.match(line)) and (fence[1][0] == "~" or "`" not in line[fence.end() :]):
            end = _closing_fence(lines, number + 1, fence[1])
            text = "".join(lines[number + 1 : end])
            blocks.append(CodeBlock(_language(line[fence.end() :]), text, first_line + number))
            number = end
        elif heading := _HEADING.match(line):
            headings.append((number, len(heading[1]), _title(line[heading.end() :])))
        number += 1
    return _sections(lines, headings, first_line), tuple(blocks)


_NOT_PROSE: Final = re.compile(r" {0,3}(?:#{1,6}(?:[ \t]|$)|[-*+][ \t]|\d{1,9}[.)][ \t]|<|\||!\[|\[!\[|\[[^\]]{1,200}\]:)")
"""A heading, an item of a list, HTML, a table, a picture, or the address of a link."""
_RULE: Final = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|=+[ \t]*)$")
"""A rule between paragraphs; directly below text it makes that text a heading."""
_QUOTE: Final = re.compile(r" {0,3}>[ \t]?")
_WORD: Final = re.compile(r"[^\W\d_]{2}")


def first_paragraph(text: str) -> str:
    """The first paragraph of a Markdown text in one line; without one, the first quote.

    Headings, code, comments, lists, tables and pictures are no paragraphs. Empty when there is nothing else.
    """
    quote = ""
    for lines in _blocks(text):
        words = single_line(" ".join(_QUOTE.sub("", line, count=1) for line in lines)).replace("**", "").replace("__", "")
        if not _WORD.search(words):
            continue
        if not _QUOTE.match(lines[0]):
            return words
        quote = quote or words
    return quote


def _blocks(text: str) -> Iterator[list[str]]:
    """The paragraphs and quotes of a Markdown text, each as its lines."""
    block: list[str] = []
    skipped_to = ""  # what ends the code or comment that is skipped
    in_list = False
    for line in text.splitlines():
        bare = line.strip()
        if skipped_to:
            skipped_to = "" if _closes(bare, skipped_to) else skipped_to
        elif bare and not _ends_a_block(line) and not in_list and (block or not line.startswith(("    ", "\t"))):
            block.append(line)
        else:
            if block and not (bare and _RULE.match(line)):
                yield block
            block = []
            in_list = bool(bare) and (in_list or _NOT_PROSE.match(line) is not None) and not bare.startswith(("#", "<!--"))
            skipped_to = _end_of_skipped(bare)
    if block:
        yield block


def _closes(bare: str, end: str) -> bool:
    """Whether a line ends the comment or code block that `end` ends."""
    return end in bare if end == "-->" else len(bare) >= len(end) and not bare.strip(end[0])


def _ends_a_block(line: str) -> bool:
    return bool(_FENCE.match(line) or _RULE.match(line) or _NOT_PROSE.match(line))


def _end_of_skipped(bare: str) -> str:
    """What ends the code block or comment that begins with a line; empty where none does."""
    if bare.startswith("<!--"):
        return "" if "-->" in bare else "-->"
    fence = _FENCE.match(bare)
    return fence[1] if fence else ""


def _language(info: str) -> str:
    """The first word behind a fence, without the braces some writers put around it."""
    word = info.strip().partition(" ")[0].partition("\t")[0]
    return word.partition("{")[0].lower()


def _title(text: str) -> str:
    """A heading's text without the `##` that may close it."""
    title = text.strip()
    bare = title.rstrip("#")
    return bare.rstrip() if bare != title and bare[-1:] in ("", " ", "\t") else title


def _closing_fence(lines: list[str], start: int, fence: str) -> int:
    """The index of the line that closes the block, or the number of lines."""
    for number in range(start, len(lines)):
        text = lines[number].strip()
        if len(text) >= len(fence) and not text.strip(fence[0]) and text:
            return number
    return len(lines)


def _sections(lines: list[str], headings: list[tuple[int, int, str]], first_line: int) -> tuple[Section, ...]:
    ends = [*(start for start, _, _ in headings), len(lines)][1:]
    return tuple(
        Section(title, level, "".join(lines[start + 1 : end]).strip("\r\n"), first_line + start)
        for (start, level, title), end in zip(headings, ends, strict=True)
    )
