"""``hubwatch advisories`` and ``hubwatch export``: OSV documents, shown and written."""

from __future__ import annotations

from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from advisories import publish
from advisories.export import export as export_to
from advisories.rules.registry import rule_of
from storage import history
from storage.model import Severity
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
from tracker.cli.tables import severity_text


@click.command()
@click.argument("repo", required=False)
@click.option("--min-severity", metavar="S", help="info, low, medium, high or critical and above.")
@click.option("--class", "cls", metavar="C", help="One change class, such as template.semantic.")
@click.option("--state", type=click.Choice(["open", "closed", "all"]), default="all", show_default=True)
@json_option
@limit_option
@click.pass_context
def advisories(
    ctx: click.Context,
    repo: str | None,
    min_severity: str | None,
    cls: str | None,
    state: str,
    as_json: bool,
    limit: int | None,
) -> None:
    """Show advisories, newest first: of REPO, or of every watched repo. --json gives OSV documents."""
    settings = settings_of(ctx)
    target = repo_of(settings, repo) if repo else None
    lowest = Severity.parse(min_severity) if min_severity else None
    if cls is not None:
        rule_of(cls)  # a class nobody has would just give an empty table
    with opened(settings) as database, database.snapshot() as tx:
        if target:
            history.require_repo(tx, target)
        documents = publish.documents(
            tx, repo=target, min_severity=lowest, cls=cls, state=state, limit=limited(as_json, limit)
        )
    if as_json:
        emit({"advisories": documents})
        return
    table = Table("id", "severity", "state", "summary", box=None, pad_edge=False)
    for document in documents:
        specific = document["database_specific"]
        table.add_row(
            document["id"],
            severity_text(specific["severity"]),
            publish.state_of(document),
            escape(printable(document["summary"], 160)),
        )
    console().print(table)


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@json_option
@click.pass_context
def export(ctx: click.Context, folder: Path, as_json: bool) -> None:
    """Write every advisory to DIR in the OSV bulk layout; only what changed is rewritten."""
    with opened(settings_of(ctx)) as database:
        report = export_to(database, folder)
    if as_json:
        emit(
            {
                "folder": str(folder),
                "advisories": report.total,
                "written": report.written,
                "removed": report.removed,
            }
        )
    else:
        click.echo(f"{report.total} advisories in {folder}: {report.written} files written")
