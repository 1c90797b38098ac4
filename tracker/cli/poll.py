"""``hubwatch poll``: one pass over the watches, now."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from storage import pauses, watches
from storage.errors import HubwatchError, NotFound
from storage.model import Head, Landing, RepoRef, Watch
from tracker.assembly import Services, assemble
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
from tracker.hub.errors import AccessDenied, RateLimited
from tracker.landings import OnLanded
from tracker.worker import HUB, Outcome, Status

PATIENCE = timedelta(seconds=60)
"""How long a poll waits for a rate-limit pause to end; longer pauses are reported."""
STOP_SECONDS = 3.0
"""How long an interrupted poll waits for the revisions being landed."""


@click.command()
@click.argument("repos", nargs=-1, metavar="[REPO]...")
@click.option(
    "--refs", is_flag=True, help="Read refs and related repos too, due or not; naming REPOs does the same."
)
@json_option
@limit_option
@click.pass_context
def poll(ctx: click.Context, repos: tuple[str, ...], refs: bool, as_json: bool, limit: int | None) -> int:
    """Look at the watched REPOs (default: all) now, whatever the schedule or back-off says.

    Exit code 1 when any of them could not be followed; the others are done all the same.
    """
    settings = settings_of(ctx)
    wanted = [repo_of(settings, text) for text in repos]
    with opened(settings) as database, assemble(settings, database) as services:
        if services.worker.slow is not None:
            services.worker.slow.always = refs or bool(wanted)
        bar = not as_json and sys.stderr.isatty()
        _wait(_pause_left(services))
        listed: list[tuple[str, str, list[Head]]] = []
        services.owners.on_listed = lambda *heard: listed.append(heard)
        failed = [] if wanted or refs else _look_for_new(services)
        chosen = _choose(services, wanted)
        outcomes = {} if wanted or refs else _listed(services, chosen, listed)
        left = [watch for watch in chosen if watch.id not in outcomes]
        outcomes |= _check_all(services, left, settings.poll.threads, bar=bar)
        held = [watch for watch in chosen if outcomes[watch.id].wait is not None]
        waits = [outcomes[watch.id].wait or 0.0 for watch in held]
        if held and _wait(timedelta(seconds=max(waits))):
            again = _check_all(services, held, settings.poll.threads, bar=bar)
            outcomes |= {key: _added_up(outcomes[key], outcome) for key, outcome in again.items()}
    done = [*failed, *(outcomes[watch.id] for watch in chosen)]
    if as_json:
        rows = done if limit is None else done[:limit]
        emit({"repos": [_outcome_json(outcome) for outcome in rows]})
        for outcome in done:
            if outcome.error:
                click.echo(_told(outcome), err=True)
    else:
        _show(done, limited(as_json, limit))
    return 0 if all(outcome.status.good for outcome in done) else 1


def _look_for_new(services: Services) -> list[Outcome]:
    """List the watched owners; those that cannot be listed are outcomes of their own."""
    failed = services.owners.look().failed
    return [
        Outcome(repo=f"{owner}/*", status=_status_of(error), error=str(error)) for owner, error in failed.items()
    ]


def _status_of(error: HubwatchError) -> Status:
    if isinstance(error, AccessDenied):
        return Status(error.state)
    return Status.PAUSED if isinstance(error, RateLimited) else Status.ERROR


def _choose(services: Services, wanted: Sequence[RepoRef]) -> list[Watch]:
    with services.database.snapshot() as tx:
        if not wanted:
            return [watch for watch in watches.list_all(tx) if not watch.paused]
        chosen = []
        for repo in wanted:
            watch = watches.get(tx, repo)
            if watch is None:
                raise NotFound(f"{repo.id} is not watched", help=f"hubwatch watch add {repo.id}")
            chosen.append(watch)
    return chosen


def _added_up(first: Outcome, second: Outcome) -> Outcome:
    """One outcome of a check and of the one that took it up after a pause."""
    return replace(
        second,
        status=Status.OK if second.status is Status.UNCHANGED and first.new_revisions else second.status,
        new_revisions=first.new_revisions + second.new_revisions,
        new_advisories=first.new_advisories + second.new_advisories,
    )


def _listed(
    services: Services, chosen: Sequence[Watch], listed: Sequence[tuple[str, str, list[Head]]]
) -> dict[int, Outcome]:
    """The outcomes of all that listings of their owners say to be unchanged, one request for many repos."""
    outcomes: dict[int, Outcome] = {}
    for _, _, heads in listed:
        outcomes |= services.rounds.answer(chosen, heads)
    known = {(endpoint, owner) for endpoint, owner, _ in listed}
    plan = services.rounds.plan(watch for watch in chosen if watch.id not in outcomes)
    for owner, asked in plan.listings.items():
        if owner not in known:
            with suppress(HubwatchError):  # every repo is then asked by itself, and says what is wrong
                outcomes |= services.rounds.ask(owner, asked)
    return outcomes


def _pause_left(services: Services) -> timedelta:
    """How long the Hub's pause still lasts."""
    with services.database.snapshot() as tx:
        until = pauses.until(tx, HUB)
    return until - now() if until is not None else timedelta(0)


def _wait(left: timedelta) -> bool:
    """Wait for asking to be allowed again, if that is soon; says whether it is by now."""
    if timedelta(0) < left <= PATIENCE:
        click.echo(f"the Hub's limit asks for a pause: waiting {left.total_seconds():.0f} s", err=True)
        time.sleep(left.total_seconds() + 0.1)
    return left <= PATIENCE


def _check_all(services: Services, chosen: list[Watch], threads: int, *, bar: bool) -> dict[int, Outcome]:
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console() if not bar else None,
        disable=not bar,
    )
    outcomes: dict[int, Outcome] = {}
    pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="check")
    with progress:
        tasks = {watch.id: progress.add_task(printable(watch.repo.id, 60), total=None) for watch in chosen}
        futures = {
            pool.submit(services.worker.check, watch, on_landed=_advance(progress, tasks[watch.id])): watch
            for watch in chosen
        }
        try:
            for future in as_completed(futures):
                watch = futures[future]
                outcomes[watch.id] = future.result()
                total = max(1, outcomes[watch.id].new_revisions)
                progress.update(tasks[watch.id], total=total, completed=total)
        except KeyboardInterrupt:
            services.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            if wait(futures, timeout=STOP_SECONDS).not_done:
                # A call hangs on the Hub. What landed stands, and what did not is not there in halves.
                os._exit(130)
            raise
    pool.shutdown()
    return outcomes


def _advance(progress: Progress, task: TaskID) -> OnLanded:
    def landed(_: Landing, number: int, total: int) -> None:
        progress.update(task, completed=number, total=total)

    return landed


def _outcome_json(outcome: Outcome) -> dict[str, object]:
    return {
        "repo": outcome.repo,
        "status": str(outcome.status),
        "new_revisions": outcome.new_revisions,
        "new_advisories": outcome.new_advisories,
        "error": outcome.error,
    }


def _told(outcome: Outcome) -> str:
    """What went wrong, in one line that names the repo once."""
    error = printable(outcome.error or "", 400)
    return error if error.startswith(outcome.repo) else f"{outcome.repo}: {error}"


def _show(outcomes: list[Outcome], limit: int | None) -> None:
    if not outcomes:
        click.echo("nothing is watched; next: hubwatch watch add owner/name")
        return
    table = Table("repo", "status", "new revisions", "new advisories", box=None, pad_edge=False)
    for outcome in outcomes[:limit]:
        table.add_row(outcome.repo, str(outcome.status), str(outcome.new_revisions), str(outcome.new_advisories))
    console().print(table)
    for outcome in outcomes:
        if outcome.error:
            click.echo(_told(outcome), err=True)
