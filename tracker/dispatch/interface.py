"""How checks get done: by threads here, or by workers elsewhere."""

from __future__ import annotations

from typing import Protocol

from storage.model import Watch


class Dispatcher(Protocol):
    """Takes watches that are due and has each checked, never twice at a time."""

    def start(self) -> None:
        """Begin; nothing is taken before. Raises StorageError when that is not possible."""
        ...

    def submit(self, watch: Watch) -> bool:
        """Have a watch checked; False when it is waiting or running already, or there is no room."""
        ...

    def drain(self, timeout: float | None = None) -> bool:
        """Take nothing more, and wait for what runs; False when something still ran at the timeout."""
        ...
