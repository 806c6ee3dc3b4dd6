"""Goals, and whether the figures of this run meet them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Goal", "print_goals"]


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure that should be at most `limit`, or at least that with `at_least`; `None` was not measured here."""

    name: str
    figure: float | None
    limit: float
    unit: str = ""
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the figure is on the right side."""
        return self.figure is not None and (self.figure >= self.limit if self.at_least else self.figure <= self.limit)

    def row(self) -> str:
        """The goal, the figure, and by how much it misses."""
        wanted = f"{'at least' if self.at_least else 'at most'} {self.limit:g}{self.unit}"
        if self.figure is None:
            return f"{self.name:58} {wanted:>18} {'-':>10}  not measured"
        by = "" if self.met else f" by {abs(self.figure / self.limit - 1):.0%}"
        return f"{self.name:58} {wanted:>18} {self.figure:10.2f}  {'met' if self.met else 'missed'}{by}"


def print_goals(goals: Iterable[Goal]) -> None:
    """A table with one line for each goal."""
    print(f"\n{'goal':58} {'':>18} {'here':>10}")
    for goal in goals:
        print(goal.row())
