"""``hubwatch db``: the database's schema and its copies."""

from __future__ import annotations

from pathlib import Path

import click

from storage import schema
from storage.database import Database
from storage.errors import UsageError
from tracker.cli.context import json_option, settings_of
from tracker.cli.context import show_json as emit


@click.group()
def db() -> None:
    """Upgrade, inspect and back up the database."""


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
