"""The registry: skills, their versions and install logs; agents, keys and the audit trail."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0002"
down_revision = "r0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    _definitions()
    _logs()
    _people()


def _definitions() -> None:
    op.create_table(
        "skill_definitions",
        sa.Column("skill_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("trigger_keywords", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("category", sa.Text()),
        sa.Column("tags", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("author", sa.Text()),
        sa.Column("license", sa.Text()),
        sa.Column("homepage_url", sa.Text()),
        sa.Column("documentation_url", sa.Text()),
        sa.Column("icon_url", sa.Text()),
        sa.Column("current_version", sa.Text()),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("skill_md_content", sa.Text()),
        sa.Column("skill_md_hash", sa.Text()),
        sa.Column("file_inventory", sa.JSON(none_as_null=True)),
        sa.Column("created_by", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("skill_id", name="pk_skill_definitions"),
    )
    op.create_index("ix_skill_definitions_is_active", "skill_definitions", ["is_active"])
    op.create_table(
        "skill_versions",
        sa.Column("skill_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("declared_version", sa.Text()),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("operation_id", sa.Text()),
        sa.Column("source_type", sa.Text(), nullable=False),
        sa.Column("origin", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("package_path", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("checksum_sha256", sa.Text()),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("skill_md_content", sa.Text()),
        sa.Column("skill_md_hash", sa.Text()),
        sa.Column("file_inventory", sa.JSON(none_as_null=True)),
        sa.Column("powers", sa.JSON(none_as_null=True)),
        sa.Column("findings", sa.JSON(none_as_null=True)),
        sa.Column("signer", sa.Text()),
        sa.Column("installed_by", sa.Text()),
        sa.Column("installed_at", sa.DateTime(timezone=True)),
        sa.Column("deprecated_at", sa.DateTime(timezone=True)),
        sa.Column("deprecated_reason", sa.Text()),
        sa.Column("yanked_at", sa.DateTime(timezone=True)),
        sa.Column("yanked_reason", sa.Text()),
        sa.Column("removed_at", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "status IN ('pending', 'downloading', 'validating', 'installing', 'active', 'deprecated', 'failed')",
            name=op.f("ck_skill_versions_status"),
        ),
        sa.ForeignKeyConstraint(
            ["skill_id"], ["skill_definitions.skill_id"], name=op.f("fk_skill_versions_skill_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("skill_id", "version", name="pk_skill_versions"),
    )
    op.create_index("ix_skill_versions_digest", "skill_versions", ["digest"])
    op.create_index("ix_skill_versions_operation_id", "skill_versions", ["operation_id"])


def _logs() -> None:
    op.create_table(
        "install_logs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("operation_id", sa.Text(), nullable=False),
        sa.Column("skill_id", sa.Text()),
        sa.Column("version", sa.Text()),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("step", sa.Text()),
        sa.Column("progress", sa.Integer(), nullable=False),
        sa.Column("message", sa.Text()),
        sa.Column("error_code", sa.Text()),
        sa.Column("error_message", sa.Text()),
        sa.Column("source", sa.Text()),
        sa.Column("steps", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("details", sa.JSON(none_as_null=True)),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True)),
        sa.Column("duration_ms", sa.Integer()),
        sa.CheckConstraint(
            "operation IN ('install', 'update', 'rollback', 'uninstall')", name=op.f("ck_install_logs_operation")
        ),
        sa.CheckConstraint("status IN ('pending', 'in_progress', 'success', 'failed')", name=op.f("ck_install_logs_status")),
        sa.CheckConstraint("progress >= 0 AND progress <= 100", name=op.f("ck_install_logs_progress")),
        sa.PrimaryKeyConstraint("id", name="pk_install_logs"),
    )
    op.create_index("ix_install_logs_operation_id", "install_logs", ["operation_id"])
    op.create_index("ix_install_logs_skill_id_started_at", "install_logs", ["skill_id", "started_at"])
    op.create_index("ix_install_logs_started_at", "install_logs", ["started_at"])


def _people() -> None:
    op.create_table(
        "agents",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("system_prompt", sa.Text()),
        sa.Column("model", sa.Text()),
        sa.Column("settings", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_agents"),
        sa.UniqueConstraint("name", name="uq_agents_name"),
    )
    op.create_table(
        "agent_skills",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("skill_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("version_lock", sa.Text()),
        sa.Column("auto_update", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_agent_skills_agent_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("agent_id", "skill_id", name="pk_agent_skills"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("scopes", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("hash", name="uq_api_keys_hash"),
    )
    op.create_table(
        "audit_events",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("details", sa.JSON(none_as_null=True)),
        sa.PrimaryKeyConstraint("id", name="pk_audit_events"),
    )
    op.create_index("ix_audit_events_at", "audit_events", ["at"])
    op.create_index("ix_audit_events_subject_at", "audit_events", ["subject", "at"])
