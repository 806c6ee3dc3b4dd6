"""Permission rules: which skills an agent may use, by wildcard pattern, source and signer.

A rule set is an ordered mapping `{pattern: "allow" | "ask" | "deny"}`. A pattern is matched against the skill's name, its slug
and its id (`user:pdf`). It may name the origin: `deploy source=github.com/acme/skills`, or `deploy signer=ed25519:…`.
Where the origin of a skill is unknown, such a rule holds unless it allows.

In a pattern `*` stands for any number of characters, `?` for exactly one; letters match without regard to case; a pattern must
match the whole name. Everything else stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Self, TypeVar, get_args

from skillyard.catalog import Configuration, Permission, PermissionMatch, Skill, SkillCatalog, Status
from skillyard.errors import ExtensionFailed, InvalidInput, UnreachableRule
from skillyard.extensions import Extension
from skillyard.permissions.origins import InstalledOrigins, OriginLookup, SkillProvenance, source_parts
from skillyard.text import single_line
from skillyard.wire import WireForm, wire

_MOST_STATES: Final = 20_000  # pairs of states looked at before an answer is given up
_MOST_POSITIONS: Final = 500_000  # positions in both patterns that these states have together
_MOST_OF_ALL: Final = 2_000_000  # positions in all pairs of a set of rules
_EACH: Final = 10  # what any pair costs, in positions, and how many characters cost one
_OTHER: Final = ""  # any character that neither pattern names


def _is_signer(text: str) -> bool:
    from skillyard.packages import is_signer  # with what reads packages, which few rules need

    return is_signer(text)


def _fold(name: str) -> str:
    """`name` as it is compared: without invisible characters, on one line, without case."""
    return name.casefold() if name.isascii() and name.isprintable() else single_line(name).casefold()


def matches(pattern: str, name: str) -> bool:
    """Whether `pattern` matches the whole of `name`."""
    return glob(_fold(pattern)).fullmatch(_fold(name)) is not None


@lru_cache(maxsize=1024)
def glob(pattern: str) -> re.Pattern[str]:
    """`pattern` with `*` and `?` as a regular expression for `fullmatch`; case matters, and time is linear in the text."""
    # A part between two stars is matched at its first position and never given back: no pattern can make it search for long.
    head, *rest = [_literal(part) for part in re.split(r"\*+", pattern)]
    if not rest:
        return re.compile(head, re.DOTALL)
    middle = "".join(f"(?>.*?{part})" for part in rest[:-1])
    return re.compile(f"{head}{middle}.*{rest[-1]}", re.DOTALL)


def _literal(part: str) -> str:
    return "".join("." if char == "?" else re.escape(char) for char in part)


class ComparisonBudget:
    """The budget for the comparisons of one set of rules, in positions of patterns: about two seconds at most."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MOST_OF_ALL

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self._left < 0

    def takes(self, positions: int) -> bool:
        """Spend so many; False when there are not so many left."""
        self._left -= positions
        return self._left >= 0


def covers(wide: str, narrow: str, budget: ComparisonBudget | None = None) -> bool:
    """Whether every name that `narrow` matches is matched by `wide` too.

    Both patterns are walked at once as automata over the characters they name and one that stands for all others. For a pair of
    patterns too entangled to decide within a fixed number of steps, or when the `budget` is spent, the answer is False.
    """
    budget = budget or ComparisonBudget()
    if not budget.takes(_EACH + (len(wide) + len(narrow)) // _EACH):
        return False
    wide, narrow = re.sub(r"\*+", "*", _fold(wide)), re.sub(r"\*+", "*", _fold(narrow))
    alphabet = [*dict.fromkeys(char for char in wide + narrow if char not in "*?"), _OTHER]
    start = (_closed(narrow, 0), frozenset(_closed(wide, 0)))
    seen, waiting = {start}, [start]
    positions = 0
    while waiting:
        inside, outside = waiting.pop()
        if len(narrow) in inside and len(wide) not in outside:
            return False
        for char in alphabet:
            step = (_step(narrow, inside, char), _step(wide, outside, char))
            if step[0] and step not in seen:
                seen.add(step)
                waiting.append(step)
                cost = len(step[0]) + len(step[1])
                positions += cost
                if not budget.takes(cost):
                    return False
        if len(seen) > _MOST_STATES or positions > _MOST_POSITIONS:
            return False
    return True


def _closed(pattern: str, position: int) -> frozenset[int]:
    """`position` and, past a star that may stand for nothing, the one after it."""
    if position < len(pattern) and pattern[position] == "*":
        return frozenset((position, position + 1))
    return frozenset((position,))


def _step(pattern: str, positions: frozenset[int], char: str) -> frozenset[int]:
    after: set[int] = set()
    for position in positions:
        if position == len(pattern):
            continue
        if pattern[position] == "*":
            after |= _closed(pattern, position)
        elif pattern[position] in ("?", char):
            after |= _closed(pattern, position + 1)
    return frozenset(after)


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
                f"the rule {text!r} has {unknown!r}, which is not a field of a rule",
                hint="after the name write source=… or signer=…, and nothing behind them",
            )
        if not words:
            raise InvalidInput("a rule has an empty pattern", hint="write a name, or a pattern such as 'internal-*'")
        source = source_parts(fields["source"]) if "source" in fields else None
        if source == ():
            raise InvalidInput(f"the rule {text!r} names no source", hint="as in 'deploy source=github.com/acme/skills'")
        if (signer := fields.get("signer")) is not None and not _is_signer(signer):
            raise InvalidInput(
                f"the rule {text!r} names no signer", hint="`skillyard key` shows a public key: ed25519: and 44 characters"
            )
        return cls(" ".join(words) if fields else text, source, signer)

    @property
    def names_origin(self) -> bool:
        """Whether the rule names an origin of skills, and not only their names."""
        return self.source is not None or self.signer is not None or self.name.casefold().startswith(_OWN)

    def fits_names(self, names: Sequence[str]) -> bool:
        """Whether one of the names of a skill fits."""
        return any(matches(self.name, name) for name in names)

    def fits_origin(self, provenance: SkillProvenance | None) -> bool | None:
        """Whether source and signer fit; None when that is unknown."""
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


def _below(required: Sequence[str], actual: Sequence[str]) -> bool:
    """Whether `actual` is the required source, or a folder of it."""
    return len(actual) >= len(required) and all(matches(one, other) for one, other in zip(required, actual, strict=False))


_PERMISSIONS: Final[Mapping[str, Permission]] = {"allow": "allow", "ask": "ask", "deny": "deny"}
CatalogT = TypeVar("CatalogT", bound=SkillCatalog)


@dataclass(frozen=True, slots=True)
class PermissionRuling(WireForm):
    """A decision, and the pattern that made it (None: no rule matched, so the default), or the check of an extension.

    `reason` says why the check of an extension could not be made.
    """

    permission: Permission = field(metadata=wire(name="decision"))
    pattern: str | None = None
    reason: str | None = field(default=None, metadata=wire(hidden=True))

    @property
    def denial(self) -> str:
        """The sentence about a skill that this denies."""
        return self.reason or f"the permission rule {self.pattern!r} denies it"


STRICTNESS: Final[tuple[Permission, ...]] = ("allow", "ask", "deny")
"""Decisions from the mildest to the strictest."""


def _stricter(check: Extension, skill: Skill, ruling: PermissionRuling) -> PermissionRuling:
    """What an extension makes of a decision: it can only be stricter, and where it fails the skill is denied."""
    try:
        answer = check.load()(skill, ruling.permission)
        if answer is None or STRICTNESS.index(answer) <= STRICTNESS.index(ruling.permission):
            return ruling
        return PermissionRuling(answer, check.key)
    except ExtensionFailed as error:
        return PermissionRuling("deny", check.key, error.message)
    except Exception as error:  # whatever the code of a plug-in raises
        return PermissionRuling("deny", check.key, check.failed(error).message)


class Rules:
    """An ordered set of permission rules.

    With `match="first"` the first matching pattern decides, with `"last"` the last one; what no pattern matches
    is allowed. `origins` gives where skills come from; without it no rule that allows by source or signer holds. The `checks`
    of extensions are asked about each skill after that, and the strictest answer holds. A rule that could never decide,
    because one that takes precedence covers it with another decision, is refused.

    Raises:
        InvalidInput: an unknown decision, an empty pattern, an unknown `match`, or a source or signer that is none.
        UnreachableRule: a rule can never apply; the message names it and the one that hides it.
    """

    __slots__ = ("_ordered", "checks", "match", "origins", "patterns")

    def __init__(
        self,
        patterns: Mapping[str, str] | None = None,
        match: PermissionMatch = "first",
        *,
        origins: OriginLookup | None = None,
        checks: tuple[Extension, ...] = (),
    ) -> None:
        if match not in get_args(PermissionMatch):
            raise InvalidInput(f"permissions cannot match {match!r}", hint="use 'first' or 'last'")
        self.match: PermissionMatch = match
        self.origins = origins
        self.checks = checks
        self.patterns: Mapping[str, Permission] = {
            pattern: _checked(pattern, permission) for pattern, permission in (patterns or {}).items()
        }
        ordered = [(RuleSelector.parse(pattern), pattern, permission) for pattern, permission in self.patterns.items()]
        self._ordered = tuple(ordered if match == "first" else reversed(ordered))
        _refuse_unreachable(self._ordered)

    @classmethod
    def of(
        cls, configuration: Configuration, *, origins: OriginLookup | None = None, checks: tuple[Extension, ...] = ()
    ) -> Self:
        """The rules of a configuration; without any, everything is allowed.

        Raises:
            UnreachableRule: one of them can never apply.
        """
        return cls(configuration.permissions, match=configuration.permission_match, origins=origins, checks=checks)

    @classmethod
    def for_catalog(cls, catalog: SkillCatalog, patterns: Mapping[str, str] | None = None) -> Self:
        """These rules, or those of the configuration, with the checks of extensions and the origins that the registry knows."""
        origins = InstalledOrigins.of(catalog)
        checks = catalog.configuration.extensions.of_kind("permission")
        if patterns is None:
            return cls.of(catalog.configuration, origins=origins, checks=checks)
        return cls(patterns, match=catalog.configuration.permission_match, origins=origins, checks=checks)

    def __repr__(self) -> str:
        return f"Rules({dict(self.patterns)!r}, match={self.match!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and (self._ordered, self.checks) == (other._ordered, other.checks)

    def __hash__(self) -> int:
        return hash((self._ordered, self.checks))

    def decide(self, skill: str | Skill) -> Permission:
        """The permission of `skill`; give the skill itself where there is one, so that its slug and id count too."""
        return self.rule(skill).permission

    def rule(self, skill: str | Skill) -> PermissionRuling:
        """The permission of `skill` and the pattern that gave it; each pattern is tried on the name, the slug and the id."""
        if isinstance(skill, str):
            return self._first((skill,), lambda: None)
        origins = self.origins
        ruling = self._first((skill.name, skill.slug, skill.id), lambda: origins.provenance(skill) if origins else None)
        for check in self.checks:
            ruling = _stricter(check, skill, ruling)
        return ruling

    @property
    def may_deny(self) -> bool:
        """Whether a rule or an extension could take a skill away."""
        return bool(self.checks) or "deny" in self.patterns.values()

    def rule_installed(self, names: Sequence[str], directory: str) -> PermissionRuling:
        """The same for an installed skill that no catalog shows, by its names and its folder."""
        origins = self.origins
        return self._first(names, lambda: origins.installed(directory) if origins else None)

    def allowed_by_name_alone(self) -> tuple[str, ...]:
        """The patterns of rules that allow by name alone, and so trust any skill of that name, of any author."""
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
    if not rules.may_deny:
        return catalog

    def overlay(skill: Skill) -> tuple[Status, str] | None:
        if skill.status != "ok":
            return None  # the status is the better reason
        ruling = rules.rule(skill)
        return ("denied", ruling.denial) if ruling.permission == "deny" else None

    return catalog.with_statuses(overlay)


def _checked(pattern: str, permission: str) -> Permission:
    if permission not in _PERMISSIONS:
        raise InvalidInput(f"the rule {pattern!r} says {permission!r}", hint="a rule is 'allow', 'ask' or 'deny'")
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
