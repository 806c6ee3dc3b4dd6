"""Code in the text of a SKILL.md, and the script it becomes: what runs lives in files (row 000-3, defect D-1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from skillyard.document import CodeBlock, Section

__all__ = ["Moved", "move_code"]

_ENDINGS: Final = {
    "ts": "ts", "typescript": "ts", "js": "js", "javascript": "js", "py": "py", "python": "py", "sh": "sh", "bash": "sh",
    "shell": "sh",
}  # fmt: skip
_SHOWS: Final = re.compile(r"示例|样例|例子|用法|调用|测试|输出|响应|example|usage|sample|test|output|response", re.IGNORECASE)
_STARTS: Final = re.compile(
    r"^\s*(?:export\s+(?:default\s+)?)?(?:async\s+)?(?:function|def)\s+execute\s*\(|^\s*(?:export\s+)?const\s+execute\s*=",
    re.MULTILINE,
)
_EXPORTS: Final = re.compile(
    r"^\s*export\s+(?:default\s+|async\s+|const\s+|function\s+|\{[^}]*\bexecute\b)|module\.exports|exports\.", re.M
)


@dataclass(frozen=True, slots=True)
class Moved:
    """A script made of code blocks: its `ending`, its text, the body without them, and what is doubtful.

    `executes` says whether it defines the function that the entry contract asks for.
    """

    ending: str
    code: str
    body: str
    doubts: tuple[str, ...] = ()
    executes: bool = False


def move_code(body: str, sections: tuple[Section, ...], blocks: tuple[CodeBlock, ...], *, body_line: int) -> Moved | None:
    """Take the code that is meant to run out of a body; None when there is none.

    All blocks of one language belong to the script, in their order (defect D-22), but for those under a heading that shows how
    it is used. The language is that of the block that defines `execute`, else of the first block.
    """
    wanted = [block for block in blocks if block.language in _ENDINGS and not _shows(block, sections)]
    if not wanted:
        return None
    starting = next((block for block in wanted if _STARTS.search(block.text)), wanted[0])
    ending = _ENDINGS[starting.language]
    chosen = [block for block in wanted if _ENDINGS[block.language] == ending]
    others = len(wanted) - len(chosen)
    doubts = [f"{others} code blocks of other languages stay in the text"] if others else []
    if not _STARTS.search(starting.text) and ending != "sh":
        doubts.append("no block defines `execute`: the script runs from top to bottom")
    executes = bool(_STARTS.search(starting.text))
    return Moved(ending, _joined(chosen, ending), _without(body, chosen, body_line), tuple(doubts), executes)


def _shows(block: CodeBlock, sections: tuple[Section, ...]) -> bool:
    above = [section for section in sections if section.line < block.line]
    return bool(above) and bool(_SHOWS.search(above[-1].title)) and not _STARTS.search(block.text)


def _joined(blocks: list[CodeBlock], ending: str) -> str:
    code = "\n".join(block.text.rstrip("\n") + "\n" for block in blocks)
    if ending in ("ts", "js") and _STARTS.search(code) and not _EXPORTS.search(code):
        code += "\nexport { execute };\n"
    return code


def _without(body: str, blocks: list[CodeBlock], body_line: int) -> str:
    """The body without those blocks, and without the empty headings they leave."""
    lines = body.splitlines()
    gone: set[int] = set()
    for block in blocks:
        start = block.line - body_line
        gone |= set(range(start, min(start + block.text.count("\n") + 2, len(lines))))
    kept = [line for number, line in enumerate(lines) if number not in gone]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip("\n") + "\n"
