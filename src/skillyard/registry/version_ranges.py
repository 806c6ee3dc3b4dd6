"""Names with version ranges (`pdf@^1.2`, `pdf>=1,<2`), and the installed versions that version locks refer to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from skillyard.registry.model import SkillVersion

_TEXT: Final = re.compile(r"\s*(?P<name>[^\s@<>=!~^,;\[(]+)\s*(?:\[[^\]]*\])?\s*@?\s*(?P<range>[^;]*)")
_CLAUSE: Final = re.compile(r"(?P<sign>\^|~=|~|>=|<=|==|=|!=|>|<|)\s*v?(?P<version>\d[0-9A-Za-z.+*-]*|\*)")
_NUMBER: Final = re.compile(r"\d{1,18}")

_Key = tuple[tuple[int, ...], int, tuple[tuple[int, int, str], ...]]


@dataclass(frozen=True, slots=True)
class VersionRequirement:
    """A name and the clauses its version must meet, all of them; `None` stands for a clause that cannot be understood."""

    name: str
    clauses: tuple[tuple[str, str] | None, ...] = ()

    def holds(self, version: str) -> bool:
        """Whether `version` meets every clause; a clause that cannot be understood is met by none."""
        return all(clause is not None and _meets(version, *clause) for clause in self.clauses)


def parse_requirement(text: str) -> VersionRequirement:
    """Take a requirement apart; what follows a `;` is a condition of other tools and not looked at."""
    match = _TEXT.match(text)
    if not match:
        return VersionRequirement(text.strip(), (None,) if text.strip() else ())
    pieces = [piece for piece in re.split(r"(?<![,\s])[,\s]++(?=[\^~<>=!v\d*])", match["range"].strip(" ()")) if piece]
    return VersionRequirement(match["name"], tuple(clause for piece in pieces if (clause := _clause(piece)) != ("", "*")))


def _clause(piece: str) -> tuple[str, str] | None:
    match = _CLAUSE.fullmatch(piece.strip(" ,"))
    return (match["sign"], match["version"]) if match else None


def _meets(version: str, sign: str, bound: str) -> bool:
    have, want = _version_key(version), _version_key(bound)
    match sign:
        case "^" | "~" | "~=":
            return want <= have and _version_key(_ceiling(bound, sign), release=False) > have
        case ">=":
            return have >= want
        case "<=":
            return have <= want
        case ">":
            return have > want
        case "<":
            return have < want
        case "!=":
            return have != want
        case _:
            return have == want or (bound.endswith(".*") and version.startswith(bound[:-1]))


def _ceiling(bound: str, sign: str) -> str:
    """The first version that is beyond `^`, `~` or `~=`: the next at the first number that may not change."""
    numbers = [int(number) for number in _NUMBER.findall(re.split(r"[-+]", bound)[0])] or [0]
    if sign == "^":
        fixed = next((index for index, number in enumerate(numbers) if number), len(numbers) - 1)
    elif sign == "~":
        fixed = min(1, len(numbers) - 1)
    else:
        fixed = max(len(numbers) - 2, 0)
    return ".".join(map(str, [*numbers[:fixed], numbers[fixed] + 1]))


def _version_key(version: str, *, release: bool = True) -> _Key:
    """A sort key: numbers, then a pre-release before its release (Semantic Versioning 2.0.0, item 11).

    With `release=False` the key comes before every pre-release of that version.
    """
    core, _, pre = version.partition("+")[0].removeprefix("v").partition("-")
    numbers = [int(number) for number in _NUMBER.findall(core)]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    if not release:
        return tuple(numbers), -1, ()
    parts = tuple((0, int(part), "") if _NUMBER.fullmatch(part) else (1, 0, part) for part in pre.split(".")) if pre else ()
    return tuple(numbers), 0 if pre else 1, parts


def locked_versions(known: Sequence[SkillVersion], locks: Iterable[str]) -> frozenset[str]:
    """The version that each lock means, of those `known` (the newest first): for a range the newest in it."""
    found = (next((one.version for one in known if _matches_lock(lock, one)), None) for lock in locks)
    return frozenset(version for version in found if version is not None)


def _matches_lock(lock: str, version: SkillVersion) -> bool:
    if lock in (version.version, version.declared_version):
        return True
    return version.declared_version is not None and parse_requirement(f"it@{lock}").holds(version.declared_version)
