"""``hubwatch export``: OSV documents, written as files."""

from __future__ import annotations

from pathlib import Path

import click

from advisories.export import export as export_to
from storage import visibility
from tracker.cli.context import json_option, opened, settings_of
from tracker.cli.context import show_json as emit


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--include-restricted",
    is_flag=True,
    help="Also repos that were read with a token while private or gated. Keep those files to yourself.",
)
@json_option
@click.pass_context
def export(ctx: click.Context, folder: Path, include_restricted: bool, as_json: bool) -> None:
    """Write every advisory to DIR in the OSV bulk layout; only what changed is rewritten.

    What was read with a token, because the repo is private or gated, is left out unless you ask for it.
    """
    with opened(settings_of(ctx)) as database:
        report = export_to(database, folder, public_only=not include_restricted)
        with database.snapshot() as tx:
            left_out = 0 if include_restricted else visibility.hidden(tx)
    if as_json:
        emit(
            {
                "folder": str(folder),
                "advisories": report.total,
                "written": report.written,
                "removed": report.removed,
                "restricted_repos_left_out": left_out,
            }
        )
        return
    click.echo(f"{report.total} advisories in {folder}: {report.written} files written, {report.removed} removed")
    if left_out:
        plural = "repo that was" if left_out == 1 else "repos that were"
        click.echo(f"left out: {left_out} {plural} read with a token (--include-restricted)", err=True)
