"""An index for parts of words in skills, where the database can make one; when a run was told to wait; who may use it all.

The last is the oldest revision whose programs go on to work.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from skillyard.database.substring_index import make_substring_index

revision = "r0011"
down_revision = "r0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    op.add_column("alembic_version", sa.Column("oldest", sa.Text()))
    op.add_column("handovers", sa.Column("told_at", sa.DateTime(timezone=True)))
    make_substring_index(op.get_bind())
