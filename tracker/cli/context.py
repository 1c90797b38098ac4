"""What commands share: settings, the database, JSON and tables on stdout."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Any, TextIO, cast

import click
from rich.console import Console

from storage import schema
from storage.database import Database
from storage.model import Json, RepoRef
from tracker.log import configure_logging, louder
from tracker.settings import Settings, load_settings

Command = Callable[..., Any]

json_option = click.option("--json", "as_json", is_flag=True, help="JSON on stdout, under stable keys.")
limit_option = click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show at most N rows; with --json everything unless set.",
)
PIPE_WIDTH = 2000
"""Columns of a pipe: nothing is wrapped that another program may want to search."""
_PADDING = re.compile(r"(?<! ) +$", re.MULTILINE)
SHOWN = 20
"""Rows a person is shown without ``--limit``."""


def settings_of(ctx: click.Context, **flags: Any) -> Settings:
    """Settings with this command line's flags on top; from here on logs are as they say."""
    given = ctx.obj or {}
    settings = load_settings(database_url=given.get("database_url"), **flags)
    configure_logging(louder(settings.log.level, given.get("verbose", 0)), form=settings.log.format)
    return settings


@contextmanager
def opened(settings: Settings) -> Iterator[Database]:
    """The database, created when empty, refused when it has another schema."""
    database = Database.open(settings.database)
    try:
        schema.require_current(database)
        yield database
    finally:
        database.dispose()


def repo_of(settings: Settings, text: str) -> RepoRef:
    """A repo id under the configured identity."""
    return RepoRef.parse(text, endpoint=settings.hub.identity)


def show_json(value: Json) -> None:
    """Strict JSON, ASCII only, so that lone surrogates and control characters survive any terminal or pipe."""
    click.echo(json.dumps(value, ensure_ascii=True, indent=2, allow_nan=False))


def console() -> Console:
    """Stdout for people: colour only on a terminal, honouring NO_COLOR; in a pipe a row is one line."""
    if sys.stdout.isatty():
        return Console(highlight=False, soft_wrap=False)
    width = None if "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(file=cast(IO[str], _Unpadded(sys.stdout)), width=width, highlight=False, soft_wrap=False)


class _Unpadded:
    """Leaves out the spaces that fill lines up to a width: in a pipe they are only bytes."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        self._file.write(_PADDING.sub("", text))
        return len(text)


def printable(text: object, limit: int = 200) -> str:
    """Upstream text made safe for a terminal: no control or bidirectional characters, one line, capped."""
    shown = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in str(text)[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def limited(as_json: bool, limit: int | None) -> int | None:
    """How many rows to show."""
    return limit if limit is not None or as_json else SHOWN


def now() -> datetime:
    """The clock of the command line."""
    return datetime.now(UTC)
