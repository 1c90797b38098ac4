"""What endpoints work with: settings, the database, and the parts that answer costly questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, cast

from fastapi import Depends, Request

from advisories.query import Source
from storage.database import Database, Transaction
from tracker.loader import Loader
from tracker.settings import Settings
from tracker.web.bulk import Bulk
from tracker.web.compare import Comparer
from tracker.web.limits import Limiter

SourceOf = Callable[[Transaction, bool], Source]
"""Makes the source of OSV answers from a transaction and whether to leave out what is not for everybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """One application's parts. Shared by threads."""

    settings: Settings
    database: Database
    loader: Loader
    comparer: Comparer
    bulk: Bulk
    source: SourceOf
    limiter: Limiter
    clock: Callable[[], datetime]


def _web(request: Request) -> Web:
    return cast(Web, request.app.state.web)


Here = Annotated[Web, Depends(_web)]
