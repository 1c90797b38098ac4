"""Who may see and do what: tokens, the journal, repos that are not for everybody; indexes for the API."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", Id, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "journal",
        sa.Column("id", Id, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_journal")),
        sqlite_autoincrement=True,
    )
    op.add_column("repos", sa.Column("restricted", sa.Boolean(), nullable=True))
    # whether a token was used was not recorded so far: what may have needed one is not shown to everybody
    op.execute("UPDATE repos SET restricted = (private OR gated IS NOT NULL)")
    with op.batch_alter_table("repos", schema=None) as batch_op:
        batch_op.alter_column("restricted", existing_type=sa.Boolean(), nullable=False)
        batch_op.create_index(batch_op.f("ix_repos_owner_name"), ["owner", "name"], unique=False)
    with op.batch_alter_table("changes", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_changes_cls_revision_id"), ["cls", "revision_id"], unique=False)
