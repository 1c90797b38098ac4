"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "blobs",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_blobs")),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_meta")),
    )
    op.create_table(
        "owner_watches",
        sa.Column("id", Id, nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("every", sa.BigInteger(), nullable=True),
        sa.Column("since", sa.BigInteger(), nullable=True),
        sa.Column("from_head", sa.Boolean(), nullable=False),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("known", sa.Text(), nullable=False),
        sa.Column("checked_at", sa.BigInteger(), nullable=True),
        sa.Column("next_check_at", sa.BigInteger(), nullable=True),
        sa.Column("errors", sa.Integer(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_owner_watches")),
        sa.UniqueConstraint("endpoint", "owner", name=op.f("uq_owner_watches_endpoint_owner")),
    )
    op.create_table(
        "pauses",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("scope", name=op.f("pk_pauses")),
    )
    op.create_table(
        "repos",
        sa.Column("id", Id, nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("ref", sa.Text(), nullable=False),
        sa.Column("hub_id", sa.Text(), nullable=True),
        sa.Column("canonical", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("gated", sa.Text(), nullable=True),
        sa.Column("private", sa.Boolean(), nullable=False),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_repos")),
        sa.UniqueConstraint("endpoint", "owner", "name", name=op.f("uq_repos_endpoint_owner_name")),
    )
    op.create_table(
        "advisories",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("repo_id", Id, nullable=False),
        sa.Column("cls", sa.Text(), nullable=False),
        sa.Column("severity", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("introduced", sa.Text(), nullable=False),
        sa.Column("predecessor", sa.Text(), nullable=True),
        sa.Column("ref", sa.Text(), nullable=False),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.Column("findings", sa.Text(), nullable=False),
        sa.Column("published", sa.BigInteger(), nullable=False),
        sa.Column("modified", sa.BigInteger(), nullable=False),
        sa.Column("withdrawn", sa.BigInteger(), nullable=True),
        sa.Column("superseded_by", sa.Text(), nullable=True),
        sa.Column("related", sa.Text(), nullable=False),
        sa.Column("context", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["repo_id"], ["repos.id"], name=op.f("fk_advisories_repo_id_repos")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_advisories")),
    )
    with op.batch_alter_table("advisories", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_advisories_cls_published_id"), ["cls", "published", "id"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_advisories_modified_id"), ["modified", "id"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_advisories_open_published_id"), ["open", "published", "id"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_advisories_published_id"), ["published", "id"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_advisories_repo_id_published_id"), ["repo_id", "published", "id"], unique=False
        )

    op.create_table(
        "estimates",
        sa.Column("repo_id", Id, nullable=False),
        sa.Column("sha", sa.Text(), nullable=False),
        sa.Column("estimator", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("model_type", sa.Text(), nullable=True),
        sa.Column("architecture", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["repo_id"], ["repos.id"], name=op.f("fk_estimates_repo_id_repos")),
        sa.PrimaryKeyConstraint("repo_id", "sha", "estimator", name=op.f("pk_estimates")),
    )
    op.create_table(
        "head_files",
        sa.Column("repo_id", Id, nullable=False),
        sa.Column("ref", sa.Text(), nullable=False),
        sa.Column("path_key", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("blob_id", sa.Text(), nullable=False),
        sa.Column("lfs_sha256", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["repo_id"], ["repos.id"], name=op.f("fk_head_files_repo_id_repos")),
        sa.PrimaryKeyConstraint("repo_id", "ref", "path_key", name=op.f("pk_head_files")),
    )
    op.create_table(
        "outbox",
        sa.Column("id", Id, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("repo_id", Id, nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("done_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["repo_id"], ["repos.id"], name=op.f("fk_outbox_repo_id_repos")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sa.UniqueConstraint("key", name=op.f("uq_outbox_key")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("outbox", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_outbox_done_at_id"), ["done_at", "id"], unique=False)

    op.create_table(
        "revisions",
        sa.Column("id", Id, nullable=False),
        sa.Column("repo_id", Id, nullable=False),
        sa.Column("ref", sa.Text(), nullable=False),
        sa.Column("sha", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("fork", sa.Integer(), nullable=True),
        sa.Column("predecessor_id", Id, nullable=True),
        sa.Column("parents", sa.Text(), nullable=False),
        sa.Column("parents_unknown", sa.Boolean(), nullable=False),
        sa.Column("committed_at", sa.BigInteger(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("observed_at", sa.BigInteger(), nullable=False),
        sa.Column("backfill", sa.Boolean(), nullable=False),
        sa.Column("manifest_digest", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["predecessor_id"], ["revisions.id"], name=op.f("fk_revisions_predecessor_id_revisions")
        ),
        sa.ForeignKeyConstraint(["repo_id"], ["repos.id"], name=op.f("fk_revisions_repo_id_repos")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_revisions")),
        sa.UniqueConstraint("repo_id", "ref", "sha", name=op.f("uq_revisions_repo_id_ref_sha")),
    )
    with op.batch_alter_table("revisions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_revisions_observed_at"), ["observed_at"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_revisions_repo_id_manifest_digest"), ["repo_id", "manifest_digest"], unique=False
        )
        batch_op.create_index(
            batch_op.f("ix_revisions_repo_id_ref_position"),
            ["repo_id", "ref", "position"],
            unique=True,
            sqlite_where=sa.text("fork IS NULL"),
            postgresql_where=sa.text("fork IS NULL"),
        )
        batch_op.create_index(batch_op.f("ix_revisions_sha"), ["sha"], unique=False)

    op.create_table(
        "watches",
        sa.Column("id", Id, nullable=False),
        sa.Column("repo_id", Id, nullable=False),
        sa.Column("every", sa.BigInteger(), nullable=True),
        sa.Column("since", sa.BigInteger(), nullable=True),
        sa.Column("from_head", sa.Boolean(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("backfill_target", sa.Text(), nullable=True),
        sa.Column("head", sa.Text(), nullable=True),
        sa.Column("checked_at", sa.BigInteger(), nullable=True),
        sa.Column("next_check_at", sa.BigInteger(), nullable=True),
        sa.Column("errors", sa.Integer(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("missing_since", sa.BigInteger(), nullable=True),
        sa.Column("missing_count", sa.Integer(), nullable=False),
        sa.Column("lease_holder", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["repo_id"], ["repos.id"], name=op.f("fk_watches_repo_id_repos")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_watches")),
        sa.UniqueConstraint("repo_id", name=op.f("uq_watches_repo_id")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("watches", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_watches_next_check_at"), ["next_check_at"], unique=False)

    op.create_table(
        "advisory_events",
        sa.Column("id", Id, nullable=False),
        sa.Column("advisory_id", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("sha", sa.Text(), nullable=False),
        sa.Column("moment", sa.BigInteger(), nullable=False),
        sa.Column("repo_id", Id, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["advisory_id"], ["advisories.id"], name=op.f("fk_advisory_events_advisory_id_advisories")
        ),
        sa.ForeignKeyConstraint(["repo_id"], ["repos.id"], name=op.f("fk_advisory_events_repo_id_repos")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_advisory_events")),
        sa.UniqueConstraint(
            "advisory_id", "action", "sha", "moment", name=op.f("uq_advisory_events_advisory_id_action_sha_moment")
        ),
    )
    with op.batch_alter_table("advisory_events", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_advisory_events_repo_id_sha"), ["repo_id", "sha"], unique=False)

    op.create_table(
        "changes",
        sa.Column("revision_id", Id, nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("cls", sa.Text(), nullable=False),
        sa.Column("severity", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("pointer", sa.Text(), nullable=True),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("facet", sa.Text(), nullable=False),
        sa.Column("before_digest", sa.Text(), nullable=True),
        sa.Column("after_digest", sa.Text(), nullable=True),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["revision_id"], ["revisions.id"], name=op.f("fk_changes_revision_id_revisions")),
        sa.PrimaryKeyConstraint("revision_id", "ordinal", name=op.f("pk_changes")),
    )
    op.create_table(
        "file_changes",
        sa.Column("revision_id", Id, nullable=False),
        sa.Column("path_key", sa.Text(), nullable=False),
        sa.Column("repo_id", Id, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("removed", sa.Boolean(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("blob_id", sa.Text(), nullable=True),
        sa.Column("lfs_sha256", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["repo_id"], ["repos.id"], name=op.f("fk_file_changes_repo_id_repos")),
        sa.ForeignKeyConstraint(
            ["revision_id"], ["revisions.id"], name=op.f("fk_file_changes_revision_id_revisions")
        ),
        sa.PrimaryKeyConstraint("revision_id", "path_key", name=op.f("pk_file_changes")),
    )
    with op.batch_alter_table("file_changes", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_file_changes_repo_id_path_key"), ["repo_id", "path_key"], unique=False
        )

    op.create_table(
        "gaps",
        sa.Column("revision_id", Id, nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("last_readable", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["revision_id"], ["revisions.id"], name=op.f("fk_gaps_revision_id_revisions")),
        sa.PrimaryKeyConstraint("revision_id", "ordinal", name=op.f("pk_gaps")),
    )
    op.create_table(
        "spans",
        sa.Column("advisory_id", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("repo_id", Id, nullable=False),
        sa.Column("ref", sa.Text(), nullable=False),
        sa.Column("introduced", sa.Text(), nullable=False),
        sa.Column("fixed", sa.Text(), nullable=True),
        sa.Column("last_affected", sa.Text(), nullable=True),
        sa.Column("first", sa.Integer(), nullable=True),
        sa.Column("until", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["advisory_id"], ["advisories.id"], name=op.f("fk_spans_advisory_id_advisories")),
        sa.ForeignKeyConstraint(["repo_id"], ["repos.id"], name=op.f("fk_spans_repo_id_repos")),
        sa.PrimaryKeyConstraint("advisory_id", "ordinal", name=op.f("pk_spans")),
    )
    with op.batch_alter_table("spans", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_spans_repo_id_ref_first_until"), ["repo_id", "ref", "first", "until"], unique=False
        )
