"""Asking by urgency under one budget; the downloads that the Hub tells of a repo."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "budgets",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("limit", sa.Integer(), nullable=False),
        sa.Column("window_s", sa.Integer(), nullable=False),
        sa.Column("window_ends", sa.BigInteger(), nullable=False),
        sa.Column("spent", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "name", name=op.f("pk_budgets")),
    )
    op.add_column("repos", sa.Column("downloads", sa.BigInteger(), nullable=True))
    op.add_column("watches", sa.Column("urgency", sa.Integer(), nullable=False, server_default="0"))
    # due watches are found by this column alone
    op.execute("UPDATE watches SET next_check_at = created_at WHERE next_check_at IS NULL")
