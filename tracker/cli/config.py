"""``hubwatch config``: the settings in force."""

from __future__ import annotations

import click

from storage.database import masked
from tracker.cli.context import json_option, settings_of
from tracker.cli.context import show_json as emit


@click.group()
def config() -> None:
    """Look at the settings."""


@config.command()
@json_option
@click.pass_context
def show(ctx: click.Context, as_json: bool) -> None:
    """Print the settings in force; secrets are masked."""
    settings = settings_of(ctx)
    values = settings.model_dump(mode="json") | {"database_url": masked(settings.database)}
    if as_json:
        emit(values)
        return
    for key, value in values.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        for name, setting in inner:
            shown = "(not set)" if setting in (None, "") else setting
            click.echo(f"{key}{'.' if name else ''}{name} = {shown}")
