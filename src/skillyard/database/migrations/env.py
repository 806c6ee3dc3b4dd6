"""What Alembic runs for each command: the migrations over the connection that is given to it."""

from __future__ import annotations

from alembic import context

from skillyard.database.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
