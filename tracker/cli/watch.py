"""``hubwatch watch``: which repos are followed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click
from rich.table import Table

from storage import watches
from storage.database import Transaction
from storage.errors import NotFound, UsageError
from storage.model import RepoRef, RepoState, Watch, valid_owner
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
from tracker.spans import parse_span


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
    since = since.replace(tzinfo=UTC) if since else None
    if since and from_head:
        raise UsageError("--since and --from-head exclude each other", help="give one of them")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}", ref) or ".." in ref:
        raise UsageError(f"{ref!r} is not a ref", help="give a branch name such as main")
    if repo.endswith("/*"):
        if ref != "main":
            raise UsageError(
                "--ref does not go with owner/*", help="watch a repo by name to follow another branch of it"
            )
        _add_owner(settings, repo, since=since, from_head=from_head, every=every, public=public, as_json=as_json)
        return
    target = repo_of(settings, repo)
    with opened(settings) as database:
        with database.snapshot() as tx:
            if watches.get(tx, target) is not None:
                _already(target.id, as_json)
                return
        from tracker.daemon import upstream_of

        head = upstream_of(settings).head(target, ref=ref)
        _refuse(target, head.state)
        with database.transaction() as tx:
            kept = watches.add(
                tx, target, ref=ref, since=since, from_head=from_head, every=every, public=public, now=now()
            )
    notes = []
    if head.state is RepoState.RENAMED:
        notes.append(f"it answers as {head.canonical} now: better watch that name")
    if head.gated:
        notes.append(f"it is gated ({head.gated}): set HF_TOKEN to a token with access")
    if head.state is RepoState.DISABLED:
        notes.append("it is disabled by the Hub: nothing can be read now")
    if as_json:
        emit({"repo": kept.repo.id, "ref": kept.ref, "state": str(head.state), "notes": notes})
        return
    click.echo(f"watching {kept.repo.id} ({kept.ref}); next: hubwatch poll {kept.repo.id}")
    for note in notes:
        click.echo(f"note: {note}", err=True)


def _add_owner(
    settings: Settings,
    text: str,
    *,
    since: datetime | None,
    from_head: bool,
    every: timedelta | None,
    public: bool,
    as_json: bool,
) -> None:
    owner = text.removesuffix("/*")
    if not valid_owner(owner):
        raise UsageError(f"{text!r} is not a repo id", help="write owner/*, with the owner's name as on the Hub")
    endpoint = settings.hub.identity
    with opened(settings) as database, database.transaction() as tx:
        if watches.get_owner(tx, owner, endpoint=endpoint) is not None:
            _already(f"{owner}/*", as_json)
            return
        watches.add_owner(
            tx, owner, endpoint=endpoint, since=since, from_head=from_head, every=every, public=public, now=now()
        )
    if as_json:
        emit({"repo": f"{owner}/*", "ref": "main", "state": "ok", "notes": []})
    else:
        click.echo(f"watching all models of {owner}; next: hubwatch poll")


def _already(name: str, as_json: bool) -> None:
    """Adding twice is no error: scripts add what they need every time they start."""
    if as_json:
        emit({"repo": name, "state": "already_watched", "notes": []})
    else:
        click.echo(f"already watching {name}; next: hubwatch poll")


def _refuse(repo: RepoRef, state: RepoState) -> None:
    """A repo that cannot be seen is refused now, with the reason, rather than failing at every poll."""
    match state:
        case RepoState.MISSING | RepoState.PRIVATE:
            raise NotFound(
                f"{repo.id} does not exist, or is private",
                help="check the name; for a private repo set HF_TOKEN to a token that may read it",
            )
        case RepoState.TOKEN_BAD:
            raise UsageError("the Hub does not accept the token", help="set HF_TOKEN to a valid one, or unset it")


@watch.command("list")
@json_option
@limit_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool, limit: int | None) -> None:
    """Show what is followed and how it stands."""
    with opened(settings_of(ctx)) as database, database.snapshot() as tx:
        rows = watches.list_all(tx)[: limited(as_json, limit)]
        owners = watches.owners(tx)
    if as_json:
        emit(
            {
                "watches": [_watch_json(row) for row in rows],
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
            "paused" if row.paused else str(row.state),
            (row.head or "")[:7],
            f"{row.checked_at:%Y-%m-%d %H:%M}" if row.checked_at else "never",
            f"{row.next_check_at:%Y-%m-%d %H:%M}" if row.next_check_at else "now",
            printable(row.last_error or "", 80),
        )
    console().print(table)


def _watch_json(row: Watch) -> dict[str, object]:
    def iso(when: datetime | None) -> str | None:
        return when.isoformat() if when else None

    return {
        "repo": row.repo.id,
        "ref": row.ref,
        "state": str(row.state),
        "paused": row.paused,
        "head": row.head,
        "checked_at": iso(row.checked_at),
        "next_check_at": iso(row.next_check_at),
        "errors": row.errors,
        "last_error": row.last_error,
        "every_seconds": row.every.total_seconds() if row.every else None,
        "since": iso(row.since),
        "from_head": row.from_head,
        "public": row.public,
    }


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
    with opened(settings) as database, database.transaction() as tx:
        if repo.endswith("/*"):
            _change_owner(tx, repo.removesuffix("/*"), settings.hub.identity, action)
        else:
            target = repo_of(settings, repo)
            match action:
                case "remove":
                    watches.remove(tx, target)
                case "pause":
                    watches.pause(tx, target)
                case _:
                    watches.resume(tx, target, now=now())
    click.echo(f"{_DONE[action]} {repo}")


def _change_owner(tx: Transaction, owner: str, endpoint: str, action: str) -> None:
    if action == "remove":
        watches.remove_owner(tx, owner, endpoint=endpoint)
    else:
        watches.pause_owner(tx, owner, paused=action == "pause", endpoint=endpoint)
