"""Code in the text of a SKILL.md, and the script it becomes: what runs lives in files (row 000-3, defect D-1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import dedent
from typing import Final

from skillyard.document import CodeBlock, Section

__all__ = ["Moved", "move_code"]

_ENDINGS: Final = {
    "ts": "ts", "typescript": "ts", "js": "js", "javascript": "js", "py": "py", "python": "py", "sh": "sh", "bash": "sh",
    "shell": "sh",
}  # fmt: skip
_SHOWS: Final = re.compile(r"示例|样例|例子|用法|调用|测试|输出|响应|example|usage|sample|test|output|response", re.IGNORECASE)
_STARTS: Final = re.compile(
    r"^[^\S\n]*+(?:(?:export\s++(?:default\s++)?)?(?:async\s++)?(?:function|def)\s++execute\s*+\(|(?:export\s++)?const\s++execute\s*+=)",
    re.MULTILINE,
)
_EXPORTS: Final = re.compile(
    r"^[^\S\n]*+export\s++(?:(?:default|async|const|function)\s|\{[^{}]*\bexecute\b)|module\.exports|exports\.", re.M
)


_HOLDS_CODE: Final = re.compile(r"代码|脚本|实现|\bcode\b|\bscripts?\b|implementation", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Moved:
    """A script made of code blocks: its `ending`, its text, the body without them, and what is doubtful."""

    ending: str
    code: str
    body: str
    doubts: tuple[str, ...] = ()


def move_code(
    body: str, sections: tuple[Section, ...], blocks: tuple[CodeBlock, ...], *, body_line: int, old: bool
) -> Moved | None:
    """Take the code that is meant to run out of a body; None when there is none.

    Code is meant to run where a block defines `execute`, and in a skill of the `old` form, whose code had no other place; a
    skill of today shows code to its readers. All blocks of one language belong to the script, in their order (defect D-22), but
    for those under a heading that shows how it is used. The language is that of the block that defines `execute`, else of the
    first block.
    """
    wanted = [block for block in blocks if block.language in _ENDINGS and not _shows(block, sections)]
    starting = next((block for block in wanted if _STARTS.search(block.text)), None)
    if starting is None:
        wanted = [block for block in wanted if old and (_ENDINGS[block.language] != "sh" or _is_shell_script(block, sections))]
        if not wanted:
            return None
        starting = wanted[0]
    ending = _ENDINGS[starting.language]
    chosen = [block for block in wanted if _ENDINGS[block.language] == ending]
    others = len(wanted) - len(chosen)
    doubts = [f"{others} code blocks of other languages stay in the text"] if others else []
    if not _STARTS.search(starting.text) and ending != "sh":
        doubts.append("no block defines `execute`: the script runs from top to bottom")
    return Moved(ending, _joined(chosen, ending), _without(body, chosen, body_line), tuple(doubts))


def _shows(block: CodeBlock, sections: tuple[Section, ...]) -> bool:
    return bool(_SHOWS.search(_heading(block, sections))) and not _STARTS.search(block.text)


def _is_shell_script(block: CodeBlock, sections: tuple[Section, ...]) -> bool:
    """Shell lines are mostly typed by the reader: a script has a first line or a heading that says so."""
    return block.text.startswith("#!") or bool(_HOLDS_CODE.search(_heading(block, sections)))


def _heading(block: CodeBlock, sections: tuple[Section, ...]) -> str:
    """The heading that a block is under."""
    return next((section.title for section in reversed(sections) if section.line < block.line), "")


def _joined(blocks: list[CodeBlock], ending: str) -> str:
    code = "\n".join(_unindented(block.text).rstrip("\n") + "\n" for block in blocks)
    if ending in ("ts", "js") and _STARTS.search(code) and not _EXPORTS.search(code):
        code += "\nexport { execute };\n"
    return code


def _unindented(code: str) -> str:
    """The code of a block that stood in a list, as it would be in a file."""
    code = code.replace("\r\n", "\n")
    return dedent(code) if code.lstrip("\n").startswith((" ", "\t")) else code


def _without(body: str, blocks: list[CodeBlock], body_line: int) -> str:
    """The body without those blocks; what stays is as it was, but for the empty lines on both sides of a block."""
    lines = body.replace("\r\n", "\n").splitlines(keepends=True)
    kept: list[str] = []
    at = 0
    for block in blocks:
        start = block.line - body_line
        kept += lines[at:start]
        at = start + len(block.text.splitlines()) + 2
        while kept and not kept[-1].strip() and at < len(lines) and not lines[at].strip():
            at += 1
    return "".join([*kept, *lines[at:]]).strip("\n") + "\n"
