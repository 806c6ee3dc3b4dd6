"""Where the package of an installed version is in the store."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0004"
down_revision = "r0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("skill_versions", sa.Column("package_digest", sa.Text()))
