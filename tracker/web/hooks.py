"""``/hooks/huggingface``: the Hub says that a repo moved. A hint to look now, never the truth.

The Hub sends the secret as it is, in a header. What it says of a repo is used for one thing only: to have a
watched repo checked soon. Nothing of it is kept, and nobody learns from the answer what is watched.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Header, Request, Response
from fastapi.concurrency import run_in_threadpool

from storage import watches
from storage.errors import NotFound, UsageError
from storage.model import Json, RepoRef
from tracker.web.access import Unauthorized, client_of, limit
from tracker.web.context import Here, Web
from tracker.web.edge import TooLarge

MAX_BODY = 1024 * 1024
"""Bytes of a hook; the largest (a long discussion) have some tens of thousands."""
SETTLE = timedelta(seconds=30)
"""A repo that was looked at this short a time ago waits, so that a stream of hints is one question."""
_HELP = "point a web hook of the Hub (version 3) here"

router = APIRouter(prefix="/hooks")
log = structlog.get_logger("hubwatch.hooks")


@dataclass(frozen=True, slots=True)
class Hint:
    """A model that may have moved, and the full names of the refs that did; None: the hook does not say."""

    repo: RepoRef
    refs: frozenset[str] | None

    def concerns(self, ref: str) -> bool:
        """Whether a followed branch may be among what moved."""
        return self.refs is None or f"refs/heads/{ref}" in self.refs


@router.post("/huggingface", status_code=202, include_in_schema=False)
async def huggingface(request: Request, web: Here, x_webhook_secret: Annotated[str, Header()] = "") -> Response:
    """Take a hint. 202 for every hook that can be read, whether it is about a watched repo or not."""
    wanted = web.settings.hub.webhook_secret
    if wanted is None:
        raise NotFound("web hooks are not taken here", help="set hub.webhook_secret to what the Hub sends along")
    if not secrets.compare_digest(x_webhook_secret.encode(), wanted.get_secret_value().encode()):
        limit(web, f"refused:{client_of(request)}")
        raise Unauthorized("the secret is not the one that is set here", help="set the same one on both sides")
    body = await request.body()
    if len(body) > MAX_BODY:
        raise TooLarge(f"a hook has at most {MAX_BODY} bytes", help=_HELP)
    hint = read_hint(body, endpoint=web.settings.hub.identity)
    if hint is not None:
        await run_in_threadpool(_take, web, hint)
    return Response(status_code=202)


def _take(web: Web, hint: Hint) -> None:
    with web.database.transaction() as tx:
        watch = watches.get(tx, hint.repo)
        taken = (
            watch is not None
            and hint.concerns(watch.ref)
            and watches.hint(tx, hint.repo, now=web.clock(), settle=SETTLE)
        )
    log.info("hinted", repo=hint.repo.id, taken=taken)


def read_hint(body: bytes, *, endpoint: str) -> Hint | None:
    """What a hook says, read from the raw JSON; None for what cannot have moved a model.

    A scope that is not known counts as the broader one; what happens in a discussion moves nothing. Raises
    UsageError for what is no hook at all.
    """
    try:
        value: Json = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError("the hook is not JSON", help=_HELP) from None
    asked: dict[str, Any] = value if isinstance(value, dict) else {}
    event, repo = asked.get("event"), asked.get("repo")
    if not isinstance(event, dict) or not isinstance(repo, dict):
        raise UsageError("this is not a hook of the Hub", help=_HELP)
    if repo.get("type") != "model" or str(event.get("scope")).partition(".")[0] == "discussion":
        return None
    try:
        named = RepoRef.parse(str(repo.get("name")), endpoint=endpoint)
    except UsageError:
        return None
    updated = asked.get("updatedRefs")
    if not isinstance(updated, list):
        return Hint(named, None)
    return Hint(named, frozenset(str(item.get("ref")) for item in updated if isinstance(item, dict)))
