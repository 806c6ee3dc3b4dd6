"""What scoring gives to ranking, without what computes it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Scores"]


class Scores(NamedTuple):
    """The best skills of one request, best first, as four lists of the same length."""

    numbers: list[int] = []  # noqa: RUF012 - never changed
    """Their numbers in the index."""
    values: list[float] = []  # noqa: RUF012
    covered: list[float] = []  # noqa: RUF012
    """The share of the request's weight that each has, 0 to 1."""
    places: list[int] = []  # noqa: RUF012
    """Where each is among all skills of all segments."""
