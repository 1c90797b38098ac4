"""The database: whether it answers, is whole, holds what it should, and is kept up to date by somebody."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from storage import checkup, deliveries, disk, pauses, schema, subscriptions, watches
from storage.checkup import HeadOf
from storage.database import Database, masked
from storage.errors import HubwatchError, SchemaError, StorageError
from storage.model import Manifest, RepoState
from tracker.doctor.model import Check, fail, good, warn
from tracker.leases import is_dead
from tracker.loader import wanted_keys
from tracker.settings import Settings
from tracker.spans import write_span

SAMPLE = 200
"""How many heads and contents are looked at without ``--all``."""
TIGHT, TIGHTER = 2 * 10**9, 200 * 10**6
"""Free bytes below which the disk is a warning, and below which it is a failure."""
MANY_ERRORS = 5
STALE = timedelta(hours=1)
_SHOWN = 5


@contextmanager
def opened(url: str) -> Iterator[Database]:
    """An open database, whatever its schema."""
    database = Database.open(url)
    try:
        yield database
    finally:
        database.dispose()


def folder(url: str) -> Iterator[Check]:
    """Where an SQLite database lies: writable, private, with room left. Nothing is made."""
    path = _file(url)
    if path is None:
        return
    home = path.parent
    while not home.exists() and home != home.parent:
        home = home.parent
    if not os.access(path if path.exists() else home, os.W_OK) or not os.access(home, os.W_OK):
        yield fail("data folder", f"{home} cannot be written by this user", "give it to the user hubwatch runs as")
    else:
        yield good("data folder", f"{path.parent} can be written")
    if path.exists() and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield warn(
            "data folder",
            f"others can read {path}, which holds secrets of subscriptions",
            f"run: chmod 600 {path}",
        )
    free = shutil.disk_usage(home).free
    told = f"{free / 1e9:.1f} GB are free on the disk of {home}"
    if free < TIGHTER:
        yield fail("disk", told, "free some space: nothing can be written soon")
    elif free < TIGHT:
        yield warn("disk", told, "free some space, or set retention.disk; see hubwatch db prune")
    else:
        yield good("disk", told)


def _file(url: str) -> Path | None:
    scheme, _, path = url.partition(":///")
    return Path(path).expanduser().absolute() if scheme.startswith("sqlite") and path else None


def reachable(url: str) -> tuple[bool, list[Check]]:
    """Whether the database can be used, and how that stands; an SQLite file that is not there is not made."""
    try:
        shown = masked(url)
        path = _file(url)
        if path is not None and not path.exists():
            return False, [good("database", f"{shown} is not there yet; the first command makes it")]
        with opened(url) as database:
            version = schema.current(database)
            checks = [good("database", f"{shown} answers")]
            if version is None:
                return False, [*checks, good("schema", "empty; the first command sets it up")]
            schema.require_current(database)
            return True, [*checks, good("schema", f"{version}, this hubwatch works with it")]
    except SchemaError as error:
        return False, [fail("schema", error.message, error.help)]
    except HubwatchError as error:
        return False, [fail("database", error.message, error.help)]


def whole(database: Database, *, every: bool) -> Iterator[Check]:
    """Pages, references, contents."""
    if database.is_sqlite:
        broken = checkup.broken_pages(database)
        if broken:
            yield fail(
                "integrity",
                f"the file is damaged: {broken[0][:200]}",
                "restore a backup: hubwatch db restore FILE",
            )
            return
        yield good("integrity", "every page is right")
        mode = checkup.journal_mode(database)
        if mode == "wal":
            yield good("journal", "WAL: readers and the writer do not wait for each other")
        else:
            yield warn(
                "journal", f"{mode}, not WAL: readers wait", "keep the file on a local disk, not a network one"
            )
        dangling = checkup.dangling(database)
        if dangling:
            yield fail("references", f"rows point nowhere in {', '.join(dangling)}", "restore a backup")
        else:
            yield good("references", "every row points to something")
    else:
        version, encoding = checkup.server(database)
        level = fail if encoding.upper() not in {"UTF8", "SQL_ASCII"} else good
        yield level("integrity", f"PostgreSQL {version // 10_000}, encoding {encoding}")
    used = disk.usage(database)
    yield good("size", f"{used.used / 1e6:,.1f} MB held, {used.idle / 1e6:,.1f} MB for what comes next")
    yield from _missing(database, every=every)
    yield from _named(database, every=every)


def _missing(database: Database, *, every: bool) -> Iterator[Check]:
    count, lost = 0, []
    for item in checkup.heads(database, limit=None if every else SAMPLE):
        count += 1
        lost += [f"{item.repo.id}: {path}" for path in _absent(database, item)]
    if lost:
        named = ", ".join(lost[:_SHOWN]) + ("..." if len(lost) > _SHOWN else "")
        yield fail(
            "contents",
            f"{len(lost)} contents of newest revisions are missing ({named})",
            "they are read again when the repo moves; for all of it at once restore a backup",
        )
    else:
        yield good("contents", f"those of the newest revision of {count} repos are there")


def _absent(database: Database, item: HeadOf) -> list[str]:
    unread = {gap.path for gap in item.gaps}
    files = {path: entry for path, entry in item.manifest.files.items() if path not in unread}
    with database.snapshot() as tx:
        return checkup.without(tx, wanted_keys(Manifest(files=files)))


def _named(database: Database, *, every: bool) -> Iterator[Check]:
    # a sample from anywhere: keys begin with hex digits of hashes
    begin = f"{secrets.choice(['git:', 'header:sha256:', 'sha256:'])}{secrets.token_hex(4)}"
    keys = checkup.content_keys(database, sample=None if every else SAMPLE, begin=begin)
    wrong = list(checkup.wrong_contents(database, keys))
    if wrong:
        yield fail(
            "hashes", f"{len(wrong)} contents are not what they are named ({wrong[0]}, ...)", "restore a backup"
        )
    else:
        yield good("hashes", f"{len(keys)} contents are what they are named{'' if every else ' (a sample)'}")


def at_work(database: Database, settings: Settings, now: datetime) -> Iterator[Check]:
    """Whether checks are made, and messages sent."""
    with database.snapshot() as tx:
        everything = watches.list_all(tx)
        held = checkup.leases(tx)
        standing = pauses.standing(tx, now)
        counts = deliveries.counts(tx)
        unsent = checkup.unsent(tx, now - STALE)
        disabled = [item for item in subscriptions.list_all(tx) if item.disabled_at is not None]
    active = [item for item in everything if not item.paused]
    dead = [lease for lease in held if lease.until > now and is_dead(lease.holder)]
    if dead:
        yield warn(
            "leases",
            f"{len(dead)} checks died with their process ({dead[0].repo.id}, ...)",
            "nothing to do: the next check of the repo takes over, at the latest within 90 seconds",
        )
    else:
        running = sum(lease.until > now for lease in held)
        yield good("leases", f"{running} checks are under way")
    failing = sorted((item for item in active if item.errors >= MANY_ERRORS), key=lambda item: -item.errors)
    for item in failing[:_SHOWN]:
        quiet = item.state in {RepoState.MISSING, RepoState.DISABLED}
        yield warn(
            "watches",
            f"{item.repo.id} failed {item.errors} times in a row: {(item.last_error or '')[:200]}",
            f"hubwatch watch remove {item.repo.id}, if it is not to come back" if quiet else "see the message",
        )
    if failing[_SHOWN:]:
        yield warn("watches", f"and {len(failing) - _SHOWN} more fail again and again", "hubwatch watch list")
    limit = settings.poll.ceiling + STALE
    longest = write_span(limit)
    late = [item for item in active if item.next_check_at is not None and item.next_check_at < now - limit]
    if late:
        yield warn(
            "schedule",
            f"{len(late)} of {len(active)} watches are overdue by more than {longest}",
            "is hubwatch run at work? if it is, give it more threads or a longer poll.default",
        )
    else:
        yield good("schedule", f"{len(active)} watches, none overdue by more than {longest}")
    for scope, until, reason in standing:
        yield warn(
            "pauses", f"{scope} until {until:%H:%M:%S} UTC: {reason[:200]}", "nothing to do: it ends by itself"
        )
    yield from _messages(counts, unsent, len(disabled))


def _messages(counts: dict[str, dict[str, int]], unsent: int, disabled: int) -> Iterator[Check]:
    lost = sum(item.get("dead", 0) for item in counts.values())
    pending = sum(item.get("pending", 0) for item in counts.values())
    if unsent:
        yield warn(
            "messages",
            f"{unsent} events have waited for more than an hour to be handed to subscriptions",
            "is hubwatch run at work, with the role scheduler?",
        )
    if lost:
        yield warn(
            "messages",
            f"{lost} were given up",
            "hubwatch subscribe log shows why; hubwatch subscribe replay sends again",
        )
    if disabled:
        yield warn("messages", f"{disabled} subscriptions are disabled", "hubwatch subscribe list shows why")
    if not (unsent or lost or disabled):
        yield good("messages", f"{pending} wait to be sent, none was given up")


def addresses(database: Database) -> list[str]:
    """The kinds of address that subscriptions have."""
    with database.snapshot() as tx:
        return checkup.addresses(tx)


def guarded(name: str, checks: Iterator[Check]) -> Iterator[Check]:
    """The checks; a database that fails amid them is a finding."""
    try:
        yield from checks
    except StorageError as error:
        yield fail(name, error.message, error.help)
