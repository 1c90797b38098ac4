"""When repos moved."""

from __future__ import annotations

from datetime import timedelta

from storage import history, moves
from storage.database import Database
from tests.storage.support import NOW, OTHER, REPO, landing, revision


def test_recent_times(database: Database) -> None:
    with database.transaction() as tx:
        old, future = NOW - timedelta(days=30), NOW + timedelta(days=30)
        history.land(tx, landing("a", backfill=True, revision=revision("a", committed_at=old)))
        history.land(tx, landing("b", backfill=True, revision=revision("b", committed_at=future)))
        history.land(tx, landing("c", revision=revision("c", committed_at=old)))
        assert moves.recent(tx, REPO, limit=5) == [NOW, NOW, old]
        assert moves.recent(tx, OTHER, limit=5) == []
