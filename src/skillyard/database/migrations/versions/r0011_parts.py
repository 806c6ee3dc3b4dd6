"""An index for parts of words in skills, where the database can make one; which older programs may use these tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from skillyard.database.part_index import make_part_index

revision = "r0011"
down_revision = "r0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    op.add_column("alembic_version", sa.Column("oldest", sa.Text()))
    make_part_index(op.get_bind())
