"""``hubwatch run``: the daemon."""

from __future__ import annotations

import os
import sys

import click

from storage.errors import UsageError
from tracker.cli.context import opened, settings_of


@click.command()
@click.option(
    "--roles", default="scheduler,worker,web", show_default=True, help="Which parts run in this process."
)
@click.option("--host", help="Address of the pages.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port of the pages; 0 takes a free one.")
@click.pass_context
def run(ctx: click.Context, roles: str, host: str | None, port: int | None) -> None:
    """Watch, and serve pages and feeds, until stopped. A stop ends or abandons a revision whole."""
    from tracker import daemon

    chosen = tuple(part.strip() for part in roles.split(",") if part.strip())
    unknown = [part for part in chosen if part not in daemon.ROLES]
    if unknown or not chosen:
        raise UsageError(
            f"unknown role {', '.join(unknown) or 'none'}", help=f"choose from {', '.join(daemon.ROLES)}"
        )
    settings = settings_of(ctx, host=host, port=port)
    with opened(settings) as database:
        whole = daemon.run(settings, database, roles=chosen, started=_tell)
    if not whole:
        # Python would wait for threads that did not end in time. What they are at is not written, and whoever
        # comes next takes it up.
        sys.stderr.flush()
        os._exit(0)


def _tell(url: str) -> None:
    pages = f"pages and feeds: {url}   " if url else ""
    click.echo(f"hubwatch runs; {pages}stop with Ctrl-C or SIGTERM", err=True)
