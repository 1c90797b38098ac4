"""Refs and related repos, read at a slower pace than heads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "repo_refs",
        sa.Column("repo_id", Id, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sha", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["repo_id"], ["repos.id"], name=op.f("fk_repo_refs_repo_id_repos")),
        sa.PrimaryKeyConstraint("repo_id", "name", name=op.f("pk_repo_refs")),
    )
    op.create_table(
        "related_repos",
        sa.Column("repo_id", Id, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("hub_id", sa.Text(), nullable=True),
        sa.Column("head", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["repo_id"], ["repos.id"], name=op.f("fk_related_repos_repo_id_repos")),
        sa.PrimaryKeyConstraint("repo_id", "kind", "target", name=op.f("pk_related_repos")),
    )
    op.create_table(
        "slow_reads",
        sa.Column("repo_id", Id, nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.Text(), nullable=True),
        sa.Column("errors", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["repo_id"], ["repos.id"], name=op.f("fk_slow_reads_repo_id_repos")),
        sa.PrimaryKeyConstraint("repo_id", "subject", name=op.f("pk_slow_reads")),
    )
