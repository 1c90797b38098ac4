"""Reading commands: history, show, diff, blame."""

from __future__ import annotations

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from advisories.osv import summary
from storage import advisories, glance
from storage import history as revisions
from storage.database import Database
from storage.model import Advisory, Json, RepoRef, Severity
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
from tracker.cli.lines import moved_line, print_changes, print_events, print_moved, print_uses
from tracker.cli.tables import SEVERITY_STYLE, bytes_text, count_text, print_estimate, print_row
from tracker.estimating import estimate_delta
from tracker.settings import Settings

_INDENT = "    "
_ADVISORIES = 20  # shown by name


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
        most = limited(as_json, limit)
        # one more than is shown: what a revision moved is said against the one before it
        value = views.history_json(tx, target, limit=most if as_json or most is None else most + 1)
        total = revisions.count(tx, target)
    if as_json:
        emit(value)
        return
    rows = value["revisions"]
    if not rows:
        click.echo(f"nothing read yet; next: hubwatch poll {target.id}")
        return
    out = console()
    for number, row in enumerate(rows[:most]):
        _print_revision(out, row, rows[number + 1] if number + 1 < len(rows) else None)
    if most is not None and total > most:
        out.print(f"... and {count_text(total - most)} older (--limit)")


def _print_revision(out: Console, row: dict[str, Json], before: dict[str, Json] | None) -> None:
    """A revision: who and what, its changes, what they moved, what they did to advisories."""
    date = row["committed_at"][:16].replace("T", " ")
    head = Text.assemble((row["sha"][:10], "bold"), f"  {date}  {printable(row['author'], 30)}  ")
    print_row(out, head, Text(printable(row["title"], 100), style="italic"), cut=True)
    gravest_first = sorted(row["changes"], key=lambda change: -Severity.parse(change["severity"]))
    print_changes(out, gravest_first, indent=_INDENT, cut=True)
    told = moved_line(before["estimate"], row["estimate"]) if before else None
    if told:
        print_row(out, Text(f"{_INDENT}{'moved':<8} "), Text(told), cut=False)
    print_events(out, row["events"], indent=_INDENT)


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
        value["downloads"] = glance.downloads(tx, repo)
        open_there = list(advisories.by_ids(tx, value["open_advisories"][:_ADVISORIES]))
    if as_json:
        if limit is not None:
            value["files"] = value["files"][:limit]
        emit(value)
        return
    out = console()
    out.print(f"[bold]{repo.id}[/bold] at {value['sha']}")
    by = Text(f"{value['committed_at']}  {printable(value['author'], 40)}: {printable(value['title'])}")
    print_row(out, Text(), by, cut=True)
    if value["downloads"] is not None:
        out.print(f"{count_text(value['downloads'])} downloads in the last month, as the Hub says")
    _print_open(out, repo, open_there, len(value["open_advisories"]))
    print_estimate(out, value["estimate"])
    _print_files(out, value["files"], limited(False, limit))
    for gap in value["gaps"]:
        out.print(
            f"not read: {escape(printable(gap['path']))} ({gap['reason']}: {escape(printable(gap['detail']))})"
        )


def _print_open(out: Console, repo: RepoRef, found: list[Advisory], total: int) -> None:
    """What is open, the gravest first: it comes before any figure."""
    if not total:
        out.print("no open advisory above info", style="green")
        return
    out.print(f"{total} open advisor{'y' if total == 1 else 'ies'}:", style="bold")
    for item in sorted(found, key=lambda item: (-item.severity, item.id)):
        label = item.severity.label
        head = Text.assemble("  ", (f"{label:<8}", SEVERITY_STYLE[label]), f" {item.id}  ")
        print_row(out, head, Text(printable(summary(item).removeprefix(f"{repo.id}: "), 200)), cut=True)
    if total > len(found):
        out.print(f"  ... and {count_text(total - len(found))} more: hubwatch advisories")


def _print_files(out: Console, files: list[dict[str, Json]], limit: int | None) -> None:
    table = Table(f"{len(files)} file{'' if len(files) == 1 else 's'}", box=None, pad_edge=False)
    table.columns[0].overflow = "ellipsis"
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("content", no_wrap=True)
    for entry in files[:limit]:
        content = f"sha256 {entry['lfs_sha256'][:12]}" if entry["lfs_sha256"] else f"blob {entry['blob_id'][:12]}"
        table.add_row(Text(printable(entry["path"], 90)), bytes_text(entry["size"]), content)
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
    value, cards = _compare(settings, target, a, b)
    if as_json:
        if limit is not None:
            value["changes"] = value["changes"][:limit]
        emit(value)
        return
    out = console()
    out.print(f"[bold]{target.id}[/bold]  {value['from'][:10]} -> {value['to'][:10]}")
    most = limited(False, limit)
    print_changes(out, value["changes"][:most], prompts=True, cut=False)
    if not value["changes"] and not value["not_kept"]:
        out.print("no difference")
    if most is not None and len(value["changes"]) > most:
        out.print(f"... and {count_text(len(value['changes']) - most)} more (--limit)")
    print_moved(out, value["estimate"]["before"], value["estimate"]["after"])
    print_uses(out, "cards lost", cards.get("cards_lost", ()), "red")
    print_uses(out, "cards gained", cards.get("cards_gained", ()), "green")
    _tell_not_kept(target, value["not_kept"])


def _tell_not_kept(repo: RepoRef, paths: list[str]) -> None:
    """Say of which files nothing could be compared."""
    if paths:
        more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
        names = ", ".join(printable(path, 60) for path in paths[:5])
        told = f"contents not kept, and not compared: {names}{more}"
        click.echo(f"{told}; hubwatch history {repo.id} tells what each revision changed", err=True)


def _compare(settings: Settings, repo: RepoRef, a: str, b: str) -> tuple[dict[str, Json], dict[str, Json]]:
    """Two revisions compared under the contract's keys, and what that moved, the cards with it."""
    from tracker.assembly import assemble

    with opened(settings) as database, assemble(settings, database) as services:
        _known(database, repo)
        seen = views.compare(database, services.loader, services.examiner, repo, a, b)
        return views.diff_json(repo, seen), estimate_delta(seen.estimate_before, seen.estimate)


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
        from tracker.assembly import assemble

        _known(database, target)
        with assemble(settings, database) as services:
            value = views.blame_json(database, services.loader, target, path, pointer if hash_mark else None)
    value["entries"] = value["entries"][: limited(as_json, limit)]
    if as_json:
        emit(value)
        return
    table = Table("revision", "date", "author", "value", "title", box=None, pad_edge=False)
    for column in table.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    for entry in value["entries"]:
        shown = printable(entry["value"], 80) if entry["present"] else "(gone)"
        shown = shown if entry["kept"] else "(content not kept)"
        author, title = printable(entry["author"], 30), printable(entry["title"], 60)
        table.add_row(
            entry["sha"][:10], entry["committed_at"][:10], Text(author), Text(shown), Text(title, style="dim")
        )
    console().print(table)
