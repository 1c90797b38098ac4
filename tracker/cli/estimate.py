"""``hubwatch estimate``: what a config costs, from a folder, a file or a watched repo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from storage import history
from storage.errors import NotFound, UsageError
from storage.model import Estimate, Snapshot
from tracker import views
from tracker.cli.card import markdown_card
from tracker.cli.context import console, json_option, opened, printable, repo_of, settings_of
from tracker.cli.context import show_json as emit
from tracker.cli.tables import print_estimate
from tracker.estimate import classic
from tracker.estimate.cards import catalogue
from tracker.estimate.interface import EstimateOptions, Estimator
from tracker.estimate.profiles import PROFILES
from tracker.estimate.recipe import METHODS, OPTIMIZERS, PACKINGS, PRECISIONS, WEIGHT_BITS
from tracker.estimating import estimate_snapshot, exact_estimator
from tracker.local import read_folder
from tracker.probe.meta import MetaCounter
from tracker.settings import Settings

FORMATS = ("table", "json", "markdown")


@click.command()
@click.argument("target", metavar="PATH|REPO[@REV]")
@click.option("--profile", type=click.Choice(list(PROFILES)), default="exact", show_default=True)
@click.option("--seq", type=click.IntRange(1, 10**9), help="Tokens per sequence, for training and serving.")
@click.option("--batch", type=click.IntRange(1, 10**6), help="Sequences per batch.")
@click.option("--card", help="A card by name: its price, and only its row of the table.")
@click.option(
    "--precision",
    type=click.Choice(sorted({*PRECISIONS, *WEIGHT_BITS}), case_sensitive=False),
    default="bf16",
    show_default=True,
    help="Of training and serving: bf16 is fp32 weights under autocast, bf16-true bf16 throughout.",
)
@click.option("--method", type=click.Choice(METHODS), help="Show this way of training alone.")
@click.option("--optimizer", type=click.Choice(list(OPTIMIZERS)), default="adamw", show_default=True)
@click.option("--gradient-checkpointing", is_flag=True, help="Keep each layer's input and compute the rest again.")
@click.option("--lora-r", type=click.IntRange(1, 4096), default=16, show_default=True, help="Rank of adapters.")
@click.option("--lora-targets", help="Module names with commas between; every linear layer without it.")
@click.option("--quantization", type=click.Choice(list(PACKINGS)), default="nf4", show_default=True)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@json_option
@click.pass_context
def estimate(
    ctx: click.Context, /, target: str, profile: str, card: str | None, form: str, as_json: bool, **asked: Any
) -> None:
    """Estimate parameters, memory, cards and cost from config.json alone.

    An existing PATH (a folder with config.json, or a config file) wins over a repo of that name.
    """
    settings = settings_of(ctx)
    targets = tuple(name.strip() for name in (asked.pop("lora_targets") or "").split(",") if name.strip())
    options = EstimateOptions(card=_known_card(card), lora_targets=targets, **asked)
    path = Path(target)
    snapshot = read_folder(path) if path.exists() else _stored(settings, target)
    found = _estimated(settings, profile, snapshot, options)
    unread = next((gap for gap in snapshot.gaps if gap.path == "config.json"), None)
    if unread is not None:
        why = f"config.json cannot be read: {unread.reason}, {printable(unread.detail)}"
        if found is None:
            raise UsageError(why, help="mend the file, or name another revision")
        click.echo(f"note: {why}; the last readable one is estimated", err=True)
    if found is None:
        raise NotFound(
            f"there is no config.json in {printable(target)}", help="name a folder or revision that has one"
        )
    shown = views.estimate_json(found)
    if as_json or form == "json":
        emit(shown)
    elif form == "markdown":
        click.echo(markdown_card(target, shown or {}, options), nl=False)
    else:
        print_estimate(console(), shown, options)


def _known_card(name: str | None) -> str | None:
    if name is not None and catalogue().row_for(name) is None:
        raise UsageError(f"no card is called {printable(name)}", help=f"one of: {', '.join(catalogue().names)}")
    return name


def _estimated(settings: Settings, profile: str, snapshot: Snapshot, options: EstimateOptions) -> Estimate | None:
    with MetaCounter() as counter:
        estimator: Estimator = (
            classic.ESTIMATOR
            if profile == classic.ESTIMATOR.name
            else exact_estimator(settings.estimate.transformers, counter)
        )
        return estimate_snapshot(estimator, snapshot, options)


def _stored(settings: Settings, target: str) -> Snapshot:
    from tracker.assembly import loader_of

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
