"""``hubwatch watch``: which repos are followed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click
from rich.table import Table

from storage import watches
from storage.errors import UsageError
from storage.model import Watch
from tracker import watching
from tracker.cli.context import (
    console,
    json_option,
    limit_option,
    limited,
    now,
    opened,
    printable,
    repo_of,
    settings_of,
)
from tracker.cli.context import show_json as emit
from tracker.settings import Settings
from tracker.spans import parse_span, write_span
from tracker.views import watch_json
from tracker.watching import Wish


class Interval(click.ParamType[timedelta]):
    """A time span such as ``30m``, ``6h``, ``1d``."""

    name = "interval"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Read a number and a unit, more than nothing."""
        try:
            span = parse_span(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)
        if not span:
            self.fail("give more than no time at all", param, ctx)
        return span


@click.group()
def watch() -> None:
    """Add, list, pause, resume and remove watches. REPO is owner/name, or owner/* for all of an owner's models."""


@watch.command()
@click.argument("repo")
@click.option("--ref", default="main", show_default=True, help="The branch to follow.")
@click.option(
    "--since", type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]), help="Read history from this day on."
)
@click.option("--from-head", is_flag=True, help="Read no history: start at today's head.")
@click.option("--every", type=Interval(), help="A fixed interval instead of an adaptive one.")
@click.option("--public", is_flag=True, help="Show what was read with a token to everyone.")
@json_option
@click.pass_context
def add(
    ctx: click.Context,
    repo: str,
    ref: str,
    since: datetime | None,
    from_head: bool,
    every: timedelta | None,
    public: bool,
    as_json: bool,
) -> None:
    """Follow REPO. Asks the Hub once whether it is there; reads no history."""
    settings = settings_of(ctx)
    wish = Wish(
        ref=ref,
        since=since.replace(tzinfo=UTC) if since else None,
        from_head=from_head,
        every=every,
        public=public,
    )
    if every is not None and every < settings.poll.floor:
        floor = write_span(settings.poll.floor)
        click.echo(f"note: it is looked at every {floor}, the least that is set (poll.floor)", err=True)
    if repo.endswith("/*"):
        _add_owner(settings, repo.removesuffix("/*"), wish, as_json=as_json)
        return
    from tracker.assembly import upstream_of

    target = repo_of(settings, repo)
    with opened(settings) as database:
        added = watching.add(database, upstream_of(settings, database), target, wish, now=now())
    if not added.new:
        _already(target.id, as_json)
        return
    if as_json:
        emit({"repo": target.id, "ref": added.watch.ref, "state": str(added.state), "notes": list(added.notes)})
        return
    click.echo(f"watching {target.id} ({added.watch.ref}); next: hubwatch poll {target.id}")
    for note in added.notes:
        click.echo(f"note: {note}", err=True)


def _add_owner(settings: Settings, owner: str, wish: Wish, *, as_json: bool) -> None:
    with opened(settings) as database, database.transaction() as tx:
        _, new = watching.add_owner(tx, owner, wish, endpoint=settings.hub.identity, now=now())
    if not new:
        _already(f"{owner}/*", as_json)
    elif as_json:
        emit({"repo": f"{owner}/*", "ref": "main", "state": "ok", "notes": []})
    else:
        click.echo(f"watching all models of {owner}; next: hubwatch poll")


def _already(name: str, as_json: bool) -> None:
    """Adding twice is no error: scripts add what they need every time they start."""
    if as_json:
        emit({"repo": name, "state": "already_watched", "notes": []})
    else:
        click.echo(f"already watching {name}; next: hubwatch poll")


@watch.command("list")
@json_option
@limit_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool, limit: int | None) -> None:
    """Show what is followed and how it stands."""
    with opened(settings_of(ctx)) as database, database.snapshot() as tx:
        owners = watches.owners(tx)
        every = watches.list_all(tx)
    most = limited(as_json, limit)
    rows = every if most is None else every[: max(0, most - len(owners))]
    if as_json:
        emit(
            {
                "watches": [watch_json(row) for row in rows],
                "owners": [{"owner": row.owner, "paused": row.paused} for row in owners],
            }
        )
        return
    table = Table("repo", "state", "head", "checked", "next", "last error", box=None, pad_edge=False)
    for owner in owners:
        table.add_row(f"{owner.owner}/*", "paused" if owner.paused else "ok", "", "", "", "")
    for row in rows:
        table.add_row(
            row.repo.id,
            _state(row),
            (row.head or "")[:7],
            f"{row.checked_at:%Y-%m-%d %H:%M}" if row.checked_at else "never",
            f"{row.next_check_at:%Y-%m-%d %H:%M}" if row.next_check_at else "now",
            printable(row.last_error or "", 80),
        )
    console().print(table)
    if len(every) > len(rows):
        click.echo(f"... and {len(every) - len(rows)} more (--limit)")


def _state(row: Watch) -> str:
    """One word for how a watch stands: a gate that keeps us out is a state too."""
    if row.paused:
        return "paused"
    return "gated" if row.gated and row.errors else str(row.state)


@watch.command()
@click.argument("repo")
@click.pass_context
def remove(ctx: click.Context, repo: str) -> None:
    """Stop following REPO. Its history and advisories stay."""
    _change(ctx, repo, "remove")


@watch.command()
@click.argument("repo")
@click.pass_context
def pause(ctx: click.Context, repo: str) -> None:
    """Leave REPO alone until it is resumed."""
    _change(ctx, repo, "pause")


@watch.command()
@click.argument("repo")
@click.pass_context
def resume(ctx: click.Context, repo: str) -> None:
    """Follow REPO again."""
    _change(ctx, repo, "resume")


_DONE = {"remove": "no longer watching", "pause": "paused", "resume": "watching again"}


def _change(ctx: click.Context, repo: str, action: str) -> None:
    settings = settings_of(ctx)
    told = repo
    with opened(settings) as database, database.transaction() as tx:
        if repo.endswith("/*"):
            owner, endpoint = repo.removesuffix("/*"), settings.hub.identity
            if action == "remove":
                count = watching.remove_owner(tx, owner, endpoint=endpoint)
            else:
                count = watching.pause_owner(tx, owner, paused=action == "pause", endpoint=endpoint, now=now())
            told = f"{repo} ({count} repos)"
        else:
            target = repo_of(settings, repo)
            match action:
                case "remove":
                    watches.remove(tx, target)
                case "pause":
                    watches.pause(tx, target)
                case _:
                    watches.resume(tx, target, now=now())
    click.echo(f"{_DONE[action]} {told}")
