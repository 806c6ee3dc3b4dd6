"""Reading just enough of a SKILL.md for a list: the hot path, called once for every file of a catalog."""

from __future__ import annotations

from typing import Final

from skillyard.document.document import read_opened
from skillyard.document.fast import quick_summary
from skillyard.document.findings import Findings
from skillyard.document.metadata import Metadata
from skillyard.document.opening import open_document
from skillyard.document.rule import Profile
from skillyard.document.summary import Summary

__all__ = ["summarize"]

_QUICK_PROFILES: Final = frozenset({"minimal", "standard"})


def summarize(
    data: bytes, *, file: str = "SKILL.md", directory_name: str = "", profile: Profile = "standard", complete: bool = True
) -> Summary:
    """The summary of a SKILL.md from its bytes, or from its first bytes when `complete` is false.

    Bad content never raises. With `complete=False` the body is not looked at beyond the bytes given.

    Raises:
        NeedMore: the data is incomplete and ends before the front matter does.
    """
    if profile in _QUICK_PROFILES and file.endswith("SKILL.md"):
        summary = quick_summary(data, complete=complete)
        if summary is not None:
            return summary
    return _precise(data, file, directory_name, profile, complete=complete)


def _precise(data: bytes, file: str, directory_name: str, profile: Profile, *, complete: bool) -> Summary:
    findings = Findings(file, profile)
    metadata = read_opened(open_document(data, findings, complete=complete), findings, directory_name)
    return _summary_of(metadata, findings)


def _summary_of(metadata: Metadata, findings: Findings) -> Summary:
    return Summary(
        name=metadata.name,
        description=metadata.description,
        usable=findings.usable,
        display_name=metadata.display_name,
        version=metadata.version,
        kind=metadata.kind,
        allowed_tools=metadata.allowed_tools,
        keywords=metadata.search_words,
        phrases=tuple(dict.fromkeys((*metadata.triggers.intents, *metadata.triggers.phrases))),
        model_invocable=metadata.model_invocable,
        has_entry=metadata.has_entry,
        diagnostics=tuple(found for found in findings.sorted() if found.severity != "info"),
    )
