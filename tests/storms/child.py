"""hubwatch in a process to which the worst happens at a chosen moment, told by the environment.

``STORM_KILL`` is ``before 7`` or ``after 7``: SIGKILL before the 7th transaction that writes is committed, or
right after. ``STORM_PAGES`` is how many pages an SQLite file may have: a disk that is full. ``STORM_COUNT`` names
a file that gets the number of writing transactions in the end.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine

from tracker.cli import main


class Moments:
    """Counts the transactions that write."""

    def __init__(self, wish: str) -> None:
        """``wish`` as in ``STORM_KILL``; "" for none."""
        when, _, number = wish.partition(" ")
        self.before = int(number) if when == "before" else None
        self.after = int(number) if when == "after" else None
        self.count = 0
        self._lock = threading.Lock()

    def on_commit(self, connection: Connection) -> None:
        """A transaction is about to be committed."""
        if not connection.get_execution_options().get("hubwatch_begin"):
            return  # it only reads
        with self._lock:
            self.count += 1
        if self.count == self.before:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_checkin(self, _connection: object, _record: object) -> None:
        """A transaction has ended."""
        if self.after is not None and self.count >= self.after:
            os.kill(os.getpid(), signal.SIGKILL)


def _filled(pages: int) -> Any:
    def on_connect(connection: Any, _record: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    return on_connect


if __name__ == "__main__":
    moments = Moments(os.environ.get("STORM_KILL", ""))
    event.listen(Engine, "commit", moments.on_commit)
    event.listen(Engine, "checkin", moments.on_checkin)
    if pages := os.environ.get("STORM_PAGES"):
        event.listen(Engine, "connect", _filled(int(pages)))
    try:
        main()
    finally:
        if told := os.environ.get("STORM_COUNT"):
            Path(told).write_text(str(moments.count))
