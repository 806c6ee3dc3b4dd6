"""Rules: which skills an agent may use, by pattern.

A rule set is an ordered mapping `{pattern: "allow" | "ask" | "deny"}`. A pattern is matched against the skill's name, its slug
and its id (`user:pdf`), so that a rule holds however the author spells the name, and `project:*` is a rule about a source.
Because anybody may call a skill by any name, a pattern may say whose is meant: `deploy source=github.com/acme/skills`, or
`deploy signer=ed25519:…`. Where the origin of a skill is not known, such a rule holds unless it allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeVar, get_args

from skillyard.catalog import Catalog, Configuration, Permission, PermissionMatch, Skill, Status
from skillyard.errors import InvalidInput, UnreachableRule
from skillyard.permissions.origins import InstalledOrigins, OriginLookup, SkillProvenance
from skillyard.permissions.patterns import CoverBudget
from skillyard.permissions.selectors import RuleSelector

__all__ = ["Rules", "Ruling", "visible"]

_PERMISSIONS: Final[Mapping[str, Permission]] = {"allow": "allow", "ask": "ask", "deny": "deny"}
CatalogT = TypeVar("CatalogT", bound=Catalog)


@dataclass(frozen=True, slots=True)
class Ruling:
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
    def for_catalog(cls, catalog: Catalog, patterns: Mapping[str, str] | None = None) -> Self:
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

    def rule(self, skill: str | Skill) -> Ruling:
        """The permission of `skill` and the pattern that gave it; each pattern is tried on the name, the slug and the id."""
        if isinstance(skill, str):
            return self._first((skill,), lambda: None)
        origins = self.origins
        return self._first((skill.name, skill.slug, skill.id), lambda: origins.provenance(skill) if origins else None)

    def rule_installed(self, names: Sequence[str], directory: str) -> Ruling:
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

    def _first(self, names: Sequence[str], provenance: Callable[[], SkillProvenance | None]) -> Ruling:
        for selector, pattern, permission in self._ordered:
            if not selector.fits_names(names):
                continue
            fits = selector.fits_origin(provenance()) if selector.source or selector.signer else True
            if fits or (fits is None and permission != "allow"):
                return Ruling(permission, pattern)
        return Ruling("allow")


def visible(catalog: CatalogT, rules: Rules) -> CatalogT:
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
    budget = CoverBudget()  # a project of somebody else may bring thousands of rules
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
