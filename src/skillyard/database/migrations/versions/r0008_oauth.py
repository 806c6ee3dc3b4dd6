"""Clients that people let sign in (OAuth), and what they allowed them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0008"
down_revision = "r0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them."""
    op.create_table(
        "oauth_clients",
        *_texts("id", "name"),
        sa.Column("redirect_uris", sa.JSON(none_as_null=True), nullable=False),
        _moment("created_at", needed=True),
        _moment("fetched_at"),
        _moment("used_at"),
        sa.PrimaryKeyConstraint("id", name="pk_oauth_clients"),
    )
    op.create_index("ix_oauth_clients_used_at", "oauth_clients", ["used_at"])
    unique = ("code_hash", "family_hash", "access_hash")
    op.create_table(
        "oauth_grants",
        *_texts("id", "client_id", "key_id"),
        sa.Column("scopes", sa.JSON(none_as_null=True), nullable=False),
        *_texts("resource", "redirect_uri", "challenge", "code_hash"),
        _moment("code_used_at"),
        *(sa.Column(name, sa.Text()) for name in ("family_hash", "refresh_hash", "access_hash")),
        sa.Column("access_scopes", sa.JSON(none_as_null=True)),
        _moment("access_expires_at"),
        _moment("created_at", needed=True),
        _moment("expires_at", needed=True),
        _moment("last_used_at"),
        sa.PrimaryKeyConstraint("id", name="pk_oauth_grants"),
        *(
            sa.ForeignKeyConstraint([column], [parent], name=f"fk_oauth_grants_{column}", ondelete="CASCADE")
            for column, parent in (("client_id", "oauth_clients.id"), ("key_id", "api_keys.id"))
        ),
        *(sa.UniqueConstraint(name, name=f"uq_oauth_grants_{name}") for name in unique),
    )
    for column in ("client_id", "key_id", "expires_at"):
        op.create_index(f"ix_oauth_grants_{column}", "oauth_grants", [column])


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _moment(name: str, *, needed: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=not needed)
