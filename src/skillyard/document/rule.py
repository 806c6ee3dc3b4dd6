"""What a rule is, and the five profiles that decide how much each rule weighs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from skillyard.document.diagnostic import Severity

Profile = Literal["minimal", "standard", "spec", "manifest", "full"]
"""How strict to be (C-3): `minimal` wants nothing, `standard` a name and a description, `spec` the Agent Skills specification
to the letter, `manifest` the fields and limits of a published package, `full` every field and section of the rich format."""

PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)
ALWAYS: Final[frozenset[Profile]] = frozenset(PROFILES)
"""A finding makes the skill unusable in every profile."""
REQUIRED: Final[frozenset[Profile]] = ALWAYS - {"minimal"}
"""A finding makes the skill unusable in every profile that requires a front matter."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is checked: its stable id, why it matters, how to fix it, and what it weighs in each profile."""

    id: str
    title: str
    explanation: str
    remedy: str
    """The fix text of a finding that has none more exact."""
    severity: Mapping[Profile, Severity]
    """The severity in each profile; a profile that is not here does not look for it."""
    breaks: frozenset[Profile] = frozenset()
    """The profiles in which a finding makes the skill unusable."""
    fixable: bool = False
    """Whether `fix_document` can fix it safely."""


def levels(
    minimal: Severity | None, standard: Severity | None, spec: Severity | None, manifest: Severity | None, full: Severity | None
) -> Mapping[Profile, Severity]:
    """The severity in each profile, in the order of `PROFILES`; None where the profile does not look for it."""
    given = zip(PROFILES, (minimal, standard, spec, manifest, full), strict=True)
    return {profile: severity for profile, severity in given if severity}
