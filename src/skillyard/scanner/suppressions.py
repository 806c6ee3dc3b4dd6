"""Suppressions: findings that an operator has reviewed and accepts, for a reason and until a day.

They are in the settings, not in the skill. A justification in a skill's own files is reported as a claim and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from fnmatch import fnmatchcase
from typing import Any, Final

from skillyard.errors import InvalidConfiguration
from skillyard.paths import is_inside
from skillyard.scanner.finding import Finding
from skillyard.scanner.rules import RULES
from skillyard.settings_reader import Setting, Settings, SettingsReader, text
from skillyard.text import nearest, shorten, single_line

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
    """The settings file it is in."""

    def covers(self, finding: Finding, skill: str) -> bool:
        """Whether it is about this finding, in time or not; `skill` is the name of the skill's folder."""
        return self.rule in ("*", finding.rule) and fnmatchcase(f"{skill}/{finding.file}", self.path)


def _day(value: date | str) -> date:
    if isinstance(value, datetime):
        return value.date()
    return value if isinstance(value, date) else date.fromisoformat(value)


def _is_day(value: Any) -> bool:
    try:
        return bool(_day(value))
    except (TypeError, ValueError):
        return False


_ENTRIES: Final = Setting("a list of tables", lambda entries: isinstance(entries, list))
_ENTRY: Final[Settings] = {
    "rule": text("text, in every entry", required=True),
    "path": text("text, in every entry", required=True),
    "until": Setting("a day such as 2030-01-31, in every entry", _is_day, required=True),
    "reason": text("text, in every entry", required=True),
}


def read_suppressions(table: Mapping[str, object], file: str) -> tuple[Suppression, ...]:
    """The entries of a table `[scan]` in `file`.

    Raises:
        InvalidConfiguration: a key is unknown or missing, a rule does not exist, a date is none, a reason is empty.
    """
    reader = SettingsReader(file)
    values = reader.read({"suppress": _ENTRIES}, table, "scan")
    entries = values.get("suppress", ())
    if len(entries) > _MOST:
        raise reader.wrong("scan.suppress", f"a list of at most {_MOST} tables", f"{len(entries)} tables")
    return tuple(_read(entry, reader) for entry in entries)


def _read(entry: object, reader: SettingsReader) -> Suppression:
    if not isinstance(entry, dict):
        raise reader.wrong("scan.suppress", "a list of tables", entry)
    values = reader.read(_ENTRY, entry, "scan.suppress")
    rule = values["rule"].strip()
    if rule != "*" and rule not in RULES:
        near = nearest(rule, RULES, limit=1)
        hint = f"did you mean {near[0]}?" if near else "`skillyard scan --rules` lists them"
        message = f"{reader.file}: scan.suppress names the rule {rule!r}, which does not exist"
        raise InvalidConfiguration(message, hint=hint, file=reader.file)
    return Suppression(
        rule, values["path"].strip(), _day(values["until"]), shorten(single_line(values["reason"].strip()), 200), reader.file
    )


def apply_suppressions(
    findings: Iterable[Finding], suppressions: Sequence[Suppression], *, folder: str, skill: str, today: date
) -> list[Finding]:
    """The findings, those that are covered with `allowed` or, when it is too late, with `expired`.

    An entry in a file inside the skill's own folder comes from the skill itself: it is reported as a claim.
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
        match = _CLAIM.search(line[:2000])
        if match and match[1] in ("*", rule):
            reason = re.sub(r"(?<!\s)\s*+(?:-->|\*/)\s*+$", "", match[2])
            return shorten(single_line(reason), 120) or "no reason given"
    return None
