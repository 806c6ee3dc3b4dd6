"""Which skills a rule is about: `NAME`, `NAME source=SOURCE`, `NAME signer=KEY`, or both.

The name is a pattern over name, slug and id. A source is compared part by part, `*` stays within one part, and what follows
below it counts too: `github.com/acme` is every repository of acme. A signer is a whole public key. The one text is used
wherever rules are written: in TOML, JSON, Python and on the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from skillyard.errors import InvalidInput
from skillyard.packages import is_signer
from skillyard.permissions.origins import source_parts
from skillyard.permissions.patterns import CoverBudget, covers, matches

if TYPE_CHECKING:
    from skillyard.permissions.origins import SkillProvenance

__all__ = ["RuleSelector"]

_FIELD: Final = re.compile(r"(source|signer)=(.*)", re.DOTALL)
_LIKE_A_FIELD: Final = re.compile(r"[A-Za-z]+=")  # taken for a part of the name, such a rule would never apply
_OWN: Final = ("user:", "env:", "config:", "plugin:", "builtin:")
"""Ids that name a source whose folders are the user's own choice."""


@dataclass(frozen=True, slots=True)
class RuleSelector:
    """A pattern for names, and if given the parts of a source and the key of a signer."""

    name: str
    source: tuple[str, ...] | None = None
    signer: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a rule's pattern; the fields stand after the name, separated by blanks.

        Raises:
            InvalidInput: there is no name, a field is unknown, empty or there twice, or the signer is no key.
        """
        words, fields = text.split(), dict[str, str]()
        while words and (match := _FIELD.fullmatch(words[-1])):
            if match[1] in fields:
                raise InvalidInput(f"the rule {text!r} names {match[1]} twice", hint="write two rules")
            fields[match[1]] = match[2]
            words.pop()
        if unknown := next(filter(_LIKE_A_FIELD.match, words[1:]), None):
            raise InvalidInput(
                f"the rule {text!r} has {unknown!r}, which is no field of a rule",
                hint="after the name write source=… or signer=…, and nothing behind them",
            )
        if not words:
            raise InvalidInput("a rule has an empty pattern", hint="write a name, or a pattern such as 'internal-*'")
        source = source_parts(fields["source"]) if "source" in fields else None
        if source == ():
            raise InvalidInput(f"the rule {text!r} names no source", hint="as in 'deploy source=github.com/acme/skills'")
        signer = fields.get("signer")
        if signer is not None and not is_signer(signer):
            raise InvalidInput(
                f"the rule {text!r} names no signer", hint="`skillyard key` shows a public key: ed25519: and 44 characters"
            )
        return cls(" ".join(words) if fields else text, source, signer)

    @property
    def names_origin(self) -> bool:
        """Whether the rule says whose skills it means, and not only how they are called."""
        return self.source is not None or self.signer is not None or self.name.casefold().startswith(_OWN)

    def fits_names(self, names: Sequence[str]) -> bool:
        """Whether one of the names of a skill fits."""
        return any(matches(self.name, name) for name in names)

    def fits_origin(self, provenance: SkillProvenance | None) -> bool | None:
        """Whether source and signer fit; None when that is not known."""
        if self.source is None and self.signer is None:
            return True
        if provenance is None:
            return None
        if self.source is not None and not any(_below(self.source, source) for source in provenance.sources):
            return False if provenance.complete else None
        return self.signer is None or provenance.signer() == self.signer

    def covers(self, other: RuleSelector, budget: CoverBudget | None = None) -> bool:
        """Whether this is about every skill that `other` is about."""
        source = self.source is None or (other.source is not None and _below(self.source, other.source))
        return source and self.signer in (None, other.signer) and covers(self.name, other.name, budget)


def _below(wanted: Sequence[str], found: Sequence[str]) -> bool:
    """Whether `found` is the source that is wanted, or a folder of it."""
    return len(found) >= len(wanted) and all(matches(one, other) for one, other in zip(wanted, found, strict=False))
