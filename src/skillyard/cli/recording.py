"""Changes that are made at a terminal leave the same trail as those over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from skillyard.errors import DatabaseUnavailable, ValueRefused

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.database import Database

__all__ = ["leave_trail"]


def leave_trail(screen: Screen, database: Callable[[], Database], action: str, *subjects: str) -> None:
    """Write down what was done to each of `subjects`; that it could not be written is said, and undoes nothing."""
    from skillyard.access import Trail  # half a second with the database

    trail = Trail(database)
    try:
        for subject in subjects:
            trail.record(action, subject)
    except (DatabaseUnavailable, ValueRefused) as error:
        screen.note(f"warning: it is done, and not in the trail: {error.message}")
