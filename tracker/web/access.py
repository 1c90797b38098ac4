"""Who asks, and what they may: tokens of ours, as ``Authorization: Bearer`` or as a Basic password.

Reading is open or needs a token, by the setting ``web.read``; what was read from the Hub with a token is shown
only to those who send one of ours. Writing needs a token of scope ``write``, sent as Bearer: what a browser
sends by itself must not be enough to change anything.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer

from storage import journal, tokens, visibility
from storage.database import Transaction
from storage.errors import NotFound, StorageError
from storage.model import AccessToken, Json, RepoRef, Scope
from tracker.web.context import Here, Web
from tracker.web.problems import Refused

BEARER = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="a token made with `hubwatch token create NAME --scope write`",
)
_HELP = "send Authorization: Bearer <token>; hubwatch token create makes one"


class Unauthorized(Refused):
    """No token where one is needed, or one that is not good."""

    code = "unauthorized"
    status = 401


class Forbidden(Refused):
    """A good token that does not allow this."""

    code = "forbidden"
    status = 403


class TooMany(Refused):
    """Asked too often."""

    code = "too_many_requests"
    status = 429
    retryable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Whoever asks: with a token of ours or without, and from where."""

    token: AccessToken | None
    client: str

    @property
    def public_only(self) -> bool:
        """Whether only what is for everybody is shown."""
        return self.token is None

    @property
    def name(self) -> str:
        """How the journal calls them."""
        return self.token.name if self.token else "anonymous"

    def require(self, tx: Transaction, repo: RepoRef) -> None:
        """Raise NotFound, in the words for what is not here, for a repo that is not for everybody."""
        if self.public_only and not visibility.open_to_all(tx, repo):
            raise NotFound(f"{repo.id} is not known here", help=f"run: hubwatch watch add {repo.id}")


def reading(request: Request, web: Here) -> Viewer:
    """Whoever may read here. Raises Unauthorized."""
    token, _ = _identify(request, web)
    if token is None and web.settings.web.read == "token":
        raise _unauthorized("reading needs a token here")
    return Viewer(token=token, client=client_of(request))


def _member(request: Request, web: Here) -> Viewer:
    """Whoever has a token, wherever reading is open."""
    token, _ = _identify(request, web)
    if token is None:
        raise _unauthorized("this needs a token")
    return Viewer(token=token, client=client_of(request))


def _writer(request: Request, web: Here, _: Annotated[object, Security(BEARER)]) -> Viewer:
    token, scheme = _identify(request, web)
    if token is None or scheme != "bearer":
        raise _unauthorized("writing needs a token")
    if not token.allows(Scope.WRITE):
        raise Forbidden(
            "this token does not allow writing", help="make one with: hubwatch token create NAME --scope write"
        )
    limit(web, f"token:{token.id}")
    return Viewer(token=token, client=client_of(request))


Reader = Annotated[Viewer, Depends(reading)]
Member = Annotated[Viewer, Depends(_member)]
Writer = Annotated[Viewer, Depends(_writer)]


def record(
    tx: Transaction, web: Web, viewer: Viewer, action: str, target: str, detail: Mapping[str, Json] | None = None
) -> None:
    """Enter a change in the journal, in the transaction that makes it."""
    journal.record(
        tx,
        now=web.clock(),
        actor=viewer.name,
        client=viewer.client,
        action=action,
        target=target,
        detail=detail,
    )


def _identify(request: Request, web: Web) -> tuple[AccessToken | None, str]:
    """The token that was sent and how; raises Unauthorized for one that is not good."""
    header = request.headers.get("authorization")
    if header is None:
        return None, ""
    scheme, _, value = header.partition(" ")
    scheme = scheme.lower()
    secret = value.strip() if scheme == "bearer" else _password(value) if scheme == "basic" else ""
    with web.database.snapshot() as tx:
        token = tokens.find(tx, secret)
    if token is None or not token.allows(Scope.READ):
        limit(web, f"refused:{client_of(request)}")
        raise _unauthorized("this token is not good here")
    now = web.clock()
    if tokens.is_stale(token, now):
        # that a token was used is good to know, and no reason to fail a request
        with contextlib.suppress(StorageError), web.database.transaction() as tx:
            tokens.used(tx, token, now=now)
    return token, scheme


def _password(value: str) -> str:
    try:
        return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def limit(web: Web, client: str) -> None:
    """Count what a client asks; raises TooMany beyond what is allowed."""
    wait = web.limiter.take(client)
    if wait:
        seconds = str(math.ceil(wait))
        raise TooMany("asked too often", help=f"try again in {seconds} s", headers={"Retry-After": seconds})


def _unauthorized(message: str) -> Unauthorized:
    # Basic, too, so that browsers and feed readers ask for it
    return Unauthorized(message, help=_HELP, headers={"WWW-Authenticate": 'Bearer, Basic realm="hubwatch"'})


def client_of(request: Request) -> str:
    """The address that a request came from."""
    return request.client.host if request.client else "unknown"
