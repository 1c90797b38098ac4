"""Which way checks are done, from the database, the roles and the settings."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection

from storage.database import Database
from storage.errors import UsageError
from tracker.settings import Settings

_INSTALL = "install hubwatch[postgres]"
_TOGETHER = "run scheduler and worker in one process"


def uses_queue(settings: Settings, database: Database, roles: Collection[str]) -> bool:
    """Whether this process's checks go through the queue on PostgreSQL; else its own threads do them.

    Raises UsageError when the roles need a queue and there can be none.
    """
    split = ("scheduler" in roles) != ("worker" in roles)
    wish = settings.poll.dispatch
    if not split and ("worker" not in roles or wish == "threads"):
        return False
    if wish == "threads":
        raise UsageError(f"roles {_told(roles)} need a queue, and poll.dispatch is threads", help=_TOGETHER)
    if database.is_sqlite:
        if not split and wish == "auto":
            return False
        asked = f"roles {_told(roles)} alone need" if split else "poll.dispatch queue needs"
        raise UsageError(f"{asked} PostgreSQL, and the database is SQLite", help=f"{_TOGETHER}, or use PostgreSQL")
    if importlib.util.find_spec("procrastinate") is None:
        if not split and wish == "auto":
            return False
        raise UsageError(f"roles {_told(roles)} need a queue, which is not installed", help=_INSTALL)
    return True


def _told(roles: Collection[str]) -> str:
    return ",".join(roles)
