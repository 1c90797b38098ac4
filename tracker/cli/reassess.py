"""``hubwatch reassess``: what the installed version says of histories that an older one read."""

from __future__ import annotations

import click
from rich.table import Table

from storage import history
from tracker.cli.context import console, json_option, now, opened, printable, repo_of, settings_of
from tracker.cli.context import show_json as emit


@click.command()
@click.argument("repos", nargs=-1, metavar="[REPO]...")
@click.option("--dry-run", is_flag=True, help="Say what would change; change nothing.")
@click.option("--fetch", is_flag=True, help="Read contents from the Hub that are not kept any more.")
@click.option("--announce", is_flag=True, help="Tell subscribers what is open and new, or was and is withdrawn.")
@json_option
@click.pass_context
def reassess(
    ctx: click.Context, repos: tuple[str, ...], dry_run: bool, fetch: bool, announce: bool, as_json: bool
) -> int:
    """Judge the stored history of REPOs (default: all) again by the rules of this version.

    What says the same is not touched; what is not made any more is withdrawn; what is new is published now.
    Exit code 1 when any of them had to be left as it is.
    """
    from tracker.assembly import assemble
    from tracker.reassess import DONE, REWRITTEN, Reassessor

    settings = settings_of(ctx)
    wanted = [repo_of(settings, text) for text in repos]
    with opened(settings) as database, assemble(settings, database) as services:
        with database.snapshot() as tx:
            for repo in wanted:
                history.require_repo(tx, repo)
            chosen = wanted or history.known_repos(tx)
        reassessor = Reassessor(database, services.loader, services.examiner, now)
        done = [reassessor.reassess(repo, dry_run=dry_run, fetch=fetch, announce=announce) for repo in chosen]
    if as_json:
        emit({"dry_run": dry_run, "repos": [outcome.to_json() for outcome in done]})
    else:
        table = Table(
            "repo", "status", "new", "changed", "withdrawn", "unchanged", "estimates", box=None, pad_edge=False
        )
        for outcome in done:
            found = outcome.reconciled
            counts = (
                len(found.added),
                len(found.changed),
                len(found.withdrawn),
                found.unchanged,
                outcome.estimates,
            )
            table.add_row(outcome.repo, outcome.status, *map(str, counts))
        console().print(table)
        if dry_run:
            click.echo("nothing was changed (--dry-run)")
    for outcome in done:
        if outcome.error:
            click.echo(f"{outcome.repo}: {printable(outcome.error, 400)}", err=True)
    return 0 if all(outcome.status in {DONE, REWRITTEN} for outcome in done) else 1
