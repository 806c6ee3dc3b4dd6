"""The work that an untrusted JSON Schema can cause: its parts are counted as often as references lead to them.

A check takes each part of a schema for each part of a value, at most, as long as no reference leads back to where it came from.
So the product of both bounds the time, and is computed before anything is checked: counting visits each written part once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote

_MOST_WRITTEN: Final = 10_000
_MOST_FOLLOWED: Final = 100_000
_MOST_CHARACTERS: Final = 256 * 1024
_DEEPEST: Final = 100
_UNBOUNDED: Final = frozenset({"$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems"})
"""Keywords that check a value more than once, or refer to what only the check itself resolves."""
_REPEATED: Final = re.compile(r"[0-9]{2,9}")
_LONGEST_PATTERN: Final = 200
_PATTERN: Final = 5


class UnusableSchema(ValueError):
    """What is declared as a schema is none, or is larger than any that is checked."""


def schema_weight(schema: Mapping[str, object]) -> int | None:
    """How many parts a check goes through for one part of a value; None when only the check itself can show it.

    Parts are mappings and entries of lists; a pattern counts as five, a reference as what it leads to. None stands for a
    reference that leads back or elsewhere, for keywords that check a part again, and for patterns that may become large
    programs.

    Raises:
        UnusableSchema: it is longer, deeper, or by its references larger than any schema that is checked.
    """
    return _Count(schema).followed(schema)


def value_weight(value: object, most: int) -> int:
    """How many parts a value has, a kilobyte of text counting as one; counting ends beyond `most`."""
    waiting, parts = [value], 0
    while waiting and parts <= most:
        part = waiting.pop()
        parts += 1
        if isinstance(part, Mapping):
            waiting.extend(part.values())
            parts += sum(map(len, part)) >> 10
        elif isinstance(part, (list, tuple)):
            waiting.extend(part)
        elif isinstance(part, str):
            parts += len(part) >> 10
    return parts


class _Count:
    """The count of one schema: what each reference leads to is counted once and remembered."""

    def __init__(self, schema: Mapping[str, object]) -> None:
        self._schema = schema
        self._counts: dict[str, int | None] = {}
        self._written = self._characters = 0

    def followed(self, part: object, depth: int = 0) -> int | None:
        """The weight of a part with everything that it refers to."""
        if depth > _DEEPEST:
            raise UnusableSchema(f"it is nested, with its references, more than {_DEEPEST} deep")
        self._note(part)
        if isinstance(part, Mapping):
            weights = [1, *self._of_mapping(part, depth)]
        elif isinstance(part, (list, tuple)):
            weights = [len(part), *(self.followed(entry, depth + 1) for entry in part)]
        else:
            return 0
        if None in weights:
            return None
        total = sum(weight for weight in weights if weight is not None)
        if total > _MOST_FOLLOWED:
            raise UnusableSchema(f"with its references it has more than {_MOST_FOLLOWED:,} parts")
        return total

    def _note(self, part: object) -> None:
        self._written += 1
        self._characters += len(part) if isinstance(part, str) else 0
        if self._written > _MOST_WRITTEN:
            raise UnusableSchema(f"it has more than {_MOST_WRITTEN:,} parts")
        if self._characters > _MOST_CHARACTERS:
            raise UnusableSchema(f"it has more than {_MOST_CHARACTERS >> 10} kB of text")

    def _of_mapping(self, part: Mapping[str, object], depth: int) -> Iterator[int | None]:
        for name, value in part.items():
            yield self.followed(value, depth + 1)
            self._note(name)
            if name in _UNBOUNDED:
                yield None
            elif name == "$ref" and isinstance(value, str):
                yield self._referred(value, depth)
            elif name == "pattern" and isinstance(value, str):
                yield _pattern_weight(value)
            elif name == "patternProperties" and isinstance(value, Mapping):
                yield from map(_pattern_weight, value)

    def _referred(self, address: str, depth: int) -> int | None:
        if address in self._counts:
            return self._counts[address]
        self._counts[address] = None  # reached again before it is counted: a circular reference
        target = self._target(address)
        if target is not None:
            self._counts[address] = self.followed(target, depth + 1)
        return self._counts[address]

    def _target(self, address: str) -> object:
        """What a pointer within the schema leads to; None for any other reference."""
        if not address.startswith("#"):
            return None
        node: object = self._schema
        for step in unquote(address[1:]).split("/")[1:] if address not in ("#", "#/") else ():
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping):
                node = node.get(name)
            elif isinstance(node, (list, tuple)) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            else:
                return None
        return node if address == "#" or address.startswith("#/") else None


def _pattern_weight(pattern: str) -> int | None:
    """The weight of a pattern that stays small as a program: `{n}` writes what stands before it n times."""
    small = len(pattern) <= _LONGEST_PATTERN and not _REPEATED.search(pattern) and pattern.count("{") <= 3
    return _PATTERN if small else None
