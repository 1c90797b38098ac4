"""``/api/v1``, being told: subscriptions, and the log of what was sent to them.

All of it needs a token: an address says where somebody listens. Over the network only signed webhooks to public
addresses can be added; chat and mail are set up on the command line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from advisories.view import plain
from storage import deliveries, subscriptions
from storage.model import Digest, Severity
from tracker import subscribing
from tracker.spans import parse_span
from tracker.web import filters
from tracker.web.access import Member, Writer, record
from tracker.web.context import Here
from tracker.web.paging import page
from tracker.web.problems import OPENAPI_PROBLEMS, OPENAPI_WRITE_PROBLEMS
from tracker.web.watch_schemas import Every

router = APIRouter(prefix="/api/v1", tags=["subscriptions"], responses=OPENAPI_PROBLEMS)
Id = Annotated[str, Path(pattern=r"^sub_[0-9a-f]{12}$", examples=["sub_0123456789ab"])]


class NewSubscription(BaseModel):
    """Who is to be told of what."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"url": "https://example.org/hook", "min_severity": "high"}]},
    )

    url: str = Field(min_length=8, max_length=2000, description="https address of a webhook receiver")
    min_severity: str = Field(default="low", max_length=20, description="info, low, medium, high or critical")
    classes: list[str] = Field(default_factory=list, max_length=100)
    repos: list[str] = Field(default_factory=list, max_length=1000, description="owner/name or owner/*")
    digest: Digest = Digest.INSTANT
    settle: Every = Field(default="15m", description="a flurry within this span is one message")


class Subscription(BaseModel):
    """A subscription; ``secret`` is told once, when it was made."""

    model_config = ConfigDict(extra="allow")

    id: str
    url: str
    secret: str | None = None


class Subscriptions(BaseModel):
    """All subscriptions."""

    subscriptions: list[Subscription]


class Messages(BaseModel):
    """A page of the delivery log, newest first."""

    deliveries: list[dict[str, Any]]
    next_cursor: str | None = None


@router.get("/subscriptions")
def list_subscriptions(web: Here, _: Member) -> Subscriptions:
    """Who is told, and how many messages wait, were delivered or died."""
    with web.database.snapshot() as tx:
        found, counts = subscriptions.list_all(tx), deliveries.counts(tx)
    shown = [plain(subscribing.subscription_json(item, counts.get(item.id))) for item in found]
    return Subscriptions.model_validate({"subscriptions": shown})


@router.post("/subscriptions", status_code=201, responses=OPENAPI_WRITE_PROBLEMS)
def add_subscription(wanted: NewSubscription, web: Here, viewer: Writer, response: Response) -> Subscription:
    """Tell a webhook. The secret that signs its messages is in the answer, this once."""
    wish = subscribing.Wish(
        url=wanted.url,
        min_severity=Severity.parse(wanted.min_severity),
        classes=wanted.classes,
        repos=wanted.repos,
        digest=wanted.digest,
        settle=parse_span(wanted.settle),
    )
    made, secret = subscribing.add(web.database, wish, now=web.clock(), remote=True)
    with web.database.transaction() as tx:
        record(tx, web, viewer, "subscription.add", made.id)
    response.headers["Location"] = f"/api/v1/subscriptions/{made.id}"
    shown = plain(subscribing.subscription_json(made))
    return Subscription.model_validate(shown | {"secret": secret})


@router.get("/subscriptions/{subscription}")
def get_subscription(subscription: Id, web: Here, _: Member) -> Subscription:
    """One subscription."""
    with web.database.snapshot() as tx:
        found, counts = subscriptions.require(tx, subscription), deliveries.counts(tx)
    return Subscription.model_validate(plain(subscribing.subscription_json(found, counts.get(found.id))))


@router.delete("/subscriptions/{subscription}", status_code=204, responses=OPENAPI_WRITE_PROBLEMS)
def remove_subscription(subscription: Id, web: Here, viewer: Writer) -> None:
    """Tell it nothing more. What waited for it is dropped."""
    with web.database.transaction() as tx:
        subscriptions.remove(tx, subscription)
        record(tx, web, viewer, "subscription.remove", subscription)


@router.get("/subscriptions/{subscription}/deliveries")
def delivery_log(subscription: Id, asked: filters.Page, web: Here, _: Member) -> Messages:
    """What was sent, and how each try went, newest first."""
    with web.database.snapshot() as tx:
        subscriptions.require(tx, subscription)

        def read(before: tuple[Any, ...] | None, limit: int) -> list[Any]:
            return deliveries.log(
                tx, subscription_id=subscription, limit=limit, before=before[0] if before else None
            )

        key: Callable[[Any], tuple[Any, ...]] = lambda item: (item.number,)  # noqa: E731
        found = page("deliveries", asked, (int,), read, key)
        tries = deliveries.attempts(tx, [item.number for item in found.items])
    shown = [plain(subscribing.delivery_json(item, tries[item.number])) for item in found.items]
    return Messages.model_validate({"deliveries": shown, "next_cursor": found.next_cursor})
