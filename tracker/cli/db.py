"""``hubwatch db``: the database's schema, its size and its copies."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from storage import disk, restore, schema
from storage.database import Database
from storage.errors import UsageError
from tracker.cli.context import json_option, now, opened, settings_of
from tracker.cli.context import show_json as emit
from tracker.cli.tables import bytes_text, count_text
from tracker.housekeeping import Pruned
from tracker.housekeeping import prune as prune_database
from tracker.spans import parse_span

KEPT = timedelta(days=400)
"""What `db prune` keeps when neither an option nor a setting says how much."""


class Age(click.ParamType[timedelta]):
    """A time span such as ``400d``; ``0d`` is one too."""

    name = "age"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Read a number and a unit."""
        if isinstance(value, timedelta):
            return value
        try:
            return parse_span(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


@click.group()
def db() -> None:
    """Upgrade, inspect, prune, back up and restore the database."""


@db.command()
@click.pass_context
def upgrade(ctx: click.Context) -> None:
    """Bring the schema up to this hubwatch."""
    database = Database.open(settings_of(ctx).database)
    try:
        schema.upgrade(database)
        click.echo(f"schema {schema.current(database)}")
    finally:
        database.dispose()


@db.command()
@json_option
@click.pass_context
def current(ctx: click.Context, as_json: bool) -> None:
    """Show the schema the database has and the one this hubwatch needs."""
    database = Database.open(settings_of(ctx).database)
    try:
        has, needs = schema.current(database), schema.newest()
    finally:
        database.dispose()
    if as_json:
        emit({"current": has, "needed": needs})
    else:
        click.echo(f"has {has or 'none (empty)'}, needs {needs}")


@db.command()
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Write over an existing file.")
@click.pass_context
def backup(ctx: click.Context, target: Path, force: bool) -> None:
    """Copy the database to TARGET while it is in use."""
    if target.exists() and not force:
        raise UsageError(f"{target} exists", help="name another file, or give --force")
    database = Database.open(settings_of(ctx).database)
    partial = target.with_name(f"{target.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        schema.backup(database, partial)
        partial.replace(target)
    finally:
        database.dispose()
        partial.unlink(missing_ok=True)
    click.echo(f"wrote {target}")


@db.command("restore")
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
@click.pass_context
def restore_(ctx: click.Context, source: Path, as_json: bool) -> None:
    """Fill an empty database from SOURCE, a file that `hubwatch db backup` wrote.

    Nothing is written to a database that holds anything, and nothing is left of a restore that fails.
    """
    database = Database.open(settings_of(ctx).database)
    try:
        restored = restore.restore(database, source)
        newest = schema.newest()
    finally:
        database.dispose()
    if as_json:
        emit(
            {"schema": restored.schema, "needed": newest, "repos": restored.repos, "revisions": restored.revisions}
        )
        return
    click.echo(f"restored {count_text(restored.repos)} repos with {count_text(restored.revisions)} revisions")
    if restored.schema != newest:
        click.echo(f"its schema is {restored.schema}; next: hubwatch db upgrade", err=True)


@db.command()
@click.option("--keep", type=Age(), help="Keep what is younger [default: retention.keep, else 400d].")
@click.option("--dry-run", is_flag=True, help="Say what would go; change nothing.")
@click.option("--unwatched", is_flag=True, help="Also contents of repos that are watched no longer.")
@click.option("--vacuum", is_flag=True, help="Then give the room back; SQLite writes its file anew for that.")
@json_option
@click.pass_context
def prune(
    ctx: click.Context, keep: timedelta | None, dry_run: bool, unwatched: bool, vacuum: bool, as_json: bool
) -> None:
    """Forget old contents that nothing needs, and old logs; also beside a running daemon.

    Advisories, revisions, changes and trees always stay, and so do the contents of every head and of what open
    advisories warn of.
    """
    settings = settings_of(ctx)
    age = keep if keep is not None else settings.retention.keep or KEPT
    with opened(settings) as database:
        pruned = prune_database(
            database, now=now(), keep=age, budget=settings.retention.disk, unwatched=unwatched, dry_run=dry_run
        )
        if vacuum and not dry_run:
            disk.vacuum(database)
        used = disk.usage(database)
    if as_json:
        emit({**pruned.to_json(), "dry_run": dry_run, "used_bytes": used.used, "idle_bytes": used.idle})
        return
    _show(pruned, "would forget" if dry_run else "forgot")
    click.echo(f"the database holds {bytes_text(used.used)}, and {bytes_text(used.idle)} for what comes next")


def _show(pruned: Pruned, verb: str) -> None:
    rows = (
        ("old contents", pruned.contents),
        ("contents that no revision names", pruned.orphans),
    )
    for what, contents in rows:
        if contents is None:
            click.echo(f"left {what}: a check is under way", err=True)
        else:
            click.echo(f"{verb} {count_text(contents.count)} {what}, {bytes_text(contents.bytes)}")
    old = pruned.logs
    click.echo(
        f"{verb} {count_text(old.deliveries)} messages with {count_text(old.attempts)} attempts, "
        f"{count_text(old.outbox)} outbox items, {count_text(old.journal)} journal entries"
    )
