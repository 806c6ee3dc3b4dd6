"""Permission rules: which skills an agent may use, by pattern, source and signer.

A rule set is an ordered mapping `{pattern: "allow" | "ask" | "deny"}`. A pattern is matched against the skill's name, its slug
and its id (`user:pdf`). It may say whose skill is meant: `deploy source=github.com/acme/skills`, or `deploy signer=ed25519:…`.
Where the origin of a skill is not known, such a rule holds unless it allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeVar, get_args

from skillyard.catalog import Configuration, Permission, PermissionMatch, Skill, SkillCatalog, Status
from skillyard.errors import InvalidInput, UnreachableRule
from skillyard.packages import is_signer
from skillyard.permissions.origins import InstalledOrigins, OriginLookup, SkillProvenance, source_parts
from skillyard.permissions.patterns import ComparisonBudget, covers, matches

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

    def covers(self, other: RuleSelector, budget: ComparisonBudget | None = None) -> bool:
        """Whether this is about every skill that `other` is about."""
        source = self.source is None or (other.source is not None and _below(self.source, other.source))
        return source and self.signer in (None, other.signer) and covers(self.name, other.name, budget)


def _below(wanted: Sequence[str], found: Sequence[str]) -> bool:
    """Whether `found` is the source that is wanted, or a folder of it."""
    return len(found) >= len(wanted) and all(matches(one, other) for one, other in zip(wanted, found, strict=False))


_PERMISSIONS: Final[Mapping[str, Permission]] = {"allow": "allow", "ask": "ask", "deny": "deny"}
CatalogT = TypeVar("CatalogT", bound=SkillCatalog)


@dataclass(frozen=True, slots=True)
class PermissionRuling:
    """A decision, and the pattern that made it (None: no rule matched, so the default)."""

    permission: Permission
    pattern: str | None = None


class Rules:
    """An ordered set of permission rules.

    With `match="first"` the first matching pattern decides (document 001), with `"last"` the last one; what no pattern matches
    is allowed. `origins` says where skills come from; without it no rule that allows by source or signer holds. A rule that
    could never decide, because one that takes precedence covers it with another decision, is refused (C-10).

    Raises:
        InvalidInput: an unknown decision, an empty pattern, an unknown `match`, or a source or signer that is none.
        UnreachableRule: a rule can never apply; the message names it and the one that hides it.
    """

    __slots__ = ("_ordered", "match", "origins", "patterns")

    def __init__(
        self,
        patterns: Mapping[str, str] | None = None,
        match: PermissionMatch = "first",
        *,
        origins: OriginLookup | None = None,
    ) -> None:
        if match not in get_args(PermissionMatch):
            raise InvalidInput(f"permissions cannot match {match!r}", hint="use 'first' or 'last'")
        self.match: PermissionMatch = match
        self.origins = origins
        self.patterns: Mapping[str, Permission] = {
            pattern: _checked(pattern, permission) for pattern, permission in (patterns or {}).items()
        }
        ordered = [(RuleSelector.parse(pattern), pattern, permission) for pattern, permission in self.patterns.items()]
        self._ordered = tuple(ordered if match == "first" else reversed(ordered))
        _refuse_unreachable(self._ordered)

    @classmethod
    def of(cls, configuration: Configuration, *, origins: OriginLookup | None = None) -> Self:
        """The rules of a configuration; without any, everything is allowed.

        Raises:
            UnreachableRule: one of them can never apply.
        """
        return cls(configuration.permissions, match=configuration.permission_match, origins=origins)

    @classmethod
    def for_catalog(cls, catalog: SkillCatalog, patterns: Mapping[str, str] | None = None) -> Self:
        """These rules, or those of the catalog's configuration, with the origins that its registry wrote down."""
        origins = InstalledOrigins.of(catalog)
        if patterns is None:
            return cls.of(catalog.configuration, origins=origins)
        return cls(patterns, match=catalog.configuration.permission_match, origins=origins)

    def __repr__(self) -> str:
        return f"Rules({dict(self.patterns)!r}, match={self.match!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and self._ordered == other._ordered

    def __hash__(self) -> int:
        return hash(self._ordered)

    def decide(self, skill: str | Skill) -> Permission:
        """The permission of `skill`; give the skill itself where there is one, so that its slug and id count too."""
        return self.rule(skill).permission

    def rule(self, skill: str | Skill) -> PermissionRuling:
        """The permission of `skill` and the pattern that gave it; each pattern is tried on the name, the slug and the id."""
        if isinstance(skill, str):
            return self._first((skill,), lambda: None)
        origins = self.origins
        return self._first((skill.name, skill.slug, skill.id), lambda: origins.provenance(skill) if origins else None)

    def rule_installed(self, names: Sequence[str], directory: str) -> PermissionRuling:
        """The same for an installed skill that no catalog shows, by its names and the folder that it serves from."""
        origins = self.origins
        return self._first(names, lambda: origins.installed(directory) if origins else None)

    def allowed_by_name_alone(self) -> tuple[str, ...]:
        """The patterns of rules that allow by name alone, and so trust any skill of that name, whoever made it."""
        return tuple(
            pattern
            for selector, pattern, permission in self._ordered
            if permission == "allow" and selector.name != "*" and not selector.names_origin
        )

    def _first(self, names: Sequence[str], provenance: Callable[[], SkillProvenance | None]) -> PermissionRuling:
        for selector, pattern, permission in self._ordered:
            if not selector.fits_names(names):
                continue
            fits = selector.fits_origin(provenance()) if selector.source or selector.signer else True
            if fits or (fits is None and permission != "allow"):
                return PermissionRuling(permission, pattern)
        return PermissionRuling("allow")


def without_denied(catalog: CatalogT, rules: Rules) -> CatalogT:
    """`catalog` without the skills that `rules` deny: `all()` shows them as `denied` with the reason, iteration does not.

    The rules stay in force: they also hold for skills that appear later.
    """
    if "deny" not in rules.patterns.values():
        return catalog

    def overlay(skill: Skill) -> tuple[Status, str] | None:
        if skill.status != "ok":
            return None  # why it cannot be used anyway says more
        ruling = rules.rule(skill)
        return ("denied", f"the permission rule {ruling.pattern!r} denies it") if ruling.permission == "deny" else None

    return catalog.with_statuses(overlay)


def _checked(pattern: str, permission: str) -> Permission:
    if permission not in _PERMISSIONS:
        raise InvalidInput(f"the rule {pattern!r} says {permission!r}", hint="a rule says 'allow', 'ask' or 'deny'")
    return _PERMISSIONS[permission]


def _refuse_unreachable(ordered: Sequence[tuple[RuleSelector, str, Permission]]) -> None:
    budget = ComparisonBudget()  # a project of somebody else may bring thousands of rules
    for number, (selector, pattern, permission) in enumerate(ordered):
        if budget.spent:
            return
        for wider, stronger, decision in ordered[:number]:
            if decision != permission and wider.covers(selector, budget):
                raise UnreachableRule(
                    f"the rule {pattern!r} = {permission!r} can never apply: {stronger!r} = {decision!r} always decides first",
                    hint=f"put {pattern!r} where it is looked at before {stronger!r}, or take one of them out",
                    pattern=pattern,
                    hidden_by=stronger,
                )
