"""``hubwatch token``: who may read what is not for everybody, and who may write."""

from __future__ import annotations

import getpass
import socket

import click
from rich.markup import escape
from rich.table import Table

from storage import journal, tokens
from storage.database import Transaction
from storage.model import AccessToken, Scope
from tracker.cli.context import (
    console,
    json_option,
    limit_option,
    limited,
    now,
    opened,
    printable,
    settings_of,
)
from tracker.cli.context import show_json as emit
from tracker.views import iso


@click.group()
def token() -> None:
    """Make, list and revoke tokens for the pages, the feeds and the API."""


@token.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([str(scope) for scope in Scope]),
    multiple=True,
    default=("read",),
    show_default=True,
    help="read: what is not for everybody; write: that, and to change watches and subscriptions.",
)
@json_option
@click.pass_context
def create(ctx: click.Context, name: str, scopes: tuple[str, ...], as_json: bool) -> None:
    """Make a token called NAME. Its secret is shown this once and kept nowhere."""
    with opened(settings_of(ctx)) as database, database.transaction() as tx:
        made, secret = tokens.create(tx, name, map(Scope, scopes), now=now())
        _note(tx, "token.create", made)
    if as_json:
        emit({**_token_json(made), "token": secret})
        return
    click.echo(secret)
    click.echo(f"keep it: it cannot be shown again. Send it as: Authorization: Bearer {secret[:12]}...", err=True)


@token.command("list")
@json_option
@limit_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool, limit: int | None) -> None:
    """Show the tokens, revoked ones too; never their secrets."""
    with opened(settings_of(ctx)) as database, database.snapshot() as tx:
        found = tokens.list_all(tx)[: limited(as_json, limit)]
    if as_json:
        emit({"tokens": [_token_json(item) for item in found]})
        return
    table = Table("id", "name", "scopes", "created", "last used", "revoked", box=None, pad_edge=False)
    for item in found:
        shown = (f"{when:%Y-%m-%d %H:%M}" if when else "" for when in (item.last_used_at, item.revoked_at))
        created = f"{item.created_at:%Y-%m-%d %H:%M}"
        table.add_row(str(item.id), escape(printable(item.name)), ", ".join(sorted(item.scopes)), created, *shown)
    console().print(table)


@token.command()
@click.argument("name")
@json_option
@click.pass_context
def revoke(ctx: click.Context, name: str, as_json: bool) -> None:
    """Make the token called NAME (or with that number) useless from now on."""
    with opened(settings_of(ctx)) as database, database.transaction() as tx:
        revoked = tokens.revoke(tx, name, now=now())
        _note(tx, "token.revoke", revoked)
    if as_json:
        emit(_token_json(revoked))
    else:
        click.echo(f"revoked {printable(revoked.name)}")


def _note(tx: Transaction, action: str, item: AccessToken) -> None:
    try:
        user = getpass.getuser()
    except OSError:  # no name for this user id: a container
        user = "unknown"
    journal.record(
        tx,
        now=now(),
        actor=f"cli:{user}",
        client=socket.gethostname(),
        action=action,
        target=item.name,
        detail={"id": item.id, "scopes": sorted(item.scopes)},
    )


def _token_json(item: AccessToken) -> dict[str, object]:
    return {
        "id": item.id,
        "name": item.name,
        "scopes": sorted(item.scopes),
        "created_at": iso(item.created_at),
        "last_used_at": iso(item.last_used_at),
        "revoked_at": iso(item.revoked_at),
    }
