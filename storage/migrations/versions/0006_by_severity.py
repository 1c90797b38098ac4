"""The gravest advisories are few: an index that finds them."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None
usable_from = "0005"

_COLUMNS = ["severity", "published", "id"]


def upgrade() -> None:
    op.create_index(op.f("ix_advisories_severity_published_id"), "advisories", _COLUMNS, unique=False)
