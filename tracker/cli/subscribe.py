"""``hubwatch subscribe``: who is told of changes, how that went, and again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from storage.errors import UsageError
from storage.model import DeliveryState, Digest, Severity
from tracker.cli.context import (
    console,
    json_option,
    limit_option,
    limited,
    now,
    opened,
    printable,
    settings_of,
    show_json,
)
from tracker.spans import parse_span


class Span(click.ParamType[timedelta]):
    """A time span such as ``15m``, also ``0s``."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Read a number and a unit."""
        try:
            return value if isinstance(value, timedelta) else parse_span(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Since(click.ParamType[datetime]):
    """A day or time in UTC, or a span that lies back (``24h``)."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Read ISO 8601, or a number and a unit."""
        if isinstance(value, datetime):
            return value
        try:
            when = datetime.fromisoformat(str(value))
            return when if when.tzinfo else when.replace(tzinfo=UTC)
        except ValueError:
            pass
        try:
            return now() - parse_span(str(value))
        except (UsageError, OverflowError):
            self.fail("write a time such as 2026-05-01T12:00, or a span such as 24h", param, ctx)


@click.group()
def subscribe() -> None:
    """Tell webhooks, chats and mail of changes. They hear of what is observed after they were added."""


@subscribe.command()
@click.argument("url")
@click.option("--min-severity", default="low", show_default=True, help="Tell of nothing below.")
@click.option("--class", "classes", multiple=True, metavar="CLASS", help="Only this change class; repeatable.")
@click.option("--repo", "repos", multiple=True, metavar="REPO", help="Only owner/name or owner/*; repeatable.")
@click.option("--digest", type=click.Choice([item.value for item in Digest]), default="instant", show_default=True)
@click.option(
    "--settle",
    type=Span(),
    default="15m",
    show_default=True,
    help="Gather a repo's changes for so long and tell their net effect; 0s tells at once.",
)
@click.option("--quiet", metavar="HH:MM-HH:MM", help="Send nothing in this part of the day.")
@click.option("--timezone", default="UTC", show_default=True, help="Of --quiet and of daily digests.")
@click.option("--secret", metavar="WHERE", help="Sign with env:NAME or a file of mode 600; else one is made.")
@click.option("--allow-private", is_flag=True, help="Allow a receiver inside your own network.")
@json_option
@click.pass_context
def add(
    ctx: click.Context,
    url: str,
    min_severity: str,
    classes: tuple[str, ...],
    repos: tuple[str, ...],
    digest: str,
    settle: timedelta,
    quiet: str | None,
    timezone: str,
    secret: str | None,
    allow_private: bool,
    as_json: bool,
) -> None:
    """Tell URL: an https webhook, or an apprise URL (slack://, mailto://, ...; needs hubwatch[notify])."""
    from tracker import subscribing

    settings = settings_of(ctx)
    wish = subscribing.Wish(
        url=url,
        secret=secret,
        min_severity=Severity.parse(min_severity),
        classes=classes,
        repos=repos,
        digest=Digest(digest),
        settle=settle,
        quiet=subscribing.parse_quiet(quiet) if quiet else None,
        timezone=timezone,
        allow_private=allow_private,
    )
    with opened(settings) as database:
        made, shown_once = subscribing.add(database, wish, now=now(), schemes=frozenset(settings.notify.schemes))
    if as_json:
        show_json({"id": made.id, "url": made.url, "secret": shown_once})
        return
    click.echo(f"id      {made.id}")
    click.echo(f"url     {printable(made.url, 500)}")
    if shown_once:
        click.echo(f"secret  {shown_once}")
        click.echo("the secret is not shown again; the receiver needs it to verify signatures", err=True)
    click.echo(f"next: hubwatch subscribe test {made.id}", err=True)


@subscribe.command("list")
@json_option
@limit_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool, limit: int | None) -> None:
    """Show who is told what, and how it stands. Addresses are shown without their secrets."""
    from storage import deliveries, subscriptions
    from tracker.subscribing import subscription_json

    with opened(settings_of(ctx)) as database, database.snapshot() as tx:
        counts = deliveries.counts(tx)
        found = subscriptions.list_all(tx)[: limited(as_json, limit)]
    rows = [subscription_json(item, counts.get(item.id)) for item in found]
    if as_json:
        show_json({"subscriptions": rows})
        return
    table = Table("id", "to", "what", "when", "state", "sent", "pending", "dead", box=None, pad_edge=False)
    for row in rows:
        counted = row["messages"]
        table.add_row(
            row["id"],
            escape(printable(row["url"], 60)),
            escape(printable(_what(row), 60)),
            _when(row),
            escape(printable(row["disabled_reason"] or "active", 60)),
            *(str(number) for number in (counted["delivered"], counted["waiting"] + counted["pending"])),
            str(counted["dead"]),
        )
    console().print(table)


def _what(row: dict[str, Any]) -> str:
    return " ".join([f"{row['min_severity']}+", *row["classes"], *row["repos"]])


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _when(row: dict[str, Any]) -> str:
    when = f"settle {row['settle_seconds']:.0f} s" if row["digest"] == "instant" else str(row["digest"])
    return f"{when}, not {row['quiet']} {row['timezone']}" if row["quiet"] else when


@subscribe.command()
@click.argument("subscription")
@json_option
@click.pass_context
def test(ctx: click.Context, subscription: str, as_json: bool) -> int:
    """Send a signed test message now and say what the receiver answered. Exits 1 when it was not taken."""
    from advisories.deliver import send_test
    from storage import subscriptions

    settings = settings_of(ctx)
    with opened(settings) as database, database.snapshot() as tx:
        found = subscriptions.require(tx, subscription)
    message_id, answer = send_test(found, frozenset(settings.notify.schemes), now=now())
    if as_json:
        show_json(
            {
                "id": found.id,
                "message_id": message_id,
                "delivered": answer.delivered,
                "status": answer.status,
                "error": answer.error,
            }
        )
    elif answer.delivered:
        click.echo(f"delivered{f' ({answer.status})' if answer.status else ''}")
    else:
        click.echo(f"not delivered: {printable(answer.error or 'no reason given', 300)}", err=True)
    return 0 if answer.delivered else 1


@subscribe.command()
@click.argument("subscription")
@click.pass_context
def remove(ctx: click.Context, subscription: str) -> None:
    """Tell this one no more. What waits for it and its delivery log go with it."""
    from storage import subscriptions

    with opened(settings_of(ctx)) as database, database.transaction() as tx:
        subscriptions.remove(tx, subscription)
    click.echo(f"removed {subscription}")


@subscribe.command()
@click.argument("subscription")
@click.pass_context
def enable(ctx: click.Context, subscription: str) -> None:
    """Take up again one whose receiver had answered 410, for what is observed from now on."""
    from storage import subscriptions

    with opened(settings_of(ctx)) as database, database.transaction() as tx:
        subscriptions.enable(tx, subscription)
    click.echo(f"enabled {subscription}")


@subscribe.command()
@click.argument("subscription")
@click.option("--since", type=Since(), help="Messages made since then, sent or not; without: dead letters only.")
@json_option
@click.pass_context
def replay(ctx: click.Context, subscription: str, since: datetime | None, as_json: bool) -> None:
    """Send messages again, in their order and under their ids. The daemon sends them with its next tick."""
    from storage import deliveries, subscriptions

    states = (DeliveryState.DEAD,) if since is None else (DeliveryState.DELIVERED, DeliveryState.DEAD)
    with opened(settings_of(ctx)) as database, database.transaction() as tx:
        found = subscriptions.require(tx, subscription)
        if found.disabled_at is not None:
            raise UsageError(
                f"{subscription} is disabled: {found.disabled_reason}",
                help=f"run: hubwatch subscribe enable {subscription}",
            )
        count = deliveries.replay(tx, subscription, now=now(), since=since, states=states)
    if as_json:
        show_json({"id": subscription, "messages": count})
    else:
        click.echo(f"{_counted(count, 'message')} will be sent again")


@subscribe.command()
@click.option("--now", "at_once", is_flag=True, help="Try all that is not sent: wait for nothing.")
@json_option
@click.pass_context
def send(ctx: click.Context, at_once: bool, as_json: bool) -> int:
    """Send what is due, once: for those who poll without a daemon. Exits 1 when a receiver did not take it.

    --now waits for no settle window, digest, quiet hours or next try: every message that is neither sent nor given
    up is tried once, those of a repo in order up to the first that is not taken.
    """
    from tracker.subscribing import send_due

    settings = settings_of(ctx)
    with opened(settings) as database:
        sent = send_due(settings, database, clock=now, at_once=at_once)
    if as_json:
        show_json(sent)
    else:
        told = [f"{sent['delivered']} sent", f"{sent['failed']} not taken"]
        told += [f"{sent['dead']} given up"] if sent["dead"] else []
        told += [f"{sent['held']} held up or between tries"] if sent["held"] else []
        click.echo(", ".join([*told, f"{_counted(sent['waiting'], 'event')} not due yet"]))
    return 1 if sent["failed"] or sent["dead"] else 0


@subscribe.command()
@click.argument("subscription", required=False)
@click.option("--state", type=click.Choice([state.value for state in DeliveryState]), help="Only these.")
@json_option
@limit_option
@click.pass_context
def log(ctx: click.Context, subscription: str | None, state: str | None, as_json: bool, limit: int | None) -> None:
    """Show messages, newest first, and how sending them went; --state dead: the dead letters."""
    from storage import deliveries, subscriptions
    from tracker.subscribing import delivery_json

    with opened(settings_of(ctx)) as database, database.snapshot() as tx:
        if subscription is not None:
            subscriptions.require(tx, subscription)
        found = deliveries.log(
            tx,
            subscription_id=subscription,
            state=DeliveryState(state) if state else None,
            limit=limited(as_json, limit),
        )
        tries = deliveries.attempts(tx, [item.number for item in found])
    rows = [delivery_json(item, tries[item.number], body=as_json) for item in found]
    if as_json:
        show_json({"deliveries": rows})
        return
    columns = ("made", "message", "to", "state", "tries", "next try", "title", "last error")
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(
            str(row["created_at"])[:16],
            row["message_id"],
            row["subscription"],
            row["state"],
            str(len(row["attempts"])),
            str(row["next_at"] or "")[:19],
            escape(printable(row["title"] or "", 60)),
            escape(printable(row["error"] or "", 60)),
        )
    console().print(table)
