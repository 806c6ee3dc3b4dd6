"""What the commands about backups share: which homes there are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillyard.registry.backup import Place

__all__ = ["home_of"]


def home_of(data: str, database_url: str | None) -> Place:
    """Skillyard's own folder, and its records."""
    from skillyard.registry.backup import Place

    return Place("default", Path(data), database_url)
