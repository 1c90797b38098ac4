"""``hubwatch advisories``: OSV documents, as a list, or one of them to be read."""

from __future__ import annotations

import click
from rich.markdown import Markdown
from rich.markup import escape
from rich.table import Table

from advisories import publish
from advisories.rules.registry import rule_of
from storage import history
from storage.errors import NotFound
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
from tracker.settings import Settings

_ID = "x_HUBWATCH-"


@click.command()
@click.argument("repo", metavar="[REPO|ID]", required=False)
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
    """Show advisories, newest first: of REPO, or of every watched repo; or one whole, by its ID.

    --json gives OSV documents.
    """
    settings = settings_of(ctx)
    if repo and repo.startswith(_ID):
        _show(settings, repo, as_json)
        return
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


def _show(settings: Settings, advisory_id: str, as_json: bool) -> None:
    """One advisory: its document, or the same to be read."""
    with opened(settings) as database, database.snapshot() as tx:
        document = publish.document_of(tx, advisory_id)
    if document is None:
        raise NotFound(f"there is no advisory {printable(advisory_id)} here", help="see: hubwatch advisories")
    if as_json:
        emit(document)
        return
    specific, affected = document["database_specific"], document["affected"][0]
    shown = console()
    shown.print(escape(printable(document["summary"])), style="bold")
    facts = {
        "id": document["id"],
        "severity": severity_text(specific["severity"]),
        "class": specific["change_class"],
        "state": publish.state_of(document),
        "published": document["published"],
        "modified": document["modified"],
        "commits": f"open at {len(affected.get('versions', ()))} read commits",
    }
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in facts.items():
        table.add_row(name, value)
    shown.print(table)
    shown.print()
    # escaped by the document already; no link is made of anything
    shown.print(Markdown(document["details"], hyperlinks=False))
    for reference in document["references"]:
        shown.print(f"{reference['type'].lower()}: {escape(printable(reference['url'], 500))}")
