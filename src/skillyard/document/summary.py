"""What a list needs to know of one SKILL.md, small enough to hold and to cache for ten thousand skills."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from skillyard.document.diagnostic import Diagnostic


Facets = tuple[()] | tuple[tuple[str, ...], tuple[str, ...], float | None, str, tuple[str, ...]]
"""Intents, event types and priority of the `triggers`, the domain (`general` when none is given), and the tags."""


class NeedMore(Exception):
    """The bytes given end before the front matter does: call again with more of the file (up to `HEADER_LIMIT` bytes)."""


class Summary(NamedTuple):
    """The few facts about a skill that lists, indexes and search need; every value but the diagnostics is plain data.

    A named tuple rather than a dataclass: it is built once per file on the hot path, where that is five times cheaper.
    """

    name: str
    """The name as written, without surrounding space; the folder's name when there is none."""
    description: str
    """The description as written, without surrounding space; empty when there is none."""
    usable: bool = True
    """False for a broken file: listed with its diagnostics, never offered to a model."""
    display_name: str | None = None
    version: str | None = None
    kind: str = "direct"
    """The `type` field: direct, service, distributed, static, preprocessor or internal (row 000-11)."""
    allowed_tools: tuple[str, ...] = ()
    """One list whatever the notation: `("Read", "Bash(git:*)")`."""
    keywords: tuple[str, ...] = ()
    """`keywords`, `trigger_keywords` and `tags` without repeats, for search."""
    phrases: tuple[str, ...] = ()
    """The intents and phrases of `triggers`."""
    model_invocable: bool = True
    """Whether a model may pick the skill: no `disable-model-invocation`, and not of the kind `internal`."""
    has_entry: bool = False
    """Whether the skill declares something to run: an entry, or a kind."""
    facets: Facets = ()
    """What few skills declare, for filters and triggers; empty when nothing of it is there."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Errors and warnings; notes (severity `info`) are left to `check_document`."""
