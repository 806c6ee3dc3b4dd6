"""The release after this one, for the tests of upgrades: the same program with a migration more, which adds to the tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

__all__ = ["NEXT_REVISION", "become_next_release"]

NEXT_REVISION = "r9000"
_MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = {revision!r}, {before!r}, None, None


def upgrade():
    op.add_column("runs", sa.Column("of_tomorrow", sa.Text()))
    op.add_column("queued_runs", sa.Column("urgency", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("skill_definitions", sa.Column("of_tomorrow", sa.JSON()))
    op.create_table("novelties", sa.Column("id", sa.Text(), primary_key=True), sa.Column("run_id", sa.Text(), nullable=False))
    op.create_index("ix_runs_owner", "runs", ["owner"])
    op.drop_index("ix_runs_status_created_at", "runs")
    op.execute("UPDATE runs SET of_tomorrow = owner")
"""


def become_next_release(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let this process be the next release until `patch` is undone; its migrations are in the `folder`, made by the first."""
    from skillyard.database import maintenance

    migrations = folder / "migrations"
    if not migrations.exists():
        shutil.copytree(maintenance._MIGRATIONS, migrations, ignore=shutil.ignore_patterns("__pycache__"))
        text = _MIGRATION.format(revision=NEXT_REVISION, before=maintenance.HEAD)
        (migrations / "versions" / f"{NEXT_REVISION}_next_release.py").write_text(text)
    patch.setattr(maintenance, "_MIGRATIONS", migrations)
    patch.setattr(maintenance, "HEAD", NEXT_REVISION)
