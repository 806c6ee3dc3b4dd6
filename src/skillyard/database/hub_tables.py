"""The tables of what a hub shows beside its skills: who starred which, how often each was had, and names of versions."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, ForeignKey, Integer, Table

from skillyard.database.columns import Instant, SafeText
from skillyard.database.tables import METADATA

__all__ = ["skill_callers", "skill_counts", "skill_stars", "skill_tags"]

skill_stars: Final = Table(
    "skill_stars",
    METADATA,
    Column("skill_id", SafeText, ForeignKey("skill_definitions.skill_id", ondelete="CASCADE"), primary_key=True),
    Column("owner", SafeText, primary_key=True),  # whose star it is
    Column("starred_at", Instant, nullable=False),
)

skill_counts: Final = Table(
    "skill_counts",
    METADATA,
    Column("skill_id", SafeText, ForeignKey("skill_definitions.skill_id", ondelete="CASCADE"), primary_key=True),
    Column("downloads", Integer, nullable=False),
    Column("installs", Integer, nullable=False),
)

skill_callers: Final = Table(  # who was counted for a skill
    "skill_callers",
    METADATA,
    Column("skill_id", SafeText, ForeignKey("skill_definitions.skill_id", ondelete="CASCADE"), primary_key=True),
    Column("owner", SafeText, primary_key=True),
    Column("what", SafeText, primary_key=True),  # downloads, installs
    Column("day", Integer, nullable=False),  # the last one, in days since 1970
)

skill_tags: Final = Table(
    "skill_tags",
    METADATA,
    Column("skill_id", SafeText, ForeignKey("skill_definitions.skill_id", ondelete="CASCADE"), primary_key=True),
    Column("tag", SafeText, primary_key=True),
    Column("version", SafeText, nullable=False),  # the install version it stands for
)
