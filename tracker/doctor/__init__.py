"""What an installation needs to do its work, looked at one by one.

Everything that does not work is a finding, the settings and the database included. No finding holds a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from tracker.doctor import configuration, data, machine, upstream
from tracker.doctor.model import Check, Level, skip

__all__ = ["Check", "Level", "examine"]


def examine(
    database_url: str | None, *, offline: bool, every: bool, clock: Callable[[], datetime]
) -> Iterator[Check]:
    """Every check, as it is made.

    Args:
        database_url: The URL of the command line, if there is one.
        offline: Ask the Hub nothing.
        every: Look at all heads and contents, not at a sample.
        clock: The time now.

    """
    settings, read = configuration.read(database_url)
    yield read
    yield from configuration.unknown_variables()
    yield from configuration.settings_file()
    if settings is None:
        yield skip("database", "not looked at: the settings cannot be read")
        yield machine.git()
        yield from machine.probes()
        return
    url = settings.database
    yield from data.folder(url)
    usable, checks = data.reachable(url)
    yield from checks
    schemes: list[str] = []
    if usable:
        with data.opened(url) as database:
            yield from data.guarded("integrity", data.whole(database, every=every))
            yield from data.guarded("watches", data.at_work(database, settings, clock()))
            schemes = data.addresses(database)
    if offline:
        yield machine.skipped()
    else:
        yield from upstream.hub(settings, clock)
    yield machine.git()
    yield from machine.probes()
    yield from machine.extras(schemes)
    yield machine.port(settings.host, settings.port)
    yield from configuration.exposure(settings)
