"""Resource abuse and destruction: what eats a machine or wipes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from skillyard.scanner.matching import find, pattern
from skillyard.scanner.rule import Rule
from skillyard.scanner.source import Hit, Source

__all__ = ["RESOURCE_RULES", "look_for_resource_abuse"]

RESOURCE_RULES: Final = (
    Rule("fork-bomb", "resource abuse", "processes breed without end",
         "The machine has no place left for any other process.", "bound the number of processes", "high", "medium"),
    Rule("endless-loop", "resource abuse", "a loop has no way out and never waits",
         "It keeps one processor busy until somebody kills it.", "give it an end, or let it wait for something", "medium", "info"),
    Rule("huge-allocation", "resource abuse", "a fixed, very large amount of memory is taken at once",
         "The machine may kill other programs to find it.", "work in pieces", "medium", "info"),
    Rule("destroys-files", "resource abuse", "a home folder, a whole disk or the root of the machine is erased or overwritten",
         "What is lost there is not the skill's.", "name exactly the files of the skill's own that go", "high", "medium"),
    Rule("cryptocurrency-mining", "resource abuse", "a miner of cryptocurrency is started or spoken of",
         "It sells the user's electricity to somebody else.", "leave it out", "high", "low"),
)  # fmt: skip

_REFUSED: Final = re.compile(r"block|den[iy]|forbid|danger|refuse", re.IGNORECASE)
"""Words of a line that only names what must not be done."""
_PATTERNS: Final = (
    pattern("fork-bomb", r"([\w:]{1,20})\s{0,3}\(\)\s{0,3}\{\s{0,3}\1\s{0,3}\|\s{0,3}\1\s{0,3}&\s{0,3}\}\s{0,3};\s{0,3}\1", "()"),
    pattern("fork-bomb", r"\bwhile (?:true|:|\[ 1 \])\s{0,3};?\s{0,3}do\b[^\n]{0,60}?\$0[^\n]{0,10}&", "while"),
    pattern("destroys-files", r"\brm (?:-\w+ |--[\w-]+ ){1,4}[\"']?(?:/(?:\*|etc|usr|home|var|bin|boot|lib)?|~/?\*?|\$HOME/?\*?|\$\{HOME\}/?\*?)[\"']?(?=\s|;|&|$|\|)", "rm -", "rm --"),
    pattern("destroys-files", r"\b(?:dd|cat)\b[^\n]{0,80}?(?:of=|> {0,2})/dev/(?:sd|nvme|vd|hd|mmcblk|disk)", "/dev/"),
    pattern("destroys-files", r"\bmkfs(?:\.\w+)? [^\n]{0,40}?/dev/|\bwipefs -a|\bshred [^\n]{0,40}?/dev/", "mkfs", "wipefs", "shred"),
    pattern("cryptocurrency-mining", r"\b(?:xmrig|minerd|cpuminer|ethminer|nbminer|t-rex miner)\b|\bstratum\+(?:tcp|ssl)://", "xmrig", "minerd", "miner", "stratum+"),
)  # fmt: skip


def look_for_resource_abuse(source: Source) -> Iterator[Hit]:
    """Commands that eat or wipe a machine."""
    for hit in find(source, _PATTERNS):
        yield replace(hit, relief=1) if _REFUSED.search(source.line_at(hit.offset)) else hit
