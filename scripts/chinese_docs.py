"""The Chinese pages: which English page each is of, its blocks copied from there, and the Chinese of generated tables.

Prose is translated by people. `make docs` copies the fenced blocks of an English page into its Chinese twin, where both have
as many in the same languages, so that a changed command needs no second hand; `tests/house/test_chinese_docs.py` names what
is left to translate.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHINESE = ROOT / "docs/zh"
INDEX = CHINESE / "README.md"
FINDINGS = ROOT / "web/src/chinese/findings.json"
ENGLISH_ONLY = frozenset({"architecture.md", "requirements.md"})
"""Pages for those who work on Skillyard itself; whoever uses it needs none of them."""
_FENCE = re.compile(r"^(?P<indent> *)```(?P<options>[^\n]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_HELP = re.compile(r"^<!-- skillyard [^>\n]*--help -->\n+```text\n.*?^```$", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(
    r"<!-- (?:table of attacks|table of the coding agents|rules of the scanner) -->\n.*?(?=<!-- end of the )", re.DOTALL
)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_REMARK = re.compile(r"(?<=\S) {2,}# .*$|(?<=\S)  ?# .*$", re.MULTILINE)
_BLANK = re.compile(r"[^\n]")


@dataclass(frozen=True)
class Part:
    """A block or a heading of a page, with the line it begins in, from 1."""

    line: int
    kind: str
    text: str


def twins() -> dict[Path, Path]:
    """Every English page that users read, and the Chinese page that says the same."""
    pages = {page: CHINESE / page.name for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in ENGLISH_ONLY}
    return {ROOT / "README.md": ROOT / "README.zh-CN.md", **pages}


def without_generated(page: str) -> str:
    """The page with blanks in the place of what `make docs` writes in the page's own language; lines stay where they are."""
    for part in (_HELP, _TABLE):
        page = part.sub(lambda found: _BLANK.sub(" ", found[0]), page)
    return page


def blocks(page: str) -> list[Part]:
    """The fenced blocks that are the same in both languages: the kind is what follows the fence."""
    page = without_generated(page)
    return [Part(_line(page, found), found["options"], found[0]) for found in _FENCE.finditer(page)]


def headings(page: str) -> list[Part]:
    """The headings: the kind is one `#` for each level."""
    page = prose(page)
    return [Part(_line(page, found), found[1], found[2]) for found in _HEADING.finditer(page)]


def prose(page: str) -> str:
    """The page without generated parts and blocks; lines stay where they are."""
    return _FENCE.sub(lambda found: _BLANK.sub("", found[0]), without_generated(page))


def anchors(page: str) -> list[str]:
    """What a link to each heading of the page ends in, as code hosts make it: generated headings too."""
    found: list[str] = []
    for heading in _HEADING.finditer(_FENCE.sub("", page)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[2]).replace("`", "").replace("*", "").strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        again = sum(re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", other) is not None for other in found)
        found.append(f"{anchor}-{again}" if again else anchor)
    return found


def without_remarks(block: str) -> str:
    """The block without what stands behind `#`: the README explains its commands in the language of the reader."""
    return _REMARK.sub("", block)


def copied(english: str, chinese: str) -> str:
    """The Chinese page with the blocks of the English one; as it is where they are not as many of the same kinds.

    Indentation and, where nothing but remarks differs, the remarks of the Chinese page are kept.
    """
    ours, theirs = blocks(english), blocks(chinese)
    if [block.kind for block in ours] != [block.kind for block in theirs]:
        return chinese
    covered = without_generated(chinese)
    pieces, last = [], 0
    for block, found in zip(ours, _FENCE.finditer(covered), strict=True):
        same = without_remarks(block.text) == without_remarks(found[0])
        pieces += [chinese[last : found.start()], found[0] if same and block.text != found[0] else block.text]
        last = found.end()
    return "".join([*pieces, chinese[last:]])


@cache
def texts(table: str) -> dict[str, str]:
    """The Chinese of each English text of a generated table, `scanner`, `attacks` or `coding agents`: `chinese.json`.

    What the scanner's rules find, and why that matters, stands where the page has it too: `FINDINGS`.
    """
    found: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("chinese.json").read_text("utf-8"))
    if table != "scanner":
        return found[table]
    from skillyard.scanner import RULES

    rules: dict[str, tuple[str, str, str]] = json.loads(FINDINGS.read_text("utf-8"))
    said = found[table]
    for rule, (title, _, why) in rules.items():
        if rule in RULES:
            said |= {RULES[rule].title: title, RULES[rule].why: why}
    return said


def _line(page: str, found: re.Match[str]) -> int:
    return page.count("\n", 0, found.start()) + 1
