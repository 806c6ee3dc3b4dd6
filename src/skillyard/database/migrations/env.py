"""What Alembic runs for each command: the migrations over the connection that is given to it."""

from __future__ import annotations

from alembic import context

from skillyard.database.registry_tables import ALL_TABLES

context.configure(connection=context.config.attributes["connection"], target_metadata=ALL_TABLES)
with context.begin_transaction():
    context.run_migrations()
