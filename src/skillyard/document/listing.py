"""Reading just enough of a SKILL.md for a list: the hot path, called once for every file of a catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillyard.document.fast import quick_summary
from skillyard.document.summary import Summary

if TYPE_CHECKING:
    from skillyard.document.rule import Profile

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
    # A catalog in good order never gets here, and so never pays for the import of the precise reader.
    from skillyard.document.document import precise_summary

    return precise_summary(data, file=file, directory_name=directory_name, profile=profile, complete=complete)
