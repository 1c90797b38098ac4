"""``hubwatch estimate``: what a config costs, from a folder, a file or a watched repo."""

from __future__ import annotations

from pathlib import Path

import click

from storage import history
from storage.errors import NotFound, UsageError
from storage.model import Snapshot
from tracker import views
from tracker.cli.context import console, json_option, opened, printable, repo_of, settings_of
from tracker.cli.context import show_json as emit
from tracker.cli.tables import print_estimate
from tracker.estimate import classic, exact
from tracker.estimate.interface import EstimateOptions, Estimator
from tracker.estimating import estimate_snapshot
from tracker.local import read_folder
from tracker.settings import Settings

PROFILES: dict[str, Estimator] = {"exact": exact.ESTIMATOR, "classic": classic.ESTIMATOR}


@click.command()
@click.argument("target", metavar="PATH|REPO[@REV]")
@click.option("--profile", type=click.Choice(list(PROFILES)), default="exact", show_default=True)
@click.option("--seq", type=click.IntRange(1, 10**9), help="Tokens per sequence, for training and serving.")
@click.option("--batch", type=click.IntRange(1, 10**6), help="Sequences per batch.")
@click.option("--card", help="A card of the table, by name.")
@click.option("--precision", default="bf16", show_default=True, help="Training and serving precision.")
@json_option
@click.pass_context
def estimate(
    ctx: click.Context,
    target: str,
    profile: str,
    seq: int | None,
    batch: int | None,
    card: str | None,
    precision: str,
    as_json: bool,
) -> None:
    """Estimate parameters, memory, cards and cost from config.json alone.

    An existing PATH (a folder with config.json, or a config file) wins over a repo of that name.
    """
    settings = settings_of(ctx)
    options = EstimateOptions(seq=seq, batch=batch, card=card, precision=precision)
    path = Path(target)
    snapshot = read_folder(path) if path.exists() else _stored(settings, target)
    found = estimate_snapshot(PROFILES[profile], snapshot, options)
    if found is None:
        raise NotFound(
            f"there is no config.json in {printable(target)}", help="name a folder or revision that has one"
        )
    if as_json:
        emit(views.estimate_json(found))
        return
    print_estimate(console(), views.estimate_json(found))


def _stored(settings: Settings, target: str) -> Snapshot:
    from tracker.daemon import loader_of

    name, _, rev = target.partition("@")
    if name.count("/") != 1:
        raise UsageError(
            f"{printable(target)} is neither a path nor a repo", help="give a folder, or owner/name[@REV]"
        )
    repo = repo_of(settings, name)
    with opened(settings) as database:
        with database.snapshot() as tx:
            sha = history.resolve(tx, repo, rev or "main").revision.sha
        return loader_of(settings, database).stored(repo, sha)
