"""Suppressions: findings an operator has looked at and accepts, for a reason and until a day.

They stand in the settings, not in the skill. What a skill's own files say in its defence is reported as a claim and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from fnmatch import fnmatchcase
from typing import Final

from skillyard.errors import InvalidConfiguration
from skillyard.paths import is_inside
from skillyard.scanner.finding import Finding
from skillyard.scanner.rules import RULES
from skillyard.text import nearest, shorten, single_line

_KEYS: Final = ("rule", "path", "until", "reason")
_MOST: Final = 1000
_CLAIM: Final = re.compile(r"skillyard:\s{0,3}ignore\s{1,3}([a-z0-9-]{3,60}|\*)[ \t:,-]{0,4}([^\n]{0,160})")


@dataclass(frozen=True, slots=True)
class Suppression:
    """One entry `[[scan.suppress]]`: `path` is a pattern for `SKILL/FILE`, `until` the last day it holds."""

    rule: str
    path: str
    until: date
    reason: str
    file: str
    """The settings file it stands in."""

    def covers(self, finding: Finding, skill: str) -> bool:
        """Whether it speaks of this finding, in time or not; `skill` is the name of the skill's folder."""
        return self.rule in ("*", finding.rule) and fnmatchcase(f"{skill}/{finding.file}", self.path)


def read_suppressions(table: Mapping[str, object], file: str) -> tuple[Suppression, ...]:
    """The entries of a table `[scan]` that stands in `file`.

    Raises:
        InvalidConfiguration: a key is unknown or missing, a rule does not exist, a date is none, a reason is empty.
    """
    for key in table:
        if key != "suppress":
            raise _wrong(file, f"scan.{key}", "suppress", key)
    entries = table.get("suppress", [])
    if not isinstance(entries, list) or len(entries) > _MOST:
        raise _wrong(file, "scan.suppress", f"a list of at most {_MOST} tables", type(entries).__name__)
    return tuple(_read(entry, file) for entry in entries)


def _read(entry: object, file: str) -> Suppression:
    if not isinstance(entry, dict):
        raise _wrong(file, "scan.suppress", "a list of tables", entry)
    for key in entry:
        if key not in _KEYS:
            raise _wrong(file, f"scan.suppress.{key}", f"one of {', '.join(_KEYS)}", key)
    rule, path, reason = (_text(entry, key, file) for key in ("rule", "path", "reason"))
    if rule != "*" and rule not in RULES:
        near = nearest(rule, RULES, limit=1)
        hint = f"did you mean {near[0]}?" if near else "`skillyard scan --rules` lists them"
        raise InvalidConfiguration(f"{file}: scan.suppress names the rule {rule!r}, which does not exist", hint=hint, file=file)
    return Suppression(rule, path, _day(entry.get("until"), file), shorten(single_line(reason), 200), file)


def _text(entry: Mapping[str, object], key: str, file: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise _wrong(file, f"scan.suppress.{key}", "text, in every entry", value)
    return value.strip()


def _day(value: object, file: str) -> date:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise _wrong(file, "scan.suppress.until", "a day such as 2030-01-31, in every entry", value) from None


def _wrong(file: str, key: str, wanted: str, value: object) -> InvalidConfiguration:
    return InvalidConfiguration(
        f"{file}: {key} must be {wanted}, not {value!r}", hint=f"change {key} in {file}", file=file, key=key
    )


def apply_suppressions(
    findings: Iterable[Finding], suppressions: Sequence[Suppression], *, folder: str, skill: str, today: date
) -> list[Finding]:
    """The findings, those that are covered with `allowed` or, when it is too late, with `expired`.

    An entry in a file inside the skill's own folder is the skill's own word: it is told as a claim.
    """
    own = {file for file in {one.file for one in suppressions} if file and is_inside(file, folder)}
    return [_judged(finding, suppressions, skill, today, own) for finding in findings]


def _judged(finding: Finding, suppressions: Sequence[Suppression], skill: str, today: date, own: set[str]) -> Finding:
    for one in suppressions:
        if not one.covers(finding, skill):
            continue
        if one.file in own:
            finding = replace(finding, claimed=finding.claimed or one.reason)
        elif today <= one.until:
            return replace(finding, allowed=f"{one.reason} (until {one.until}, {one.file})", expired=None)
        else:
            finding = replace(finding, expired=f"suppressed until {one.until}: {one.reason}")
    return finding


def claim_on(rule: str, lines: Sequence[str]) -> str | None:
    """What a comment `skillyard: ignore RULE reason` in these lines of a skill's file claims about a finding."""
    for line in lines:
        found = _CLAIM.search(line[:2000])
        if found and found[1] in ("*", rule):
            reason = re.sub(r"(?<!\s)\s*+(?:-->|\*/)\s*+$", "", found[2])
            return shorten(single_line(reason), 120) or "no reason given"
    return None
