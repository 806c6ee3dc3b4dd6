"""Every rule of the scanner by its id, and findings as SARIF 2.1.0, which code hosts and editors show beside the lines."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from skillyard._version import __version__
from skillyard.scanner.dangerous_commands import CALL_RULES, OBFUSCATION_RULES, PERSISTENCE_RULES, RESOURCE_RULES
from skillyard.scanner.finding import Finding, Report, ScanRule, Severity
from skillyard.scanner.injection import HIDDEN_RULES, INJECTION_RULES
from skillyard.scanner.network import CREDENTIAL_RULES, DOWNLOAD_RULES, FLOW_RULES, NETWORK_RULES
from skillyard.scanner.permissions import PERMISSION_RULES

RULES: Final[Mapping[str, ScanRule]] = MappingProxyType(
    {
        rule.id: rule
        for group in (
            INJECTION_RULES,
            HIDDEN_RULES,
            CREDENTIAL_RULES,
            FLOW_RULES,
            DOWNLOAD_RULES,
            PERSISTENCE_RULES,
            OBFUSCATION_RULES,
            CALL_RULES,
            NETWORK_RULES,
            PERMISSION_RULES,
            RESOURCE_RULES,
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
