"""Reading commands: history, show, diff, blame."""

from __future__ import annotations

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from storage import history as revisions
from storage.database import Database
from storage.model import Json, RepoRef
from tracker import views
from tracker.cli.context import (
    console,
    json_option,
    limit_option,
    limited,
    opened,
    printable,
    repo_of,
    settings_of,
)
from tracker.cli.context import show_json as emit
from tracker.cli.tables import bytes_text, count_text, print_changes, print_estimate
from tracker.settings import Settings


@click.command()
@click.argument("repo")
@json_option
@limit_option
@click.pass_context
def history(ctx: click.Context, repo: str, as_json: bool, limit: int | None) -> None:
    """Show the revisions of REPO, newest first, with what changed in each."""
    settings = settings_of(ctx)
    target = repo_of(settings, repo)
    with opened(settings) as database, database.snapshot() as tx:
        revisions.require_repo(tx, target)
        value = views.history_json(tx, target, limit=limited(as_json, limit))
    if as_json:
        emit(value)
        return
    out = console()
    for row in value["revisions"]:
        date = row["committed_at"][:16].replace("T", " ")
        out.print(f"[bold]{row['sha'][:10]}[/bold]  {date}  {escape(printable(row['author'], 30))}")
        out.print(f"    {escape(printable(row['title'], 100))}", style="dim")
        print_changes(out, row["changes"], indent="    ")
        for event in row["events"]:
            if event["action"] != "opened":
                out.print(f"    {event['action']}: {event['advisory']}", style="green")
    if not value["revisions"]:
        click.echo(f"nothing read yet; next: hubwatch poll {target.id}")


@click.command()
@click.argument("target", metavar="REPO[@REV]")
@json_option
@limit_option
@click.pass_context
def show(ctx: click.Context, target: str, as_json: bool, limit: int | None) -> None:
    """Show one revision of REPO (default: the newest): files, parameters, memory, cards, verifier."""
    settings = settings_of(ctx)
    name, _, rev = target.partition("@")
    repo = repo_of(settings, name)
    with opened(settings) as database, database.snapshot() as tx:
        row = revisions.resolve(tx, repo, rev or "main")
        value = views.show_json(tx, repo, row)
    if as_json:
        if limit is not None:
            value["files"] = value["files"][:limit]
        emit(value)
        return
    out = console()
    out.print(f"[bold]{repo.id}[/bold] at {value['sha']}")
    out.print(
        f"{value['committed_at']}  {escape(printable(value['author'], 40))}: {escape(printable(value['title']))}"
    )
    print_estimate(out, value["estimate"])
    _print_files(out, value["files"], limited(False, limit))
    for gap in value["gaps"]:
        out.print(
            f"not read: {escape(printable(gap['path']))} ({gap['reason']}: {escape(printable(gap['detail']))})"
        )
    if value["open_advisories"]:
        out.print(f"open advisories: {', '.join(value['open_advisories'][:10])}")


def _print_files(out: Console, files: list[dict[str, Json]], limit: int | None) -> None:
    table = Table(
        "file", "size", "content", box=None, pad_edge=False, title=f"{len(files)} files", title_justify="left"
    )
    table.columns[1].justify = "right"
    for entry in files[:limit]:
        content = f"sha256 {entry['lfs_sha256'][:12]}" if entry["lfs_sha256"] else f"blob {entry['blob_id'][:12]}"
        table.add_row(escape(printable(entry["path"], 90)), bytes_text(entry["size"]), content)
    out.print(table)
    if limit is not None and len(files) > limit:
        out.print(f"... and {count_text(len(files) - limit)} more (--limit)")


@click.command()
@click.argument("repo")
@click.argument("a")
@click.argument("b")
@json_option
@limit_option
@click.pass_context
def diff(ctx: click.Context, repo: str, a: str, b: str, as_json: bool, limit: int | None) -> None:
    """Compare any two revisions A and B of REPO: full or short shas, or main."""
    settings = settings_of(ctx)
    target = repo_of(settings, repo)
    value = _compare(settings, target, a, b)
    if as_json:
        if limit is not None:
            value["changes"] = value["changes"][:limit]
        emit(value)
        return
    out = console()
    out.print(f"{target.id}  {value['from'][:10]} -> {value['to'][:10]}")
    print_changes(out, value["changes"][: limited(False, limit)], indent="", prompts=True)
    if not value["changes"]:
        out.print("no difference")
    _print_moved(out, value["estimate"])


def _print_moved(out: Console, estimate: dict[str, Json]) -> None:
    """Figures that differ between the two revisions."""
    before, after = estimate["before"] or {}, estimate["after"] or {}
    rows = [("parameters", "parameters", "total", count_text), *_MEMORY]
    for label, group, key, text in rows:
        old, new = ((side.get(group) or {}).get(key) for side in (before, after))
        if old != new:
            out.print(
                f"{label}: {text(old) if old is not None else '-'} -> {text(new) if new is not None else '-'}"
            )


_MEMORY = [
    ("weights", "memory", "weights_bytes", bytes_text),
    ("full fine-tune", "memory", "full_finetune_bytes", bytes_text),
    ("LoRA", "memory", "lora_bytes", bytes_text),
    ("KV cache", "memory", "kv_cache_bytes", bytes_text),
]


def _compare(settings: Settings, repo: RepoRef, a: str, b: str) -> dict[str, Json]:
    from tracker.daemon import assemble

    with opened(settings) as database, assemble(settings, database) as services:
        _known(database, repo)
        seen = views.compare(database, services.loader, services.examiner, repo, a, b)
        return views.diff_json(repo, seen)


def _known(database: Database, repo: RepoRef) -> None:
    with database.snapshot() as tx:
        revisions.require_repo(tx, repo)


@click.command()
@click.argument("repo")
@click.argument("place", metavar="FILE[#/json/pointer]")
@json_option
@limit_option
@click.pass_context
def blame(ctx: click.Context, repo: str, place: str, as_json: bool, limit: int | None) -> None:
    """Show which revisions set a value, newest first: hubwatch blame owner/name config.json#/rope_theta."""
    settings = settings_of(ctx)
    target = repo_of(settings, repo)
    path, hash_mark, pointer = place.partition("#")
    with opened(settings) as database:
        from tracker.daemon import assemble

        _known(database, target)
        with assemble(settings, database) as services:
            value = views.blame_json(database, services.loader, target, path, pointer if hash_mark else None)
    value["entries"] = value["entries"][: limited(as_json, limit)]
    if as_json:
        emit(value)
        return
    table = Table("revision", "date", "author", "value", box=None, pad_edge=False)
    for entry in value["entries"]:
        shown = printable(entry["value"], 80) if entry["present"] else "(gone)"
        table.add_row(
            entry["sha"][:10], entry["committed_at"][:10], escape(printable(entry["author"], 30)), escape(shown)
        )
    console().print(table)
