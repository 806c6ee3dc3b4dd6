"""What other protocols call a version: a number that counts up, microseconds since 1970, or a semantic version.

Each follows from the records alone and never changes: no version is ever deleted from them, and what is recorded later comes
after the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from skillyard.registry import SkillVersion

_TIMED: Final = re.compile(r"(\d{8}-\d{6})(?:-(\d{1,5}))?", re.ASCII)
_PART: Final = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_SEMANTIC: Final = re.compile(
    rf"(0|[1-9]\d{{0,14}})\.(0|[1-9]\d{{0,14}})\.(0|[1-9]\d{{0,14}})(?:-{_PART}(?:\.{_PART})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_LONGEST: Final = 100
_LONG_AGO: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class NumberedVersion:
    """A version with its other names: `number` counts from 1, `epoch` is in microseconds, `label` a semantic version."""

    version: SkillVersion
    number: int
    epoch: int
    label: str

    @property
    def usable(self) -> bool:
        """Whether it can be had: it serves, or its files are there and it was not yanked."""
        return self.version.current or not (self.version.removed or self.version.yanked)


def number_versions(versions: Sequence[SkillVersion]) -> tuple[NumberedVersion, ...]:
    """The versions of one skill with their other names, in the order they come in: the newest first.

    A label is what a publisher or the SKILL.md says, when that is a semantic version no earlier one has; else the number after
    the highest label before it.
    """
    oldest_first = sorted(versions, key=lambda one: (one.created_at or _LONG_AGO, one.version))
    labels = _labels(oldest_first)
    names = {one.version: (number, label) for number, (one, label) in enumerate(zip(oldest_first, labels, strict=True), 1)}
    return tuple(NumberedVersion(one, names[one.version][0], _epoch(one), names[one.version][1]) for one in versions)


def is_semantic(text: str) -> bool:
    """Whether a text is a semantic version (Semantic Versioning 2.0.0, item 2)."""
    return len(text) <= _LONGEST and _SEMANTIC.fullmatch(text) is not None


def _labels(versions: Sequence[SkillVersion]) -> Iterator[str]:
    taken: set[str] = set()
    highest = (0, 0, 0)
    for version in versions:
        said = (str(version.origin.get("version") or ""), version.declared_version or "")
        label = next((text for text in said if is_semantic(text) and text not in taken), None)
        if label is None:
            label = ".".join(map(str, (*highest[:2], highest[2] + 1)))
        taken.add(label)
        highest = max(highest, _core(label))
        yield label


def _core(label: str) -> tuple[int, int, int]:
    found = _SEMANTIC.fullmatch(label)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def _epoch(version: SkillVersion) -> int:
    """When the version was made, by its name, with the number behind the name as microseconds; else by the records."""
    if found := _TIMED.fullmatch(version.version):
        try:
            made = datetime.strptime(found[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
            return int(made.timestamp()) * 1_000_000 + int(found[2] or 0)
        except ValueError:
            pass  # digits that are no time
    return round((version.installed_at or _LONG_AGO).timestamp() * 1_000_000)
