"""What the tables have had since the first release: files and usage of runs, totals by day, webhooks, owners, approvals, OAuth.

And collections with saved searches. It is one step with the number of its last part, because no release had the others.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0010"
down_revision = "r0001"
branch_labels = None
depends_on = None

_DIMENSIONS = ("skill_id", "version", "agent", "caller", "interface", "model")
_MEASURES = (
    "offered", "loaded", "followed", "succeeded", "runs", "runs_succeeded", "runs_failed", "runs_cancelled", "runs_cached",
    "refused", "turns", "turns_failed", "input_tokens", "output_tokens", "duration_ms",
)  # fmt: skip
_BUCKETS = tuple(f"took_{number}" for number in range(24))


def upgrade() -> None:
    """Add them; rows of before have nulls, belong to nobody and need no approval until they are to become current again."""
    _extend_runs()
    _add_usage()
    _add_webhooks()
    _add_owners_and_approvals()
    _add_oauth()
    _add_collections()


def _extend_runs() -> None:
    """What a run was given and used, where it was asked for, and the files that travel with it; heartbeats of turns."""
    for name in ("arguments", "packages", "files"):
        op.add_column("runs", _json(name))
        op.add_column("schedules", _json(name))
    op.add_column("runs", sa.Column("exit_code", sa.Integer()))
    op.add_column("runs", sa.Column("memory_usage", sa.BigInteger()))
    for table, names in (("schedules", ("entry", "workspace")), ("runs", ("version", "interface", "caller", "agent"))):
        for name in names:
            op.add_column(table, sa.Column(name, sa.Text()))
    op.add_column("turns", _moment("seen_at"))
    op.create_table(
        "run_files",
        *_texts("subject", "origin", "name"),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        _moment("at", needed=True),
        sa.PrimaryKeyConstraint("subject", "origin", "name", name="pk_run_files"),
    )
    op.create_index("ix_run_files_at", "run_files", ["at"])
    for columns in (("created_at", "id"), ("caller", "created_at"), ("agent", "created_at"), ("interface", "created_at")):
        op.create_index("_".join(("ix_runs", *columns)), "runs", list(columns))
    op.drop_index("ix_runs_created_at", "runs")
    op.create_index("ix_turns_created_at", "turns", ["created_at"])


def _add_usage() -> None:
    """Totals of what happened by day, whole and for each dimension alone; what is there is counted when they are next read."""
    uncounted = sa.column("counted", sa.Boolean()).is_(False)
    for table, column in (("runs", "created_at"), ("turns", "created_at"), ("skill_usage", "counted")):
        op.add_column(table, sa.Column("counted", sa.Boolean(), nullable=False, server_default=sa.false()))
        name = f"ix_{table}_uncounted"  # in the order of time, so that few totals are changed at once
        op.create_index(name, table, [column], sqlite_where=uncounted, postgresql_where=uncounted)
    op.create_table(
        "usage_totals",
        *_texts("id"),
        sa.Column("day", sa.Integer(), nullable=False),
        *_texts(*_DIMENSIONS),
        *_counts(),
        sa.PrimaryKeyConstraint("id", name="pk_usage_totals"),
    )
    op.create_index("ix_usage_totals_day", "usage_totals", ["day"])
    op.create_index("ix_usage_totals_skill_id_day", "usage_totals", ["skill_id", "day"])
    op.create_table(
        "usage_by_dimension",
        *_texts("dimension"),
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        *_texts("key", "skill_id", "model"),
        *_counts(),
        sa.PrimaryKeyConstraint("dimension", "day", "key", "skill_id", "model", name="pk_usage_by_dimension"),
    )
    read = ["dimension", "key", "skill_id", "day", "runs", "loaded", "turns"]
    op.create_index("ix_usage_by_dimension_use", "usage_by_dimension", read)
    op.drop_index("ix_skill_usage_skill_id_event", "skill_usage")
    read = ["skill_id", "conversation_id", "event", "ok", "tokens", "duration_ms"]
    op.create_index("ix_skill_usage_report", "skill_usage", read)  # all that the report reads, so that it reads no table


def _add_webhooks() -> None:
    """Addresses at which others report events."""
    op.create_table(
        "webhooks",
        *_texts("name", "event", "organisation", "owner", "made_by"),
        _moment("created_at", needed=True),
        sa.Column("id_field", sa.Text()),
        sa.Column("key_id", sa.Text()),
        _moment("last_used_at"),
        *_texts("secret"),
        sa.PrimaryKeyConstraint("name", name="pk_webhooks"),
    )


def _add_owners_and_approvals() -> None:
    """Who owns the name of a skill; which exact contents wait for a person's approval, have it, or lost it."""
    op.create_table(
        "skill_owners",
        *_texts("skill_id", "owner"),
        _moment("since", needed=True),
        sa.PrimaryKeyConstraint("skill_id", "owner", name="pk_skill_owners"),
        _parent("skill_owners", "skill_id", "skill_definitions.skill_id"),
    )
    op.create_table(
        "version_approvals",
        *_texts("skill_id", "digest", "state"),
        sa.Column("reasons", sa.JSON(), nullable=False),
        *_texts("asked_by"),
        sa.Column("asked_by_member", sa.Boolean(), nullable=False),
        _moment("asked_at", needed=True),
        sa.Column("decided_by", sa.Text()),
        _moment("decided_at"),
        sa.Column("reason", sa.Text()),
        sa.CheckConstraint("state IN ('waiting', 'approved', 'withdrawn')", name=op.f("ck_version_approvals_state")),
        sa.PrimaryKeyConstraint("skill_id", "digest", name="pk_version_approvals"),
        _parent("version_approvals", "skill_id", "skill_definitions.skill_id"),
    )
    op.create_index("ix_version_approvals_state", "version_approvals", ["state"])


def _add_oauth() -> None:
    """Clients that people let sign in (OAuth), and what they allowed them."""
    op.create_table(
        "oauth_clients",
        *_texts("id", "name"),
        _json("redirect_uris", needed=True),
        _moment("created_at", needed=True),
        _moment("fetched_at"),
        _moment("used_at"),
        sa.PrimaryKeyConstraint("id", name="pk_oauth_clients"),
    )
    op.create_index("ix_oauth_clients_used_at", "oauth_clients", ["used_at"])
    op.create_table(
        "oauth_grants",
        *_texts("id", "client_id", "key_id"),
        _json("scopes", needed=True),
        *_texts("resource", "redirect_uri", "challenge", "code_hash"),
        _moment("code_used_at"),
        *(sa.Column(name, sa.Text()) for name in ("family_hash", "refresh_hash", "access_hash")),
        _json("access_scopes"),
        _moment("access_expires_at"),
        _moment("created_at", needed=True),
        _moment("expires_at", needed=True),
        _moment("last_used_at"),
        sa.PrimaryKeyConstraint("id", name="pk_oauth_grants"),
        _parent("oauth_grants", "client_id", "oauth_clients.id"),
        _parent("oauth_grants", "key_id", "api_keys.id"),
        *(sa.UniqueConstraint(name, name=f"uq_oauth_grants_{name}") for name in ("code_hash", "family_hash", "access_hash")),
    )
    for column in ("client_id", "key_id", "expires_at"):
        op.create_index(f"ix_oauth_grants_{column}", "oauth_grants", [column])


def _add_collections() -> None:
    """Skills that people mark with a star or collect under a name, with the stars of before, and saved searches."""
    collected = op.create_table(
        "collected_skills",
        *_texts("owner", "collection", "skill_id"),
        _moment("added_at", needed=True),
        sa.PrimaryKeyConstraint("owner", "collection", "skill_id", name="pk_collected_skills"),
    )
    op.create_index("ix_collected_skills_collection_skill_id", "collected_skills", ["collection", "skill_id"])
    op.create_table(
        "saved_searches",
        *_texts("owner", "name"),
        _json("search", needed=True),
        _moment("saved_at", needed=True),
        sa.PrimaryKeyConstraint("owner", "name", name="pk_saved_searches"),
    )
    stars = sa.table("skill_stars", *(sa.column(name) for name in ("skill_id", "owner", "starred_at")))  # of installed skills
    before = sa.select(stars.c.owner, sa.literal(""), sa.literal("installed:").concat(stars.c.skill_id), stars.c.starred_at)
    op.execute(sa.insert(collected).from_select(["owner", "collection", "skill_id", "added_at"], before))


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _counts() -> list[sa.Column[int]]:
    measures = [sa.Column(name, sa.BigInteger(), nullable=False) for name in _MEASURES]
    return measures + [sa.Column(name, sa.Integer(), nullable=False) for name in _BUCKETS]


def _json(name: str, *, needed: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.JSON(none_as_null=True), nullable=not needed)


def _moment(name: str, *, needed: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=not needed)


def _parent(table: str, column: str, parent: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [parent], name=f"fk_{table}_{column}", ondelete="CASCADE")
