"""``/watches``: what is followed and who is told, and the forms to change that.

A form works without a script and without a cookie: whoever sends it gives a token of ours in it. A browser never
sends that by itself, so no other site can make it change anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Query, Request, Response

from storage import deliveries, subscriptions, tokens, watches
from storage.database import Transaction
from storage.errors import UsageError
from storage.model import DeliveryState, Json, RepoRef, Scope, Severity
from tracker import subscribing, watching
from tracker.spans import parse_span
from tracker.web.access import Forbidden, Reader, TooMany, Unauthorized, Viewer, record
from tracker.web.context import Here, Web
from tracker.web.pages.render import PageRoute, html

_SHOWN = 50
_LOG = 10  # messages of one subscription
_LOGGED = 40  # of all of them
_SUBSCRIPTIONS = 20
_MOST_FIELDS = 20

router = APIRouter(route_class=PageRoute, include_in_schema=False)


async def _form(request: Request) -> Mapping[str, str]:
    """The fields of a form, as browsers send them; the last one of a name counts."""
    body = await request.body()
    try:
        pairs = parse_qsl(body.decode("ascii"), max_num_fields=_MOST_FIELDS)
    except (UnicodeDecodeError, ValueError):
        raise UsageError("this is no form that was made here", help="go back and send it again") from None
    return {name: value.strip() for name, value in pairs}


Form = Annotated[Mapping[str, str], Depends(_form)]
Place = Annotated[int, Query(ge=0, le=10_000_000)]


@router.get("/watches")
def show(web: Here, viewer: Reader, start: Place = 0) -> Response:
    """What is followed, and who is told of it (with a token)."""
    return _page(web, viewer, start=start)


@router.post("/watches")
def change(web: Here, viewer: Reader, form: Form) -> Response:
    """Add, pause, resume or remove a watch or a subscription."""
    action = form.get("action", "")
    if action == "look":
        return _page(web, _holder(web, viewer, form.get("token", "")))
    if action not in _ACTIONS:
        raise UsageError("there is no such action", help="go back and choose one")
    writer = _writer(web, viewer, form.get("token", ""))
    return _page(web, writer, done=_ACTIONS[action](web, writer, form))


def _writer(web: Web, viewer: Viewer, secret: str) -> Viewer:
    """Whoever has the token that was given, which may write. Raises what the API would."""
    holder = _holder(web, viewer, secret)
    if holder.token is None or not holder.token.allows(Scope.WRITE):
        raise Forbidden(
            "this token does not allow writing", help="make one with: hubwatch token create NAME --scope write"
        )
    return holder


def _holder(web: Web, viewer: Viewer, secret: str) -> Viewer:
    """Whoever has the token that was given. Raises what the API would."""
    with web.database.snapshot() as tx:
        token = tokens.find(tx, secret)
    wait = web.limiter.take(f"token:{token.id}" if token else f"refused:{viewer.client}")
    if wait:
        raise TooMany("asked too often", help=f"try again in {wait:.0f} s")
    if token is None:
        raise Unauthorized("this token is not good here", help="make one with: hubwatch token create NAME")
    return Viewer(token=token, client=viewer.client)


def _page(web: Web, viewer: Viewer, *, start: int = 0, done: tuple[str, str | None] | None = None) -> Response:
    with web.database.snapshot() as tx:
        watched = watches.list_all(tx, public_only=viewer.public_only)
        owners = watches.owners(tx)
        told = _subscriptions(tx) if viewer.token else []
    return html(
        "watches.html",
        now=web.clock(),
        watched=watched[start : start + _SHOWN],
        total=len(watched),
        next_start=start + _SHOWN if start + _SHOWN < len(watched) else None,
        owners=owners,
        member=viewer.token is not None,
        subscriptions=told,
        severities=[item.label for item in Severity],
        done=done,
    )


def _subscriptions(tx: Transaction) -> list[tuple[dict[str, Json], list[dict[str, Json]]]]:
    """Each subscription with its latest messages, those given up first: they are what needs somebody."""
    counts = deliveries.counts(tx)
    found = subscriptions.list_all(tx)[:_SUBSCRIPTIONS]
    each = min(_LOG, max(2, _LOGGED // max(1, len(found))))
    return [(subscribing.subscription_json(item, counts.get(item.id)), _log(tx, item.id, each)) for item in found]


def _log(tx: Transaction, subscription: str, most: int) -> list[dict[str, Json]]:
    dead = deliveries.log(tx, subscription_id=subscription, state=DeliveryState.DEAD, limit=most)
    latest = deliveries.log(tx, subscription_id=subscription, limit=most)
    known = {item.number for item in dead}
    found = [*dead, *(item for item in latest if item.number not in known)][:most]
    tries = deliveries.attempts(tx, [item.number for item in found])
    return [subscribing.delivery_json(item, tries[item.number]) for item in found]


# --- what a form can do --------------------------------------------------------------------------

Done = tuple[str, str | None]  # what was done, and a secret to show once


def _add(web: Web, viewer: Viewer, form: Mapping[str, str]) -> Done:
    every = form.get("every", "")
    span = parse_span(every) if every else None
    if span is not None and span <= timedelta(0):
        raise UsageError("an interval is more than no time at all", help="write 90s, 30m, 6h or 1d")
    wish = watching.Wish(every=span, from_head=form.get("from_head") == "on")
    owner = _owner(form)
    if owner:
        with web.database.transaction() as tx:
            _, new = watching.add_owner(tx, owner, wish, endpoint=web.settings.hub.identity, now=web.clock())
            if new:
                record(tx, web, viewer, "watch.add", f"{owner}/*")
        return (f"{owner}/* is watched" if new else f"{owner}/* was watched already"), None
    repo = _repo(web, form)

    def note(tx: Transaction) -> None:
        record(tx, web, viewer, "watch.add", repo.id, {"ref": wish.ref, "public": wish.public})

    added = watching.add(web.database, web.loader.upstream, repo, wish, now=web.clock(), also=note)
    notes = f" ({'; '.join(added.notes)})" if added.notes else ""
    return (
        f"{repo.id} {'is watched; its history is read next' if added.new else 'was watched already'}{notes}",
        None,
    )


def _pause(web: Web, viewer: Viewer, form: Mapping[str, str]) -> Done:
    return _set_paused(web, viewer, form, paused=True)


def _resume(web: Web, viewer: Viewer, form: Mapping[str, str]) -> Done:
    return _set_paused(web, viewer, form, paused=False)


def _set_paused(web: Web, viewer: Viewer, form: Mapping[str, str], *, paused: bool) -> Done:
    owner, now = _owner(form), web.clock()
    with web.database.transaction() as tx:
        if owner:
            name = f"{owner}/*"
            watching.pause_owner(tx, owner, paused=paused, endpoint=web.settings.hub.identity, now=now)
        else:
            name = watches.change(tx, _repo(web, form), now=now, paused=paused).repo.id
        record(tx, web, viewer, "watch.change", name, {"paused": paused})
    return f"{name} is {'paused' if paused else 'taken up again'}", None


def _remove(web: Web, viewer: Viewer, form: Mapping[str, str]) -> Done:
    name, owner = form.get("repo", ""), _owner(form)
    with web.database.transaction() as tx:
        if owner:
            watching.remove_owner(tx, owner, endpoint=web.settings.hub.identity)
        else:
            watches.remove(tx, _repo(web, form))
        record(tx, web, viewer, "watch.remove", name)
    return f"{name} is watched no longer; its history and advisories stay", None


def _subscribe(web: Web, viewer: Viewer, form: Mapping[str, str]) -> Done:
    repo = form.get("repo", "")
    settle = form.get("settle", "")
    wish = subscribing.Wish(
        url=form.get("url", ""),
        min_severity=Severity.parse(form.get("min_severity") or "low"),
        repos=[repo] if repo else [],
        settle=parse_span(settle) if settle else timedelta(minutes=15),
    )
    made, secret = subscribing.add(web.database, wish, now=web.clock(), remote=True)
    with web.database.transaction() as tx:
        record(tx, web, viewer, "subscription.add", made.id)
    return f"{made.id} is told of changes from now on", secret


def _unsubscribe(web: Web, viewer: Viewer, form: Mapping[str, str]) -> Done:
    wanted = form.get("subscription", "")
    with web.database.transaction() as tx:
        subscriptions.remove(tx, wanted)
        record(tx, web, viewer, "subscription.remove", wanted)
    return f"{wanted} is told no more", None


def _replay(web: Web, viewer: Viewer, form: Mapping[str, str]) -> Done:
    wanted, span = form.get("subscription", ""), form.get("since", "")
    since = web.clock() - parse_span(span) if span else None
    states = (DeliveryState.DEAD,) if since is None else (DeliveryState.DELIVERED, DeliveryState.DEAD)
    with web.database.transaction() as tx:
        if subscriptions.require(tx, wanted).disabled_at is not None:
            raise UsageError(f"{wanted} is disabled", help="enable it first")
        number = deliveries.replay(tx, wanted, now=web.clock(), since=since, states=states)
        record(tx, web, viewer, "subscription.replay", wanted, {"messages": number})
    return f"{number} message{'' if number == 1 else 's'} of {wanted} will be sent again", None


def _enable(web: Web, viewer: Viewer, form: Mapping[str, str]) -> Done:
    wanted = form.get("subscription", "")
    with web.database.transaction() as tx:
        subscriptions.enable(tx, wanted)
        record(tx, web, viewer, "subscription.enable", wanted)
    return f"{wanted} is told again, of what is observed from now on", None


def _owner(form: Mapping[str, str]) -> str:
    """Whose models all of them are meant, where the form names ``owner/*``; else nothing."""
    name = form.get("repo", "")
    return name.removesuffix("/*") if name.endswith("/*") else ""


def _repo(web: Web, form: Mapping[str, str]) -> RepoRef:
    return RepoRef.parse(form.get("repo", ""), endpoint=web.settings.hub.identity)


_ACTIONS: Mapping[str, Callable[[Web, Viewer, Mapping[str, str]], Done]] = {
    "add": _add,
    "pause": _pause,
    "resume": _resume,
    "remove": _remove,
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
    "replay": _replay,
    "enable": _enable,
}
