"""``hubwatch doctor``: what works here, what does not, and what to do about it."""

from __future__ import annotations

from collections import Counter

import click
from rich.markup import escape

from tracker.cli.context import console, json_option, now, printable
from tracker.cli.context import show_json as emit

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}


@click.command()
@click.option("--offline", is_flag=True, help="Do not ask the Hub.")
@click.option("--all", "every", is_flag=True, help="Look at every head and every content, not at a sample.")
@json_option
@click.pass_context
def doctor(ctx: click.Context, offline: bool, every: bool, as_json: bool) -> int:
    """Look at settings, database, Hub, probes and programs, and say what to do about what is wrong.

    Changes nothing. Exit code 1 when something does not work; warnings alone are 0.
    """
    from tracker.doctor import Level, examine

    found = []
    out = console()
    for check in examine((ctx.obj or {}).get("database_url"), offline=offline, every=every, clock=now):
        found.append(check)
        if not as_json:
            word = f"[{_STYLES[check.level]}]{check.level:<4}[/]"
            out.print(f"{word}  {check.name:<16} {escape(printable(check.message, 400))}", soft_wrap=True)
            if check.help:
                out.print(f"      {'':<16} {escape(printable(check.help, 400))}", style="dim", soft_wrap=True)
    counts = Counter(check.level for check in found)
    if as_json:
        emit(
            {
                "checks": [
                    {
                        "name": check.name,
                        "status": str(check.level),
                        "message": check.message,
                        "help": check.help or None,
                    }
                    for check in found
                ],
                **{str(level): counts[level] for level in Level},
            }
        )
    else:
        click.echo(", ".join(f"{counts[level]} {level}" for level in Level if counts[level]))
    return 1 if counts[Level.FAIL] else 0
