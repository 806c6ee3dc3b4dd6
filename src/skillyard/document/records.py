"""The results of reading and checking: rules and their weights, findings, the summary for a list; and the limits of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

from skillyard.wire import WireForm

HEADER_LIMIT: Final = 64 * 1024
"""The closing fence must start within this many bytes of the file."""
DOCUMENT_LIMIT: Final = 1024 * 1024
"""A SKILL.md of more bytes is refused."""
DEPTH_LIMIT: Final = 8
"""How many lists and mappings may be inside one another, the front matter itself included."""
KEY_LIMIT: Final = 256
"""How many keys a front matter may have, nested ones included."""
NAME_LIMIT: Final = 64
"""Agent Skills specification, name: characters."""
DESCRIPTION_LIMIT: Final = 1024
"""Agent Skills specification, description: characters."""
COMPATIBILITY_LIMIT: Final = 500
"""Agent Skills specification, compatibility: characters."""


Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Diagnostic(WireForm):
    """One finding: the rule's id, its severity, what, where (1-based line) and how to fix it."""

    rule: str
    severity: Severity
    message: str
    file: str = "SKILL.md"
    line: int = 1
    fix: str | None = None


Profile = Literal["minimal", "standard", "spec", "manifest", "full"]
"""How strict to be: `minimal` requires nothing, `standard` a description or a paragraph of the instructions instead,
`spec` the Agent Skills specification to the letter, `manifest` the fields and limits of a published package, `full` every field
and section of the rich format."""

PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)
ALWAYS: Final[frozenset[Profile]] = frozenset(PROFILES)
"""A finding makes the skill unusable in every profile."""
REQUIRED: Final[frozenset[Profile]] = ALWAYS - {"minimal"}
"""A finding makes the skill unusable in every profile but `minimal`."""
DECLARED: Final[frozenset[Profile]] = REQUIRED - {"standard"}
"""A finding makes the skill unusable in every profile that requires its fields to be written, not inferred."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is checked: its stable id, how to fix it, and what it weighs in each profile."""

    id: str
    title: str
    remedy: str
    """The fix text of a finding that has none more exact."""
    severity: Mapping[Profile, Severity]
    """The severity in each profile; a profile that is not here does not check it."""
    breaks: frozenset[Profile] = frozenset()
    """The profiles in which a finding makes the skill unusable."""
    fixable: bool = False
    """Whether `fix_document` can fix it safely."""


def levels(
    minimal: Severity | None, standard: Severity | None, spec: Severity | None, manifest: Severity | None, full: Severity | None
) -> Mapping[Profile, Severity]:
    """The severity in each profile, in the order of `PROFILES`; None where the profile does not check it."""
    severities = zip(PROFILES, (minimal, standard, spec, manifest, full), strict=True)
    return {profile: severity for profile, severity in severities if severity}


Facets = tuple[()] | tuple[tuple[str, ...], tuple[str, ...], float | None, str, tuple[str, ...]]
"""Intents, event types and priority of the `triggers`, the domain (`general` by default), and the tags."""


class NeedMore(Exception):
    """The bytes end before the front matter does: call again with more of the file (up to `HEADER_LIMIT` bytes)."""


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
    """The `type` field: direct, service, distributed, static, preprocessor or internal."""
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
