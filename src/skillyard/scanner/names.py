"""Names that imitate others, of skills that are well known or that the user has already; and one text under many names.

A model and a person pick a skill by its name. `imitation` compares a name with others: letters that look like others, one slip,
the same parts in another order, a claim to be the official one, a random tail behind a known name. Who the name belongs to is
for the caller to say: a name that is known itself, letter by letter, imitates nobody.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final
from zlib import crc32

from skillyard.scanner.finding import SEVERITIES, Finding, Report, ScanRule, Severity
from skillyard.scanner.source_texts import Hit, SourceText
from skillyard.text import shorten, single_line

IMITATES: Final = "imitates-name"
SAME_TEXT: Final = "same-text"
NAME_RULES: Final = (
    ScanRule(IMITATES, "identity", "the name is almost that of another skill",
         "Who means the other one gets this one; people and models pick skills by their names.",
         "ask who publishes it which of the two it is; an own skill gets a name of its own", "high"),
    ScanRule(SAME_TEXT, "identity", "nearly the same text stands under several names",
         "One author who publishes a text under many names wants one of them to be found by mistake.",
         "publish it once; of copies, keep the one whose author you know", "medium", "medium"),
)  # fmt: skip

WELL_KNOWN: Final[Mapping[str, str]] = MappingProxyType({
    name: owner
    for owner, names in (
        ("anthropics", "algorithmic-art brand-guidelines canvas-design claude-api doc-coauthoring docx frontend-design internal-comms"
            " mcp-builder pdf pptx skill-creator slack-gif-creator theme-factory web-artifacts-builder webapp-testing xlsx"),
        ("obra", "brainstorming dispatching-parallel-agents executing-plans finishing-a-development-branch receiving-code-review"
            " requesting-code-review subagent-driven-development systematic-debugging test-driven-development using-git-worktrees"
            " using-superpowers verification-before-completion writing-plans writing-skills"),
        ("vercel-labs", "agent-browser find-skills react-best-practices web-design-guidelines"),
        ("openclaw", "auto-updater bird clawdhub clawhub coding-agent deep-research gog google-workspace moltbook nano-banana-pro"
            " nano-pdf openclaw openclaw-backup polymarket self-improving-agent summarize wacli yahoo-finance youtube-watcher"),
    )
    for name in names.split()
})  # fmt: skip
"""Names that many people look for, and who owns them on the sites where skills are shared."""

RESERVED: Final = frozenset(("anthropic", "assistant", "claude", "openai", "skillyard", "system", "user"))
"""Names of who publishes models, of roles in a conversation and of this program, which a skill would speak for."""
BUILT_IN: Final = "Skillyard"
"""Whose the names are of skills that come with this program."""

_LETTERS: Final = str.maketrans(
    "аеорсухіјѕһԁԛԝӏкмнтвгґοαενικρτυχηωвıɩǀ|10!",
    "aeopcyxijshdqwlkmhtbrroaevikptuxnwbiillloi",
)
_PAIRS: Final = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_PART: Final = re.compile(r"[\s_.\-‐‑‒–—·]+")
_CLAIMS: Final = frozenset(
    [
        "official",
        "officially",
        "original",
        "genuine",
        "authentic",
        "verified",
        "certified",
        "trusted",
        "anthropic",
        "anthropics",
        "openai",
    ]
)
_PRAISE: Final = frozenset(
    ["pro", "plus", "new", "latest", "real", "free", "better", "best", "fixed", "patched", "safe", "secure", "improved"]
)
_SHORTEST_SLIP: Final = 6
_SHORTEST: Final = 3
_LONGEST: Final = 120
_RANDOM: Final = re.compile(r"(?=[a-z]*\d)(?=\d*[a-z])[a-z\d]{5,16}|[bcdfghjklmnpqrstvwxz]{4,16}")
_VERSION: Final = re.compile(r"v?\d[\d.]*[a-z]?|[a-z]{2,}\d{1,2}|\d{1,4}[a-z]{1,2}|[a-z]+\d{4}")


@dataclass(frozen=True, slots=True)
class Imitation:
    """The name that another one is almost, what makes it so, and how many steps less than `high` that weighs."""

    of: str
    how: str
    relief: int


def imitation(name: str, known: Mapping[str, str] = WELL_KNOWN) -> Imitation | None:
    """The gravest imitation of a `known` name; None for a name that is known itself, and for one like no other."""
    name = name.strip()[:_LONGEST]
    if name.casefold() in known:
        return None
    own = _Name(name)
    return min((found for other in known if (found := _compared(own, other))), key=lambda found: found.relief, default=None)


def imitated_names(source: SourceText, name: str, known: Mapping[str, str]) -> Iterator[Hit]:
    """The finding about the `name` of a SKILL.md, at its line."""
    plain = name.strip().casefold()
    if plain in RESERVED or known.get(plain) == BUILT_IN:
        what = (
            "reserved: it names a role, a vendor or this program"
            if plain in RESERVED
            else "that of a skill that comes with Skillyard"
        )
        at = re.search(r"^name\s{0,3}:", source.text, re.MULTILINE)
        yield Hit(IMITATES, at.start() if at else 0, f"the name {name[:60]!r} is {what}")
    elif found := imitation(name, known):
        at = re.search(r"^name\s{0,3}:", source.text, re.MULTILINE)
        owner = known[found.of]
        message = f"the name {name[:60]!r} {found.how} {found.of!r}" + (f" of {owner}" if owner else "")
        yield Hit(IMITATES, at.start() if at else 0, message, relief=found.relief)
    elif name.casefold() not in known and (word := misspelt_name(name)):
        at = re.search(r"^name\s{0,3}:", source.text, re.MULTILINE)
        yield Hit(IMITATES, at.start() if at else 0, f"the name {name[:60]!r} has {word!r} misspelt in it", relief=1)


_COMMON: Final = frozenset((
    "analysis", "analytics", "analyzer", "assistant", "automation", "backend", "browser", "builder", "calendar", "checker", "cleaner", "compiler", "converter",
    "dashboard", "database", "debugger", "deployment", "designer", "document", "downloader", "editor", "explorer", "extractor", "fetcher", "formatter", "frontend",
    "generator", "handler", "helper", "manager", "markdown", "monitor", "optimizer", "organizer", "parser", "planner", "reader", "reporter", "research", "reviewer",
    "runner", "scanner", "scheduler", "scraper", "search", "security", "server", "spreadsheet", "summarizer", "template", "tester", "testing", "tracker",
    "transcriber", "translator", "uploader", "validator", "viewer", "wallet", "webapp", "weather", "workflow", "writer", "writing",
))  # fmt: skip
"""Words of which names are made."""
_MEANT: Final = frozenset(("test", "tests", "testings", "servers", "severe", "serer", "reporters", "trackers", "righting", "wiring", "whether", "serve", "sever", "raider", "wittier", "teeing", "teasing"))  # fmt: skip


def misspelt_name(name: str) -> str | None:
    """The common word that a part of the name is, with two letters swapped or one written twice or left out of two; None for others."""
    for part in _Name(name.strip()[:_LONGEST]).parts:
        if len(part) < _SHORTEST_SLIP or part in _COMMON or part in _MEANT or part.rstrip("s") in _COMMON:
            continue
        if real := next((word for word in sorted(_COMMON) if _typed_wrong(part, word)), None):
            return real
    return None


def _typed_wrong(part: str, word: str) -> bool:
    if word.startswith(part) or part.startswith(word):
        return False  # another form of it: `scrape`, `summarize`
    if part[0] != word[0] or sorted(set(part)) != sorted(set(word)) or not _one_slip(part, word):
        return False
    return len(part) != len(word) or sorted(part) == sorted(word)


def taken_name(name: str, publisher: str) -> Finding:
    """The finding about a well-known `name` that somebody else publishes than its owner."""
    (rule,) = NAME_RULES[:1]
    message = f"the name {name!r} is that of a well-known skill of {WELL_KNOWN[name]}, and this one is by {publisher}"
    return Finding(rule.id, "low", message, rule.why, "SKILL.md", 1, 1, f"name: {name}", rule.fix)


class _Name:
    """The forms of a name in which it is compared."""

    __slots__ = ("compact", "parts", "plain", "skeleton")

    def __init__(self, name: str) -> None:
        self.plain = name.casefold()
        folded = unicodedata.normalize("NFKC", self.plain)
        self.parts = tuple(part for part in _PART.split(folded) if part)
        self.compact = "".join(self.parts)
        self.skeleton = _skeleton(self.compact)


def _skeleton(text: str) -> str:
    """One text for all that look alike: without accents and invisible letters, each letter as the Latin one it resembles."""
    bare = "".join(one for one in unicodedata.normalize("NFKD", text) if unicodedata.category(one) not in ("Mn", "Cf"))
    bare = bare.translate(_LETTERS)
    for pair, letter in _PAIRS:
        bare = bare.replace(pair, letter)
    return bare.replace("i", "l")


def _compared(own: _Name, other: str) -> Imitation | None:
    known = _KNOWN.get(other)
    if known is None:
        known = _Name(other)
        if len(_KNOWN) < _MOST_KEPT:
            _KNOWN[other] = known
    if own.skeleton == known.skeleton and len(own.skeleton) >= _SHORTEST:
        if own.compact != known.compact or not own.plain.isascii():
            return Imitation(other, "looks like", 0)
        return Imitation(other, "is written almost like", 2) if own.plain != known.plain else None
    if len(own.compact) >= _SHORTEST_SLIP and _one_slip(own.compact, known.compact):
        plural = own.compact.rstrip("s") == known.compact.rstrip("s")
        return Imitation(other, "is one letter away from", 2 if plural else 1)
    if len(own.parts) > 1 and own.parts != known.parts and sorted(own.parts) == sorted(known.parts):
        return Imitation(other, "has the same parts as", 1)
    return _with_more(own, known, other) if len(own.parts) > len(known.parts) else None


def _with_more(own: _Name, known: _Name, other: str) -> Imitation | None:
    """A known name with something before or behind it."""
    count = len(known.parts)
    for more in (
        own.parts[count:] if own.parts[:count] == known.parts else (),
        own.parts[:-count] if own.parts[-count:] == known.parts else (),
    ):
        if not more:
            continue
        if set(more) <= _CLAIMS:
            return Imitation(other, f"claims by {'-'.join(more)!r} to be", 1)
        if set(more) <= _PRAISE:
            return Imitation(other, f"sets itself by {'-'.join(more)!r} above", 2)
        if (
            len(more) == 1
            and own.parts[:count] == known.parts
            and _RANDOM.fullmatch(more[0])
            and not _VERSION.fullmatch(more[0])
        ):
            return Imitation(other, "has random letters behind", 1)
    return None


def _one_slip(one: str, other: str) -> bool:
    """Whether two texts differ by one letter, that is no digit, or by two neighbours that changed places."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    left, right = one[start:], other[start:]
    if len(left) == len(right):
        swapped = left[:2] == right[1::-1] and left[2:] == right[2:]
        return swapped or (left[1:] == right[1:] and not (left[:1] + right[:1]).isdigit())
    longer, shorter = (left, right) if len(left) > len(right) else (right, left)
    return longer[1:] == shorter and not longer[0].isdigit()


_WORDS: Final = re.compile(r"\w+")
_MOST_WORDS: Final = 20_000
_RUN: Final = 4  # words that are taken together
_SAMPLE: Final = 64  # runs of words that stand for a text: those with the smallest hashes
_LEAST: Final = 24  # runs of a text that says enough to be compared
_BUCKETS: Final = 6
_SAME: Final = 0.85
_FEWEST: Final = 3
_SHOWN: Final = 4


def text_sample(text: str) -> frozenset[int]:
    """Numbers that stand for a SKILL.md without its front matter; none of a short text.

    Two texts share as large a part of them as of their runs of words.
    """
    body = text.partition("\n---")[2] if text.startswith("---") else text
    words = [match[0] for match, _ in zip(_WORDS.finditer(body.lower()), range(_MOST_WORDS), strict=False)]
    runs = {crc32(" ".join(words[at : at + _RUN]).encode("utf-8", "surrogatepass")) for at in range(len(words) - _RUN + 1)}
    return frozenset(sorted(runs)[:_SAMPLE]) if len(runs) >= _LEAST else frozenset()


def with_same_texts(reports: Sequence[Report]) -> list[Report]:
    """The reports, with a finding in each whose text stands under three or more names: `low`, `medium` where names are random."""
    judged = list(reports)
    for group in _groups([report.sample for report in reports]):
        names = {at: PurePosixPath(reports[at].folder).name for at in group}
        if len(set(names.values())) < _FEWEST:
            continue
        random = sum(bool(_tail(name)) for name in names.values()) >= _FEWEST
        for at in group:
            others = sorted({name for name in names.values() if name != names[at]})
            judged[at] = _with_finding(reports[at], others, "medium" if random else "low")
    return judged


def _tail(name: str) -> bool:
    last = _Name(name).parts[-1:]
    return bool(last and _RANDOM.fullmatch(last[0]) and not _VERSION.fullmatch(last[0]))


def _with_finding(report: Report, others: Sequence[str], severity: Severity) -> Report:
    rule = NAME_RULES[1]
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    message = shorten(
        single_line(f"nearly the same text stands under {len(others) + 1} names, also {', '.join(others[:_SHOWN])}"), 200
    )
    finding = Finding(rule.id, severity, message + more, rule.why, "SKILL.md", 1, 1, "", rule.fix)
    found = sorted((*report.findings, finding), key=lambda one: SEVERITIES.index(one.severity))
    return replace(report, findings=tuple(found))


def _groups(samples: Sequence[frozenset[int]]) -> list[list[int]]:
    """The positions of those that are nearly the same, in groups of two and more."""
    buckets: dict[int, list[int]] = {}
    first: dict[int, int] = {}
    groups: dict[int, list[int]] = {}
    for at, sample in enumerate(samples):
        smallest = sorted(sample)[:_BUCKETS]
        near = dict.fromkeys(other for key in smallest for other in buckets.get(key, ()))
        alike = next((other for other in near if _share(sample, samples[other]) >= _SAME), None)
        if alike is None:
            first[at] = at
            for key in smallest:
                buckets.setdefault(key, []).append(at)
        else:
            first[at] = first[alike]
        if sample:
            groups.setdefault(first[at], []).append(at)
    return [group for group in groups.values() if len(group) > 1]


def _share(one: frozenset[int], two: frozenset[int]) -> float:
    smallest = sorted(one | two)[: max(len(one), len(two))]
    return sum(number in one and number in two for number in smallest) / len(smallest)


_KNOWN: Final[dict[str, _Name]] = {}
_MOST_KEPT: Final = 20_000
