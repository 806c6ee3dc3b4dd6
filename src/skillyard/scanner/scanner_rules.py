"""Every rule of the scanner by its id, findings as SARIF 2.1.0, and suppressions: findings that an operator has accepted.

Code hosts and editors show SARIF beside the lines. Suppressions hold for a reason and until a day. They are in the settings, not
in the skill. A justification in a skill's own files is reported as a claim and changes nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from skillyard._version import __version__
from skillyard.errors import InvalidConfiguration
from skillyard.paths import is_inside
from skillyard.scanner.dangerous_commands import (
    CALL_RULES,
    CREDENTIAL_RULES,
    OBFUSCATION_RULES,
    PERSISTENCE_RULES,
    RESOURCE_RULES,
)
from skillyard.scanner.declared_permissions import PERMISSION_RULES, PURPOSE_RULES
from skillyard.scanner.finding import SEVERITIES, Finding, Report, ScanRule, Severity
from skillyard.scanner.injection import HIDDEN_RULES, INJECTION_RULES
from skillyard.scanner.names import NAME_RULES
from skillyard.scanner.network_use import DOWNLOAD_RULES, FLOW_RULES, NETWORK_RULES
from skillyard.scanner.prerequisites import PREREQUISITE_RULES
from skillyard.scanner.watch_effects import WATCHED_RULES
from skillyard.settings_reader import Setting, Settings, SettingsReader, flag, text, texts, word
from skillyard.text import nearest, shorten, single_line

RULES: Final[Mapping[str, ScanRule]] = MappingProxyType(
    {
        rule.id: rule
        for group in (
            INJECTION_RULES,
            HIDDEN_RULES,
            CREDENTIAL_RULES,
            FLOW_RULES,
            DOWNLOAD_RULES,
            PREREQUISITE_RULES,
            PERSISTENCE_RULES,
            OBFUSCATION_RULES,
            CALL_RULES,
            NETWORK_RULES,
            PERMISSION_RULES,
            RESOURCE_RULES,
            NAME_RULES,
            PURPOSE_RULES,
            WATCHED_RULES,
        )
        for rule in group
    }
)
"""By subject, in the order in which they are listed."""


_LEVELS: Final[dict[Severity, str]] = {"high": "error", "medium": "warning", "low": "note", "info": "note"}
_SCORES: Final[dict[Severity, str]] = {"high": "8.0", "medium": "5.0", "low": "3.0", "info": "0.0"}
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def to_sarif(reports: Sequence[Report]) -> dict[str, object]:
    """One run with the findings of all reports; suppressed ones are in it, marked so (SARIF 2.1.0, section 3.27.23)."""
    rules = list(RULES)
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "skillyard",
                        "semanticVersion": __version__,
                        "rules": [_rule(identity) for identity in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(report, finding, rules) for report in reports for finding in report.findings],
            }
        ],
    }


def _rule(identity: str) -> dict[str, object]:
    rule = RULES[identity]
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": ["security", rule.subject], "security-severity": _SCORES[rule.severity]},
    }


def _result(report: Report, finding: Finding, rules: Sequence[str]) -> dict[str, object]:
    path = f"{report.folder.rstrip('/')}/{finding.file}".removeprefix("./")
    shape: dict[str, object] = {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message}. {finding.why} Fix: {finding.fix}."},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(path)},
                    "region": {
                        "startLine": finding.line,
                        "startColumn": finding.column,
                        "snippet": {"text": finding.evidence},
                    },
                }
            }
        ],
        "partialFingerprints": {"finding/v1": _fingerprint(finding)},
    }
    if finding.allowed is not None:
        shape["suppressions"] = [{"kind": "external", "status": "accepted", "justification": finding.allowed}]
    return shape


def _uri(path: str) -> str:
    encoded = quote(path.encode("utf-8", "surrogateescape"))
    return f"file://{encoded}" if path.startswith("/") else encoded


def _fingerprint(finding: Finding) -> str:
    """The same finding stays the same when lines above it come and go."""
    what = f"{finding.rule}\0{finding.file}\0{finding.evidence}"
    return hashlib.sha256(what.encode("utf-8", "surrogatepass")).hexdigest()[:32]


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


_SETTINGS: Final[Settings] = {
    "suppress": _ENTRIES,
    "stops": word((*SEVERITIES, "never")),
    "accept-by": texts('a list of scopes and names of keys, such as ["skills:approve"]'),
    "watch": flag(),
}


def read_suppressions(table: Mapping[str, object], file: str) -> tuple[Suppression, ...]:
    """The entries of a table `[scan]` in `file`.

    Raises:
        InvalidConfiguration: a key is unknown or missing, a rule does not exist, a date is none, a reason is empty.
    """
    reader = SettingsReader(file)
    values = reader.read(_SETTINGS, table, "scan")
    entries = values.get("suppress", ())
    if len(entries) > _MOST:
        raise reader.wrong("scan.suppress", f"a list of at most {_MOST} tables", f"{len(entries)} tables")
    return tuple(_read(entry, reader) for entry in entries)


def stopping_severities(table: Mapping[str, object], file: str) -> frozenset[str]:
    """The severities at which a finding stops an install, by `stops` of a table `[scan]`; without it, `high`.

    Raises:
        InvalidConfiguration: as `read_suppressions`.
    """
    least = SettingsReader(file).read(_SETTINGS, table, "scan").get("stops", "high")
    return frozenset() if least == "never" else frozenset(SEVERITIES[: SEVERITIES.index(least) + 1])


def accepting_callers(table: Mapping[str, object], file: str) -> tuple[str, ...]:
    """The scopes and names of keys of which one is enough to accept what stops an install, by `accept-by` of a table `[scan]`.

    Without it none: whoever may install may accept.

    Raises:
        InvalidConfiguration: as `read_suppressions`.
    """
    callers: tuple[str, ...] = SettingsReader(file).read(_SETTINGS, table, "scan").get("accept_by", ())
    return callers


def watches_installs(table: Mapping[str, object], file: str) -> bool:
    """Whether what is installed is run in a sandbox and watched first, by `watch` of a table `[scan]`; without it, not.

    Raises:
        InvalidConfiguration: as `read_suppressions`.
    """
    return SettingsReader(file).read(_SETTINGS, table, "scan").get("watch", False) is True


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
