"""One skill's place in an index: what is always said of it, and what may be shortened.

An entry is a row of pieces. Plain strings are always written; a `Field` (a description, a list of files, instructions) may be
written whole, cut to an allowance, or left away. All costs are in quarter tokens (see `tokens`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from skillyard.prompt.tokens import cut, quarters

__all__ = ["BARE", "WHOLE", "Cutter", "Entry", "Field", "Piece"]

Cutter: TypeAlias = Callable[[str, int], str]
BARE: Final = 0  # allowance of an entry that shows its name only
WHOLE: Final = -1  # allowance of an entry that shows everything


class Field:
    """A piece of an entry that may be shortened: `before` + text + `after`.

    `escape` makes the text safe for the style and is applied after the cut, so that no entity is torn. `complete` is false when
    a fixed limit, such as 200 characters a description, has already taken something away.
    """

    __slots__ = ("_cutter", "_escape", "_raw", "after", "before", "complete", "frame", "size", "text")

    def __init__(
        self,
        raw: str,
        *,
        before: str = "",
        after: str = "",
        cutter: Cutter = cut,
        escape: Callable[[str], str] | None = None,
        complete: bool = True,
    ) -> None:
        self._raw = raw
        self._cutter = cutter
        self._escape = escape
        self.before = before
        self.after = after
        self.complete = complete
        self.text = escape(raw) if escape else raw
        self.size = quarters(self.text)
        self.frame = quarters(before) + quarters(after)

    def at(self, allowance: int) -> str:
        """The text at no more than `allowance` quarter tokens; whole for `WHOLE`."""
        if allowance == WHOLE or self.size <= allowance:
            return self.text
        room = allowance
        while True:
            short = self._cutter(self._raw, room)
            short = self._escape(short) if self._escape else short
            over = quarters(short) - allowance
            if over <= 0:
                return short
            room -= over


Piece: TypeAlias = str | Field


class Entry:
    """One skill in an index: its id, its cost as a bare name, and its pieces, made when they are first needed."""

    __slots__ = ("_detailed", "_fields", "_pieces", "bare", "bare_text", "id")

    def __init__(self, skill_id: str, bare: str, detailed: Callable[[], Sequence[Piece]]) -> None:
        self.id = skill_id
        self.bare_text = bare
        self.bare = quarters(bare)
        self._detailed = detailed
        self._pieces: tuple[Piece, ...] | None = None
        self._fields: tuple[Field, ...] = ()

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The fixed texts and the fields, in the order in which they are written."""
        if self._pieces is None:
            self._pieces = tuple(self._detailed())
            self._fields = tuple(piece for piece in self._pieces if isinstance(piece, Field))
        return self._pieces

    @property
    def fields(self) -> tuple[Field, ...]:
        """The pieces that may be shortened."""
        return self._fields if self.pieces else ()

    @property
    def frame(self) -> int:
        """What the words around the fields cost, on top of the bare name."""
        return sum(field.frame for field in self.fields)

    def cost(self, allowance: int) -> int:
        """What the entry costs with `allowance` quarter tokens a field."""
        if allowance == BARE:
            return self.bare
        if allowance == WHOLE:
            return self.bare + sum(field.frame + field.size for field in self.fields)
        return self.bare + sum(field.frame + quarters(field.at(allowance)) for field in self.fields)

    def render(self, allowance: int) -> str:
        """The entry's text with `allowance` quarter tokens a field."""
        if allowance == BARE:
            return self.bare_text
        return "".join(
            piece if isinstance(piece, str) else f"{piece.before}{piece.at(allowance)}{piece.after}" for piece in self.pieces
        )

    def is_whole(self, allowance: int) -> bool:
        """Whether nothing of the skill's own words is missing at `allowance`."""
        return allowance != BARE and all(
            field.complete and (allowance == WHOLE or field.size <= allowance) for field in self.fields
        )
