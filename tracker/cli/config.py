"""``hubwatch config``: the settings in force."""

from __future__ import annotations

from datetime import timedelta

import click

from storage.database import masked
from tracker.cli.context import json_option, settings_of
from tracker.cli.context import show_json as emit
from tracker.spans import write_span


@click.group()
def config() -> None:
    """Look at the settings."""


@config.command()
@json_option
@click.pass_context
def show(ctx: click.Context, as_json: bool) -> None:
    """Print the settings in force; secrets are masked, spans are written as they are set (30m, 1d)."""
    settings = settings_of(ctx)
    values = settings.model_dump(mode="json") | {"database_url": masked(settings.database)}
    for section, kept in settings.model_dump(mode="python").items():
        for name, value in kept.items() if isinstance(kept, dict) else ():
            if isinstance(value, timedelta):
                values[section][name] = write_span(value)
    if as_json:
        emit(values)
        return
    for key, value in values.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        for name, setting in inner:
            shown = "(not set)" if setting in (None, "") else setting
            click.echo(f"{key}{'.' if name else ''}{name} = {shown}")
